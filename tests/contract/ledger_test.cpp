// The ledger: a swap is atomic by itself, and every write in the zone has a higher revision.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::IsEmpty;

class LedgerContract : public Contract {
 protected:
  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(LedgerContract);

Record full_record(const Entry& entry) {
  Record record = record_of(entry, State::running);
  record.claims = 7;
  record.counted = 5;
  record.in_doubt = true;
  record.nonce = fresh_nonce();
  record.lease = 12'345ms;
  record.delay = 1ms;
  record.attempts = {{.number = 6,
                      .worker = "host:12",
                      .token = {41},
                      .started_at = Time{1'700'000'000'001ms},
                      .ended_at = Time{1'700'000'000'002ms},
                      .ending = core::Ending::timed_out,
                      .error = "took too long\nand longer"},
                     {.number = 7, .worker = "", .started_at = Time{-1ms}, .probing = true}};
  record.steps = {{.name = "pay",
                   .state = core::Step::State::done,
                   .policy = InDoubt::hold,
                   .attempt = 6,
                   .runs = 2,
                   .started_at = Time{1'700'000'000'004ms},
                   .ended_at = Time{1'700'000'000'005ms},
                   .result = Body::json(R"({"paid":12})").value(),
                   .result_cut = true},
                  {.name = std::string("mäil \0 \n", 9), .policy = InDoubt::probe, .attempt = 7},
                  {.name = "again",
                   .state = core::Step::State::again,
                   .runs = 1,
                   .result = Body::bytes(std::string("\0\xff", 2))}};
  for (int act = 0; act <= static_cast<int>(core::OperatorAction::Act::step_completed); ++act)
    record.story.push_back({.act = static_cast<core::OperatorAction::Act>(act),
                            .at = Time{Duration{1'700'000'000'006 + act}},
                            .by = "ann@desk",
                            .why = "because \"she\" said so",
                            .step = act % 2 == 0 ? "pay" : "",
                            .nonce = fresh_nonce()});
  record.actions = 300;
  record.probe = true;
  record.cancel_asked = true;
  record.result = Body::bytes(std::string("\0\xff result", 9));
  record.result_cut = true;
  record.error = "Zoë: \"no\"";
  record.reason = "because";
  record.since = Time{1'700'000'000'003ms};
  return record;
}

TEST_P(LedgerContract, WhereNothingWasWrittenThereIsNothing) {
  const Entry a = publish("a");
  EXPECT_FALSE(get(task_at("work", a)));
  EXPECT_FALSE(get(entry_at("work", a.sequence)));
  EXPECT_FALSE(get(lone_at("work", "slot-1")));
}

TEST_P(LedgerContract, ARecordIsReadBackAsItWasWritten) {
  const Entry a = publish("a");
  const Record record = full_record(a);
  const Stored written = write(task_at("work", a), {}, record);
  EXPECT_EQ(written.record, record);
  EXPECT_TRUE(written.revision);
  EXPECT_EQ(get(task_at("work", a)), written);
}

TEST_P(LedgerContract, TheLongestStoryAndTheMostStepsAreKeptWhole) {
  const Entry a = publish("a");
  Record record = full_record(a);
  while (record.attempts.size() < core::kAttemptsKept)
    record.attempts.push_back(
        {.number = 8, .worker = "w", .error = std::string(core::kErrorKept, 'e')});
  while (record.story.size() < core::kActionsKept) record.story.push_back(record.story.front());
  while (record.steps.size() < core::kMostSteps) {
    record.steps.push_back(record.steps.front());
    record.steps.back().name = "step-" + std::to_string(record.steps.size());
  }
  const Stored written = write(task_at("work", a), {}, record);
  EXPECT_EQ(get(task_at("work", a)), written);
  EXPECT_EQ(written.record, record);
}

TEST_P(LedgerContract, AResultOfOneMebibyteIsKeptWhole) {
  const Entry a = publish("a");
  Record record = record_of(a, State::completed);
  record.result = Body::bytes(std::string(1U << 20U, 'r'));
  write(task_at("work", a), {}, record);
  EXPECT_EQ(get(task_at("work", a))->record, record);
}

TEST_P(LedgerContract, CreatingIsRefusedWhereThereIsSomethingAndSaysWhat) {
  const Entry a = publish("a");
  const Stored first = write(task_at("work", a), {}, record_of(a, State::running));
  const SwapResult second = swap(task_at("work", a), {}, record_of(a, State::completed));
  EXPECT_FALSE(second.written);
  EXPECT_EQ(second.current, first);
  EXPECT_EQ(get(task_at("work", a)), first);
}

TEST_P(LedgerContract, ASwapOnTheCurrentRevisionReplacesTheRecord) {
  const Entry a = publish("a");
  const Stored first = write(task_at("work", a), {}, full_record(a));
  const Stored second = write(task_at("work", a), first.revision, record_of(a, State::completed));
  EXPECT_GT(second.revision, first.revision);
  EXPECT_EQ(second.record, record_of(a, State::completed));
  EXPECT_EQ(get(task_at("work", a)), second);
}

TEST_P(LedgerContract, ASwapOnAnOlderRevisionIsRefusedAndChangesNothing) {
  const Entry a = publish("a");
  const Stored first = write(task_at("work", a), {}, record_of(a, State::running));
  const Stored second = write(task_at("work", a), first.revision, record_of(a, State::completed));
  const SwapResult late = swap(task_at("work", a), first.revision, record_of(a, State::dead));
  EXPECT_FALSE(late.written);
  EXPECT_EQ(late.current, second);
  EXPECT_EQ(get(task_at("work", a)), second);
}

TEST_P(LedgerContract, ASwapOnARevisionThatIsYetToComeIsRefused) {
  const Entry a = publish("a");
  const Stored first = write(task_at("work", a), {}, record_of(a, State::running));
  const Revision future{first.revision.value + 1};
  EXPECT_FALSE(swap(task_at("work", a), future, record_of(a, State::dead)).written);
  EXPECT_EQ(get(task_at("work", a)), first);
}

TEST_P(LedgerContract, ASwapThatExpectsARevisionWhereThereIsNothingIsRefused) {
  const Entry a = publish("a");
  const SwapResult refused = swap(task_at("work", a), {1}, record_of(a, State::running));
  EXPECT_FALSE(refused.written);
  EXPECT_FALSE(refused.current);
  EXPECT_FALSE(get(task_at("work", a)));
}

TEST_P(LedgerContract, ARevisionOfOneRecordIsNoRevisionOfAnother) {
  const Entry a = publish("a");
  const Entry b = publish("b");
  const Stored of_a = write(task_at("work", a), {}, record_of(a, State::running));
  write(task_at("work", b), {}, record_of(b, State::running));
  EXPECT_FALSE(swap(task_at("work", b), of_a.revision, record_of(b, State::dead)).written);
}

TEST_P(LedgerContract, RevisionsGrowOverTheWholeZone) {
  add("other");
  const Entry a = publish("a");
  const Entry b = publish("b");
  Revision last;
  const auto expect_higher = [&](Stored written) {
    EXPECT_GT(written.revision, last);
    last = written.revision;
    return written.revision;
  };
  const Revision first = expect_higher(write(task_at("work", a), {}, record_of(a, State::running)));
  expect_higher(write(task_at("other", a), {}, record_of(a, State::running)));
  expect_higher(write(entry_at("work", b.sequence), {}, record_of(b, State::duplicate)));
  expect_higher(write(lone_at("work", "slot"), {}, Record{}));
  expect_higher(write(task_at("work", a), first, record_of(a, State::completed)));
  const Held held = claim_one(add("third")).value();
  expect_higher(held.stored);
  expect_higher(complete(held));
}

TEST_P(LedgerContract, EveryWriteIsStampedWithTheStoresTime) {
  const Entry a = publish("a");
  const Stored first = write(task_at("work", a), {}, record_of(a, State::running));
  EXPECT_EQ(first.stamp, store().now());
  pass(10s);
  EXPECT_EQ(get(task_at("work", a))->stamp, first.stamp) << "reading does not stamp";
  const Stored second = write(task_at("work", a), first.revision, record_of(a, State::running));
  EXPECT_EQ(second.stamp, first.stamp + 10s);
}

TEST_P(LedgerContract, QueuesDoNotShareRecords) {
  add("other");
  const Entry a = publish("a");
  write(task_at("work", a), {}, record_of(a, State::completed));
  EXPECT_FALSE(get(task_at("other", a)));
  write(task_at("other", a), {}, record_of(a, State::dead));
  EXPECT_EQ(get(task_at("work", a))->record.state, State::completed);
}

TEST_P(LedgerContract, TasksWithOneKeyShareTheRecordOfTheFirst) {
  Queue keyed = queue_of("keyed");
  keyed.key = "{document}";
  add(keyed);
  const Entry first = publish("a", "orders.new", R"({"document":"d1"})");
  const Entry second = publish("b", "orders.new", R"({"document":"d1","again":1})");
  const Stored written = write(task_at("keyed", first, "d1"), {}, record_of(first, State::running));
  EXPECT_EQ(get(task_at("keyed", second, "d1")), written);
  const SwapResult refused =
      swap(task_at("keyed", second, "d1"), {}, record_of(second, State::running));
  EXPECT_FALSE(refused.written);
  EXPECT_EQ(refused.current, written);
  EXPECT_FALSE(get(task_at("keyed", second, "d2")));
}

TEST_P(LedgerContract, KeysAreKeptToTheByte) {
  Queue keyed = queue_of("keyed");
  keyed.key = "{k}";
  add(keyed);
  const std::vector<std::string> keys{"k", "K", "k ", "%6B", "k'\"", "Zoë", std::string(3000, 'k')};
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    entries.push_back(publish("id-" + std::to_string(i)));
    write(task_at("keyed", entries[i], keys[i]), {}, record_of(entries[i], State::running));
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    EXPECT_EQ(get(task_at("keyed", entries[i], keys[i]))->record.sequence, entries[i].sequence);
}

TEST_P(LedgerContract, AnEntrysOwnRecordIsApartFromTheOneUnderItsKey) {
  const Entry a = publish("a");
  const Entry b = publish("b");
  write(entry_at("work", a.sequence), {}, record_of(a, State::duplicate));
  EXPECT_FALSE(get(task_at("work", a)));
  EXPECT_FALSE(get(entry_at("work", b.sequence)));
  EXPECT_EQ(get(entry_at("work", a.sequence))->record.state, State::duplicate);
}

TEST_P(LedgerContract, ALoneRecordIsApartFromATaskOfThatName) {
  const Entry a = publish("slot");
  const Stored lone = write(lone_at("work", "slot"), {}, Record{.state = State::running});
  EXPECT_FALSE(get(task_at("work", a)));
  write(task_at("work", a), {}, record_of(a, State::completed));
  EXPECT_EQ(get(lone_at("work", "slot")), lone);
  EXPECT_FALSE(get(lone_at("work", "other")));
}

TEST_P(LedgerContract, LoneRecordsAreNoTasks) {
  publish("a");
  const Stored lone = write(lone_at("work", "slot"), {}, Record{.state = State::running});
  write(lone_at("work", "slot"), lone.revision, Record{.state = State::dead});
  EXPECT_EQ(count("work", State::running), 0U);
  EXPECT_EQ(count("work", State::dead), 0U);
  EXPECT_EQ(count("work", State::waiting), 1U);
  EXPECT_EQ(rows({.queue = "work"}).size(), 1U);
  EXPECT_THAT(handed_over("work"), ::testing::ElementsAre("a"));
}

TEST_P(LedgerContract, ABadItemDoesNotFailItsBatch) {
  const Entry a = publish("a");
  const Entry b = publish("b");
  const Entry c = publish("c");
  write(task_at("work", b), {}, record_of(b, State::running));
  const std::vector<Swap> batch{
      {.at = task_at("work", a), .record = record_of(a, State::running)},
      {.at = task_at("no-such-queue", a), .record = record_of(a, State::running)},
      {.at = task_at("work", b), .record = record_of(b, State::completed)},
      {.at = task_at("work", c), .record = record_of(c, State::completed)}};
  const auto answers = store().swap(batch);
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_TRUE(answers[0]->written);
  ASSERT_FALSE(answers[1]);
  EXPECT_EQ(answers[1].error().code, Code::not_found);
  EXPECT_FALSE(answers[1].error().in_doubt);
  EXPECT_FALSE(answers[2]->written);
  EXPECT_TRUE(answers[3]->written);

  const std::vector<Address> addresses{task_at("work", c), task_at("work", a),
                                       entry_at("work", a.sequence), task_at("work", b)};
  const auto records = store().get(addresses);
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ((*records[0])->record.state, State::completed);
  EXPECT_EQ((*records[1])->record.state, State::running);
  EXPECT_FALSE(*records[2]);
  EXPECT_EQ((*records[3])->record.state, State::running);
}

TEST_P(LedgerContract, OfTwoSwapsOnOneRevisionInABatchOneWins) {
  const Entry a = publish("a");
  const std::vector<Swap> batch{{.at = task_at("work", a), .record = record_of(a, State::running)},
                                {.at = task_at("work", a), .record = record_of(a, State::dead)}};
  const auto answers = store().swap(batch);
  ASSERT_EQ(answers.size(), 2U);
  ASSERT_NE(answers[0]->written, answers[1]->written);
  EXPECT_EQ(answers[0]->current, answers[1]->current);
  EXPECT_EQ(get(task_at("work", a)), answers[0]->current);
}

TEST_P(LedgerContract, ALargeBatchIsAnsweredInOrder) {
  const auto entries = publish_many(1500);
  std::vector<Swap> batch;
  for (const Entry& entry : entries)
    batch.push_back({.at = task_at("work", entry), .record = record_of(entry, State::completed)});
  const auto answers = store().swap(batch);
  ASSERT_EQ(answers.size(), batch.size());
  std::set<Revision> revisions;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    ASSERT_TRUE(answers[i]->written);
    EXPECT_EQ(answers[i]->current->record.sequence, entries[i].sequence);
    revisions.insert(answers[i]->current->revision);
  }
  EXPECT_EQ(revisions.size(), batch.size());
  EXPECT_EQ(count("work", State::completed), batch.size());
}

TEST_P(LedgerContract, EmptyBatchesAreAnsweredWithNothing) {
  EXPECT_THAT(store().swap({}), IsEmpty());
  EXPECT_THAT(store().get({}), IsEmpty());
}

// --- One entry stands in one place ----------------------------------------------------------

class OnePlaceContract : public Contract {
 protected:
  OnePlaceContract() {
    Queue keyed = queue_of("keyed");
    keyed.key = "{doc}";
    add(keyed);
    entry_ = publish("a", "orders.new", R"({"doc":1})");
  }
  // A first record there is refused because the entry has one elsewhere.
  void refused(const Address& at, State state) {
    const Swap item{.at = at, .record = record_of(entry_, state)};
    const auto answer = std::move(store().swap(std::span(&item, 1)).at(0));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::wrong_state);
  }
  Entry entry_;
};
ONCE_FOR_EVERY_STORE(OnePlaceContract);

TEST_P(OnePlaceContract, AnEntryThatIsClaimedUnderItsKeyGetsNoRecordOfItsOwn) {
  write(task_at("keyed", entry_, "1"), {}, record_of(entry_, State::running));
  refused(entry_at("keyed", entry_.sequence), State::cancelled);
  EXPECT_EQ(count("keyed", State::running), 1U);
}

TEST_P(OnePlaceContract, AnEntryThatIsSettledByItselfIsNotClaimedUnderItsKey) {
  write(entry_at("keyed", entry_.sequence), {}, record_of(entry_, State::cancelled));
  refused(task_at("keyed", entry_, "1"), State::running);
  EXPECT_EQ(count("keyed", State::cancelled), 1U);
}

}  // namespace
}  // namespace once::contract
