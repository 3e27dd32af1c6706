// The reply of a task that somebody waits for, over a store whose calls fail and whose answers get
// lost: it is said once, and by somebody.
#include "work/reply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "codec/digest.h"
#include "codec/step_headers.h"
#include "json/kept_json.h"
#include "once/testing.h"
#include "store/memory/memory_store.h"
#include "support/eventually.h"
#include "support/faulty_store.h"
#include "work/worker.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;
using once::testing::eventually;
using once::testing::Fault;
using once::testing::FaultPlan;
using once::testing::FaultyStore;
using once::testing::Seam;
using once::testing::VirtualClock;

constexpr const char* kTopic = "$once.flow.payment.step";

// --- What is said -----------------------------------------------------------------------------

core::Record ended(State state) {
  core::Record record{.sequence = {7}, .state = state, .claims = 2};
  record.reply = core::ReplyTo{.topic = kTopic, .id = "payment-1.charge"};
  record.reply_due = true;
  return record;
}
const store::Address kAt{.queue = "pay", .key = "payment-1.charge", .sequence = {7}};

std::string said(const core::Record& record) {
  const store::Append event = reply_event(record, kAt);
  EXPECT_EQ(event.id, record.state == State::cancelled ? "payment-1.charge.ended.3"
                                                       : "payment-1.charge.ended.2");
  EXPECT_EQ(event.topic, kTopic);
  EXPECT_EQ(event.digest, encoding::content_digest(event.topic, event.body).value());
  const auto json = encoding::parse_json(event.body.text()).value();
  EXPECT_EQ(json.member("run")->string() + "." + json.member("step")->string(), record.reply->id);
  EXPECT_EQ(json.member("n")->number(), record.state == State::cancelled ? 3 : 2);
  std::string text;
  for (const std::string name : {"outcome", "output", "output_in", "error"})
    if (const encoding::Json* const member = json.member(name))
      text += (text.empty() ? "" : ",\"" + name + "\":") + encoding::kept(*member);
  return text;
}

TEST(ReplyEvent, CarriesTheOutput) {
  core::Record record = ended(State::completed);
  EXPECT_EQ(said(record), R"("completed","output":null)");
  record.result = *Body::json(R"({"a":[1]})");
  EXPECT_EQ(said(record), R"("completed","output":{"a":[1]})");
  record.result = Body::bytes("a \"text\"\n");
  EXPECT_EQ(said(record), R"("completed","output":"a \"text\"\n")");
  record.result = Body::bytes("\xff\xfe\xfd?");
  EXPECT_EQ(said(record), R"("completed","output":{"raw":"//79Pw=="})");
}

TEST(ReplyEvent, SaysWhereALargeOutputIs) {
  core::Record record = ended(State::completed);
  record.result = Body::bytes(std::string(kMostSaid, 'x'));
  EXPECT_THAT(said(record), ::testing::StartsWith(R"("completed","output":"xxx)"));
  record.result = Body::bytes(std::string(kMostSaid + 1, 'x'));
  EXPECT_EQ(said(record),
            R"("completed","output_in":{"key":"payment-1.charge","queue":"pay","sequence":7})");
  store::Address own = kAt;
  own.kind = store::Address::Kind::entry;
  EXPECT_THAT(std::string(reply_event(record, own).body.text()),
              ::testing::HasSubstr(R"("output_in":{"key":"","queue":"pay","sequence":7})"));
}

TEST(ReplyEvent, CarriesTheReason) {
  core::Record record = ended(State::dead);
  record.reason = "no attempts are left";
  EXPECT_EQ(said(record), R"("failed","error":"no attempts are left")");
  record.error = "no money \xff";
  EXPECT_EQ(said(record), "\"failed\",\"error\":\"no attempts are left: no money \uFFFD\"");
  record = ended(State::cancelled);
  record.reason = "dropped by ann";
  EXPECT_EQ(said(record), R"("cancelled","error":"dropped by ann")");
  record = ended(State::duplicate);
  record.reason = "same key as #3";
  EXPECT_EQ(said(record), R"("failed","error":"same key as #3, which is not completed")");
  record.result = *Body::json("5");
  EXPECT_EQ(said(record), R"("completed","output":5)");
}

TEST(ReplyEvent, AnOutputThatWasCutFails) {
  core::Record record = ended(State::completed);
  record.result = Body::bytes("{\"half\":");
  record.result_cut = true;
  EXPECT_EQ(said(record),
            R"("failed","error":"its output is too large, and was not kept as a whole")");
}

TEST(ReplyEvent, AnOutputThatIsTooDeepFails) {
  core::Record record = ended(State::completed);
  record.result = *Body::json(std::string(512, '[') + std::string(512, ']'));
  EXPECT_EQ(said(record), R"("failed","error":"its output is nested too deeply to be passed on")");
}

TEST(ReplyEvent, IsTheSameWhoeverSaysIt) {
  const core::Record record = ended(State::completed);
  EXPECT_EQ(reply_event(record, kAt).nonce, reply_event(record, kAt).nonce);
  EXPECT_NE(reply_event(record, kAt).nonce, core::Nonce{});
  core::Record other = record;
  other.claims = 3;
  EXPECT_NE(reply_event(record, kAt).nonce, reply_event(other, kAt).nonce);
}

// --- Who says it ------------------------------------------------------------------------------

struct World {
  explicit World(FaultPlan plan = {}) : store(store::open_memory(clock)) {
    store.inner().add_queue(queue).value();
    store.set_plan(std::move(plan));
  }
  void publish(const std::string& run, bool step = true) {
    store::Append item{.id = run + ".charge", .topic = "t"};
    item.digest = encoding::content_digest(item.topic, item.body).value();
    scheduler->random_bytes(item.nonce.bytes.data(), item.nonce.bytes.size());
    if (step)
      item.headers = encoding::step_headers({.run = run, .step = "charge", .reply = kTopic});
    store.inner().append(std::span(&item, 1)).at(0).value();
  }
  std::unique_ptr<Worker> worker() {
    return Worker::make(store, *scheduler,
                        {.queue = queue,
                         .handler = [this](const TaskAttempt&) -> Report {
                           ++runs;
                           return {.outcome = Outcome::completed(*Body::json("5"))};
                         },
                         .name = "w"})
        .value();
  }
  core::Record record(const std::string& run = "r") {
    const store::Address at{.queue = "q", .key = run + ".charge"};
    return store.inner().get(std::span(&at, 1)).at(0).value().value().record;
  }
  std::vector<store::Entry> events() { return store.inner().read({}, 100, kTopic).value(); }
  // The log has it once, the record says so, and it ran once.
  void expect_told() {
    EXPECT_EQ(record().state, State::completed);
    EXPECT_FALSE(record().reply_due);
    EXPECT_EQ(runs, 1);
    ASSERT_EQ(events().size(), 1U);
    EXPECT_EQ(events()[0].id, "r.charge.ended.1");
    EXPECT_EQ(events()[0].duplicates, 0U);
    EXPECT_TRUE(store.inner().all_settled("q").value());
  }

  std::shared_ptr<VirtualClock> clock = std::make_shared<VirtualClock>();
  Queue queue{.name = "q", .topic = "t"};
  FaultyStore store;
  std::unique_ptr<Scheduler> scheduler = thread_scheduler();
  int runs = 0;
};

TEST(Reply, IsGivenWhenTheRecordIsThere) {
  World world;
  world.publish("r");
  EXPECT_TRUE(world.worker()->run_one().value());
  world.expect_told();
}

// What nobody waits for costs nothing: no append, and one write.
TEST(Reply, ATaskThatNobodyWaitsForMakesNoMoreCallsThanBefore) {
  World world;
  world.publish("r", false);
  EXPECT_TRUE(world.worker()->run_one().value());
  EXPECT_EQ(world.record().state, State::completed);
  EXPECT_EQ(world.store.calls(Seam::append), 0U);
  EXPECT_EQ(world.store.calls(Seam::swap), 1U);
  EXPECT_EQ(world.store.calls(Seam::get), 0U);
  EXPECT_EQ(world.store.calls(Seam::settle), 0U);
}

TEST(Reply, IsGivenLaterWhenItCannotBeGivenNow) {
  struct Row {
    const char* what;
    Seam seam;
    std::uint64_t call;
    Fault fault;
    std::size_t events;  // in the log before it is looked at again
  };
  // The first swap records the end, the second one that the reply was given.
  const Row rows[] = {{"the append fails", Seam::append, 1, Fault::fails, 0},
                      {"the append is not answered", Seam::append, 1, Fault::answer_lost, 1},
                      {"the second write fails", Seam::swap, 2, Fault::fails, 1}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    World world(FaultPlan{}.on(row.seam, row.call, row.fault));
    world.publish("r");
    const auto worker = world.worker();
    EXPECT_TRUE(worker->run_one().value()) << "what is recorded is recorded";
    EXPECT_EQ(worker->metrics().completed, 1U);
    EXPECT_EQ(world.record().state, State::completed);
    EXPECT_TRUE(world.record().reply_due);
    EXPECT_EQ(world.events().size(), row.events);
    EXPECT_FALSE(world.store.inner().all_settled("q").value());
    EXPECT_FALSE(worker->run_one().value()) << "it is looked at again in a while";
    EXPECT_TRUE(world.record().reply_due);
    world.clock->advance(core::kReplyAgain);
    EXPECT_FALSE(worker->run_one().value()) << "there is nothing to run";
    EXPECT_EQ(worker->metrics().completed, 1U);
    world.expect_told();
  }
}

TEST(Reply, IsGivenAtOnceWhenOnlyAnAnswerIsLost) {
  for (const std::uint64_t call : {1U, 2U}) {
    World world(FaultPlan{}.on(Seam::swap, call, Fault::answer_lost));
    world.publish("r");
    EXPECT_TRUE(world.worker()->run_one().value());
    EXPECT_EQ(world.store.faults(), 1U);
    world.expect_told();
  }
}

TEST(Reply, FailsAsOftenAsItFails) {
  FaultPlan plan;
  for (std::uint64_t call = 1; call <= 3; ++call) plan.on(Seam::append, call, Fault::fails);
  World world(plan);
  world.publish("r");
  const auto worker = world.worker();
  EXPECT_TRUE(worker->run_one().value());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(world.record().reply_due);
    world.clock->advance(core::kReplyAgain);
    EXPECT_FALSE(worker->run_one().value());
  }
  world.expect_told();
}

// Somebody has told of this end before, in other words: the first word counts.
TEST(Reply, AnotherWordOnTheSameEndCounts) {
  World world;
  world.publish("r");
  store::Append other{.id = "r.charge.ended.1", .topic = kTopic, .body = Body::bytes("before")};
  other.digest = encoding::content_digest(other.topic, other.body).value();
  world.store.inner().append(std::span(&other, 1)).at(0).value();
  EXPECT_TRUE(world.worker()->run_one().value());
  world.expect_told();
  EXPECT_EQ(world.events()[0].body, Body::bytes("before"));
}

// A worker that ends when all is settled does not leave a debt behind.
TEST(Reply, IsWaitedForByWhoEndsWhenAllIsSettled) {
  World world(FaultPlan{}.on(Seam::append, 1, Fault::fails));
  world.publish("r");
  const auto worker = world.worker();
  std::jthread running([&] { EXPECT_TRUE(worker->run(Worker::Until::empty, {})); });
  EXPECT_TRUE(eventually([&] { return world.store.calls(Seam::append) == 1; }));
  EXPECT_TRUE(eventually([&] { return world.store.calls(Seam::counts) > 1; }));
  world.clock->advance(core::kReplyAgain);
  running.join();
  world.expect_told();
}

// What a claim settles inside the store's own write owes, too.
TEST(Reply, IsGivenForWhatAClaimSettles) {
  World world;
  world.publish("r");
  world.queue.attempts = 1;
  ASSERT_TRUE(world.store.inner().set_queue(world.queue, Queue{.name = "q", .topic = "t"}).value());
  {
    const auto lost = Worker::make(world.store, *world.scheduler,
                                   {.queue = world.queue,
                                    .handler = [&](const TaskAttempt&) -> Report {
                                      // The lease goes by, and another looks.
                                      world.clock->advance(world.queue.lease);
                                      EXPECT_FALSE(world.worker()->run_one().value());
                                      return {.outcome = Outcome::completed()};
                                    },
                                    .name = "lost"})
                          .value();
    EXPECT_TRUE(lost->run_one().value());
  }
  EXPECT_EQ(world.record().state, State::dead);
  EXPECT_FALSE(world.record().reply_due);
  ASSERT_EQ(world.events().size(), 1U);
  EXPECT_EQ(world.runs, 0);
}

}  // namespace
}  // namespace once::engine
