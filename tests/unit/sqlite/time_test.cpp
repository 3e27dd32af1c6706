// The store's time: it goes on over boots, ends what an earlier boot held, and has nothing to do
// with what wall clocks say.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>

#include <fstream>
#include <thread>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class SqliteTime : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "zone.db"; }
  void reopen() {
    store_.reset();
    store_ = open_zone(path());
  }
  // As if the machine had been up for that much longer.
  void pass(Duration time) {
    behind_its_back(path(), "UPDATE zone SET boot_at = boot_at - " + std::to_string(time.count()));
    reopen();
  }

  testing::TempFolder folder_;
  std::unique_ptr<Store> store_ = open_zone(path());
  const Queue work_ = queue_of("work");
};

TEST_F(SqliteTime, ANewBootEndsAllLeases) {
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("a")));
  const auto held = claim(*store_, work_);
  ASSERT_THAT(held, SizeIs(1));
  const Address at = address_of(work_, held[0].entry);
  reopen();
  EXPECT_THAT(claim(*store_, work_), IsEmpty()) << "the same boot: its lease runs";
  EXPECT_FALSE(get(*store_, at)->holder_gone);

  behind_its_back(path(), "UPDATE zone SET boot_id = 'the boot before'");
  reopen();
  EXPECT_TRUE(get(*store_, at)->holder_gone);
  const auto again = claim(*store_, work_);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].stored->record.claims, 2U);
  EXPECT_TRUE(again[0].stored->record.in_doubt);
  EXPECT_FALSE(get(*store_, at)->holder_gone) << "this one is of this boot";
}

TEST_F(SqliteTime, ANewBootIsNoticedByAStoreThatWritesFirst) {
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("a")));
  ASSERT_THAT(claim(*store_, work_), SizeIs(1));
  behind_its_back(path(), "UPDATE zone SET boot_id = 'the boot before'");
  ASSERT_TRUE(append(*store_, task("b")));
  EXPECT_THAT(claim(*store_, work_), SizeIs(1));
  EXPECT_THAT(claim(*store_, work_), SizeIs(1)) << "both: the lease of the first is over";
}

// Containers can be told different boots of one machine. Nobody's tasks are taken away for that.
TEST_F(SqliteTime, AnotherBootIsRefusedWhileAWorkerIsAlive) {
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("a")));
  auto alive = store_->join("work", "ann").value();
  behind_its_back(path(), "UPDATE zone SET boot_id = 'what ann sees'");
  const auto refused = append(*store_, task("b"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::store_unusable);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("'ann'"));
  alive.reset();
  EXPECT_TRUE(append(*store_, task("b"))) << "ann is gone: it is a new boot";
}

// Containers can also have a boot id of their own, which says nothing of the machine.
class SqliteUnknownBoot : public SqliteTime {
 protected:
  void reopen_as(const std::string& boot_id) {
    store_.reset();
    store::SqliteOptions options;
    options.path = path();
    options.boot_id = boot_id;
    store_ = store::open_sqlite(options).value();
  }
};

TEST_F(SqliteUnknownBoot, ProcessesThatAlternateEndNoLeasesAndMoveNoTime) {
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("a")));
  const auto held = claim(*store_, work_);
  ASSERT_THAT(held, SizeIs(1));
  const auto begun = store_->now();
  for (const char* boot : {"?", "", "?", "?", ""}) {
    reopen_as(boot);
    ASSERT_TRUE(append(*store_, task("b")));
    EXPECT_FALSE(get(*store_, address_of(work_, held[0].entry))->holder_gone) << boot;
    EXPECT_LT(store_->now(), begun + kLongEnough);
  }
}

TEST_F(SqliteUnknownBoot, AClockThatIsBehindTheLastWriteProvesANewBoot) {
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("a")));
  ASSERT_THAT(claim(*store_, work_), SizeIs(1));
  behind_its_back(path(), "UPDATE zone SET boot_at = boot_at + 99999999");
  reopen_as("?");
  EXPECT_THAT(claim(*store_, work_), SizeIs(1)) << "who held it is gone";
}

// As it is after a process of an older version wrote in a time namespace.
TEST_F(SqliteTime, AStampFarAheadOfTheClockDoesNotStopTheTime) {
  store_->add_queue(work_).value();
  behind_its_back(path(), "UPDATE zone SET last = last + 40000000000");
  reopen();
  ASSERT_TRUE(append(*store_, task("a")));
  const auto begun = store_->now();
  const auto give_up = std::chrono::steady_clock::now() + kLongEnough;
  while (store_->now() == begun && std::chrono::steady_clock::now() < give_up)
    std::this_thread::yield();
  EXPECT_GT(store_->now(), begun);
  EXPECT_LT(store_->now(), begun + kLongEnough);
  ASSERT_THAT(claim(*store_, work_), SizeIs(1));
  reopen();
  EXPECT_THAT(claim(*store_, work_), IsEmpty()) << "no lease of this boot ends for that";
}

TEST_F(SqliteTime, ATimeNamespaceDoesNotMoveTheTime) {
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("a")));
  ASSERT_THAT(claim(*store_, work_), SizeIs(1));
  const auto begun = store_->now();
  store_.reset();
  for (const char* offset : {"boottime 40000000 0", "boottime -100 0"}) {
    Child moved([&] {
      if (unshare(CLONE_NEWTIME) != 0) _exit(77);
      std::ofstream("/proc/self/timens_offsets") << offset;
      // The namespace is that of its children.
      Child inside([&] {
        auto store = open_zone(path());
        if (!claim(*store, work_).empty() || !append(*store, task(offset))) _exit(2);
        if (claim(*store, work_).size() != 1) _exit(4);
        if (store->now() < begun || store->now() > begun + kLongEnough) _exit(3);
      });
      _exit(inside.join());
    });
    const int status = moved.join();
    if (status == 77) GTEST_SKIP() << "NOT TESTED: this machine has no time namespaces";
    EXPECT_EQ(status, 0) << offset;
  }
  store_ = open_zone(path());
  EXPECT_LT(store_->now(), begun + kLongEnough) << "nothing of it was kept";
}

// A process without other threads can move itself. The clock of its new namespace is understood too.
TEST_F(SqliteTime, AProcessMayBeMovedToATimeNamespaceAfterTheOpen) {
  store_->add_queue(work_).value();
  const auto begun = store_->now();
  store_.reset();
  Child inside([&] {
    if (unshare(CLONE_NEWTIME) != 0) _exit(77);
    std::ofstream("/proc/self/timens_offsets") << "boottime 40000000 0";
    Child there([] { pause(); });  // the offsets are fixed once somebody is there
    auto store = open_zone(path());
    if (!append(*store, task("before"))) _exit(2);
    const int space = open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
    if (setns(space, CLONE_NEWTIME) != 0) _exit(78);
    if (!append(*store, task("after"))) _exit(3);
    if (store->now() > begun + kLongEnough) _exit(4);
  });
  const int status = inside.join();
  if (status == 77) GTEST_SKIP() << "NOT TESTED: this machine has no time namespaces";
  if (status == 78) GTEST_SKIP() << "NOT TESTED: ThreadSanitizer's thread keeps the process here";
  EXPECT_EQ(status, 0);
}

TEST_F(SqliteTime, TimeGoesOnOverABootAndDoesNotCountTheTimeBetween) {
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("a")));
  // A boot goes on from the last write, not from what somebody read after it.
  const auto written = store_->find("a").value().value().appended_at;
  behind_its_back(path(),
                  "UPDATE zone SET boot_id = 'the boot before', boot_at = boot_at + 99999999");
  reopen();
  const auto begun = store_->now();
  EXPECT_GT(begun, written) << "what the boot before wrote can be told by its time";
  EXPECT_LT(begun, written + kLongEnough);
  const auto give_up = std::chrono::steady_clock::now() + kLongEnough;
  while (store_->now() == begun && std::chrono::steady_clock::now() < give_up)
    std::this_thread::yield();
  EXPECT_GT(store_->now(), begun) << "and on";
}

TEST_F(SqliteTime, ARetryWaitsAsLongAfterABoot) {
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("a")));
  const auto held = claim(*store_, work_).at(0);
  store::Swap failed{.at = address_of(work_, held.entry),
                     .expected = held.stored->revision,
                     .record = held.stored->record,
                     .handle = held.handle};
  failed.record.state = State::retrying;
  failed.record.delay = 1h;
  ASSERT_TRUE(store_->swap(std::span(&failed, 1)).front().value().written);
  behind_its_back(path(), "UPDATE zone SET boot_id = 'the boot before'");
  reopen();
  EXPECT_THAT(claim(*store_, work_), IsEmpty());
  pass(1h);
  EXPECT_THAT(claim(*store_, work_), SizeIs(1));
}

TEST_F(SqliteTime, WallClocksForgetNothing) {
  store_->set_retention({.bodies = 1h, .records = 1h, .ids = 1h}).value();
  store_->add_queue(work_).value();
  ASSERT_TRUE(append(*store_, task("done")));
  complete(*store_, work_, claim(*store_, work_).at(0));
  ASSERT_TRUE(append(*store_, task("held")));
  ASSERT_THAT(claim(*store_, work_), SizeIs(1));

  // As if all of it had been written by a clock that was a month behind, then a month ahead.
  for (const char* jump : {"-2678400000", "+5356800000"}) {
    behind_its_back(path(), std::string("UPDATE log SET published_at = published_at ") + jump);
    reopen();
    const Retired retired = store_->retire({}, 100).value().retired;
    EXPECT_EQ(retired.bodies + retired.records + retired.ids, 0U);
    EXPECT_THAT(claim(*store_, work_), IsEmpty()) << "the lease still runs";
    EXPECT_EQ(append(*store_, task("done"))->sequence.value, 1U);
  }
  pass(1h);
  EXPECT_EQ(store_->retire({}, 100).value().retired.bodies, 1U) << "store time does";
  EXPECT_THAT(claim(*store_, work_), SizeIs(1));
}

}  // namespace
}  // namespace once::sqlite_test
