// What an audit finds in a file that somebody changed behind the store's back, and what it does not
// find in one that is older than the audit.
#include <gmock/gmock.h>

#include "inspect/auditor.h"
#include "once/once.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SqliteAudit : public ::testing::Test {
 protected:
  SqliteAudit() { zone_.queues().add({.name = "work", .topic = ">"}).value(); }

  void publish(int count) {
    for (int i = 0; i < count; ++i)
      zone_.publish({.topic = "t", .id = std::to_string(i + 1)}).value();
  }
  void complete_all() {
    zone_.worker("work", [](Context&) { return Outcome::completed(); })
        .value()
        .run_until_empty()
        .value();
  }
  void damage(const std::string& sql) { behind_its_back(folder_ / "zone.db", sql); }
  std::vector<std::string> found() {
    std::vector<std::string> all;
    for (const Discrepancy& each : zone_.audit().value().discrepancies)
      all.push_back(std::string(to_string(each.kind)) + " #" + std::to_string(each.sequence));
    return all;
  }
  std::uint64_t published() {
    std::uint64_t sum = 0;
    for (const AuditLine& line : zone_.audit().value().lines) sum += line.totals.published;
    return sum;
  }

  testing::TempFolder folder_;
  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  Zone zone_ = Zone::open((folder_ / "zone.db").string(), {.clock = clock_}).value();
};

TEST_F(SqliteAudit, ATaskThatIsGoneFromTheLogIsMissing) {
  publish(5);
  damage("DELETE FROM log WHERE sequence IN (2, 3, 5)");
  EXPECT_THAT(found(), ElementsAre("missing #2", "missing #5"));
}

TEST_F(SqliteAudit, ARecordWhoseTaskIsGoneIsAStray) {
  publish(3);
  complete_all();
  damage("DELETE FROM log WHERE sequence = 2");
  EXPECT_THAT(found(), ElementsAre("missing #2", "stray #2"));
}

TEST_F(SqliteAudit, ARecordThatIsGoneIsOverlooked) {
  publish(3);
  complete_all();
  damage("DELETE FROM ledger WHERE (place & 0x7ffffffffff) / 2 = 2 AND place > 0");
  EXPECT_THAT(found(), IsEmpty()) << "before a lease has gone by it may be under way";
  clock_->advance(31s);
  EXPECT_THAT(found(), ElementsAre("overlooked #2"));
}

TEST_F(SqliteAudit, ARecordThatCannotBeReadIsTold) {
  publish(2);
  complete_all();
  damage("UPDATE ledger SET record = x'ff00' WHERE (place & 0x7ffffffffff) / 2 = 1 AND place > 0");
  EXPECT_THAT(found(), ElementsAre("inconsistent #1"));
  EXPECT_EQ(published(), 2U);
}

TEST_F(SqliteAudit, WhatRetentionTookIsNotMissing) {
  publish(5);
  complete_all();
  zone_.set_retention({.bodies = 0ms, .records = 0ms, .ids = 0ms}).value();
  for (int stage = 0; stage < 4; ++stage) zone_.retire().value();
  EXPECT_THAT(zone_.tasks().log(0, 10).value(), IsEmpty());
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(published(), 5U);
  zone_.publish({.topic = "t", .id = "later"}).value();
  damage("DELETE FROM log");
  EXPECT_THAT(found(), ElementsAre("missing #6"));
}

TEST_F(SqliteAudit, TotalsThatCannotBeReadAreToldAndStopNobody) {
  publish(2);
  complete_all();
  zone_.set_retention({.bodies = 0ms, .records = 0ms, .ids = 1h}).value();
  for (int stage = 0; stage < 2; ++stage) zone_.retire().value();
  damage("UPDATE past SET totals = x'ff00'");
  EXPECT_THAT(found(), ElementsAre("inconsistent #0"));
  zone_.publish({.topic = "t", .id = "later"}).value();
  complete_all();
  for (int stage = 0; stage < 2; ++stage) zone_.retire().value();
  EXPECT_THAT(found(), ElementsAre("inconsistent #0"));
  EXPECT_EQ(published(), 1U);
}

TEST_F(SqliteAudit, RangesThatAreGoneGrowTogether) {
  publish(6);
  complete_all();
  zone_.set_retention({.bodies = 0ms, .records = 0ms, .ids = 0ms}).value();
  for (int stage = 0; stage < 4; ++stage) zone_.retire().value();
  damage("DELETE FROM gone; INSERT INTO gone VALUES (1, 1), (3, 4), (6, 6)");
  EXPECT_THAT(found(), ElementsAre("missing #2", "missing #5"));
}

TEST_F(SqliteAudit, AZoneOfTheVersionBeforeIsUpgradedAndItsGapsAreForgiven) {
  publish(5);
  complete_all();
  { const Zone closed = std::move(zone_); }
  damage(std::string(kToVersion3) +
         "DELETE FROM log WHERE sequence IN (1, 3, 5); DELETE FROM ledger WHERE place > 0 AND"
         " (place & 0x7ffffffffff) / 2 IN (1, 3, 5); DROP TABLE past; DROP TABLE gone;"
         " ALTER TABLE queue ADD COLUMN past_completed INTEGER NOT NULL DEFAULT 0;"
         " ALTER TABLE queue ADD COLUMN past_cancelled INTEGER NOT NULL DEFAULT 0;"
         " ALTER TABLE queue ADD COLUMN past_duplicate INTEGER NOT NULL DEFAULT 0;"
         " PRAGMA user_version = 2");
  zone_ = Zone::open((folder_ / "zone.db").string(), {.create = false, .clock = clock_}).value();
  EXPECT_THAT(found(), IsEmpty());
  EXPECT_EQ(published(), 2U);
  EXPECT_EQ(zone_.publish({.topic = "t", .id = "next"}).value().sequence, 6U);
  complete_all();
  EXPECT_EQ(published(), 3U);
}

}  // namespace
}  // namespace once::sqlite_test
