// kill -9 of a real process at each point of the life-of-a-task table (ARCHITECTURE.md), then a
// restart: the table's promise holds, seen from outside by counting effects.
#include <gtest/gtest.h>

#include "crash/child.h"
#include "once/zone.h"
#include "support/temp_folder.h"

namespace once::crash {
namespace {

using namespace std::chrono_literals;

constexpr int kKilled = 128 + 9;

class LifeOfATask : public ::testing::Test {
 protected:
  LifeOfATask() {
    role.database = (folder / "once.db").string();
    role.effects = (folder / "effects").string();
    zone().queues().add({.name = "q", .topic = "t", .backoff = {1ms, 1ms, 1ms}}).value();
  }

  Zone zone() { return Zone::open(role.database).value(); }
  void publish_one() { zone().publish({.topic = "t", .id = "a"}).value(); }
  int run(std::string name, std::string faults = {}, std::string dies = {}) {
    Role asked = role;
    asked.name = std::move(name);
    asked.faults = std::move(faults);
    asked.dies = std::move(dies);
    return Child(asked).wait();
  }
  QueueView view() { return zone().tasks().inspect("a").value().queues.at(0); }
  int effects() { return effects_in(role.effects)["a"]; }

  once::testing::TempFolder folder;
  Role role{.name = "worker"};
};

TEST_F(LifeOfATask, PublisherDiesBeforeItsAppend) {
  role.count = 3;
  EXPECT_EQ(run("publisher", "kill_before:append:1"), kKilled);
  EXPECT_EQ(zone().tasks().log(0, 10).value().size(), 0U);
  EXPECT_EQ(run("publisher"), 0);
  EXPECT_EQ(zone().tasks().log(0, 10).value().size(), 3U);
}

TEST_F(LifeOfATask, PublisherDiesAfterItsAppendAndRetries) {
  role.count = 3;
  EXPECT_EQ(run("publisher", "kill_after:append:1"), kKilled);
  EXPECT_EQ(zone().tasks().log(0, 10).value().size(), 3U);
  EXPECT_EQ(run("publisher"), 0);
  EXPECT_EQ(zone().tasks().log(0, 10).value().size(), 3U);
  EXPECT_EQ(effects_in(role.effects).size(), 3U);
  EXPECT_EQ(zone().tasks().inspect("task-0").value().duplicates, 1U);
}

TEST_F(LifeOfATask, WorkerDiesBeforeItFetches) {
  publish_one();
  EXPECT_EQ(run("worker", "kill_before:fetch:1"), kKilled);
  EXPECT_EQ(view().attempts.size(), 0U);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(view().attempts.size(), 1U);
}

TEST_F(LifeOfATask, WorkerDiesWhenItsClaimIsRecorded) {
  publish_one();
  EXPECT_EQ(run("worker", "kill_after:fetch:1"), kKilled);
  EXPECT_EQ(view().state, State::running);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 1);
  const QueueView after = view();
  EXPECT_EQ(after.state, State::completed);
  ASSERT_EQ(after.attempts.size(), 2U);
  EXPECT_EQ(after.attempts[0].outcome, AttemptOutcome::lost);
  EXPECT_TRUE(after.attempts[0].in_doubt);
}

TEST_F(LifeOfATask, WorkerDiesInItsHandlerBeforeTheEffect) {
  publish_one();
  EXPECT_EQ(run("worker", "", "before_effect"), kKilled);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(view().attempts.size(), 2U);
}

// The window that nobody can close: the effect happened and could not be recorded. It is visible.
TEST_F(LifeOfATask, WorkerDiesInItsHandlerAfterTheEffect) {
  publish_one();
  EXPECT_EQ(run("worker", "", "after_effect"), kKilled);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 2);
  const QueueView after = view();
  EXPECT_EQ(after.state, State::completed);
  ASSERT_EQ(after.attempts.size(), 2U);
  EXPECT_TRUE(after.attempts[0].in_doubt);
}

TEST_F(LifeOfATask, WorkerDiesBeforeItsCompletionIsRecorded) {
  publish_one();
  EXPECT_EQ(run("worker", "kill_before:swap:1"), kKilled);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 2);
  EXPECT_TRUE(view().attempts.at(0).in_doubt);
}

TEST_F(LifeOfATask, WorkerDiesWhenItsCompletionIsRecorded) {
  publish_one();
  EXPECT_EQ(run("worker", "kill_after:swap:1"), kKilled);
  EXPECT_EQ(view().state, State::completed);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 1);
  EXPECT_EQ(view().attempts.size(), 1U);
}

// A large result lies outside its record. Both are one commit.
TEST_F(LifeOfATask, WorkerDiesBeforeALargeResultIsRecorded) {
  publish_one();
  role.result = 12 << 20;
  EXPECT_EQ(run("worker", "kill_before:swap:1"), kKilled);
  EXPECT_EQ(view().state, State::running);
  EXPECT_EQ(view().result, std::nullopt);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 2);
  EXPECT_TRUE(view().result.value().text() == large_result(role.result));
  EXPECT_TRUE(zone().audit({.deep = true}).value().discrepancies.empty());
}

TEST_F(LifeOfATask, WorkerDiesWhenALargeResultIsRecorded) {
  publish_one();
  role.result = 12 << 20;
  EXPECT_EQ(run("worker", "kill_after:swap:1"), kKilled);
  EXPECT_EQ(view().state, State::completed);
  EXPECT_TRUE(view().result.value().text() == large_result(role.result));
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 1);
  EXPECT_TRUE(view().result.value().text() == large_result(role.result));
  EXPECT_TRUE(zone().audit({.deep = true}).value().discrepancies.empty());
}

// Its completion and its next claim are one commit: both or none.
TEST_F(LifeOfATask, WorkerDiesInItsTurn) {
  publish_one();
  zone().publish({.topic = "t", .id = "b"}).value();
  EXPECT_EQ(run("worker", "kill_before:commit:1"), kKilled);
  EXPECT_EQ(view().state, State::running);
  EXPECT_EQ(zone().tasks().inspect("b").value().queues.front().state, State::waiting);
  EXPECT_EQ(run("worker", "kill_after:commit:1"), kKilled);
  EXPECT_EQ(view().state, State::completed);
  EXPECT_EQ(zone().tasks().inspect("b").value().queues.front().state, State::running);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 2) << "the first time it was killed before it could record";
  EXPECT_EQ(view().attempts.size(), 2U);
  EXPECT_EQ(effects_in(role.effects)["b"], 1);
  EXPECT_EQ(zone().tasks().inspect("b").value().queues.front().attempts.size(), 2U);
}

TEST_F(LifeOfATask, WorkerDiesWhenAFailureIsRecorded) {
  publish_one();
  role.fails = "yes";
  EXPECT_EQ(run("worker", "kill_after:swap:1"), kKilled);
  EXPECT_EQ(view().state, State::retrying);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 1);
  const QueueView after = view();
  EXPECT_EQ(after.attempts.at(0).outcome, AttemptOutcome::failed);
  EXPECT_FALSE(after.attempts.at(0).in_doubt);
  EXPECT_EQ(after.state, State::completed);
}

TEST_F(LifeOfATask, WorkerDiesWhenADeadLetterIsRecorded) {
  zone().queues().add({.name = "last", .topic = "t", .attempts = 1}).value();
  publish_one();
  role.queue = "last";
  role.fails = "yes";
  EXPECT_EQ(run("worker", "kill_after:swap:1"), kKilled);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 0);
  for (const QueueView& queue : zone().tasks().inspect("a").value().queues) {
    if (queue.queue == "last") {
      EXPECT_EQ(queue.state, State::dead);
    }
  }
}

TEST_F(LifeOfATask, WorkerDiesBetweenADuplicateKeyAndItsRecord) {
  zone().queues().add({.name = "keyed", .topic = "k", .key = "{doc}", .lease = 1s}).value();
  for (const char* id : {"first", "a"})
    zone().publish({.topic = "k", .id = id, .body = Body::json(R"({"doc":1})").value()}).value();
  role.queue = "keyed";
  // The first delivery completes; the second one has been handed over when the worker dies.
  EXPECT_EQ(run("worker", "kill_after:fetch:2"), kKilled);
  EXPECT_EQ(view().state, State::waiting);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(view().state, State::duplicate);
  EXPECT_EQ(effects(), 0);
  EXPECT_EQ(effects_in(role.effects)["first"], 1);
}

// A poison task: it kills every worker that touches it, and is counted out by its claims.
TEST_F(LifeOfATask, ATaskThatKillsItsWorkersBecomesADeadLetter) {
  publish_one();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(run("worker", "", "before_effect"), kKilled);
  EXPECT_EQ(run("worker"), 0);
  EXPECT_EQ(effects(), 0);
  const QueueView after = view();
  EXPECT_EQ(after.state, State::dead);
  EXPECT_EQ(after.attempts.size(), 4U);
}

}  // namespace
}  // namespace once::crash
