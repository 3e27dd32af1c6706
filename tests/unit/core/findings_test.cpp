// The table of the doctor's findings.
#include "core/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace once::core {
namespace {

TEST(Findings, HaveOneRowEachWithAConditionAHarmAndAFix) {
  std::set<std::string_view> keys;
  for (const FindingRow& row : finding_rows()) {
    EXPECT_TRUE(keys.insert(row.key).second) << row.key;
    EXPECT_FALSE(row.what.empty() || row.harm.empty() || row.fix.empty()) << row.key;
  }
}

TEST(Findings, AreWordedWithTheirFacts) {
  const Finding found = finding("paused", Severity::note, "queue mail",
                                {{"queue", "mail"}, {"tasks", "2 tasks"}, {"oldest", "3 min"}});
  EXPECT_EQ(found.code, "paused");
  EXPECT_EQ(found.severity, Severity::note);
  EXPECT_EQ(found.about, "queue mail");
  EXPECT_EQ(found.what, "it is paused, and 2 tasks waiting, the oldest for 3 min");
  EXPECT_EQ(found.harm, "nothing is lost, but no task runs");
  EXPECT_EQ(found.fix, "resume the queue");
  EXPECT_EQ(found.facts["queue"], "mail");
  EXPECT_EQ(found.facts["case"], "");
}

TEST(Findings, OfOneCodeMayDifferByCase) {
  const Facts facts{{"size", "99 MB"}, {"readers", "sqlite3 (7)"}};
  const Finding held = finding("wal_large", Severity::warning, "a-wal", facts);
  const Finding free = finding("wal_large/free", Severity::note, "a-wal", facts);
  EXPECT_EQ(held.code, free.code);
  EXPECT_NE(held.what, free.what);
  EXPECT_EQ(free.facts["case"], "free");
  EXPECT_EQ(free.facts["size"], "99 MB");
}

}  // namespace
}  // namespace once::core
