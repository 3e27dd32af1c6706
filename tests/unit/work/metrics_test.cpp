// A worker's counts are what it did: each case once, and under its own name.
#include <gtest/gtest.h>

#include <numeric>

#include "once/once.h"
#include "once/testing.h"

namespace once {
namespace {

using namespace std::chrono_literals;

struct World {
  std::shared_ptr<testing::VirtualClock> clock = std::make_shared<testing::VirtualClock>();
  Zone zone = Zone::open("memory:", {.clock = clock}).value();

  explicit World(Queue queue = {.name = "q", .topic = "t"}) { zone.queues().add(queue).value(); }

  void publish(std::string id, std::string_view json = "null", std::optional<Duration> delay = {}) {
    Task task{.topic = "t", .id = std::move(id), .body = Body::json(json).value()};
    if (delay) task.not_before = clock->now() + *delay;
    ASSERT_TRUE(zone.publish(std::move(task)));
  }
  Worker worker(std::function<Outcome(Context&)> handler) {
    return zone.worker("q", std::move(handler), {.name = "w"}).value();
  }
};

void work_off(Worker& worker) {
  while (worker.run_one().value()) {
  }
}

std::uint64_t all(const Histogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(), std::uint64_t{0});
}

// How many took more than the bound before and at most `bound`.
std::uint64_t at(const Histogram& histogram, Duration bound) {
  for (std::size_t i = 0; i < Histogram::kBounds.size(); ++i)
    if (Histogram::kBounds[i] == bound) return histogram.counts[i];
  return histogram.counts.back();
}

TEST(WorkerMetrics, BeginAtZeroAndSayWhoCounts) {
  World world;
  const auto worker = world.worker([](Context&) { return Outcome::completed(); });
  const WorkerMetrics metrics = worker.metrics();
  EXPECT_EQ(metrics.queue, "q");
  EXPECT_EQ(metrics.worker, "w");
  EXPECT_EQ(metrics.claims, 0u);
  EXPECT_EQ(all(metrics.to_start), 0u);
}

TEST(WorkerMetrics, EveryVerdictIsCountedUnderItsName) {
  World world({.name = "q", .topic = "t", .backoff = {1s}, .in_doubt = InDoubt::hold});
  for (const char* id : {"done", "fails", "dead", "unknown"}) world.publish(id);
  auto worker = world.worker([](Context& context) {
    const std::string& id = context.task().id;
    if (id == "done") return Outcome::completed();
    if (id == "dead") return Outcome::dead("never");
    if (id == "unknown") return Outcome::unknown("may have happened");
    return Outcome::failed("no network");
  });
  work_off(worker);
  WorkerMetrics metrics = worker.metrics();
  EXPECT_EQ(metrics.claims, 4u);
  EXPECT_EQ(metrics.completed, 1u);
  EXPECT_EQ(metrics.retries, 1u);
  EXPECT_EQ(metrics.dead, 1u);
  EXPECT_EQ(metrics.in_doubt, 1u);
  world.clock->advance(2s);
  work_off(worker);
  metrics = worker.metrics();
  EXPECT_EQ(metrics.claims, 5u);
  EXPECT_EQ(metrics.retries, 1u);  // that was the last attempt
  EXPECT_EQ(metrics.dead, 2u);
  EXPECT_EQ(metrics.reclaims, 0u);
  EXPECT_EQ(metrics.running, 0u);
  EXPECT_EQ(all(metrics.to_start), 4u);
  EXPECT_EQ(all(metrics.to_record), 1u);
}

TEST(WorkerMetrics, ATaskThatIsTakenOverIsAReclaimHereAndFencedThere) {
  World world;
  world.publish("a");
  auto second = world.worker([](Context&) { return Outcome::completed(); });
  auto first = world.worker([&](Context&) {
    world.clock->advance(31s);
    EXPECT_TRUE(second.run_one().value());
    return Outcome::completed();
  });
  EXPECT_TRUE(first.run_one().value());
  EXPECT_EQ(first.metrics().claims, 1u);
  EXPECT_EQ(first.metrics().fenced, 1u);
  EXPECT_EQ(first.metrics().completed, 0u);
  EXPECT_EQ(second.metrics().claims, 1u);
  EXPECT_EQ(second.metrics().reclaims, 1u);
  EXPECT_EQ(second.metrics().completed, 1u);
  EXPECT_EQ(second.metrics().fenced, 0u);
  // Only the first start counts as one.
  EXPECT_EQ(all(first.metrics().to_start), 1u);
  EXPECT_EQ(all(second.metrics().to_start), 0u);
  EXPECT_EQ(all(second.metrics().to_record), 1u);
}

TEST(WorkerMetrics, WhatOnlyTheLedgerKnewIsADedupHit) {
  World world({.name = "q", .topic = "t", .key = "{k}"});
  world.publish("first", R"({"k":1})");
  world.publish("same", R"({"k":1})");
  world.publish("other", R"({"k":1,"more":2})");
  auto worker = world.worker([](Context&) { return Outcome::completed(); });
  work_off(worker);
  const WorkerMetrics metrics = worker.metrics();
  EXPECT_EQ(metrics.claims, 1u);
  EXPECT_EQ(metrics.stopped_same_key, 2u);
  EXPECT_EQ(metrics.dead, 1u);  // other content under a known key is set aside
}

TEST(WorkerMetrics, AStepThatIsHeldIsCountedThoughItsOutcomeIsNotRecorded) {
  World world({.name = "q", .topic = "t", .in_doubt = InDoubt::steps});
  world.publish("a");
  auto second = world.worker([](Context& context) {
    context.step("pay", [] {});
    return Outcome::completed();
  });
  auto first = world.worker([&](Context& context) {
    context.step("pay", [&] {
      world.clock->advance(31s);
      EXPECT_FALSE(second.run_one().value());  // a step was cut off: held at the claim
    });
    return Outcome::completed();
  });
  EXPECT_TRUE(first.run_one().value());
  EXPECT_EQ(second.metrics().in_doubt, 1u);
  EXPECT_EQ(second.metrics().claims, 0u);
  EXPECT_EQ(first.metrics().fenced, 1u);
}

TEST(WorkerMetrics, LatenciesCountFromWhenTheTaskCouldRun) {
  World world;
  world.publish("now");
  world.publish("later", "null", 1h);
  auto worker = world.worker([&](Context&) {
    world.clock->advance(40s);
    return Outcome::completed();
  });
  world.clock->advance(500ms);  // a bound is part of its bucket
  work_off(worker);
  WorkerMetrics metrics = worker.metrics();
  EXPECT_EQ(at(metrics.to_start, 500ms), 1u);
  EXPECT_EQ(at(metrics.to_record, 60s), 1u);
  EXPECT_EQ(metrics.to_start.sum, 500ms);
  EXPECT_EQ(metrics.to_record.sum, 40'500ms);
  world.clock->advance(1h);
  work_off(worker);
  metrics = worker.metrics();
  EXPECT_EQ(all(metrics.to_start), 2u);
  EXPECT_EQ(at(metrics.to_start, 60s), 1u);  // the hour before its not-before is no latency
}

TEST(WorkerMetrics, WhatTheWorkersOwnEndInterruptsIsGivenBack) {
  World world;
  world.publish("a");
  std::optional<Worker> worker;
  worker.emplace(world.worker([&](Context&) {
    worker->interrupt();
    return Outcome::failed("told to stop");
  }));
  work_off(*worker);
  EXPECT_EQ(worker->metrics().given_back, 1u);
  EXPECT_EQ(worker->metrics().retries, 0u);
}

TEST(WorkerMetrics, AHandlerThatRunsIsSeenFromOutside) {
  World world;
  world.publish("a");
  std::optional<Worker> worker;
  std::uint64_t seen = 0;
  worker.emplace(world.worker([&](Context&) {
    seen = worker->metrics().running;
    return Outcome::completed();
  }));
  work_off(*worker);
  EXPECT_EQ(seen, 1u);
  EXPECT_EQ(worker->metrics().running, 0u);
}

TEST(PublisherMetrics, CountWhatBecameOfEachPublish) {
  World world;
  world.publish("a");
  world.publish("a");
  world.publish("b");
  EXPECT_FALSE(world.zone.publish({.topic = "t", .id = "a", .body = Body::json("1").value()}));
  const PublisherMetrics metrics = world.zone.metrics();
  EXPECT_EQ(metrics.accepted, 2u);
  EXPECT_EQ(metrics.duplicates, 1u);
  EXPECT_EQ(metrics.conflicts, 1u);
}

}  // namespace
}  // namespace once
