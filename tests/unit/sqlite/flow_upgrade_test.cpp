// Zones of format 5, which kept workflows as records of queues.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "once/once.h"
#include "support/flows_as_records.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::HasSubstr;

class FlowUpgrade : public ::testing::Test {
 protected:
  FlowUpgrade() {
    std::ifstream file(testing::fixture("zone.sql"));
    std::ostringstream sql;
    sql << file.rdbuf();
    run(sql.str().c_str()).value();
  }
  // Behind the store's back.
  Result<void> run(const char* sql) {
    sqlite3* db = nullptr;
    EXPECT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    char* said = nullptr;
    Result<void> done;
    if (sqlite3_exec(db, sql, nullptr, nullptr, &said) != SQLITE_OK)
      done = Error{.code = Code::failed, .message = said};
    sqlite3_free(said);
    sqlite3_close(db);
    return done;
  }
  std::int64_t number(const char* sql) {
    sqlite3* db = nullptr;
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_prepare_v2(db, sql, -1, &statement, nullptr), SQLITE_OK)
        << sqlite3_errmsg(db);
    EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
    const std::int64_t found = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return found;
  }
  std::string path() const { return (folder_ / "zone.db").string(); }

  testing::TempFolder folder_;
};

TEST_F(FlowUpgrade, ItsRunsGoOn) {
  Zone zone = Zone::open(path()).value();
  testing::finish_the_runs(zone);
}

TEST_F(FlowUpgrade, NothingOfWorkflowsIsLeftInTheLedger) {
  ASSERT_TRUE(open_zone(path()));
  EXPECT_EQ(number("PRAGMA user_version"), 6);
  EXPECT_EQ(number("SELECT count(*) FROM queue"), 2);
  EXPECT_EQ(number("SELECT count(*) FROM ledger WHERE qid NOT IN (SELECT qid FROM queue)"), 0);
  EXPECT_EQ(number("SELECT count(*) FROM keys"), 0);
  EXPECT_EQ(number("SELECT count(*) FROM kv"), 14);
  EXPECT_EQ(number("SELECT count(*) FROM kv WHERE expires IS NULL"), 8)
      << "two definitions, three open runs, two open keys and a note";
  EXPECT_TRUE(open_zone(path())->verify(Store::Depth::deep, "")->damages.empty());
}

// A process of the older version has the file open and tries to go on.
TEST_F(FlowUpgrade, AnOlderVersionCannotKeepWorkflowsInQueuesAgain) {
  ASSERT_TRUE(open_zone(path()));
  const auto added =
      run("INSERT INTO queue (qid, name, definition, cursor, tail, matched)"
          " VALUES (99, 'once-keys', '{}', 0, 0, 0)");
  ASSERT_FALSE(added);
  EXPECT_THAT(added.error().message, HasSubstr("newer version of once"));
}

// It would not find the runs, and take events for those of forgotten ones.
TEST_F(FlowUpgrade, AnOlderVersionClaimsNoEventAnyMore) {
  ASSERT_TRUE(open_zone(path()));
  const auto claimed =
      run("INSERT INTO ledger (place, qid, state, revision, stamp, member, record)"
          " VALUES (1, (SELECT qid FROM queue WHERE name = 'once-flow'), 2, 1, 1, 1, x'00')");
  ASSERT_FALSE(claimed);
  EXPECT_THAT(claimed.error().message, HasSubstr("once_keeps_values"));
}

TEST_F(FlowUpgrade, AnUpgradeThatFailsChangesNothing) {
  run("UPDATE ledger SET record = x'ff' WHERE key = 'pay:2'").value();
  EXPECT_FALSE(Zone::open(path()));
  EXPECT_EQ(number("PRAGMA user_version"), 5);
  EXPECT_EQ(number("SELECT count(*) FROM queue"), 6);
  EXPECT_EQ(number("SELECT count(*) FROM sqlite_schema WHERE name = 'kv'"), 0);
}

}  // namespace
}  // namespace once::sqlite_test
