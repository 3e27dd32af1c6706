// Values under keys: each write names the revision that it replaces, and a value that expired is absent.
#include <gmock/gmock.h>

#include <atomic>

#include "contract/contract.h"

namespace once::contract {
namespace {

using store::Key;
using store::KeyList;
using store::KeyPage;
using store::KeyValue;
using store::KeyWrite;
using store::KeyWriteResult;
using store::Value;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class KeyValueContract : public Contract {
 protected:
  KeyValue& values() { return store().key_values(); }

  KeyWriteResult put(const Key& key, std::string bytes, Revision expected = {},
                     std::optional<Duration> lives = {}) {
    const KeyWrite item{
        .key = key, .expected = expected, .bytes = std::move(bytes), .lives = lives};
    return std::move(values().write(std::span(&item, 1)).front()).value();
  }
  std::optional<Value> get(const Key& key) {
    return std::move(values().get(std::span(&key, 1)).front()).value();
  }
  std::string text(const Key& key) {
    const auto value = get(key);
    return value ? value->bytes : "(none)";
  }
  // Every page, "token/token=bytes" each.
  std::vector<std::string> list(const Key& prefix, std::size_t limit = 1000, bool lasting = false) {
    std::vector<std::string> found;
    KeyList query{.prefix = prefix, .lasting = lasting, .limit = limit};
    do {
      KeyPage page = values().list(query).value();
      EXPECT_LE(page.values.size(), limit);
      for (const auto& [key, value] : page.values) {
        std::string line;
        for (const std::string& token : key) line += (line.empty() ? "" : "/") + token;
        found.push_back(line + "=" + value.bytes);
      }
      query.after = page.next;
    } while (!query.after.empty());
    return found;
  }
};
ONCE_FOR_EVERY_STORE(KeyValueContract);

TEST_P(KeyValueContract, AKeyWithoutAValueIsAbsent) {
  EXPECT_FALSE(get({"run", "a"}));
  EXPECT_THAT(list({"run"}), IsEmpty());
  EXPECT_FALSE(values().remove({"run", "a"}, {1}).value());
}

TEST_P(KeyValueContract, AValueIsReadBackAsItWasWritten) {
  const StoreTime before = store().now();
  const std::string bytes("\0\xff\n\"value\"", 11);
  const KeyWriteResult written = put({"run", "a"}, bytes);
  ASSERT_TRUE(written.written);
  EXPECT_TRUE(written.revision);
  const Value value = get({"run", "a"}).value();
  EXPECT_EQ(value.bytes, bytes);
  EXPECT_EQ(value.revision, written.revision);
  EXPECT_GE(value.stamp, before);
  EXPECT_FALSE(value.lives);
  put({"run", "empty"}, "");
  EXPECT_EQ(text({"run", "empty"}), "");
}

TEST_P(KeyValueContract, KeysAreToldApartByTheirTokens) {
  const std::vector<Key> keys{{"a", "b.c"},
                              {"a.b", "c"},
                              {"a", "b", "c"},
                              {"a", "B.c"},
                              {"a", "b c>*"},
                              {"a", "b\xc3\xbc"},
                              {"a", std::string(1'000, 'x')},
                              {"a", std::string(1'000, 'x') + "y"}};
  for (std::size_t i = 0; i < keys.size(); ++i)
    ASSERT_TRUE(put(keys[i], std::to_string(i)).written) << i;
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(text(keys[i]), std::to_string(i));
  std::vector<Key> listed;
  const KeyPage page = values().list({.prefix = {"a"}}).value();
  for (const auto& [key, value] : page.values) listed.push_back(key);
  EXPECT_EQ(listed.size(), keys.size() - 1);
  for (const Key& key : keys)
    if (key.front() == "a") {
      EXPECT_THAT(listed, ::testing::Contains(key));
    }
}

TEST_P(KeyValueContract, AWriteNeedsTheRevisionThatTheKeyHas) {
  const KeyWriteResult first = put({"k"}, "1");
  const KeyWriteResult refused = put({"k"}, "other");
  EXPECT_FALSE(refused.written);
  EXPECT_EQ(refused.current->bytes, "1");
  EXPECT_EQ(refused.current->revision, first.revision);
  const KeyWriteResult second = put({"k"}, "2", first.revision);
  ASSERT_TRUE(second.written);
  EXPECT_GT(second.revision, first.revision);
  const KeyWriteResult late = put({"k"}, "late", first.revision);
  EXPECT_FALSE(late.written);
  EXPECT_EQ(late.current->bytes, "2");
  const KeyWriteResult nothing = put({"absent"}, "x", first.revision);
  EXPECT_FALSE(nothing.written);
  EXPECT_FALSE(nothing.current);
  EXPECT_EQ(text({"k"}), "2");
  EXPECT_FALSE(get({"absent"}));
}

TEST_P(KeyValueContract, OfManyWhoCreateOneSucceeds) {
  std::atomic<int> created = 0;
  at_once(8, [&](int i) {
    created += put({"key", "order-17"}, std::to_string(i)).written ? 1 : 0;
  });
  EXPECT_EQ(created, 1);
}

TEST_P(KeyValueContract, OfManyWhoSwapTheSameRevisionOneSucceeds) {
  const Revision first = put({"k"}, "0").revision;
  std::atomic<int> swapped = 0;
  at_once(8, [&](int i) { swapped += put({"k"}, std::to_string(i), first).written ? 1 : 0; });
  EXPECT_EQ(swapped, 1);
}

TEST_P(KeyValueContract, ABatchAnswersEachItem) {
  const Revision known = put({"b"}, "old").revision;
  std::vector<KeyWrite> items{{.key = {"a"}, .bytes = "1"},
                              {.key = {"b"}, .bytes = "2"},
                              {.key = {"b2"}, .bytes = "3", .lives = 1h},
                              {.key = {"c"}, .expected = known, .bytes = "4"}};
  const auto answers = values().write(items);
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_TRUE(answers[0]->written);
  EXPECT_FALSE(answers[1]->written);
  EXPECT_EQ(answers[1]->current->bytes, "old");
  EXPECT_TRUE(answers[2]->written);
  EXPECT_FALSE(answers[3]->written);
  const std::vector<Key> keys{{"a"}, {"b"}, {"b2"}, {"c"}};
  std::vector<std::string> found;
  for (const auto& value : values().get(keys)) found.push_back(*value ? (*value)->bytes : "-");
  EXPECT_THAT(found, ElementsAre("1", "old", "3", "-"));
  for (std::size_t i : {0U, 2U})
    EXPECT_EQ(std::move(values().get(std::span(&keys[i], 1)).front()).value()->revision,
              answers[i]->revision);
}

TEST_P(KeyValueContract, RemovesExactlyTheRevision) {
  const Revision first = put({"k"}, "1").revision;
  const Revision second = put({"k"}, "2", first).revision;
  EXPECT_FALSE(values().remove({"k"}, first).value());
  EXPECT_EQ(text({"k"}), "2");
  EXPECT_TRUE(values().remove({"k"}, second).value());
  EXPECT_FALSE(values().remove({"k"}, second).value());
  EXPECT_FALSE(get({"k"}));
  const KeyWriteResult again = put({"k"}, "3");
  ASSERT_TRUE(again.written);
  EXPECT_GT(again.revision, second);
  EXPECT_FALSE(values().remove({"k"}, second).value());
  EXPECT_EQ(text({"k"}), "3");
}

TEST_P(KeyValueContract, AnExpiredValueIsAbsent) {
  const KeyWriteResult first = put({"key", "a"}, "1", {}, 1h);
  EXPECT_EQ(get({"key", "a"})->lives, 1h);
  pass(59min);
  EXPECT_EQ(text({"key", "a"}), "1");
  EXPECT_FALSE(put({"key", "a"}, "2").written);
  EXPECT_THAT(list({"key"}), ElementsAre("key/a=1"));
  pass(1min);
  EXPECT_FALSE(get({"key", "a"}));
  EXPECT_THAT(list({"key"}), IsEmpty());
  const KeyWriteResult second = put({"key", "a"}, "2");
  ASSERT_TRUE(second.written);
  EXPECT_GT(second.revision, first.revision);
  EXPECT_EQ(text({"key", "a"}), "2");
  EXPECT_FALSE(get({"key", "a"})->lives);
  pass(24h * 365);
  EXPECT_EQ(text({"key", "a"}), "2");
}

TEST_P(KeyValueContract, AValueThatLivesNoTimeIsAbsentAtOnce) {
  EXPECT_TRUE(put({"k"}, "1", {}, 0s).written);
  EXPECT_FALSE(get({"k"}));
  EXPECT_TRUE(put({"k"}, "2").written);
}

TEST_P(KeyValueContract, AWriteMovesTheTimeOfExpiry) {
  const Revision first = put({"k"}, "1", {}, 1h).revision;
  pass(30min);
  const Revision second = put({"k"}, "1", first, 1h).revision;
  pass(45min);
  EXPECT_EQ(text({"k"}), "1");
  ASSERT_TRUE(put({"k"}, "1", second).written);
  pass(24h);
  EXPECT_EQ(text({"k"}), "1") << "it does not expire any more";
}

TEST_P(KeyValueContract, OfManyWhoCreateOverAnExpiredValueOneSucceeds) {
  put({"k"}, "old", {}, 1h);
  pass(2h);
  std::atomic<int> created = 0;
  at_once(8, [&](int i) { created += put({"k"}, std::to_string(i)).written ? 1 : 0; });
  EXPECT_EQ(created, 1);
  EXPECT_NE(text({"k"}), "old");
}

TEST_P(KeyValueContract, RetentionRemovesWhatExpiredAndNothingElse) {
  put({"a", "lasts"}, "1");
  put({"a", "young"}, "2", {}, 3h);
  put({"a", "old"}, "3", {}, 1h);
  const Revision replaced = put({"a", "replaced"}, "4", {}, 1h).revision;
  pass(2h);
  ASSERT_TRUE(put({"a", "replaced"}, "5").written);
  EXPECT_EQ(retire().records, 1U);
  EXPECT_EQ(retire().records, 0U);
  EXPECT_THAT(list({"a"}), UnorderedElementsAre("a/lasts=1", "a/young=2", "a/replaced=5"));
  EXPECT_FALSE(values().remove({"a", "replaced"}, replaced).value());
}

TEST_P(KeyValueContract, ListsByTheFirstTokens) {
  for (const Key& key : std::vector<Key>{{"flow", "pay", "1"},
                                         {"flow", "pay", "2"},
                                         {"flow", "payment", "1"},
                                         {"flow", "pa", "1"},
                                         {"flows", "x"},
                                         {"run", "pay"}})
    ASSERT_TRUE(put(key, "v").written);
  for (const std::size_t limit : {1U, 2U, 100U}) {
    EXPECT_THAT(list({"flow", "pay"}, limit), UnorderedElementsAre("flow/pay/1=v", "flow/pay/2=v"));
    EXPECT_THAT(list({"flow"}, limit), UnorderedElementsAre("flow/pay/1=v", "flow/pay/2=v",
                                                            "flow/payment/1=v", "flow/pa/1=v"));
  }
  EXPECT_THAT(list({"run"}), ElementsAre("run/pay=v"));
  EXPECT_THAT(list({"none"}), IsEmpty());
}

TEST_P(KeyValueContract, ListsOnlyWhatLastsWhenAsked) {
  put({"run", "ended"}, "1", {}, 1h);
  const Revision active = put({"run", "active"}, "2").revision;
  put({"run", "failed"}, "3");
  EXPECT_THAT(list({"run"}, 1, true), UnorderedElementsAre("run/active=2", "run/failed=3"));
  put({"run", "active"}, "4", active, 1h);
  EXPECT_THAT(list({"run"}, 1, true), ElementsAre("run/failed=3"));
}

TEST_P(KeyValueContract, AListingMeetsWhatIsThereAllTheTimeWhileOthersWrite) {
  constexpr int kKeys = 200;
  for (int i = 0; i < kKeys; ++i) put({"run", "still-" + std::to_string(i)}, "v");
  Revision revision = put({"run", "moving"}, "0").revision;
  std::set<std::string> met;
  KeyList query{.prefix = {"run"}, .limit = 7};
  int writes = 0;
  do {
    const KeyPage page = values().list(query).value();
    for (const auto& [key, value] : page.values) met.insert(key[1]);
    query.after = page.next;
    revision = put({"run", "moving"}, std::to_string(++writes), revision).revision;
    put({"other", std::to_string(writes)}, "v");
  } while (!query.after.empty() && writes < kKeys);
  EXPECT_TRUE(query.after.empty()) << "a listing that others write into ends";
  EXPECT_EQ(met.size(), kKeys + 1U);
}

TEST_P(KeyValueContract, LargeValuesAreKeptWhole) {
  std::string large(3 << 20, 'x');
  large += "end";
  const KeyWriteResult first = put({"value", "a"}, large);
  ASSERT_TRUE(first.written);
  EXPECT_EQ(get({"value", "a"})->bytes, large);
  const KeyWriteResult second = put({"value", "a"}, large, first.revision, 1h);
  ASSERT_TRUE(second.written);
  EXPECT_EQ(get({"value", "a"})->bytes, large);
  EXPECT_FALSE(put({"value", "a"}, large + "2", first.revision).written);
  EXPECT_EQ(values().list({.prefix = {"value"}})->values.front().second.bytes, large);
  const KeyWriteResult third = put({"value", "a"}, "small", second.revision, 1h);
  ASSERT_TRUE(third.written);
  EXPECT_EQ(text({"value", "a"}), "small");
  pass(1h);
  EXPECT_EQ(retire().records, 1U);
  ASSERT_TRUE(put({"value", "a"}, large).written) << "and anew";
  EXPECT_EQ(get({"value", "a"})->bytes, large);
}

TEST_P(KeyValueContract, WhatWasWrittenIsThereWhenTheZoneIsOpenedAgain) {
  if (!GetParam().persists) GTEST_SKIP() << "it is gone with its process";
  const Revision revision = put({"run", "a"}, "1", {}, 1h).revision;
  reopen();
  EXPECT_EQ(get({"run", "a"})->revision, revision);
  EXPECT_EQ(get({"run", "a"})->lives, 1h);
  const KeyWriteResult next = put({"run", "a"}, "2", revision);
  ASSERT_TRUE(next.written);
  EXPECT_GT(next.revision, revision);
  EXPECT_THAT(damages(), IsEmpty());
}

TEST_P(KeyValueContract, TheSameBytesAgainAreANewRevision) {
  const Revision first = put({"k"}, "1").revision;
  const KeyWriteResult again = put({"k"}, "1", first);
  ASSERT_TRUE(again.written);
  EXPECT_GT(again.revision, first);
}

}  // namespace
}  // namespace once::contract
