// The power fails, at any write or sync. ONCE_POWER_LIFE=SEED repeats one life, ONCE_STRESS=1 (make
// stress) lives more of them.
#include <gmock/gmock.h>

#include <cstdlib>
#include <map>
#include <string>

#include "power/life.h"

namespace once::power {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;

#if defined(__SANITIZE_ADDRESS__)
constexpr int kLives = 2;
#else
constexpr int kLives = 25;  // of 25 cuts each; with eight such tests 5,000 cuts
#endif
constexpr int kParts = 8;

int lives() { return std::getenv("ONCE_STRESS") ? 20 * kLives : kLives; }

class Power : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(, Power, ::testing::Range(0, kParts));

TEST_P(Power, WhatWasToldStandsAfterEachCut) {
  for (int i = 0; i < lives(); ++i) {
    const auto seed = static_cast<std::uint64_t>(1 + GetParam() + i * kParts);
    ASSERT_THAT(live({.seed = seed}).wrong, IsEmpty())
        << "once more: ONCE_POWER_LIFE=" << seed << " power_tests --gtest_filter='*OneLife'";
  }
}

// Cuts come in every kind of operation, also while the log is put into the database and deleted.
TEST(PowerCuts, AreSpreadOverEveryKindOfOperation) {
  std::map<std::string, int> cuts;
  for (std::uint64_t seed = 1; seed <= 16; ++seed)
    for (const auto& [where, count] : live({.seed = seed}).cuts) cuts[where] += count;
  for (const char* const where :
       {"write of zone.db-wal", "sync of zone.db-wal", "write of zone.db", "sync of zone.db"})
    EXPECT_THAT(cuts, Contains(Key(where)));
}

TEST(PowerCuts, AreTheSameWhenALifeIsRepeated) {
  const LifeStory first = live({.seed = 7});
  const LifeStory second = live({.seed = 7});
  EXPECT_EQ(first.cuts, second.cuts);
  EXPECT_EQ(first.receipts, second.receipts);
  EXPECT_EQ(first.completions, second.completions);
}

// --- The test would notice --------------------------------------------------------------------

// What is found wrong in some life on such a machine.
std::string first_wrong(LifeOptions options) {
  for (options.seed = 1; options.seed <= 40; ++options.seed)
    if (const LifeStory story = live(options); !story.wrong.empty()) return story.wrong.front();
  return "nothing";
}

TEST(PowerNotices, ADiskThatIgnoresSyncs) {
  EXPECT_THAT(first_wrong({.ignores_syncs = true}), HasSubstr("cut"));
}

TEST(PowerNotices, CommitsThatAreNotSynced) {
  EXPECT_THAT(first_wrong({.synchronous = "OFF"}), HasSubstr("cut"));
  EXPECT_THAT(first_wrong({.synchronous = "NORMAL"}), HasSubstr("lost"));
}

TEST(PowerNotices, NothingWhenSQLiteIsAskedForWhatTheStoreAsksFor) {
  EXPECT_THAT(live({.seed = 1, .synchronous = "FULL"}).wrong, IsEmpty());
}

TEST(PowerRepeat, OneLife) {
  const char* const seed = std::getenv("ONCE_POWER_LIFE");
  EXPECT_THAT(live({.seed = std::strtoull(seed ? seed : "0", nullptr, 10)}).wrong, IsEmpty());
}

}  // namespace
}  // namespace once::power
