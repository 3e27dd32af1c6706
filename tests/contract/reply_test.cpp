// A task that somebody waits for: until the reply was given it is not done with, whoever dies; and the
// log has the reply once.
#include <gmock/gmock.h>

#include "codec/step_headers.h"
#include "contract/effects.h"
#include "flow/run_store.h"
#include "work/housekeeper.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const core::ReplyTo kTo{.topic = "$once.flow.payment.step", .id = "r.charge"};

// --- What a store promises of a record that owes a reply --------------------------------------

class OwingContract : public Contract {
 protected:
  static Record owing(Record record, State state) {
    record.state = state;
    record.reply = kTo;
    record.reply_due = true;
    return record;
  }
  static Record paid(Record record) {
    record.reply_due = false;
    return record;
  }
  // Publishes, claims, and writes how it ended, which answers the delivery.
  Held ended(const std::string& id, State state, Member member = {}) {
    publish(id);
    Held held = claim_one(queue_, member).value();
    held.stored =
        write(held.at, held.stored.revision, owing(held.stored.record, state), held.handle);
    return held;
  }
  bool all_settled() { return store().all_settled("work").value(); }
  void sweep() {
    Sequence floor{};
    engine::Housekeeper::sweep(store(), "work", floor, [] { return false; }).value();
  }

  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(OwingContract);

TEST_P(OwingContract, ItsTaskComesAgainUntilTheReplyWasGiven) {
  const Held held = ended("a", State::completed);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(core::kReplyAgain);
  const auto again = fetch("work");
  ASSERT_THAT(ids(again), ElementsAre("a"));
  EXPECT_TRUE(again[0].entry.body);
  write(held.at, held.stored.revision, paid(held.stored.record), again[0].handle);
  pass(24h);
  sweep();
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(OwingContract, ItsFirstDeliveryIsDoneWithWhenTheReplyIsGivenAtOnce) {
  const Held held = ended("a", State::dead);
  write(held.at, held.stored.revision, paid(held.stored.record), held.handle);
  pass(24h);
  sweep();
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(OwingContract, ItCanBePutOffLikeAnyDelivery) {
  ended("a", State::completed);
  pass(core::kReplyAgain);
  settle(fetch("work").at(0), "work", core::kReplyAgain);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(core::kReplyAgain);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

// A person's word is written without a delivery.
TEST_P(OwingContract, WhatIsWrittenWithoutADeliveryIsFoundAsWell) {
  publish("a");
  const Held held = claim_one(queue_).value();
  const Stored doubt = settle_as(held, State::in_doubt);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_TRUE(all_settled());
  const Stored owes = write(held.at, doubt.revision, owing(doubt.record, State::completed));
  EXPECT_FALSE(all_settled());
  pass(core::kReplyAgain);
  sweep();
  const auto again = fetch("work");
  ASSERT_THAT(ids(again), ElementsAre("a"));
  write(held.at, owes.revision, paid(owes.record), again[0].handle);
  pass(24h);
  sweep();
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_THAT(overlooked("work"), IsEmpty());
}

TEST_P(OwingContract, SoIsTheOwnRecordOfAnEntry) {
  publish("a");
  const Delivery delivery = fetch("work").at(0);
  const Stored owes =
      write(entry_at("work", delivery.entry.sequence), {},
            owing(record_of(delivery.entry, State::duplicate), State::duplicate), delivery.handle);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(core::kReplyAgain);
  sweep();
  const auto again = fetch("work");
  ASSERT_THAT(ids(again), ElementsAre("a"));
  write(entry_at("work", delivery.entry.sequence), owes.revision, paid(owes.record),
        again[0].handle);
  pass(24h);
  sweep();
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(OwingContract, TheSweeperDoesNotBeginBehindIt) {
  const Held held = ended("a", State::completed);
  EXPECT_LT(store().overlooked("work", {}, 100).value().settled, held.entry.sequence);
  write(held.at, held.stored.revision, paid(held.stored.record), held.handle);
  EXPECT_GE(store().overlooked("work", {}, 100).value().settled, held.entry.sequence);
}

TEST_P(OwingContract, ItCountsByItsStateAndIsNotDoneWith) {
  const Held held = ended("a", State::completed);
  EXPECT_EQ(count("work", State::completed), 1U);
  EXPECT_THAT(ids(rows({.queue = "work", .state = State::completed})), ElementsAre("a"));
  EXPECT_FALSE(all_settled());
  write(held.at, held.stored.revision, paid(held.stored.record), held.handle);
  EXPECT_EQ(count("work", State::completed), 1U);
  EXPECT_TRUE(all_settled());
  ended("b", State::completed);
  EXPECT_FALSE(all_settled());
  EXPECT_EQ(count("work", State::completed), 2U);
}

TEST_P(OwingContract, AnOrderForItCountsAsWaiting) {
  const Held held = ended("a", State::dead);
  EXPECT_EQ(count("work", State::dead), 1U);
  wake("work", held.entry.sequence, order_of("ann"));
  EXPECT_EQ(count("work", State::dead), 0U);
  EXPECT_EQ(count("work", State::waiting), 1U);
  const auto retried = claim_one(queue_);
  ASSERT_TRUE(retried);
  EXPECT_FALSE(retried->stored.record.reply_due) << "it runs again";
  EXPECT_EQ(retried->stored.record.reply, kTo);
}

TEST_P(OwingContract, ItDoesNotGrowOld) {
  store().set_retention({.bodies = 1h, .records = 1h, .ids = 1h}).value();
  const Held held = ended("a", State::completed);
  for (int stage = 0; stage < 3; ++stage) {
    pass(24h);
    EXPECT_EQ(retire().bodies, 0U);
  }
  EXPECT_TRUE(entry("a").body);
  write(held.at, held.stored.revision, paid(held.stored.record));
  pass(1h);
  EXPECT_EQ(retire().bodies, 1U);
  EXPECT_EQ(get(held.at)->record.reply, kTo);
}

TEST_P(OwingContract, WhatADeadWorkerOwesComesAtOnceWhereThatIsSeen) {
  if (!GetParam().knows_who_left) GTEST_SKIP() << "it comes when its time is over";
  auto worker = store().join("work", "w").value();
  ended("a", State::completed, worker->number());
  EXPECT_THAT(handed_over("work"), IsEmpty());
  worker.reset();
  const auto another = store().join("work", "v").value();
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

// --- The engine, over the same stores ----------------------------------------------------------

struct Charge {
  std::string run = "r";
  std::string queue = "q";
  std::optional<core::TaskPolicy> policy{};
  std::string json = "{}";
  std::optional<Duration> lives{};
};

class ReplyContract : public Effects {
 protected:
  void publish_step(const Charge& step = {}) {
    Append item = task(step.run + ".charge", "t", step.json);
    item.headers = encoding::step_headers({.run = step.run,
                                           .step = "charge",
                                           .reply = kTo.topic,
                                           .queue = step.queue,
                                           .policy = step.policy});
    item.lives = step.lives;
    EXPECT_EQ(impl->store->append(std::span(&item, 1)).at(0).value().verdict,
              AppendVerdict::accepted);
  }
  // What the log says of the n-th end of the run's step.
  std::string told(int n, const std::string& run = "r") {
    const auto event = impl->store->find(run + ".charge.ended." + std::to_string(n)).value();
    if (!event) return "nothing";
    EXPECT_EQ(event->topic, kTo.topic);
    EXPECT_EQ(event->duplicates, 0U);
    return std::string(event->body->text());
  }
  std::string sequence_of(std::string_view task) {
    return std::to_string(impl->store->find(task).value().value().sequence.value);
  }
  bool owes(std::string_view queue = "q") { return !impl->store->all_settled(queue).value(); }
  std::size_t events() { return impl->store->read({}, 100, kTo.topic).value().size(); }
  static Outcome pay(Context&) { return Outcome::completed(*Body::json(R"({"paid":12})")); }

  const std::string id = "r.charge";
};
ONCE_FOR_EVERY_STORE(ReplyContract);

TEST_P(ReplyContract, SaysWhatCameOfAStep) {
  add({});
  publish_step();
  std::string key;
  EXPECT_TRUE(run([&](Context& context) {
    key = context.idempotency_key();
    EXPECT_EQ(context.idempotency_key("inner").size(), 64U);
    return pay(context);
  }));
  EXPECT_EQ(key, "r.charge");
  EXPECT_EQ(told(1),
            R"({"n":1,"outcome":"completed","output":{"paid":12},"run":"r","step":"charge"})");
  EXPECT_EQ(state(id), State::completed);
  EXPECT_FALSE(owes());
  pass(1h);
  EXPECT_FALSE(run(pay));
  EXPECT_EQ(events(), 1U);
}

TEST_P(ReplyContract, SaysWhyAStepFailed) {
  add({.attempts = 1});
  publish_step();
  EXPECT_TRUE(run([](Context&) { return Outcome::failed("no money \xff"); }));
  EXPECT_EQ(told(1),
            "{\"error\":\"no attempts are left: no money \uFFFD\",\"n\":1,\"outcome\":\"failed\","
            "\"run\":\"r\",\"step\":\"charge\"}");
  EXPECT_FALSE(owes());

  // A person has it run again, for a run that would hear of it: that is another end.
  engine::RunStore run_store(*impl->store, *impl->scheduler);
  run_store.make_event_queue().value();
  core::RunState run_of_it{.run = "r", .workflow = "payment", .version = 1, .input = "1"};
  run_of_it.started = {1};
  ASSERT_TRUE(run_store.write(run_of_it, {})->written);
  zone.tasks().retry(id, "q", by).value();
  EXPECT_TRUE(run(pay));
  EXPECT_EQ(told(2),
            R"({"n":2,"outcome":"completed","output":{"paid":12},"run":"r","step":"charge"})");
  EXPECT_EQ(events(), 2U);
  EXPECT_FALSE(owes());
}

TEST_P(ReplyContract, SaysNothingBeforeAPersonHasDecidedAboutADoubt) {
  add({.in_doubt = InDoubt::hold});
  publish_step();
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("the bank hung up"); }));
  EXPECT_EQ(state(id), State::in_doubt);
  EXPECT_EQ(events(), 0U);
  EXPECT_FALSE(owes());
  zone.tasks().complete(id, "q", Body::bytes("I saw it"), by).value();
  EXPECT_EQ(told(1),
            R"({"n":1,"outcome":"completed","output":"I saw it","run":"r","step":"charge"})");
  EXPECT_FALSE(owes());
}

TEST_P(ReplyContract, SaysThatAStepWasCancelledOrExpired) {
  add({});
  publish_step();
  EXPECT_EQ(zone.tasks().cancel(id, "q", by).value(), State::cancelled);
  EXPECT_EQ(told(1),
            "{\"error\":\"cancelled by ann: she looked\",\"n\":1,\"outcome\":\"cancelled\","
            "\"run\":\"r\",\"step\":\"charge\"}");
  publish_step({.run = "late", .lives = 1s});
  pass(2s);
  EXPECT_FALSE(run(pay));
  EXPECT_EQ(told(1, "late"),
            "{\"error\":\"expired\",\"n\":1,\"outcome\":\"cancelled\","
            "\"run\":\"late\",\"step\":\"charge\"}");
  EXPECT_FALSE(owes());
}

TEST_P(ReplyContract, SaysWhatCameOfTheTaskThatHasItsKey) {
  add({.key = "{order}", .attempts = 1});
  publish_step({.run = "r1", .json = R"({"order":1})"});
  publish_step({.run = "r2", .json = R"({"order":1})"});
  publish_step({.run = "r3", .json = R"({"order":3})"});
  publish_step({.run = "r4", .json = R"({"order":3})"});
  publish_step({.run = "r5", .json = R"({"order":1,"other":true})"});
  const auto handler = [](Context& context) {
    return context.task().id == "r1.charge" ? pay(context) : Outcome::failed("no");
  };
  while (run(handler)) {
  }
  EXPECT_EQ(state("r2.charge"), State::duplicate);
  EXPECT_EQ(told(0, "r2"),
            R"({"n":0,"outcome":"completed","output":{"paid":12},"run":"r2","step":"charge"})");
  const std::string third = sequence_of("r3.charge");
  EXPECT_EQ(told(0, "r4"),
            "{\"error\":\"same key as #" + third +
                ", which is not completed\",\"n\":0,\"outcome\":\"failed\",\"run\":\"r4\","
                "\"step\":\"charge\"}");
  EXPECT_THAT(told(0, "r5"), ::testing::HasSubstr("conflicting_duplicate"));
  EXPECT_EQ(events(), 5U);
  EXPECT_FALSE(owes());
}

TEST_P(ReplyContract, OnlyTheQueueOfTheStepReplies) {
  add({});
  zone.queues().add({.name = "p", .topic = "t"}).value();
  publish_step({.queue = "p"});
  std::string key;
  EXPECT_TRUE(run([&](Context& context) {
    key = context.idempotency_key();
    return Outcome::completed();
  }));
  EXPECT_EQ(key.size(), 64U) << "it is a task of its own there";
  EXPECT_EQ(events(), 0U);
  EXPECT_FALSE(owes());
  EXPECT_TRUE(zone.worker("p", pay, {.name = "w"}).value().run_one().value());
  EXPECT_EQ(events(), 1U);
  EXPECT_FALSE(owes("p"));
}

TEST_P(ReplyContract, ALargeOutputStaysWhereItIs) {
  add({});
  publish_step();
  const std::string large(100'000, 'x');
  EXPECT_TRUE(run([&](Context&) { return Outcome::completed(Body::bytes(large)); }));
  const std::string sequence = sequence_of(id);
  EXPECT_EQ(told(1), R"({"n":1,"outcome":"completed","output_in":{"key":"r.charge","queue":"q",)"
                     R"("sequence":)" +
                         sequence + R"(},"run":"r","step":"charge"})");
}

TEST_P(ReplyContract, AStepHasItsOwnAttemptsAndWaits) {
  add({.backoff = {1h}});
  publish_step(
      {.policy = core::TaskPolicy{
           .attempts = 2, .backoff = {2s}, .jitter_permille = 0, .in_doubt = InDoubt::hold}});
  const auto handler = [](Context& context) {
    context.step("push" + std::to_string(context.attempt()), [] {});
    return Outcome::failed("no");
  };
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(step("push1", id).policy, InDoubt::hold) << "as the task says, not as its queue does";
  EXPECT_EQ(state(id), State::retrying);
  pass(2s - 1ms);
  EXPECT_FALSE(run(handler));
  pass(1ms);
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(state(id), State::dead);
  EXPECT_THAT(told(2), ::testing::HasSubstr("\"outcome\":\"failed\""));
}

// Whoever was killed between the record and the reply left a debt, and any worker pays it.
TEST_P(ReplyContract, WhatADeadWorkerOwesIsPaidByAnother) {
  add({});
  publish_step();
  {
    const auto deliveries = impl->store->fetch({.queue = "q", .limit = 1}).value();
    ASSERT_EQ(deliveries.size(), 1U);
    const Entry& entry = deliveries[0].entry;
    Record record = record_of(entry, State::completed);
    record.claims = 1;
    record.result = *Body::json("7");
    record.reply = core::ReplyTo{.topic = kTo.topic, .id = id};
    record.reply_due = true;
    const Swap item{.at = task_at("q", entry), .record = record, .handle = deliveries[0].handle};
    ASSERT_TRUE(impl->store->swap(std::span(&item, 1)).at(0).value().written);
  }
  EXPECT_FALSE(run(pay));
  EXPECT_EQ(events(), 0U);
  EXPECT_TRUE(owes());
  pass(core::kReplyAgain);
  EXPECT_FALSE(run(pay)) << "there is nothing to run";
  EXPECT_EQ(told(1), R"({"n":1,"outcome":"completed","output":7,"run":"r","step":"charge"})");
  EXPECT_FALSE(owes());
  EXPECT_EQ(state(id), State::completed);
}

}  // namespace
}  // namespace once::contract
