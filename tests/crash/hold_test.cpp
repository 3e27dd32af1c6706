// 256 tasks in flight when their worker is killed with -9, and the policy is to hold: only what was
// running then is in doubt, and nothing of it runs again until a person says so.
#include <gtest/gtest.h>
#include <poll.h>

#include "crash/child.h"
#include "once/zone.h"
#include "support/temp_folder.h"

namespace once::crash {
namespace {

using namespace std::chrono_literals;

constexpr int kTasks = 1500;
constexpr int kInFlight = 256;

TEST(Hold, AtMostWhatWasRunningIsInDoubt) {
  once::testing::TempFolder folder;
  Role role{.name = "worker",
            .database = (folder / "once.db").string(),
            .effects = (folder / "effects").string(),
            .concurrency = kInFlight,
            .task_ms = 20};
  Zone zone = Zone::open(role.database).value();
  zone.queues().add({.name = "q", .topic = "t", .in_doubt = InDoubt::hold}).value();
  std::vector<Task> tasks;
  for (int i = 0; i < kTasks; ++i)
    tasks.push_back({.topic = "t", .id = "task-" + std::to_string(i)});
  for (const auto& receipt : zone.publish_batch(std::move(tasks))) receipt.value();

  Child doomed(role);
  while (effects_in(role.effects).size() < kInFlight) ::poll(nullptr, 0, 5);
  doomed.kill();
  const auto running =
      zone.tasks().list({.queue = "q", .state = State::running, .limit = kTasks}).value();
  EXPECT_LE(running.size(), static_cast<std::size_t>(kInFlight));

  EXPECT_EQ(Child(role).wait(), 0);
  const auto held =
      zone.tasks().list({.queue = "q", .state = State::in_doubt, .limit = kTasks}).value();
  const auto states = zone.status().value().queues.at(0).tasks;
  EXPECT_EQ(held.size(), running.size());
  EXPECT_EQ(states.at(State::completed) + states.at(State::in_doubt), unsigned{kTasks});
  for (const auto& [id, count] : effects_in(role.effects)) EXPECT_EQ(count, 1) << id;

  for (const ListItem& item : held) zone.tasks().retry(item.id, "q", {.who = "ann"}).value();
  EXPECT_EQ(Child(role).wait(), 0);
  EXPECT_EQ(zone.status().value().queues.at(0).tasks.at(State::completed), unsigned{kTasks});
  std::size_t twice = 0;
  for (const auto& [id, count] : effects_in(role.effects)) twice += count > 1 ? 1 : 0;
  EXPECT_LE(twice, held.size());
}

}  // namespace
}  // namespace once::crash
