// The log: an id has at most one entry, and the answer always says which.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogContract : public Contract {};
ONCE_FOR_EVERY_STORE(LogContract);

TEST_P(LogContract, AnAcceptedTaskIsReadBackAsItWasGiven) {
  Append given = task("order-7", "orders.new", R"({"amount": 12, "to": "Zoë"})");
  given.headers = {{"Trace", "a=b; c"}, {"empty", ""}};
  const AppendResult appended = append(given);
  EXPECT_EQ(appended.verdict, AppendVerdict::accepted);
  EXPECT_GT(appended.sequence.value, 0U);
  EXPECT_EQ(appended.digest, given.digest);

  const Entry kept = entry("order-7");
  EXPECT_EQ(kept.sequence, appended.sequence);
  EXPECT_EQ(kept.id, given.id);
  EXPECT_EQ(kept.topic, given.topic);
  EXPECT_EQ(kept.body, given.body);
  EXPECT_EQ(kept.headers, given.headers);
  EXPECT_EQ(kept.digest, given.digest);
  EXPECT_EQ(kept.published_at, store().wall());
  EXPECT_EQ(kept.duplicates, 0U);
}

TEST_P(LogContract, BytesStayBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& bytes : {all, std::string(), std::string("null")}) {
    Append given = task("raw-" + std::to_string(bytes.size()));
    given.body = Body::bytes(bytes);
    append(given);
    EXPECT_EQ(entry(given.id).body, given.body);
  }
}

TEST_P(LogContract, ABodyOfOneMebibyteIsKeptWhole) {
  const std::string json = '"' + std::string((1U << 20U) - 2, 'x') + '"';
  publish("large", "orders.new", json);
  EXPECT_EQ(entry("large").body->text(), json);
}

TEST_P(LogContract, IdsAreKeptToTheByte) {
  const std::vector<std::string> awkward{"a",
                                         "A",
                                         "a ",
                                         " a",
                                         "a'b\"c;--",
                                         "%41",
                                         "a/b\\c",
                                         "Zoë",
                                         "Zoe",
                                         "*",
                                         "a.b.>",
                                         "0",
                                         "00",
                                         "null",
                                         std::string(1024, 'i'),
                                         std::string(1023, 'i')};
  for (const std::string& id : awkward)
    EXPECT_EQ(append(task(id)).verdict, AppendVerdict::accepted) << id;
  for (const std::string& id : awkward) EXPECT_EQ(entry(id).id, id);
  EXPECT_EQ(ids_in_log(), awkward);
}

TEST_P(LogContract, SequencesGrowInTheOrderOfTheBatch) {
  const auto first = publish_many(10, "a");
  const auto second = publish_many(10, "b");
  Sequence last;
  for (const auto* batch : {&first, &second})
    for (const Entry& each : *batch) {
      EXPECT_GT(each.sequence, last);
      last = each.sequence;
    }
}

TEST_P(LogContract, TheSameIdWithTheSameContentIsADuplicateOfTheOriginal) {
  const Entry original = publish("order-7");
  pass(24h * 400);
  const AppendResult again = append(task("order-7"));
  EXPECT_EQ(again.verdict, AppendVerdict::duplicate);
  EXPECT_EQ(again.sequence, original.sequence);
  EXPECT_EQ(again.digest, original.digest);
  EXPECT_THAT(ids_in_log(), ElementsAre("order-7"));
}

TEST_P(LogContract, TheSameIdWithOtherContentIsAConflictAndAddsNothing) {
  const Entry original = publish("order-7", "orders.new", R"({"amount":12})");
  const AppendResult refused = append(task("order-7", "orders.new", R"({"amount":13})"));
  EXPECT_EQ(refused.verdict, AppendVerdict::conflict);
  EXPECT_EQ(refused.sequence, original.sequence);
  EXPECT_EQ(refused.digest, original.digest);
  EXPECT_EQ(entry("order-7").body->text(), R"({"amount":12})");
  EXPECT_THAT(ids_in_log(), ElementsAre("order-7"));
}

TEST_P(LogContract, AnIdIsOneTaskWhateverItsTopic) {
  const Entry original = publish("order-7", "orders.new");
  const AppendResult refused = append(task("order-7", "refunds.new"));
  EXPECT_EQ(refused.verdict, AppendVerdict::conflict);
  EXPECT_EQ(refused.sequence, original.sequence);
  EXPECT_THAT(ids_in_log("refunds.>"), IsEmpty());
}

TEST_P(LogContract, AnAppendThatIsRepeatedWithItsNonceFindsItsOwnEntry) {
  const Append given = task("order-7");
  const AppendResult first = append(given);
  const AppendResult repeated = append(given);
  EXPECT_EQ(repeated.verdict, AppendVerdict::accepted);
  EXPECT_EQ(repeated.sequence, first.sequence);
  EXPECT_EQ(entry("order-7").duplicates, 0U);
  EXPECT_THAT(ids_in_log(), ElementsAre("order-7"));

  EXPECT_EQ(append(task("order-7")).verdict, AppendVerdict::duplicate);
  EXPECT_EQ(append(given).verdict, AppendVerdict::accepted) << "also after somebody else's repeat";
}

TEST_P(LogContract, DuplicatesAreCountedAndConflictsAreNot) {
  publish("order-7");
  publish("order-8");
  for (int i = 0; i < 3; ++i) append(task("order-7"));
  append(task("order-7", "orders.new", R"({"other":true})"));
  EXPECT_EQ(entry("order-7").duplicates, 3U);
  EXPECT_EQ(entry("order-8").duplicates, 0U);
  const auto read = store().read({}, 1, {}).value();
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read.front().duplicates, 3U);
}

TEST_P(LogContract, WithinABatchARepeatedIdIsADuplicateOrConflictOfTheFirst) {
  const std::vector<Append> batch{task("a"), task("a"), task("b"),
                                  task("a", "orders.new", R"({"other":true})"), task("a")};
  const auto answers = store().append(batch);
  ASSERT_EQ(answers.size(), batch.size());
  EXPECT_EQ(answers[0]->verdict, AppendVerdict::accepted);
  EXPECT_EQ(answers[1]->verdict, AppendVerdict::duplicate);
  EXPECT_EQ(answers[2]->verdict, AppendVerdict::accepted);
  EXPECT_EQ(answers[3]->verdict, AppendVerdict::conflict);
  EXPECT_EQ(answers[4]->verdict, AppendVerdict::duplicate);
  for (const std::size_t i : {1U, 3U, 4U}) {
    EXPECT_EQ(answers[i]->sequence, answers[0]->sequence);
    EXPECT_EQ(answers[i]->digest, batch[0].digest);
  }
  EXPECT_EQ(entry("a").duplicates, 2U);
  EXPECT_THAT(ids_in_log(), ElementsAre("a", "b"));
}

TEST_P(LogContract, WithinABatchARepeatedNonceIsTheSameAppend) {
  const Append given = task("a");
  const std::vector<Append> batch{given, given};
  const auto answers = store().append(batch);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0]->verdict, AppendVerdict::accepted);
  EXPECT_EQ(answers[1]->verdict, AppendVerdict::accepted);
  EXPECT_EQ(answers[0]->sequence, answers[1]->sequence);
  EXPECT_THAT(ids_in_log(), ElementsAre("a"));
}

TEST_P(LogContract, AConflictDoesNotFailItsBatch) {
  publish("b");
  const std::vector<Append> batch{task("a"), task("b", "orders.new", "[]"), task("c")};
  const auto answers = store().append(batch);
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0]->verdict, AppendVerdict::accepted);
  EXPECT_EQ(answers[1]->verdict, AppendVerdict::conflict);
  EXPECT_EQ(answers[2]->verdict, AppendVerdict::accepted);
  EXPECT_THAT(ids_in_log(), ElementsAre("b", "a", "c"));
}

TEST_P(LogContract, ABatchOfThousandsIsAnsweredInOrder) {
  std::vector<Append> batch;
  for (int i = 0; i < 3000; ++i) batch.push_back(task("id-" + std::to_string(i % 2850)));
  const auto answers = store().append(batch);
  ASSERT_EQ(answers.size(), batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const bool repeated = i >= 2850;
    EXPECT_EQ(answers[i]->verdict, repeated ? AppendVerdict::duplicate : AppendVerdict::accepted);
    EXPECT_EQ(answers[i]->sequence, answers[i % 2850]->sequence);
  }
  EXPECT_EQ(ids_in_log().size(), 2850U);
}

TEST_P(LogContract, AnEmptyBatchIsAnsweredWithNothing) {
  EXPECT_THAT(store().append({}), IsEmpty());
  EXPECT_THAT(ids_in_log(), IsEmpty());
}

TEST_P(LogContract, ReadingGoesOnAfterASequenceAndEndsWithAnEmptyAnswer) {
  const auto published = publish_many(7);
  std::vector<std::string> read;
  Sequence after;
  while (true) {
    const auto page = store().read(after, 3, {}).value();
    ASSERT_LE(page.size(), 3U);
    if (page.empty()) break;
    for (const Entry& each : page) {
      EXPECT_GT(each.sequence, after);
      after = each.sequence;
      read.push_back(each.id);
    }
  }
  std::vector<std::string> expected;
  for (const Entry& each : published) expected.push_back(each.id);
  EXPECT_EQ(read, expected);
  EXPECT_EQ(after, published.back().sequence);
}

TEST_P(LogContract, ReadingByFilterFindsTheMatchingTopicsOnly) {
  publish("1", "orders.new");
  publish("2", "orders.new.eu");
  publish("3", "refunds.new");
  publish("4", "orders");
  publish("5", "orders.paid");
  publish("6", "ordersX.new");
  EXPECT_THAT(ids_in_log(), ElementsAre("1", "2", "3", "4", "5", "6"));
  EXPECT_THAT(ids_in_log("orders.new"), ElementsAre("1"));
  EXPECT_THAT(ids_in_log("orders.*"), ElementsAre("1", "5"));
  EXPECT_THAT(ids_in_log("orders.>"), ElementsAre("1", "2", "5"));
  EXPECT_THAT(ids_in_log("*.new"), ElementsAre("1", "3", "6"));
  EXPECT_THAT(ids_in_log(">"), ElementsAre("1", "2", "3", "4", "5", "6"));
  EXPECT_THAT(ids_in_log("nothing.here"), IsEmpty());
}

TEST_P(LogContract, ReadingByFilterReachesAMatchBehindManyOthers) {
  publish_many(500);
  publish("needle", "rare.topic");
  publish_many(500, "more");
  EXPECT_THAT(ids_in_log("rare.*"), ElementsAre("needle"));
}

TEST_P(LogContract, AnUnknownIdIsNotFound) {
  publish("order-7");
  EXPECT_FALSE(store().find("order-8").value());
  EXPECT_FALSE(store().find("ORDER-7").value());
  EXPECT_FALSE(store().find("order-").value());
}

TEST_P(LogContract, AnEntryIsFoundByItsSequence) {
  add("work");
  const Entry first = publish("first", "orders.new", R"({"n":1})");
  const Entry second = publish("second");
  const auto found = store().entry("work", first.sequence).value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, "first");
  EXPECT_EQ(found->body, first.body);
  EXPECT_FALSE(store().entry("work", Sequence{second.sequence.value + 100}).value());
}

}  // namespace
}  // namespace once::contract
