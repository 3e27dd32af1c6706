// The engine over a store whose calls fail and whose answers get lost: publishers and workers find
// out what really happened and neither lose nor repeat anything.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <thread>

#include "publish/publisher.h"
#include "store/memory/memory_store.h"
#include "support/faulty_store.h"
#include "work/worker.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;
using once::testing::Fault;
using once::testing::FaultPlan;
using once::testing::FaultyStore;
using once::testing::Seam;

struct World {
  explicit World(FaultPlan plan, Queue queue = {.name = "q", .topic = "t"})
      : definition(std::move(queue)), store(store::open_memory(nullptr)) {
    store.inner().add_queue(definition).value();
    store.set_plan(std::move(plan));
  }

  std::unique_ptr<Worker> worker(std::size_t concurrency = 1) {
    return Worker::make(store, *scheduler,
                        {.queue = definition,
                         .handler = [this](const TaskAttempt& task_attempt) -> Report {
                           std::lock_guard lock(mutex);
                           ++runs[task_attempt.task.id];
                           return {.outcome = Outcome::completed()};
                         },
                         .concurrency = concurrency,
                         .name = "w"})
        .value();
  }
  std::vector<Result<Receipt>> publish(int count) {
    std::vector<Task> tasks;
    for (int i = 0; i < count; ++i) tasks.push_back({.topic = "t", .id = std::to_string(i)});
    return Publisher(store, *scheduler).publish(std::move(tasks));
  }
  core::Record record(const std::string& id) {
    auto page = store.inner().rows({.queue = "q"}, nullptr, 10'000).value();
    for (const store::Row& row : page.rows)
      if (row.entry.id == id && row.stored) return row.stored->record;
    return {};
  }

  Queue definition;
  FaultyStore store;
  std::unique_ptr<Scheduler> scheduler = thread_scheduler();
  std::mutex mutex;
  std::map<std::string, int> runs;
};

TEST(Faults, APublisherRecognisesItsOwnAppendAfterALostAnswer) {
  World world(FaultPlan{}.on(Seam::append, 1, Fault::answer_lost));
  for (const auto& receipt : world.publish(3)) {
    ASSERT_TRUE(receipt);
    EXPECT_FALSE(receipt->duplicate);
  }
  EXPECT_EQ(world.store.inner().read({}, 10, {}).value().size(), 3U);
}

TEST(Faults, HalfABatchIsCompletedWithoutDuplicates) {
  World world(FaultPlan{}.on(Seam::append, 1, Fault::half_done));
  std::uint64_t last = 0;
  for (const auto& receipt : world.publish(10)) {
    ASSERT_TRUE(receipt);
    EXPECT_FALSE(receipt->duplicate);
    EXPECT_GT(receipt->sequence, last);
    last = receipt->sequence;
  }
  EXPECT_EQ(world.store.inner().read({}, 100, {}).value().size(), 10U);
}

TEST(Faults, APublisherThatNeverLearnsSaysThatItIsInDoubt) {
  FaultPlan plan;
  for (std::uint64_t call = 1; call < 50; ++call) plan.on(Seam::append, call, Fault::answer_lost);
  World world(plan);
  const auto receipt = world.publish(1).front();
  ASSERT_FALSE(receipt);
  EXPECT_TRUE(receipt.error().in_doubt);
  EXPECT_EQ(receipt.error().code, Code::outcome_unknown);
}

TEST(Faults, AConflictSaysThatTheOtherContentCouldNotBeRead) {
  World world(FaultPlan{}.on(Seam::find, 1, Fault::fails));
  ASSERT_TRUE(world.publish(1).front());
  Publisher publisher(world.store, *world.scheduler);
  std::vector<Task> changed;
  changed.push_back({.topic = "t", .id = "0", .body = Body::json("{\"a\":1}").value()});
  const auto receipt = std::move(publisher.publish(std::move(changed)).front());
  ASSERT_FALSE(receipt);
  EXPECT_EQ(receipt.error().code, Code::conflicting_duplicate);
  EXPECT_NE(receipt.error().message.find("with other content (what differs is not known, because "),
            std::string::npos)
      << receipt.error().message;
}

// A refusal after a lost answer says nothing about the first try.
TEST(Faults, ARefusalAfterALostAnswerLeavesItInDoubt) {
  FaultPlan plan;
  plan.on(Seam::append, 1, Fault::answer_lost);
  for (std::uint64_t call = 2; call < 50; ++call) plan.on(Seam::append, call, Fault::fails);
  World world(plan);
  const auto receipt = world.publish(1).front();
  ASSERT_FALSE(receipt);
  EXPECT_TRUE(receipt.error().in_doubt);
}

TEST(Faults, WhatALostAnswerHidIsCountedOnce) {
  World world(
      FaultPlan{}.on(Seam::fetch, 1, Fault::answer_lost).on(Seam::swap, 1, Fault::answer_lost));
  ASSERT_TRUE(world.publish(1).front());
  const auto worker = world.worker();
  EXPECT_TRUE(worker->run_one().value());
  EXPECT_EQ(worker->metrics().claims, 1U);
  EXPECT_EQ(worker->metrics().completed, 1U);
  EXPECT_EQ(worker->metrics().fenced, 0U);
}

TEST(Faults, ALostCompletionIsReadBackAndNotRepeated) {
  World world(FaultPlan{}.on(Seam::swap, 1, Fault::answer_lost));
  ASSERT_TRUE(world.publish(1).front());
  EXPECT_TRUE(world.worker()->run_one().value());
  EXPECT_EQ(world.record("0").state, State::completed);
  EXPECT_EQ(world.record("0").claims, 1U);
  EXPECT_EQ(world.runs["0"], 1);
}

TEST(Faults, ALostClaimIsFoundByItsNonceAndRunsOnce) {
  World world(FaultPlan{}.on(Seam::fetch, 1, Fault::answer_lost));
  ASSERT_TRUE(world.publish(1).front());
  EXPECT_TRUE(world.worker()->run_one().value());
  EXPECT_EQ(world.runs["0"], 1);
  EXPECT_EQ(world.record("0").claims, 1U);
  EXPECT_EQ(world.record("0").state, State::completed);
}

TEST(Faults, AClaimWhoseAnswerIsLostBesideOthersRunsOnceLikeThem) {
  World world(FaultPlan{}.on(Seam::fetch, 1, Fault::half_done));
  for (const auto& receipt : world.publish(3)) ASSERT_TRUE(receipt);
  ASSERT_TRUE(world.worker(3)->run(Worker::Until::empty, {}));
  for (const char* id : {"0", "1", "2"}) {
    EXPECT_EQ(world.runs[id], 1) << id;
    EXPECT_EQ(world.record(id).claims, 1U) << id;
    EXPECT_EQ(world.record(id).state, State::completed) << id;
  }
}

// It takes one of the worker's places, or there would be more tasks running than the queue allows.
TEST(Faults, WhatMayHaveBeenClaimedCountsAsClaimedUntilItIsKnown) {
  World world(FaultPlan{}
                  .on(Seam::fetch, 1, Fault::answer_lost)
                  .on(Seam::read, 1, Fault::fails)
                  .on(Seam::read, 2, Fault::fails),
              {.name = "q", .topic = "t", .max_running = 1});
  for (const auto& receipt : world.publish(2)) ASSERT_TRUE(receipt);
  const auto worker = world.worker();
  for (int i = 0; i < 2; ++i) {
    const auto ran = worker->run_one();
    ASSERT_FALSE(ran);
    EXPECT_TRUE(ran.error().retryable);
    EXPECT_EQ(world.store.inner().counts("q").value().tasks[State::running], 1U);
  }
  EXPECT_TRUE(worker->run_one().value());
  EXPECT_EQ(world.runs, (std::map<std::string, int>{{"0", 1}}));
  EXPECT_TRUE(worker->run_one().value());
  EXPECT_EQ(world.runs, (std::map<std::string, int>{{"0", 1}, {"1", 1}}));
  EXPECT_EQ(world.record("0").claims, 1U);
}

TEST(Faults, BesideWhatMayHaveBeenClaimedOnlyTheOtherSlotsAreUsed) {
  FaultPlan plan;
  plan.on(Seam::fetch, 1, Fault::answer_lost);
  for (std::uint64_t call = 1; call <= 3; ++call) plan.on(Seam::read, call, Fault::fails);
  World world(plan, {.name = "q", .topic = "t", .max_running = 2});
  ASSERT_TRUE(world.publish(1).front());
  std::uint64_t most = 0;
  const auto worker = Worker::make(world.store, *world.scheduler,
                                   {.queue = world.definition,
                                    .handler = [&](const TaskAttempt& task_attempt) -> Report {
                                      std::lock_guard lock(world.mutex);
                                      ++world.runs[task_attempt.task.id];
                                      auto counts = world.store.inner().counts("q").value();
                                      most = std::max(most, counts.tasks[State::running]);
                                      return {.outcome = Outcome::completed()};
                                    },
                                    .concurrency = 2,
                                    .name = "w",
                                    .on_store =
                                        [&](const std::optional<Error>& trouble) {
                                          if (trouble) world.publish(3);  // the first is there
                                        }})
                          .value();
  ASSERT_TRUE(worker->run(Worker::Until::empty, {}));
  EXPECT_EQ(world.runs, (std::map<std::string, int>{{"0", 1}, {"1", 1}, {"2", 1}}));
  EXPECT_EQ(world.record("0").claims, 1U);
  EXPECT_LE(most, 2U);
}

// A thousand tasks through a store in which a tenth of all calls goes wrong, seed by seed.
// The record of one task and the claims of others share a commit, and its fate.
TEST(Faults, ATurnWhoseAnswerIsLostRecordsOnceAndRunsWhatItClaimedOnce) {
  for (const std::size_t concurrency : {1U, 4U})
    for (const Fault fault : {Fault::answer_lost, Fault::fails}) {
      World world(FaultPlan{}.on(Seam::commit, 1, fault).on(Seam::commit, 2, fault));
      for (const auto& receipt : world.publish(20)) ASSERT_TRUE(receipt);
      const auto worker = world.worker(concurrency);
      ASSERT_TRUE(worker->run(Worker::Until::empty, {}));
      if (concurrency == 1) {
        EXPECT_EQ(world.store.faults(), 2U);
      }
      EXPECT_EQ(worker->metrics().completed, 20U);
      for (int i = 0; i < 20; ++i) {
        const core::Record record = world.record(std::to_string(i));
        EXPECT_EQ(record.state, State::completed) << i;
        EXPECT_EQ(record.claims, 1U) << i;
        EXPECT_EQ(world.runs[std::to_string(i)], 1) << i;
      }
    }
}

TEST(Faults, NothingIsLostOrCompletedTwiceHoweverTheStoreFails) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FaultPlan plan;
    for (const Seam seam : {Seam::append, Seam::swap, Seam::fetch, Seam::get, Seam::settle}) {
      plan.randomly(seam, 0.05, Fault::answer_lost, seed);
      plan.randomly(seam, 0.05, Fault::half_done, seed + 100);
      plan.randomly(seam, 0.05, Fault::fails, seed + 200);
    }
    World world(plan, {.name = "q", .topic = "t", .lease = 500ms, .attempts = 1000});
    constexpr int kTasks = 200;
    for (int i = 0; i < kTasks; ++i) {
      // A publisher that is told nothing certain publishes again.
      while (true) {
        std::vector<Task> task;
        task.push_back({.topic = "t", .id = std::to_string(i)});
        if (Publisher(world.store, *world.scheduler).publish(std::move(task)).front()) break;
      }
    }
    EXPECT_EQ(world.store.inner().read({}, 10'000, {}).value().size(),
              static_cast<std::size_t>(kTasks));
    {
      auto one = world.worker(4);
      auto two = world.worker(1);
      std::jthread first([&] { EXPECT_TRUE(one->run(Worker::Until::empty, {})); });
      std::jthread second([&] { EXPECT_TRUE(two->run(Worker::Until::empty, {})); });
    }
    for (int i = 0; i < kTasks; ++i) {
      const core::Record record = world.record(std::to_string(i));
      EXPECT_EQ(record.state, State::completed) << i;
      int completions = 0;
      for (const core::Attempt& attempt : record.attempts)
        completions += attempt.ending == core::Ending::completed ? 1 : 0;
      EXPECT_EQ(completions, 1) << i;
      EXPECT_LE(world.runs[std::to_string(i)], static_cast<int>(record.claims)) << i;
    }
  }
}

}  // namespace
}  // namespace once::engine
