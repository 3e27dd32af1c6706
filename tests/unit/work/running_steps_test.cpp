// Steps, leases and slots over a store that fails and forgets to answer: what the engine does
// between the rules and the store.
#include <gtest/gtest.h>

#include <atomic>
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

struct StepWorld {
  explicit StepWorld(Queue queue = {.name = "q", .topic = "t", .lease = 30s})
      : definition(std::move(queue)), store(store::open_memory(nullptr)) {
    store.add_queue(definition).value();
    std::vector<Task> one{{.topic = "t", .id = "a"}};
    for (const auto& receipt : Publisher(store, *scheduler).publish(std::move(one)))
      receipt.value();
  }
  std::unique_ptr<Worker> worker(std::function<Report(const TaskAttempt&)> handler,
                                 Duration grace = 10s) {
    return Worker::make(
               store, *scheduler,
               {.queue = definition, .handler = std::move(handler), .name = "w", .grace = grace})
        .value();
  }
  core::Record record() {
    return store.inner().rows({.queue = "q"}, nullptr, 10).value().rows.at(0).stored->record;
  }
  // From now on, so many swaps meet the fault.
  void break_swaps(std::uint64_t count, Fault fault) {
    FaultPlan plan;
    const std::uint64_t done = store.calls(Seam::swap);
    for (std::uint64_t nth = done + 1; nth <= done + count; ++nth) plan.on(Seam::swap, nth, fault);
    store.set_plan(std::move(plan));
  }

  Queue definition;
  FaultyStore store;
  std::unique_ptr<Scheduler> scheduler = thread_scheduler();
};

const Report kCompleted{.outcome = Outcome::completed()};

TEST(RunningSteps, AnswersThatAreLostAreFoundAgain) {
  StepWorld world;
  auto worker = world.worker([&](const TaskAttempt& task_attempt) {
    world.break_swaps(1, Fault::answer_lost);
    EXPECT_EQ(task_attempt.steps->begin("push", {}, false).kind, Steps::BeginResult::Kind::run);
    world.break_swaps(1, Fault::answer_lost);
    EXPECT_TRUE(task_attempt.steps->end("push", Body::bytes("done"), false));
    return kCompleted;
  });
  EXPECT_TRUE(worker->run_one().value());
  const core::Record record = world.record();
  EXPECT_EQ(record.state, State::completed);
  ASSERT_EQ(record.steps.size(), 1U);
  EXPECT_EQ(record.steps[0].runs, 1U);
  EXPECT_EQ(record.steps[0].result.text(), "done");
}

TEST(RunningSteps, WhatAStepDidIsRecordedOnceTheStoreAnswersAgain) {
  StepWorld world;
  auto worker = world.worker([&](const TaskAttempt& task_attempt) {
    EXPECT_EQ(task_attempt.steps->begin("push", {}, false).kind, Steps::BeginResult::Kind::run);
    world.break_swaps(3, Fault::fails);
    EXPECT_TRUE(task_attempt.steps->end("push", Body::bytes("done"), false));
    return kCompleted;
  });
  EXPECT_TRUE(worker->run_one().value());
  EXPECT_EQ(world.record().steps.at(0).state, core::Step::State::done);
}

TEST(RunningSteps, AStepIsRefusedWhenTheStoreIsAwayPastTheLease) {
  StepWorld world({.name = "q", .topic = "t", .lease = 300ms});
  auto worker = world.worker([&](const TaskAttempt& task_attempt) -> Report {
    world.break_swaps(1000, Fault::fails);
    const Steps::BeginResult begun = task_attempt.steps->begin("push", {}, false);
    EXPECT_EQ(begun.kind, Steps::BeginResult::Kind::refused);
    EXPECT_EQ(begun.error->code, Code::store_unavailable);
    world.store.set_plan({});
    EXPECT_EQ(task_attempt.steps->begin("push", {}, false).kind, Steps::BeginResult::Kind::run)
        << "nothing was run: the name is free";
    EXPECT_TRUE(task_attempt.steps->fail("push", "no network"));
    return {.outcome = Outcome::failed("later")};
  });
  EXPECT_TRUE(worker->run_one().value());
  EXPECT_EQ(world.record().state, State::retrying);
}

TEST(RunningSteps, AfterAStepThatCouldNotBeRecordedNothingElseIsBegunOrBelieved) {
  StepWorld world;
  auto worker = world.worker([&](const TaskAttempt& task_attempt) {
    EXPECT_EQ(task_attempt.steps->begin("push", {}, false).kind, Steps::BeginResult::Kind::run);
    world.store.remove_queue("q").value();  // not retryable: there is nothing to write to
    EXPECT_FALSE(task_attempt.steps->end("push", {}, false));
    EXPECT_EQ(task_attempt.steps->begin("deploy", {}, false).kind, Steps::BeginResult::Kind::over);
    world.store.add_queue(world.definition).value();
    return kCompleted;
  });
  static_cast<void>(worker->run_one());
  EXPECT_FALSE(world.store.inner().rows({.queue = "q"}, nullptr, 10).value().rows.at(0).stored)
      << "nobody may complete it";
}

TEST(RunningSteps, AnInterruptIsHeardBetweenSteps) {
  StepWorld world;
  std::unique_ptr<Worker> worker;
  worker = world.worker([&](const TaskAttempt& task_attempt) -> Report {
    EXPECT_EQ(task_attempt.steps->begin("push", {}, false).kind, Steps::BeginResult::Kind::run);
    worker->interrupt();
    EXPECT_TRUE(task_attempt.stop.stop_requested());
    EXPECT_TRUE(task_attempt.steps->end("push", {}, false)) << "what it did is recorded";
    return {.outcome = Outcome::failed("stopped")};
  });
  EXPECT_TRUE(worker->run_one().value());
  const core::Record record = world.record();
  EXPECT_EQ(record.attempts.back().ending, core::Ending::interrupted);
  EXPECT_EQ(record.steps.at(0).state, core::Step::State::done);
}

// A handler that goes on for ever after its time is up must not keep the keeper busy.
TEST(LeaseKeeper, WritesNothingMoreOnceTheTimeIsUp) {
  StepWorld world({.name = "q", .topic = "t", .lease = 100ms, .timeout = 50ms});
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  auto worker = world.worker(
      [&](const TaskAttempt&) -> Report {
        // The last renewal is the one that the timeout cuts short.
        const auto give_up = std::chrono::steady_clock::now() + 30s;
        while (world.record().lease >= world.definition.lease &&
               std::chrono::steady_clock::now() < give_up)
          std::this_thread::yield();
        before = world.store.calls(Seam::swap);
        // That nothing comes can only be seen by giving it the time to come.
        std::this_thread::sleep_for(3 * world.definition.lease);
        after = world.store.calls(Seam::swap);
        return {.outcome = Outcome::failed("at last")};
      },
      Duration{0});
  EXPECT_TRUE(worker->run_one().value());
  EXPECT_EQ(after, before);
  EXPECT_LT(before, 50U) << "a renewal per third of the lease, for a second";
}

TEST(Slots, ALoweredCountIsNotExceededByThoseWhoHoldMore) {
  StepWorld world({.name = "q", .topic = "t", .max_running = 2});
  Slots ann(world.store, *world.scheduler, world.definition, "ann", {});
  Slots bob(world.store, *world.scheduler, world.definition, "bob", {});
  EXPECT_EQ(ann.hold(1).value(), 1U);
  EXPECT_EQ(bob.hold(1).value(), 1U);  // the second slot
  for (Slots* each : {&ann, &bob}) each->set_count(1, 1);
  ann.keep(0);
  EXPECT_EQ(bob.hold(2).value(), 1U) << "its task runs beyond the count: no other beside it";
  Slots eve(world.store, *world.scheduler, world.definition, "eve", {});
  eve.set_count(1, 0);
  EXPECT_EQ(eve.hold(2).value(), 1U);
  bob.set_count(1, 0);
  EXPECT_EQ(bob.hold(1).value(), 0U) << "given back, and the one slot is taken";
}

}  // namespace
}  // namespace once::engine
