// The engine over the memory store: what a worker does with a task's whole life, driven by the
// public API with a virtual clock, or by real threads where threads are the point.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <latch>
#include <map>
#include <mutex>
#include <thread>

#include "once/once.h"
#include "once/testing.h"

namespace once {
namespace {

using namespace std::chrono_literals;

struct World {
  std::shared_ptr<testing::VirtualClock> clock = std::make_shared<testing::VirtualClock>();
  Zone zone = Zone::open("memory:", {.clock = clock}).value();

  explicit World(Queue queue = {.name = "q", .topic = "t"}) { zone.queues().add(queue).value(); }

  Receipt publish(std::string id, std::string_view json = "null") {
    return zone.publish({.topic = "t", .id = std::move(id), .body = Body::json(json).value()})
        .value();
  }
  Worker worker(std::function<Outcome(Context&)> handler, WorkerOptions options = {}) {
    return zone.worker("q", std::move(handler), std::move(options)).value();
  }
  QueueView view(std::string_view id) { return zone.tasks().inspect(id).value().queues.at(0); }
};

TEST(Worker, RunsATaskOnceAndRecordsItsResult) {
  World world;
  world.publish("a", R"({"n":1})");
  int runs = 0;
  auto worker = world.worker([&](Context& context) {
    ++runs;
    EXPECT_EQ(context.attempt(), 1);
    EXPECT_FALSE(context.in_doubt());
    EXPECT_EQ(context.task().body.at("n").value(), "1");
    return Outcome::completed(Body::json("42").value());
  });
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_FALSE(worker.run_one().value());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(world.view("a").state, State::completed);
  EXPECT_EQ(world.view("a").result->text(), "42");
}

TEST(Worker, ADuplicateIsNotRunAgain) {
  World world;
  EXPECT_FALSE(world.publish("a").duplicate);
  int runs = 0;
  auto worker = world.worker([&](Context&) { return ++runs, Outcome::completed(); });
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_TRUE(world.publish("a").duplicate);
  EXPECT_FALSE(worker.run_one().value());
  EXPECT_EQ(runs, 1);
}

TEST(Worker, AFailedAttemptIsRetriedAfterItsBackoffAndThenDead) {
  World world({.name = "q", .topic = "t", .backoff = {1s, 10s}});
  world.publish("a");
  int runs = 0;
  auto worker = world.worker([&](Context&) -> Outcome {
    ++runs;
    throw std::runtime_error("no network");
  });
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_EQ(world.view("a").state, State::retrying);
  EXPECT_EQ(world.view("a").error, "no network");
  world.clock->advance(999ms);
  EXPECT_FALSE(worker.run_one().value());
  world.clock->advance(201ms + 1ms);
  EXPECT_TRUE(worker.run_one().value());
  world.clock->advance(12s);
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_EQ(world.view("a").state, State::dead);
  EXPECT_EQ(runs, 3);
  world.clock->advance(24h);
  EXPECT_FALSE(worker.run_one().value());
}

TEST(Worker, TheHandlersWordDecides) {
  World world({.name = "q", .topic = "t", .backoff = {1s}});
  world.publish("dead");
  world.publish("unknown");
  world.publish("soon");
  auto worker = world.worker([&](Context& context) {
    const std::string& id = context.task().id;
    if (id == "dead") return Outcome::dead("never");
    if (id == "unknown" && context.attempt() == 1) return Outcome::unknown("may have happened");
    if (id == "soon" && context.attempt() == 1) return Outcome::failed("later", 5s);
    if (id == "unknown") {
      EXPECT_TRUE(context.in_doubt());
    }
    return Outcome::completed();
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(worker.run_one().value());
  EXPECT_EQ(world.view("dead").state, State::dead);
  EXPECT_EQ(world.view("unknown").state, State::retrying);
  EXPECT_TRUE(world.view("unknown").attempts.at(0).in_doubt);
  world.clock->advance(2s);
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_EQ(world.view("unknown").state, State::completed);
  world.clock->advance(3s);
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_EQ(world.view("soon").state, State::completed);
}

TEST(Worker, AReclaimedTaskFencesItsFirstWorker) {
  World world;
  world.publish("a");
  int effects = 0;
  auto second = world.worker([&](Context& context) {
    EXPECT_TRUE(context.in_doubt());
    EXPECT_EQ(context.attempt(), 2);
    ++effects;
    return Outcome::completed(Body::json("2").value());
  });
  std::string fenced;
  auto first = world.worker(
      [&](Context&) {
        world.clock->advance(31s);  // the lease goes by, and another worker takes over
        EXPECT_TRUE(second.run_one().value());
        return Outcome::completed(Body::json("1").value());
      },
      {.on_fenced = [&](std::string_view id) { fenced = id; }});
  EXPECT_TRUE(first.run_one().value());
  EXPECT_EQ(fenced, "a");
  EXPECT_EQ(effects, 1);
  const QueueView view = world.view("a");
  EXPECT_EQ(view.state, State::completed);
  EXPECT_EQ(view.result->text(), "2");
  ASSERT_EQ(view.attempts.size(), 2U);
  EXPECT_EQ(view.attempts[0].outcome, AttemptOutcome::lost);
  EXPECT_LT(view.attempts[0].token, view.attempts[1].token);
}

TEST(Worker, CompletingAfterTheLeaseEndedIsFineWhileNobodyReclaimed) {
  World world;
  world.publish("a");
  auto worker = world.worker([&](Context&) {
    world.clock->advance(1h);
    return Outcome::completed();
  });
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_EQ(world.view("a").state, State::completed);
}

TEST(Worker, ASecondTaskWithTheSameKeyIsADuplicateOrAConflict) {
  World world({.name = "q", .topic = "t", .key = "{doc}"});
  world.publish("first", R"({"doc":"d","v":1})");
  world.publish("same", R"({"v":1,"doc":"d"})");
  world.publish("other", R"({"doc":"d","v":2})");
  world.publish("none", R"({"v":2})");
  int runs = 0;
  auto worker = world.worker([&](Context&) { return ++runs, Outcome::completed(); });
  EXPECT_TRUE(worker.run_until_empty());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(world.view("first").state, State::completed);
  EXPECT_EQ(world.view("same").state, State::duplicate);
  EXPECT_EQ(world.view("other").state, State::dead);
  EXPECT_NE(world.view("other").reason.find("conflicting_duplicate"), std::string::npos);
  EXPECT_EQ(world.view("none").state, State::dead);
  EXPECT_NE(world.view("none").reason.find("doc"), std::string::npos);
}

TEST(Worker, SameKeyIgnoreCountsOtherContentAsDuplicate) {
  World world({.name = "q", .topic = "t", .key = "{doc}", .same_key = SameKey::ignore});
  world.publish("first", R"({"doc":"d","v":1})");
  world.publish("other", R"({"doc":"d","v":2})");
  auto worker = world.worker([&](Context&) { return Outcome::completed(); });
  EXPECT_TRUE(worker.run_until_empty());
  EXPECT_EQ(world.view("other").state, State::duplicate);
}

TEST(Worker, ManyHandlersAndPublishersRunEachTaskOnce) {
  auto zone = Zone::open("memory:").value();
  zone.queues().add({.name = "q", .topic = "t"}).value();
  constexpr int kTasks = 4000;
  std::mutex mutex;
  std::map<std::string, int> runs;
  auto worker = zone.worker("q",
                            [&](Context& context) {
                              std::lock_guard lock(mutex);
                              ++runs[context.task().id];
                              return Outcome::completed();
                            },
                            {.concurrency = 32})
                    .value();
  std::stop_source stop;
  std::jthread driver([&] { EXPECT_TRUE(worker.run(stop.get_token())); });
  {
    std::vector<std::jthread> publishers;
    for (int p = 0; p < 4; ++p)
      publishers.emplace_back([&, p] {
        for (int i = 0; i < kTasks; ++i)  // every id is published twice, by two publishers
          if (i % 4 == p || (i + 1) % 4 == p)
            zone.publish({.topic = "t", .id = std::to_string(i)}).value();
      });
  }
  for (int i = 0; i < kTasks; ++i)
    ASSERT_EQ(zone.tasks().wait(std::to_string(i), "q", 30s).value().kind(),
              Outcome::Kind::completed);
  stop.request_stop();
  driver.join();
  EXPECT_EQ(runs.size(), static_cast<std::size_t>(kTasks));
  for (const auto& [id, count] : runs) EXPECT_EQ(count, 1) << id;
}

TEST(Worker, ClaimsNoMoreThanItCanStart) {
  auto zone = Zone::open("memory:").value();
  zone.queues().add({.name = "q", .topic = "t"}).value();
  for (int i = 0; i < 20; ++i) zone.publish({.topic = "t", .id = std::to_string(i)}).value();
  std::latch started(3);
  std::latch go(1);
  auto worker = zone.worker("q",
                            [&](Context& context) {
                              if (context.sequence() <= 3) {
                                started.count_down();
                                go.wait();
                              }
                              return Outcome::completed();
                            },
                            {.concurrency = 3})
                    .value();
  std::jthread driver([&] { EXPECT_TRUE(worker.run_until_empty()); });
  started.wait();
  EXPECT_EQ(zone.status().value().queues[0].tasks[State::running], 3U);
  EXPECT_EQ(zone.status().value().queues[0].tasks[State::waiting], 17U);
  go.count_down();
  driver.join();
  EXPECT_EQ(zone.status().value().queues[0].tasks[State::completed], 20U);
}

TEST(Worker, MaxRunningHoldsAcrossWorkers) {
  auto zone = Zone::open("memory:").value();
  zone.queues().add({.name = "q", .topic = "t", .lease = 1s, .max_running = 2}).value();
  for (int i = 0; i < 60; ++i) zone.publish({.topic = "t", .id = std::to_string(i)}).value();
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::atomic<int> runs = 0;
  const auto handler = [&](Context&) {
    const int now = ++running;
    int seen = most;
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    --running;
    ++runs;
    return Outcome::completed();
  };
  std::vector<Worker> workers;
  for (int i = 0; i < 3; ++i)
    workers.push_back(zone.worker("q", handler, {.concurrency = 4}).value());
  std::vector<std::jthread> drivers;
  for (Worker& worker : workers)
    drivers.emplace_back([&] { EXPECT_TRUE(worker.run_until_empty()); });
  drivers.clear();
  EXPECT_EQ(runs, 60);
  EXPECT_LE(most, 2);
}

TEST(Worker, ALongHandlerKeepsItsLease) {
  auto zone = Zone::open("memory:").value();
  zone.queues().add({.name = "q", .topic = "t", .lease = 150ms}).value();
  zone.publish({.topic = "t", .id = "a"}).value();
  std::atomic<int> runs = 0;
  const auto handler = [&](Context& context) {
    ++runs;
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, context.stop(), 700ms, [] { return false; });
    EXPECT_FALSE(context.stop().stop_requested());
    return Outcome::completed();
  };
  auto first = zone.worker("q", handler).value();
  auto second = zone.worker("q", handler).value();
  std::jthread one([&] { EXPECT_TRUE(first.run_until_empty()); });
  std::jthread two([&] { EXPECT_TRUE(second.run_until_empty()); });
  one.join();
  two.join();
  EXPECT_EQ(runs, 1);
}

TEST(Worker, TheTimeoutStopsTheHandlerAndLeavesTheAttemptInDoubt) {
  auto zone = Zone::open("memory:").value();
  zone.queues().add({.name = "q", .topic = "t", .timeout = 100ms, .attempts = 1}).value();
  zone.publish({.topic = "t", .id = "a"}).value();
  auto worker = zone.worker("q",
                            [&](Context& context) {
                              std::mutex mutex;
                              std::condition_variable_any never;
                              std::unique_lock lock(mutex);
                              never.wait(lock, context.stop(), [] { return false; });
                              return Outcome::failed("stopped");
                            })
                    .value();
  EXPECT_TRUE(worker.run_until_empty());
  const QueueView view = zone.tasks().inspect("a").value().queues.at(0);
  EXPECT_EQ(view.state, State::dead);
  EXPECT_EQ(view.attempts.at(0).outcome, AttemptOutcome::timed_out);
  EXPECT_TRUE(view.attempts.at(0).in_doubt);
}

TEST(Worker, InterruptGivesTheTaskBackUncounted) {
  for (const int concurrency : {1, 4}) {
    auto zone = Zone::open("memory:").value();
    zone.queues().add({.name = "q", .topic = "t", .attempts = 1}).value();
    zone.publish({.topic = "t", .id = "a"}).value();
    std::latch started(1);
    {
      auto worker = zone.worker("q",
                                [&](Context& context) {
                                  started.count_down();
                                  std::mutex mutex;
                                  std::condition_variable_any never;
                                  std::unique_lock lock(mutex);
                                  never.wait(lock, context.stop(), [] { return false; });
                                  return Outcome::failed("stopped");
                                },
                                {.concurrency = concurrency})
                        .value();
      std::jthread driver([&] { EXPECT_TRUE(worker.run({})); });
      started.wait();
      worker.interrupt();
    }
    QueueView view = zone.tasks().inspect("a").value().queues.at(0);
    EXPECT_EQ(view.state, State::retrying);
    EXPECT_EQ(view.attempts.at(0).outcome, AttemptOutcome::interrupted);
    auto next = zone.worker("q",
                            [](Context& context) {
                              EXPECT_TRUE(context.in_doubt());
                              return Outcome::completed();
                            })
                    .value();
    EXPECT_TRUE(next.run_one().value());
    EXPECT_EQ(zone.tasks().inspect("a").value().queues.at(0).state, State::completed);
  }
}

TEST(Worker, AStopDrains) {
  auto zone = Zone::open("memory:").value();
  zone.queues().add({.name = "q", .topic = "t"}).value();
  for (int i = 0; i < 100; ++i) zone.publish({.topic = "t", .id = std::to_string(i)}).value();
  std::stop_source stop;
  std::latch started(2);
  std::latch go(1);
  auto worker = zone.worker("q",
                            [&](Context& context) {
                              started.count_down();
                              go.wait();
                              EXPECT_FALSE(context.stop().stop_requested());
                              return Outcome::completed();
                            },
                            {.concurrency = 2})
                    .value();
  std::jthread driver([&] { EXPECT_TRUE(worker.run(stop.get_token())); });
  started.wait();
  stop.request_stop();
  go.count_down();
  driver.join();
  auto tasks = zone.status().value().queues[0].tasks;
  EXPECT_EQ(tasks[State::running], 0U);
  EXPECT_EQ(tasks[State::completed], 2U);
  EXPECT_EQ(tasks[State::waiting], 98U);
}

TEST(Worker, IdempotencyKeysAreStableAndTellStepsApart) {
  World world;
  world.publish("a");
  std::vector<std::string> keys;
  auto worker = world.worker([&](Context& context) {
    keys.push_back(context.idempotency_key());
    keys.push_back(context.idempotency_key("push"));
    return context.attempt() == 1 ? Outcome::failed("once more", 0ms) : Outcome::completed();
  });
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_TRUE(worker.run_one().value());
  ASSERT_EQ(keys.size(), 4U);
  EXPECT_EQ(keys[0].size(), 64U);
  EXPECT_NE(keys[0], keys[1]);
  EXPECT_EQ(keys[0], keys[2]);
  EXPECT_EQ(keys[1], keys[3]);
}

// --- What a review found ---------------------------------------------------------------------

// What was claimed ahead is renewed like what runs, and nobody else takes it meanwhile.
TEST(Worker, WhatIsClaimedAheadKeepsItsLease) {
  auto zone = Zone::open("memory:").value();
  zone.queues().add({.name = "q", .topic = "t", .lease = 200ms, .window = 4}).value();
  for (int i = 0; i < 4; ++i) zone.publish({.topic = "t", .id = std::to_string(i)}).value();
  std::atomic<int> runs = 0;
  const auto handler = [&](Context& context) {
    ++runs;
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait_for(lock, context.stop(), 300ms, [] { return false; });
    return Outcome::completed();
  };
  auto first = zone.worker("q", handler).value();
  auto second = zone.worker("q", handler).value();
  std::jthread one([&] { EXPECT_TRUE(first.run_until_empty()); });
  std::jthread two([&] { EXPECT_TRUE(second.run_until_empty()); });
  one.join();
  two.join();
  EXPECT_EQ(runs, 4);
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(zone.tasks().inspect(std::to_string(i)).value().queues.at(0).attempts.size(), 1U);
}

// The timeout begins with the handler, not with the claim.
TEST(Worker, WhatIsClaimedAheadHasItsWholeTime) {
  auto zone = Zone::open("memory:").value();
  zone.queues()
      .add({.name = "q", .topic = "t", .timeout = 400ms, .attempts = 1, .window = 4})
      .value();
  for (int i = 0; i < 4; ++i) zone.publish({.topic = "t", .id = std::to_string(i)}).value();
  auto worker = zone.worker("q",
                            [&](Context& context) {
                              std::mutex mutex;
                              std::condition_variable_any never;
                              std::unique_lock lock(mutex);
                              never.wait_for(lock, context.stop(), 200ms, [] { return false; });
                              return Outcome::completed();
                            })
                    .value();
  EXPECT_TRUE(worker.run_until_empty());
  EXPECT_EQ(zone.status().value().queues[0].tasks[State::completed], 4U);
}

// A handler that is told to stop is heard before anyone may take its task.
TEST(Worker, AfterATimeoutTheHandlerIsHeardBeforeAnotherBegins) {
  auto zone = Zone::open("memory:").value();
  zone.queues()
      .add({.name = "q",
            .topic = "t",
            .lease = 300ms,
            .timeout = 250ms,
            .attempts = 2,
            .backoff = {1ms}})
      .value();
  zone.publish({.topic = "t", .id = "a"}).value();
  std::atomic<int> running = 0;
  auto worker = zone.worker("q",
                            [&](Context& context) {
                              EXPECT_EQ(++running, 1);
                              std::mutex mutex;
                              std::condition_variable_any never;
                              std::unique_lock lock(mutex);
                              never.wait(lock, context.stop(), [] { return false; });
                              never.wait_for(lock, 200ms, [] { return false; });  // slow to end
                              --running;
                              return Outcome::failed("stopped");
                            },
                            {.concurrency = 2})
                    .value();
  EXPECT_TRUE(worker.run_until_empty());
  const QueueView view = zone.tasks().inspect("a").value().queues.at(0);
  ASSERT_EQ(view.attempts.size(), 2U);
  for (const AttemptView& attempt : view.attempts)
    EXPECT_EQ(attempt.outcome, AttemptOutcome::timed_out);
}

TEST(Worker, ADeadVerdictStandsThoughTheWorkerIsInterrupted) {
  auto zone = Zone::open("memory:").value();
  zone.queues().add({.name = "q", .topic = "t"}).value();
  zone.publish({.topic = "t", .id = "a"}).value();
  std::optional<Worker> worker;
  worker.emplace(zone.worker("q",
                             [&](Context&) {
                               worker->interrupt();
                               return Outcome::dead("never");
                             })
                     .value());
  EXPECT_TRUE(worker->run_one().value());
  EXPECT_EQ(zone.tasks().inspect("a").value().queues.at(0).state, State::dead);
  zone.publish({.topic = "t", .id = "b"}).value();
  EXPECT_FALSE(worker->run_one().value());  // an interrupted worker claims nothing
}

TEST(Worker, RunOnePassesOverWhatIsSetAside) {
  World world({.name = "q", .topic = "t", .key = "{doc}"});
  world.publish("first", R"({"doc":1})");
  world.publish("same", R"({"doc":1 })");
  world.publish("keyless", "{}");
  world.publish("second", R"({"doc":2})");
  int runs = 0;
  auto worker = world.worker([&](Context&) { return ++runs, Outcome::completed(); });
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_FALSE(worker.run_one().value());
  EXPECT_EQ(runs, 2);
}

TEST(Worker, RunOneGivesItsSlotBack) {
  World world({.name = "q", .topic = "t", .max_running = 1});
  world.publish("a");
  world.publish("b");
  auto first = world.worker([](Context&) { return Outcome::completed(); });
  auto second = world.worker([](Context&) { return Outcome::completed(); });
  EXPECT_TRUE(first.run_one().value());
  EXPECT_TRUE(second.run_one().value());
}

TEST(Worker, WithoutASlotNothingIsClaimed) {
  World world({.name = "q", .topic = "t", .max_running = 1});
  world.publish("a");
  world.publish("b");
  int running = 0;
  auto second = world.worker([&](Context&) {
    EXPECT_EQ(++running, 1);
    --running;
    return Outcome::completed();
  });
  auto first = world.worker([&](Context&) {
    ++running;
    EXPECT_FALSE(second.run_one().value());  // the slot is held
    --running;
    return Outcome::completed();
  });
  EXPECT_TRUE(first.run_one().value());
  EXPECT_TRUE(second.run_one().value());
}

}  // namespace
}  // namespace once
