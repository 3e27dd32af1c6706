// The store's time: it goes on over boots, ends what an earlier boot held, and has nothing to do
// with what wall clocks say.
#include <gmock/gmock.h>

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
