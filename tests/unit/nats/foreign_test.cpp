// Queues on streams that others publish to: what is handed over, what is kept of it, and what the
// stream may do meanwhile.
#include "core/decide.h"
#include "once/once.h"
#include "support/eventually.h"
#include "unit/nats/nats_world.h"
#include "work/housekeeper.h"

namespace once::store::nats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Somebody who knows nothing of Once.
class Stranger {
 public:
  explicit Stranger(const std::string& url)
      : mux_(RequestMux::open({.servers = {url}}).value()), client_(*mux_) {}

  void make_stream(const std::string& name, const std::string& retention,
                   const std::string& more = "") {
    const auto made = client_.call("STREAM.CREATE." + name,
                                   R"({"name":")" + name + R"(","subjects":[")" + name +
                                       R"(.>"],"retention":")" + retention + "\"" + more + "}");
    ASSERT_EQ(made.value().error, 0) << made->text;
  }
  std::uint64_t publish(const std::string& subject, const std::string& data, Headers headers = {}) {
    const PublishResult done =
        client_.publish({.subject = subject, .data = data, .headers = std::move(headers)});
    EXPECT_EQ(done.kind, PublishResult::Kind::stored) << done.text;
    return done.sequence;
  }
  std::uint64_t messages(const std::string& stream) {
    const auto info = client_.stream_info(stream).value();
    return number_of(*info->member("state"), "messages").value();
  }
  JetStreamClient& client() { return client_; }

 private:
  std::unique_ptr<RequestMux> mux_;
  JetStreamClient client_;
};

class NatsForeign : public NatsWorld, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    NatsWorld::SetUp();
    if (IsSkipped()) return;
    zone_.emplace(Zone::open(server().url() + "/test").value());
    stranger_.emplace(server().url());
    stranger().make_stream("ORDERS", GetParam());
  }
  Stranger& stranger() { return *stranger_; }
  Zone& zone() { return *zone_; }
  // In the stream, once they are so many: acknowledgements are not awaited.
  std::uint64_t messages_left(std::uint64_t expected) {
    testing::eventually([&] { return stranger().messages("ORDERS") == expected; }, 30s);
    return stranger().messages("ORDERS");
  }
  bool is_work_queue() const { return std::string_view(GetParam()) == "workqueue"; }

  static Queue bound(std::string key = "header:Nats-Msg-Id") {
    Queue queue;
    queue.name = "bills";
    queue.topic = ">";
    queue.key = std::move(key);
    queue.stream = "ORDERS";
    queue.backoff = {0ms};
    return queue;
  }
  // Each under a Msg-Id of its own, so that the server's window lets all of them in.
  std::uint64_t publish(const std::string& order, const std::string& data) {
    static int sent = 0;
    return stranger().publish("ORDERS.new", data,
                              {{"Order", order}, {"Nats-Msg-Id", std::to_string(++sent)}});
  }
  // What was run, as "key body", in order.
  std::vector<std::string> work(std::function<Outcome(const Context&)> ending = {}) {
    std::vector<std::string> ran;
    auto worker = zone()
                      .worker("bills",
                              [&](Context& context) {
                                ran.push_back(std::string(context.key()) + " " +
                                              std::string(context.task().body.text()));
                                return ending ? ending(context) : Outcome::completed();
                              })
                      .value();
    const auto done = worker.run_until_empty();
    EXPECT_TRUE(done) << done.error().message;
    return ran;
  }
  // What is overlooked may be so only a moment later.
  void sweep_until_found() {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    Sequence floor;
    while (engine::Housekeeper::sweep(store(), "bills", floor, [] { return false; }).value() == 0)
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the sweeper finds nothing";
  }
  std::uint64_t count(State state) {
    return zone().status().value().queues.front().tasks.at(state);
  }
  ListItem item(const std::string& id) {
    for (ListItem& each : zone().tasks().list({.queue = "bills"}).value())
      if (each.id == id) return each;
    ADD_FAILURE() << "no " << id;
    return {};
  }

 private:
  std::optional<Zone> zone_;
  std::optional<Stranger> stranger_;
};
INSTANTIATE_TEST_SUITE_P(, NatsForeign, ::testing::Values("workqueue", "limits"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_P(NatsForeign, AMessageIsATaskUnderTheKeyThatItsHeaderSays) {
  stranger().publish("ORDERS.new", R"({"amount":1})", {{"Nats-Msg-Id", "a:1"}, {"x-Who", "Ann"}});
  EXPECT_EQ(zone().queues().add(bound()).value(), 1U);
  EXPECT_EQ(count(State::waiting), 1U);
  EXPECT_EQ(item("ORDERS:1").key, "a:1");
  std::string topic;
  std::string who;
  EXPECT_THAT(work([&](const Context& context) {
                topic = context.task().topic;
                who = context.task().headers.at("x-Who");
                return Outcome::completed(Body::json("17").value());
              }),
              ElementsAre(R"(a:1 {"amount":1})"));
  EXPECT_EQ(topic, "ORDERS.new");
  EXPECT_EQ(who, "Ann");
  EXPECT_EQ(messages_left(is_work_queue() ? 0 : 1), is_work_queue() ? 0U : 1U);
  // People find it by its key, by what the header says, and by its place.
  for (const char* name : {"a:1", "ORDERS:1"}) {
    const auto task = zone().tasks().inspect(name).value();
    EXPECT_EQ(task.entry.id, "ORDERS:1");
    EXPECT_EQ(task.entry.topic, "ORDERS.new");
    ASSERT_THAT(task.queues, SizeIs(1));
    EXPECT_EQ(task.queues.front().state, State::completed);
    EXPECT_EQ(zone().tasks().wait(name, "bills", 0ms).value().result().text(), "17");
  }
}

TEST_P(NatsForeign, OneKeyRunsOnceHoweverOftenItIsPublished) {
  zone().queues().add(bound("header:Order")).value();
  publish("a", "1");
  EXPECT_THAT(work(), ElementsAre("a 1"));
  publish("a", "1");
  publish("a", "2");
  publish("b", "1");
  EXPECT_THAT(work(), ElementsAre("b 1"));
  EXPECT_EQ(count(State::completed), 2U);
  EXPECT_EQ(item("ORDERS:2").state, State::duplicate);
  EXPECT_EQ(item("ORDERS:3").state, State::dead);
  EXPECT_THAT(item("ORDERS:3").error, HasSubstr("conflicting_duplicate"));
  // Its content is kept for a person to see.
  EXPECT_EQ(zone().tasks().inspect("ORDERS:3").value().entry.body.value().text(), "2");
  zone().tasks().drop("ORDERS:3", "bills", {}).value();
  EXPECT_EQ(item("ORDERS:3").state, State::cancelled);
}

TEST_P(NatsForeign, OtherContentUnderTheKeyIsADuplicateWhereTheQueueSaysSo) {
  Queue queue = bound("header:Order");
  queue.same_key = SameKey::ignore;
  zone().queues().add(queue).value();
  publish("a", "1");
  publish("a", "2");
  EXPECT_THAT(work(), ElementsAre("a 1"));
  EXPECT_EQ(item("ORDERS:2").state, State::duplicate);
}

TEST_P(NatsForeign, WhatHasNoKeyIsADeadLetterWithTheReasonAndTheQueueGoesOn) {
  zone().queues().add(bound("{order}")).value();
  stranger().publish("ORDERS.new", R"({"order":)");
  stranger().publish("ORDERS.new", R"({"other":1})");
  stranger().publish("ORDERS.new", "", {{"Status", "404"}});
  stranger().publish("ORDERS.new", "", {{"Status", "odd"}});
  stranger().publish("ORDERS.new", R"({"order":"fine"})");
  EXPECT_THAT(work(), ElementsAre(R"(fine {"order":"fine"})"));
  EXPECT_EQ(count(State::dead), 4U);
  EXPECT_THAT(item("ORDERS:1").error, HasSubstr("the body is bytes"));
  EXPECT_THAT(item("ORDERS:2").error, HasSubstr("there is nothing at order"));
  EXPECT_EQ(zone().tasks().inspect("ORDERS:1").value().entry.body.value().text(), R"({"order":)");
}

TEST_P(NatsForeign, AMissingHeaderIsADeadLetter) {
  zone().queues().add(bound()).value();
  stranger().publish("ORDERS.new", "1");
  stranger().publish("ORDERS.new", "1", {{"nats-msg-id", "names are exact"}});
  EXPECT_THAT(work(), IsEmpty());
  EXPECT_THAT(item("ORDERS:1").error, HasSubstr("no header Nats-Msg-Id"));
  EXPECT_EQ(count(State::dead), 2U);
}

TEST_P(NatsForeign, ADeadOneIsRetriedFromItsCopyWhateverTheStreamHas) {
  zone().queues().add(bound("header:Order")).value();
  publish("a", "1");
  EXPECT_THAT(work([](const Context&) { return Outcome::dead("no"); }), ElementsAre("a 1"));
  EXPECT_EQ(messages_left(is_work_queue() ? 0 : 1), is_work_queue() ? 0U : 1U);
  raw("STREAM.PURGE.ORDERS", "");
  zone().tasks().retry("a", "bills", {}).value();
  EXPECT_EQ(item("ORDERS:1").state, State::waiting);
  EXPECT_THAT(work([](const Context& context) {
                EXPECT_EQ(context.task().headers.at("Order"), "a");
                EXPECT_EQ(context.attempt(), 2);
                return Outcome::completed();
              }),
              ElementsAre("a 1"));
  EXPECT_EQ(item("ORDERS:1").state, State::completed);
}

TEST_P(NatsForeign, ALargeOneIsCopiedInParts) {
  zone().queues().add(bound("header:Order")).value();
  const std::string large(1024 * 1024 - 200, 'x');  // with its headers, what the server takes
  publish("a", large);
  EXPECT_THAT(work([](const Context&) { return Outcome::dead("no"); }), SizeIs(1));
  raw("STREAM.PURGE.ORDERS", "");
  zone().tasks().retry("a", "bills", {}).value();
  EXPECT_THAT(work(), ElementsAre("a " + large));
}

TEST_P(NatsForeign, AHeldOneIsCompletedByAPerson) {
  Queue queue = bound("header:Order");
  queue.in_doubt = InDoubt::hold;
  zone().queues().add(queue).value();
  publish("a", "1");
  work([](const Context&) { return Outcome::unknown("who knows"); });
  EXPECT_EQ(item("ORDERS:1").state, State::in_doubt);
  zone().tasks().complete("a", "bills", Body::json("5").value(), {}).value();
  EXPECT_EQ(zone().tasks().wait("a", "bills", 0ms).value().result().text(), "5");
  EXPECT_EQ(item("ORDERS:1").topic, "ORDERS.new");
}

TEST_P(NatsForeign, AnUnclaimedOneIsCancelledByItsKey) {
  zone().queues().add(bound("header:Order")).value();
  publish("a", "1");
  publish("b", "1");
  EXPECT_EQ(zone().tasks().cancel("a", "bills", {}).value(), State::cancelled);
  EXPECT_THAT(work(), ElementsAre("b 1"));
  EXPECT_EQ(item("ORDERS:1").state, State::cancelled);
  EXPECT_EQ(zone().tasks().cancel("nobody", "bills", {}).error().code, Code::not_found);
}

TEST_P(NatsForeign, ARecordIsKeptAsLongAsItsMessageIsThere) {
  zone().queues().add(bound("header:Order")).value();
  publish("a", "1");
  publish("b", "1");
  work([](const Context& context) {
    return context.key() == "b" ? Outcome::dead("no") : Outcome::completed();
  });
  messages_left(is_work_queue() ? 0 : 2);
  zone().set_retention({.bodies = 0ms, .records = 0ms, .ids = 0ms}).value();
  zone().retire().value();
  EXPECT_THAT(zone().tasks().list({.queue = "bills"}).value(), SizeIs(is_work_queue() ? 1 : 2));
  EXPECT_THAT(work(), IsEmpty());
  raw("STREAM.PURGE.ORDERS", "");
  zone().tasks().drop("b", "bills", {}).value();
  zone().retire().value();
  EXPECT_THAT(zone().tasks().list({.queue = "bills"}).value(), IsEmpty());
  EXPECT_EQ(stranger().messages("ONCE_test_COPY"), 0U);
}

TEST_P(NatsForeign, WhatTheStreamDropsUnsettledIsADeadLetterAndNotForgotten) {
  Queue queue = bound("header:Order");
  queue.backoff = {1h};
  queue.lease = 100ms;
  zone().queues().add(queue).value();
  publish("a", "1");
  auto worker =
      zone().worker("bills", [](Context&) { return Outcome::failed("later", 1ms); }).value();
  ASSERT_TRUE(worker.run_one().value());
  raw("STREAM.PURGE.ORDERS", "");
  EXPECT_EQ(item("ORDERS:1").state, State::retrying);
  ASSERT_NO_FATAL_FAILURE(sweep_until_found());
  EXPECT_THAT(work(), IsEmpty());
  EXPECT_EQ(item("ORDERS:1").state, State::dead);
  EXPECT_THAT(item("ORDERS:1").error, HasSubstr("gone from the stream ORDERS"));
  EXPECT_EQ(zone().tasks().retry("ORDERS:1", "bills", {}).error().code, Code::wrong_state);
}

// On a work-queue stream such a message would be gone.
class NatsForeignKept : public NatsForeign {};
INSTANTIATE_TEST_SUITE_P(, NatsForeignKept, ::testing::Values("limits"));

TEST_P(NatsForeignKept, TheSweeperFindsWhatTheConsumerCountsAsDone) {
  zone().queues().add(bound("header:Order")).value();
  publish("a", "1");
  const auto delivered = fetch("bills", 30s);
  ASSERT_THAT(delivered, SizeIs(1));
  const Settlement lost{.queue = "bills",
                        .sequence = delivered.front().entry.sequence,
                        .handle = delivered.front().handle};
  ASSERT_TRUE(store().settle(std::span(&lost, 1)));
  const auto held = [&] {
    Sequence floor{};
    engine::Housekeeper::sweep(store(), "bills", floor, [] { return false; }).value();
    return count(State::in_doubt) == 1;
  };
  EXPECT_TRUE(testing::eventually(held, 30s)) << "an answer needs a record, so it may have run";
  EXPECT_THAT(work(), IsEmpty());
}

TEST_P(NatsForeign, ADeletedConsumerComesBackAndNothingRunsTwice) {
  zone().queues().add(bound("header:Order")).value();
  publish("a", "1");
  EXPECT_THAT(work(), ElementsAre("a 1"));
  const auto names = raw("CONSUMER.NAMES.ORDERS", "");
  const std::string consumer = names.member("consumers")->items().front().string();
  raw("CONSUMER.DELETE.ORDERS." + consumer, "");
  publish("b", "1");
  EXPECT_THAT(work(), ElementsAre("b 1"));
}

TEST_P(NatsForeign, AStreamThatWasMadeAnewIsNotTakenForTheOldOne) {
  zone().queues().add(bound("header:Order")).value();
  stranger().publish("ORDERS.new", "without a key");
  work();
  EXPECT_EQ(count(State::dead), 1U);
  raw("STREAM.DELETE.ORDERS", "");
  stranger().make_stream("ORDERS", GetParam());
  publish("a", "1");  // #1, too
  const auto fetched = store().fetch({.queue = "bills"});
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, Code::store_unusable);
  EXPECT_THAT(fetched.error().message, HasSubstr("made anew"));
  EXPECT_EQ(stranger().messages("ORDERS"), 1U);
  EXPECT_EQ(count(State::dead), 1U);
  EXPECT_EQ(count(State::waiting), 0U) << "what is new is not the queue's";
  EXPECT_EQ(store().entry("bills", {1}).value()->body->text(), "without a key");
}

TEST_P(NatsForeign, AQueueNeedsAStreamThatIsThereAndAKey) {
  Queue queue = bound();
  queue.stream = "NOBODY";
  EXPECT_EQ(zone().queues().add(queue).error().code, Code::not_found);
  queue.stream = "ONCE_test_LOG";
  EXPECT_EQ(zone().queues().add(queue).error().code, Code::invalid_input);
  queue = bound("");
  EXPECT_EQ(zone().queues().add(queue).error().code, Code::invalid_input);
  EXPECT_THAT(zone().queues().list().value(), IsEmpty());
}

TEST_P(NatsForeign, OnAWorkQueueASecondConsumerOfTheSameSubjectsIsRefusedAndLeavesNothing) {
  zone().queues().add(bound()).value();
  Queue other = bound();
  other.name = "other";
  const auto added = zone().queues().add(other);
  if (!is_work_queue()) {
    EXPECT_TRUE(added);
    return;
  }
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::invalid_input);
  EXPECT_THAT(added.error().message, HasSubstr("is a work queue"));
  EXPECT_THAT(zone().queues().list().value(), SizeIs(1));
}

TEST_P(NatsForeign, ARemovedQueueLeavesTheStreamAsItIs) {
  zone().queues().add(bound("header:Order")).value();
  publish("a", "1");
  work([](const Context&) { return Outcome::dead("no"); });
  publish("b", "1");
  zone().queues().remove("bills", {.force = true}).value();
  EXPECT_EQ(stranger().messages("ONCE_test_COPY"), 0U);
  EXPECT_EQ(messages_left(is_work_queue() ? 1 : 2), is_work_queue() ? 1U : 2U);
  EXPECT_THAT(raw("CONSUMER.NAMES.ORDERS", "").member("consumers")->items(), IsEmpty());
}

TEST_P(NatsForeign, TheZonesOwnTasksAndTheStreamsAreApart) {
  zone().queues().add(bound("header:Order")).value();
  Queue own;
  own.name = "own";
  own.topic = ">";
  zone().queues().add(own).value();
  publish("a", "1");
  zone().publish({.topic = "ORDERS.new", .id = "a", .body = Body::json("2").value()}).value();
  EXPECT_THAT(work(), ElementsAre("a 1"));
  EXPECT_EQ(zone().tasks().wait("a", "own", 0ms).error().code, Code::timed_out);
  const auto task = zone().tasks().inspect("a").value();
  EXPECT_EQ(task.entry.body.value().text(), "2");
  EXPECT_THAT(task.queues, SizeIs(2));
}

}  // namespace
}  // namespace once::store::nats
