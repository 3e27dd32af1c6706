// The sweep heals what the feed lost, and costs nothing where everything is settled.
#include "work/housekeeper.h"

#include <gtest/gtest.h>

#include "store/memory/memory_store.h"
#include "support/eventually.h"
#include "support/faulty_store.h"
#include "work/worker.h"

namespace once::engine {
namespace {

using once::testing::FaultyStore;
using once::testing::Seam;

const auto kGoOn = [] { return false; };

struct World {
  World() : store(store::open_memory(nullptr)) {
    store.add_queue(queue).value();
    worker = Worker::make(store, *scheduler,
                          {.queue = queue,
                           .handler = [this](const TaskAttempt&) -> Report {
                             ++runs;
                             return {.outcome = outcome};
                           },
                           .name = "w"})
                 .value();
  }
  void publish(const std::string& id) {
    store::Append item{.id = id, .topic = "t"};
    scheduler->random_bytes(item.nonce.bytes.data(), item.nonce.bytes.size());
    ASSERT_TRUE(store.append(std::span(&item, 1)).front());
  }
  // Handed over and acknowledged without a record: what no correct worker does.
  void lose_one() {
    auto lost = store.fetch({.queue = "q", .wait = std::chrono::minutes{1}}).value();
    ASSERT_EQ(lost.size(), 1U);
    const store::Settlement done{
        .queue = "q", .sequence = lost[0].entry.sequence, .handle = lost[0].handle};
    ASSERT_TRUE(store.settle(std::span(&done, 1)));
  }

  // A person wants the settled task to run again.
  void order_retry(core::Sequence sequence) {
    const store::Wake wake{.sequence = sequence, .order = core::Order{.claims = 1, .by = "me"}};
    ASSERT_TRUE(store.wake("q", std::span(&wake, 1)));
  }

  const Queue queue{.name = "q", .topic = "t"};
  FaultyStore store;
  std::unique_ptr<Scheduler> scheduler = thread_scheduler();
  Outcome outcome = Outcome::completed();  // of the handler
  int runs = 0;
  std::unique_ptr<Worker> worker;
};

TEST(Housekeeper, TheSweepWakesWhatNobodyWouldDeliverAgain) {
  World world;
  world.publish("a");
  world.lose_one();
  EXPECT_FALSE(world.worker->run_one().value());
  core::Sequence floor{};
  EXPECT_EQ(Housekeeper::sweep(world.store, "q", floor, kGoOn).value(), 1U);
  EXPECT_TRUE(world.worker->run_one().value());
  EXPECT_EQ(world.runs, 1);
  EXPECT_EQ(Housekeeper::sweep(world.store, "q", floor, kGoOn).value(), 0U);
}

TEST(Housekeeper, TheSweepLeavesAloneWhatIsWaitingOrDone) {
  World world;
  world.publish("done");
  EXPECT_TRUE(world.worker->run_one().value());
  world.publish("waiting");
  core::Sequence floor{};
  EXPECT_EQ(Housekeeper::sweep(world.store, "q", floor, kGoOn).value(), 0U);
  EXPECT_TRUE(world.worker->run_one().value());
  EXPECT_EQ(world.runs, 2);
}

// The next sweep begins behind what is settled.
TEST(Housekeeper, TheFloorRisesToTheFirstUnsettledEntry) {
  World world;
  for (const char* id : {"a", "b", "c"}) world.publish(id);
  EXPECT_TRUE(world.worker->run_one().value());
  EXPECT_TRUE(world.worker->run_one().value());
  core::Sequence floor{};
  EXPECT_EQ(Housekeeper::sweep(world.store, "q", floor, kGoOn).value(), 0U);
  EXPECT_EQ(floor, core::Sequence{2});
  world.lose_one();
  EXPECT_EQ(Housekeeper::sweep(world.store, "q", floor, kGoOn).value(), 1U);
  EXPECT_EQ(floor, core::Sequence{2});
  EXPECT_TRUE(world.worker->run_one().value());
  EXPECT_EQ(Housekeeper::sweep(world.store, "q", floor, kGoOn).value(), 0U);
  EXPECT_EQ(floor, core::Sequence{3});
}

// A person may open again what was settled when the floor rose above it.
TEST(Housekeeper, TheFloorFallsNowAndThenBecauseWhatIsSettledCanBeOpenedAgain) {
  using namespace std::chrono_literals;
  World world;
  world.outcome = Outcome::dead("no");
  world.publish("a");
  EXPECT_TRUE(world.worker->run_one().value());
  const Moment start{1h};
  SweepFloor floor;
  const auto sweep = [&](Moment now) {
    return Housekeeper::sweep(world.store, "q", floor.at(now), kGoOn).value();
  };
  EXPECT_EQ(sweep(start), 0U);
  EXPECT_EQ(floor.at(start), core::Sequence{1}) << "it is dead, and so it is settled";

  world.order_retry({1});
  world.outcome = Outcome::failed("not yet", Duration{1});
  EXPECT_TRUE(world.worker->run_one().value());
  world.lose_one();
  EXPECT_EQ(sweep(start + 59min), 0U);
  EXPECT_EQ(sweep(start + 60min), 1U);
  world.outcome = Outcome::completed();
  EXPECT_TRUE(world.worker->run_one().value());
  EXPECT_EQ(world.runs, 3);
  EXPECT_EQ(sweep(start + 61min), 0U);
  EXPECT_EQ(floor.at(start + 61min), core::Sequence{1}) << "it has risen again";
}

TEST(Housekeeper, ARoundThatIsEndedStopsAtItsPage) {
  World world;
  world.publish("a");
  world.lose_one();
  core::Sequence floor{};
  EXPECT_EQ(Housekeeper::sweep(world.store, "q", floor, [] { return true; }).value(), 0U);
  EXPECT_EQ(world.store.calls(Seam::overlooked), 0U);
}

TEST(Housekeeper, RoundsTakeATwentiethOfTheTimeAtMost) {
  using std::chrono::seconds;
  EXPECT_EQ(Housekeeper::rest(seconds{60}, seconds{0}), seconds{60});
  EXPECT_EQ(Housekeeper::rest(seconds{60}, seconds{3}), seconds{60});
  EXPECT_EQ(Housekeeper::rest(seconds{60}, seconds{30}), seconds{600});
}

TEST(Housekeeper, AQueueThatIsNewGetsATimetableAndNoRound) {
  World world;
  const auto due = [&](const char* duty) {
    const store::Address at{.kind = store::Address::Kind::lone, .queue = "q", .key = duty};
    const auto record = world.store.get(std::span(&at, 1)).front().value();
    return record && record->record.state == State::retrying;
  };
  {
    const Housekeeper keeper(world.store, *world.scheduler, "q", "w", {});
    EXPECT_TRUE(once::testing::eventually([&] { return due("sweep") && due("retention"); }));
  }
  EXPECT_EQ(world.store.calls(Seam::overlooked), 0U);
  EXPECT_EQ(world.store.calls(Seam::retire), 0U);
}

}  // namespace
}  // namespace once::engine
