// Many processes on one file, some of them killed: counted from outside, nothing is lost and
// nothing completes twice. ONCE_STRESS=1 (make stress) runs the long forms.
#include <gtest/gtest.h>
#include <poll.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "crash/child.h"
#include "once/zone.h"
#include "support/temp_folder.h"

namespace once::crash {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

bool stress() { return std::getenv("ONCE_STRESS") != nullptr; }

std::string integrity(const std::string& database) {
  sqlite3* db = nullptr;
  std::string answer = "no answer";
  sqlite3_open_v2(database.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr);
  sqlite3_exec(
      db, "PRAGMA integrity_check",
      [](void* to, int, char** values, char**) {
        *static_cast<std::string*>(to) = values[0];
        return 0;
      },
      &answer, nullptr);
  sqlite3_close(db);
  return answer;
}

class Chaos : public ::testing::Test {
 protected:
  Role role(std::string name) const {
    return {.name = std::move(name),
            .database = (folder_ / "once.db").string(),
            .effects = (folder_ / "effects").string()};
  }
  Zone zone() const { return Zone::open((folder_ / "once.db").string()).value(); }

  once::testing::TempFolder folder_;
};

TEST_F(Chaos, AWorkerKilledEverySecondLosesAndRepeatsNothing) {
  const int tasks = stress() ? 20'000 : 6'000;
  constexpr int kWorkers = 8;
  zone().queues().add({.name = "q", .topic = "t", .attempts = 50}).value();
  Role publisher = role("publisher");
  publisher.effects = (folder_ / "receipts").string();
  publisher.count = tasks;
  Child publishing(publisher);
  Role again = publisher;  // 5 % of the ids a second time, by another process
  again.count = tasks / 20;
  Child publishing_again(again);
  ASSERT_EQ(publishing.wait(), 0);
  ASSERT_EQ(publishing_again.wait(), 0);

  Role worker = role("worker");
  worker.concurrency = 4;
  worker.task_ms = 10;
  std::vector<Child> workers;
  for (int i = 0; i < kWorkers; ++i) workers.emplace_back(worker);
  // make stress draws new seeds.
  const unsigned seed = std::getenv("ONCE_STRESS") ? std::random_device{}() : 20261117;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  int kills = 0;
  const auto unfinished = [&] {
    for (Child& child : workers)
      if (!child.ended()) return true;
    return false;
  };
  for (auto next = SteadyClock::now() + 1s; unfinished();) {
    ::poll(nullptr, 0, 20);
    if (SteadyClock::now() < next) continue;
    next += 1s;
    Child& victim = workers[random() % workers.size()];
    if (victim.ended()) continue;
    victim.kill();
    victim = Child(worker);
    ++kills;
  }
  EXPECT_GT(kills, 0);

  const auto effects = effects_in(role("").effects);
  EXPECT_EQ(effects.size(), static_cast<std::size_t>(tasks));
  const Zone seen = zone();
  int reruns = 0;
  for (int i = 0; i < tasks; ++i) {
    const std::string id = "task-" + std::to_string(i);
    const TaskView task = seen.tasks().inspect(id).value();
    const QueueView& view = task.queues.at(0);
    ASSERT_EQ(view.state, State::completed) << id;
    int completions = 0;
    int without_verdict = 0;
    for (const AttemptView& attempt : view.attempts) {
      completions += attempt.outcome == AttemptOutcome::completed ? 1 : 0;
      without_verdict += attempt.in_doubt ? 1 : 0;
    }
    EXPECT_EQ(completions, 1) << id;
    EXPECT_EQ(without_verdict + 1, static_cast<int>(view.attempts.size())) << id;
    // Every effect beyond the first is a recorded attempt in doubt.
    EXPECT_LE(effects.at(id), 1 + without_verdict) << id;
    reruns += static_cast<int>(view.attempts.size()) - 1;
  }
  // No more in doubt than the killed workers ran.
  EXPECT_LE(reruns, kills * worker.concurrency);
  auto counted = seen.status().value().queues.at(0).tasks;
  EXPECT_EQ(counted[State::completed], static_cast<std::uint64_t>(tasks));
  EXPECT_EQ(seen.tasks().log(0, static_cast<std::size_t>(tasks) * 2).value().size(),
            static_cast<std::size_t>(tasks));
  EXPECT_EQ(integrity(role("").database), "ok");
  std::cout << "  " << tasks << " tasks, " << kWorkers << " workers, " << kills << " killed, "
            << reruns << " re-runs, none lost, none completed twice\n";
}

TEST_F(Chaos, WritersReadersAndCheckpointsHammerOneFile) {
  const auto length = stress() ? 60s : 6s;
  constexpr int kPublishers = 4;
  zone().queues().add({.name = "q", .topic = "t"}).value();
  std::vector<Child> publishers;
  std::vector<Child> workers;
  std::vector<Child> readers;
  for (int i = 0; i < kPublishers; ++i) {
    Role publisher = role("publisher");
    publisher.effects = (folder_ / ("receipts-" + std::to_string(i))).string();
    publisher.first = i * 10'000'000;
    publisher.count = 10'000'000;
    publishers.emplace_back(publisher);
  }
  Role worker = role("worker");
  worker.concurrency = 16;
  for (int i = 0; i < 2; ++i) {
    workers.emplace_back(worker);
    readers.emplace_back(role("reader"));
  }

  std::uintmax_t largest_wal = 0;
  for (const auto end = SteadyClock::now() + length; SteadyClock::now() < end;) {
    ::poll(nullptr, 0, 50);
    std::error_code missing;
    for (Child& child : workers) {
      if (!child.ended()) continue;
      // It was faster than the publishers for a moment.
      ASSERT_EQ(child.wait(), 0) << "a worker failed";
      child = Child(worker);
    }
    const auto size = std::filesystem::file_size(folder_ / "once.db-wal", missing);
    if (!missing) largest_wal = std::max(largest_wal, size);
  }
  for (Child& child : publishers) {
    EXPECT_FALSE(child.ended()) << "a publisher failed";
    child.kill();
  }
  for (Child& child : readers) {
    EXPECT_FALSE(child.ended()) << "a reader failed";
    child.kill();
  }
  for (Child& child : workers) child.kill();

  // Every receipt that was given stands, also after the writers were killed.
  const Zone seen = zone();
  std::size_t fewest = SIZE_MAX;
  std::size_t most = 0;
  for (int i = 0; i < kPublishers; ++i) {
    const auto receipts = effects_in((folder_ / ("receipts-" + std::to_string(i))).string());
    fewest = std::min(fewest, receipts.size());
    most = std::max(most, receipts.size());
    std::size_t checked = 0;
    for (const auto& [id, count] : receipts) {
      if (++checked % 37 != 0) continue;
      EXPECT_EQ(seen.tasks().inspect(id).value().entry.id, id);
    }
  }
  EXPECT_GT(fewest, 0U);
  EXPECT_LE(most, fewest * 5) << "a writer starved";
  EXPECT_LT(largest_wal, 256U << 20U);
  EXPECT_EQ(integrity(role("").database), "ok");

  // What was running is taken over, and each task has its effect.
  worker.concurrency = 64;
  EXPECT_EQ(Child(worker).wait(), 0);
  auto tasks = seen.status().value().queues.at(0).tasks;
  std::uint64_t total = 0;
  for (const auto& [state, count] : tasks) total += count;
  EXPECT_EQ(tasks[State::completed], total);
  EXPECT_EQ(effects_in(role("").effects).size(), total);
  std::cout << "  " << total << " tasks, fewest and most per writer " << fewest << " and " << most
            << ", largest WAL " << (largest_wal >> 20U) << " MiB\n";
}

}  // namespace
}  // namespace once::crash
