// Acknowledgements that come late, get lost or are forgotten: the server then counts as done what is
// not, or delivers again what is. The ledger decides, and the sweeper finds what nobody would deliver
// again. In real time; a worker sweeps a second after its start, when that is due.
#include "support/eventually.h"
#include "unit/nats/zone_world.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class Sweeper : public ZoneWorld {
 protected:
  // By a person, or by one who thinks it is in the way.
  void forget_record(const std::string& id) {
    const Bare jetstream = bare();
    const auto info =
        jetstream.api("STREAM.INFO.KV_once_test_ledger",
                      R"({"subjects_filter":"$KV.once_test_ledger.q.*.k.)" + id + R"("})");
    const auto& subjects = *info.member("state")->member("subjects");
    ASSERT_THAT(subjects.members(), SizeIs(1));
    jetstream.api("STREAM.PURGE.KV_once_test_ledger",
                  R"({"filter":")" + subjects.members().begin()->first + R"("})");
  }
};

TEST_F(Sweeper, FindsWhatALateAckTookFromAWorkerThatDied) {
  const Queue queue{.lease = 300ms};
  add_queue(queue);
  const Receipt a = publish_task("a").value();
  const Delivery late = fetch("q", 30s).at(0);
  claimed_by_one_that_dies(queue);  // it was handed the next delivery
  const Settlement ack{.queue = "q", .sequence = {a.sequence}, .handle = late.handle};
  store().settle(std::span(&ack, 1)).value();
  const std::string consumer = consumer_on("ONCE_test_LOG");
  EXPECT_EQ(bare().unanswered("ONCE_test_LOG", consumer), 0U) << "the server counts it as done";
  EXPECT_THAT(fetch("q", 1s), IsEmpty()) << "nobody would deliver it again";
  EXPECT_EQ(sweep(), 1U);
  EXPECT_THAT(run_all(), ElementsAre("a"));
  EXPECT_THAT(outcomes("a"), ElementsAre("lost", "completed"));
  EXPECT_EQ(sweep(), 0U);
}

// The same, while others are under way: the server tells how many are unanswered, not which.
TEST_F(Sweeper, FindsItAmongDeliveriesThatAreUnderWay) {
  const Queue queue{.lease = 500ms};
  add_queue(queue);
  const Receipt a = publish_task("a").value();
  const Delivery late = fetch("q", 30s).at(0);
  claimed_by_one_that_dies(queue);
  const Settlement ack{.queue = "q", .sequence = {a.sequence}, .handle = late.handle};
  store().settle(std::span(&ack, 1)).value();
  publish_task("b").value();
  EXPECT_EQ(fetch("q", 30s).at(0).entry.id, "b");
  const auto deadline = steady_clock::now() + 30s;
  while (sweep() == 0)
    ASSERT_LT(steady_clock::now(), deadline) << "not even when its lease is long over";
  EXPECT_THAT(run_all(), UnorderedElementsAre("a", "b"));
}

TEST_F(Sweeper, AcksLostWithTheServerRunNothingAgain) {
  add_queue({.lease = 2s});
  publish_tasks(40);
  EXPECT_THAT(run_all(), SizeIs(40));
  server().kill();
  server().start();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(view(std::to_string(i)).attempts.size(), 1U) << i;
  // The consumer as it was an hour ago: everything is delivered again.
  remove_consumer("ONCE_test_LOG");
  publish_task("new").value();
  EXPECT_THAT(run_all(), ElementsAre("new"));
  for (int i = 0; i < 40; ++i) EXPECT_THAT(outcomes(std::to_string(i)), ElementsAre("completed"));
}

TEST_F(Sweeper, AKilledServerLosesNoTaskOfAWorkerThatGoesOn) {
  add_queue({.lease = 2s});
  publish_tasks(40);
  std::map<std::string, int> runs;
  int ran = 0;
  worker([&](Context& context) {
    ++runs[context.task().id];
    if (++ran == 20) {
      server().kill();
      server().start();
    }
    return Outcome::completed();
  })
      .run_until_empty()
      .value();
  EXPECT_THAT(runs, SizeIs(40));
  for (const auto& [id, count] : runs) {
    EXPECT_EQ(view(id).state, State::completed) << id;
    EXPECT_EQ(view(id).attempts.size(), static_cast<std::size_t>(count)) << id;
  }
}

TEST_F(Sweeper, AConsumerMadeAgainAtTheEndDeliversNothingAndIsFoundOut) {
  add_queue({.lease = 2s});
  publish_tasks(3);
  const std::string stream = "ONCE_test_LOG";
  const std::string name = consumer_on(stream);
  remove_consumer(stream);
  const Bare jetstream = bare();
  jetstream.consumer(stream, name,
                     R"(,"deliver_policy":"new","ack_wait":2000000000,"max_ack_pending":-1)"
                     R"(,"filter_subject":"once.test.log.*.t")");
  EXPECT_FALSE(jetstream.pull(stream, name, 300ms)) << "they are behind it";
  EXPECT_THAT(run_all(), UnorderedElementsAre("0", "1", "2"));
}

TEST_F(Sweeper, ADeletedConsumerIsMadeAgainUnderARunningWorker) {
  add_queue({.lease = 2s});
  publish_tasks(3);
  std::vector<std::string> ran;
  worker([&](Context& context) {
    if (ran.empty()) {
      remove_consumer("ONCE_test_LOG");
      remove_consumer("ONCE_test_WAKE");
    }
    ran.push_back(context.task().id);
    return Outcome::completed();
  })
      .run_until_empty()
      .value();
  EXPECT_THAT(ran, UnorderedElementsAre("0", "1", "2"));
  for (const char* id : {"0", "1", "2"}) EXPECT_THAT(outcomes(id), ElementsAre("completed"));
}

TEST_F(Sweeper, ATaskWhoseRecordIsLostIsHeldAndNotRunAgain) {
  add_queue({.lease = 2s});
  publish_tasks(3);
  EXPECT_THAT(run_all(), SizeIs(3));
  EXPECT_EQ(sweep(), 0U) << "this store has seen its record";
  forget_record("1");
  EXPECT_EQ(view("1").state, State::waiting) << "and the server counts it as done";
  EXPECT_TRUE(testing::eventually(
      [&] {
        const auto found = zone().audit().value().discrepancies;
        return found.size() == 1 && found[0].what.find("its record is gone") != std::string::npos;
      },
      60s));
  EXPECT_EQ(sweep(), 0U);
  EXPECT_THAT(run_all(), IsEmpty()) << "it may have run";
  EXPECT_EQ(view("1").state, State::in_doubt);
  EXPECT_EQ(sweep(), 0U) << "and it stays held";
  EXPECT_THAT(run_all(), IsEmpty());
  zone().tasks().retry("1", "q", {.who = "ann"}).value();
  EXPECT_THAT(run_all(), ElementsAre("1"));
  EXPECT_EQ(view("1").state, State::completed);
}

// A queue of version 0.1: its keys tell 7 from "7", and null is a value.
TEST_F(Sweeper, ATaskWhoseRecordIsLostIsHeldUnderTheKeyThatItsQueueComputes) {
  add_queue({.key = "{order}", .key_format = KeyFormat::escaped, .lease = 2s});
  publish_task("a", R"({"order":7})").value();
  publish_task("b", R"({"order":null})").value();
  EXPECT_THAT(run_all(), ElementsAre("a", "b"));
  for (const char* key : {"7", "null"}) forget_record("=3D" + std::string(key));
  EXPECT_TRUE(
      testing::eventually([&] { return sweep() > 0 || view("b").state == State::in_doubt; }, 60s));
  EXPECT_EQ(sweep(), 0U);
  publish_task("c", R"({"order":7})").value();
  EXPECT_THAT(run_all(), IsEmpty()) << "'a' may have run, and 'c' has its key";
  for (const char* id : {"a", "b"}) EXPECT_EQ(view(id).state, State::in_doubt) << id;
}

TEST_F(Sweeper, WhatWasDeliveredLastMayBeRetiredSince) {
  add_queue({.lease = 2s});
  publish_tasks(3);
  EXPECT_THAT(run_all(), SizeIs(3));
  zone().set_retention({.bodies = 0ms, .records = 1h, .ids = 1h}).value();
  zone().retire().value();
  zone().queues().pause("q").value();
  publish_task("later").value();
  EXPECT_EQ(sweep(), 0U);
}

TEST_F(Sweeper, AWorkQueueOfWakesThatIsLostIsFoundOut) {
  add_queue({.lease = 2s, .attempts = 1});
  publish_task("a").value();
  worker([](Context&) { return Outcome::dead("it burns"); }).run_until_empty().value();
  zone().tasks().retry("a", "q", {.who = "ann"}).value();
  EXPECT_EQ(view("a").state, State::waiting);
  bare().api("STREAM.PURGE.ONCE_test_WAKE");
  EXPECT_EQ(view("a").state, State::dead) << "visible as what it is: nothing vanished";
  zone().tasks().retry("a", "q", {.who = "ann", .why = "once more"}).value();
  EXPECT_THAT(run_all(), ElementsAre("a"));
}

}  // namespace
}  // namespace once::store::nats
