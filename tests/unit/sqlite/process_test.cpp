// Several processes on one zone: they wake each other, and see at once when one of them dies.
#include <gmock/gmock.h>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using std::chrono::steady_clock;
using ::testing::SizeIs;

class SqliteProcesses : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "zone.db"; }

  testing::TempFolder folder_;
  const Queue work_ = queue_of("work");
};

TEST_F(SqliteProcesses, AnAppendWakesAFetchInAnotherProcess) {
  open_zone(path())->add_queue(work_).value();
  constexpr int kRounds = 40;
  Signal taken;
  Child worker([&] {
    auto store = open_zone(path());
    for (int i = 0; i < kRounds; ++i) {
      if (claim(*store, work_, {}, kLongEnough).size() != 1) _exit(2);
      taken.give();
    }
  });
  auto store = open_zone(path());
  const auto start = steady_clock::now();
  for (int i = 0; i < kRounds; ++i) {
    ASSERT_TRUE(append(*store, task(std::to_string(i))));
    ASSERT_TRUE(taken.take());
  }
  // Who is not woken looks once a second.
  EXPECT_LT(steady_clock::now() - start, kRounds * 300ms);
  EXPECT_EQ(worker.join(), 0);
}

TEST_F(SqliteProcesses, AFetchThatWaitsSurvivesADeletedLockFile) {
  open_zone(path())->add_queue(work_).value();
  constexpr int kRounds = 10;
  Signal taken;
  Child worker([&] {
    auto store = open_zone(path());
    for (int i = 0; i < kRounds; ++i) {
      if (claim(*store, work_, {}, kLongEnough).size() != 1) _exit(2);
      taken.give();
    }
  });
  auto store = open_zone(path());
  for (int i = 0; i < kRounds; ++i) {
    if (i % 2 == 1) std::filesystem::remove(path().string() + "-lock");
    ASSERT_TRUE(append(*store, task(std::to_string(i))));
    ASSERT_TRUE(taken.take());
  }
  EXPECT_EQ(worker.join(), 0);
}

TEST_F(SqliteProcesses, TheTaskOfAKilledWorkerIsHandedOverAtOnce) {
  open_zone(path())->add_queue(work_).value();
  Signal claimed;
  Child worker([&] {
    auto store = open_zone(path());
    const auto here = store->join("work", "dies").value();
    if (claim(*store, work_, here->number(), kLongEnough).size() != 1) _exit(2);
    claimed.give();
    pause();
  });
  auto store = open_zone(path());
  ASSERT_TRUE(append(*store, task("a")));
  ASSERT_TRUE(claimed.take());
  EXPECT_EQ(store->counts("work")->workers, 1U);
  EXPECT_TRUE(claim(*store, work_).empty());
  const auto start = steady_clock::now();
  worker.end();
  const auto again = claim(*store, work_, {}, kLongEnough);
  EXPECT_LT(steady_clock::now() - start, work_.lease / 2);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].stored->record.claims, 2U);
  EXPECT_EQ(store->counts("work")->workers, 0U);
}

TEST_F(SqliteProcesses, AWorkerIsThereAsLongAsOneOfItsProgramsIs) {
  auto store = open_zone(path());
  store->add_queue(work_).value();
  ASSERT_TRUE(append(*store, task("a")));
  auto worker = store->join("work", "worker").value();
  const auto held = claim(*store, work_, worker->number());
  ASSERT_THAT(held, SizeIs(1));
  const Address at = address_of(work_, held[0].entry);
  EXPECT_GE(worker->inheritable_fd(), 0);
  Child program([] { pause(); });  // inherits the descriptor, as an executed program would
  worker.reset();
  EXPECT_FALSE(get(*store, at)->holder_gone);
  EXPECT_EQ(store->counts("work")->workers, 1U);
  EXPECT_TRUE(claim(*store, work_).empty());
  program.end();
  EXPECT_TRUE(get(*store, at)->holder_gone);
  EXPECT_THAT(claim(*store, work_), SizeIs(1));
}

TEST_F(SqliteProcesses, ADeletedMembersFileMakesNobodyGone) {
  auto store = open_zone(path());
  store->add_queue(work_).value();
  ASSERT_TRUE(append(*store, task("a")));
  const auto worker = store->join("work", "worker").value();
  const auto held = claim(*store, work_, worker->number());
  ASSERT_THAT(held, SizeIs(1));
  std::filesystem::remove(path().string() + "-members");
  auto other = open_zone(path());
  const auto second = other->join("work", "second").value();
  EXPECT_FALSE(get(*other, address_of(work_, held[0].entry))->holder_gone);
  EXPECT_TRUE(claim(*other, work_, second->number()).empty());
}

}  // namespace
}  // namespace once::sqlite_test
