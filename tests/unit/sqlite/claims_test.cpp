// Fresh claims are not watched one by one: they are swept together, and none is forgotten.
#include <gmock/gmock.h>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Claims : public ::testing::Test {
 protected:
  Claims() { EXPECT_TRUE(store_->add_queue(queue_).value().added); }

  void publish(std::size_t count, const std::string& prefix) {
    std::vector<Append> items;
    for (std::size_t i = 0; i < count; ++i) items.push_back(task(prefix + std::to_string(i)));
    for (const auto& appended : store_->append(items)) ASSERT_TRUE(appended);
  }
  std::vector<store::Delivery> claim(std::size_t limit) {
    RuleClaimer claimer(queue_);
    return store_->fetch({.queue = "work", .limit = limit, .claimer = &claimer}).value();
  }
  std::vector<std::string> claimed(std::size_t limit) {
    std::vector<std::string> ids;
    for (const auto& delivery : claim(limit)) ids.push_back(delivery.entry.id);
    return ids;
  }
  void complete_all(const std::vector<store::Delivery>& deliveries) {
    std::vector<store::Swap> swaps;
    for (const store::Delivery& delivery : deliveries) {
      swaps.push_back({.at = address_of(queue_, delivery.entry),
                       .expected = delivery.stored.value().revision,
                       .record = delivery.stored->record,
                       .handle = delivery.handle});
      swaps.back().record.state = State::completed;
    }
    for (const auto& swapped : store_->swap(swaps)) ASSERT_TRUE(swapped.value().written);
  }
  std::vector<std::string> running() {
    std::vector<std::string> ids;
    for (const store::Row& row :
         store_->rows({.queue = "work", .state = State::running}, nullptr, 100).value().rows)
      ids.push_back(row.entry.id);
    return ids;
  }
  std::int64_t number(const char* sql) {
    std::int64_t value = -1;
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db, sql, -1, &statement, nullptr), SQLITE_OK);
    if (sqlite3_step(statement) == SQLITE_ROW) value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return value;
  }
  std::filesystem::path path() const { return folder_ / "zone.db"; }

  testing::TempFolder folder_;
  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  std::unique_ptr<Store> store_ = open_zone(path(), clock_);
  const Queue queue_ = queue_of("work");
};

TEST_F(Claims, AreNotWatchedAsLongAsTheirLeasesRun) {
  publish(3, "t");
  ASSERT_THAT(claim(3), SizeIs(3));
  EXPECT_EQ(number("SELECT count(*) FROM ledger WHERE watched = 0"), 3);
  EXPECT_THAT(running(), ElementsAre("t0", "t1", "t2")) << "all the same they are seen";
}

TEST_F(Claims, ComeAgainWhenTheirLeasesEnd) {
  publish(3, "t");
  complete_all({claim(3).at(1)});
  clock_->advance(queue_.lease);
  EXPECT_THAT(claimed(10), ElementsAre("t0", "t2"));
}

// One that is renewed is watched by its own lease; those beside it end with theirs.
TEST_F(Claims, OfWhichOneWasRenewedComeAgainEachAtItsTime) {
  publish(2, "t");
  const auto held = claim(2);
  clock_->advance(queue_.lease / 2);
  store::Swap renewed{.at = address_of(queue_, held[0].entry),
                      .expected = held[0].stored.value().revision,
                      .record = held[0].stored->record,
                      .handle = held[0].handle};
  ASSERT_TRUE(store_->swap(std::span(&renewed, 1)).front().value().written);
  EXPECT_THAT(running(), ElementsAre("t0", "t1"));
  clock_->advance(queue_.lease / 2);
  EXPECT_THAT(claimed(10), ElementsAre("t1"));
  clock_->advance(queue_.lease / 2);
  EXPECT_THAT(claimed(10), ElementsAre("t0"));
}

TEST_F(Claims, ThatLieFarBehindAreWatched) {
  publish(1, "slow");
  ASSERT_THAT(claimed(1), ElementsAre("slow0"));
  for (int i = 0; i < 50; ++i) {
    publish(500, std::to_string(i) + "-");
    complete_all(claim(500));
  }
  EXPECT_EQ(number("SELECT watched FROM ledger WHERE state = 2"), 1);
  EXPECT_LT(number("SELECT cursor - swept FROM queue"), 20'000);
  EXPECT_THAT(running(), ElementsAre("slow0"));
  clock_->advance(queue_.lease);
  EXPECT_THAT(claimed(10), ElementsAre("slow0"));
}

// Whatever is settled leaves nothing to wake up for.
TEST_F(Claims, ThatAreAllSettledLeaveNothingToDo) {
  publish(3, "t");
  complete_all(claim(3));
  clock_->advance(queue_.lease);
  const std::int64_t before = number("SELECT last FROM zone");
  EXPECT_THAT(claim(10), IsEmpty());
  EXPECT_EQ(number("SELECT last FROM zone"), before) << "nothing was written";
}

TEST_F(Claims, OfAnEarlierBootAreFreeAtOnce) {
  publish(2, "t");
  ASSERT_THAT(claim(2), SizeIs(2));
  store_.reset();
  behind_its_back(path(), "UPDATE zone SET boot_id = 'the boot before'");
  store_ = open_zone(path(), clock_);
  EXPECT_THAT(claimed(10), ElementsAre("t0", "t1"));
}

TEST_F(Claims, OfAFileOfTheVersionBeforeComeAgainWhenTheirLeasesEnd) {
  publish(2, "t");
  ASSERT_THAT(claim(1), SizeIs(1));
  store_.reset();
  behind_its_back(path(), kToVersion3);
  store_ = open_zone(path(), clock_);
  EXPECT_EQ(number("PRAGMA user_version"), 6);
  EXPECT_THAT(claimed(10), ElementsAre("t1"));
  clock_->advance(queue_.lease);
  EXPECT_THAT(claimed(10), ElementsAre("t0", "t1"));
}

}  // namespace
}  // namespace once::sqlite_test
