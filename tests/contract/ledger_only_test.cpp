// Ledger-only queues: records by key without a task in the log, which nobody is handed.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LedgerOnlyContract : public Contract {
 protected:
  Address at(const std::string& key) { return ledger_only_at("ledger", key); }
  Record record(State state, Duration lease = 30s) {
    return {.state = state, .lease = lease, .since = store().wall()};
  }
  Stored put(const std::string& key, State state) { return write(at(key), {}, record(state)); }
  // Claimed by the rules.
  Stored claim(const std::string& key, Member member = {}) {
    const auto known = get(at(key));
    const core::Claim command{.worker = "loop", .member = member, .nonce = fresh_nonce()};
    auto decision = core::decide(known ? &*known : nullptr, command, core::policy_of(queue_),
                                 {.store = store().now(), .wall = store().wall()});
    return write(at(key), known ? known->revision : Revision{}, decision.next.value());
  }
  std::vector<std::string> keys(const RowFilter& filter, std::size_t page = 100) {
    std::vector<std::string> found;
    for (const Row& row : rows(filter, page)) found.push_back(row.queue + "/" + row.key);
    return found;
  }

  Queue queue_ = add(ledger_of("ledger"));
};
ONCE_FOR_EVERY_STORE(LedgerOnlyContract);

// --- Records ------------------------------------------------------------------------------------

TEST_P(LedgerOnlyContract, ARecordIsKeptByItsKeyWithoutATask) {
  EXPECT_FALSE(get(at("order-1")));
  const Stored first = put("order-1", State::running);
  EXPECT_EQ(get(at("order-1")), first);
  EXPECT_FALSE(get(at("order-2")));
  const Stored second = write(at("order-1"), first.revision, record(State::completed));
  EXPECT_GT(second.revision, first.revision);
  EXPECT_EQ(get(at("order-1")), second);
}

TEST_P(LedgerOnlyContract, ASwapOnAnOlderRevisionIsRefusedAndSaysWhatIsThere) {
  const Stored first = put("a", State::running);
  const Stored second = write(at("a"), first.revision, record(State::completed));
  for (const Revision expected : {Revision{}, first.revision}) {
    const SwapResult refused = swap(at("a"), expected, record(State::dead));
    EXPECT_FALSE(refused.written);
    EXPECT_EQ(refused.current, second);
  }
  EXPECT_FALSE(swap(at("b"), second.revision, record(State::dead)).written);
  EXPECT_FALSE(get(at("b")));
}

TEST_P(LedgerOnlyContract, KeysAreKeptToTheByte) {
  const std::vector<std::string> names{"A", "a", "a ", "a/b", "Ä", "ä", std::string("a\0b", 3)};
  std::map<std::string, Stored> written;
  for (const std::string& name : names) written[name] = put(name, State::completed);
  for (const std::string& name : names) EXPECT_EQ(get(at(name)), written[name]) << name;
}

TEST_P(LedgerOnlyContract, ItsRecordsAreApartFromOthersOfThatName) {
  add(ledger_of("other"));
  const Stored mine = put("a", State::running);
  const Stored theirs = write(ledger_only_at("other", "a"), {}, record(State::dead));
  const Stored slot = write(lone_at("ledger", "a"), {}, record(State::retrying));
  EXPECT_EQ(get(at("a")), mine);
  EXPECT_EQ(get(ledger_only_at("other", "a")), theirs);
  EXPECT_EQ(get(lone_at("ledger", "a")), slot);
  EXPECT_EQ(count("ledger", State::running), 1U);
  EXPECT_EQ(count("ledger", State::retrying), 0U) << "a slot is no task";
  EXPECT_THAT(keys({.queue = "ledger"}), ElementsAre("ledger/a"));
}

TEST_P(LedgerOnlyContract, ATaskOfThatIdInTheLogIsAnotherThing) {
  publish("a");
  const Stored mine = put("a", State::running);
  EXPECT_EQ(get(at("a")), mine);
  EXPECT_THAT(rows({.queue = "ledger"}), SizeIs(1));
}

TEST_P(LedgerOnlyContract, InAnotherQueueARecordWithoutATaskIsRefused) {
  add("work");
  Queue keyed = queue_of("keyed");
  keyed.key = "{order}";
  add(keyed);
  for (const char* queue : {"work", "keyed"}) {
    const Swap item{.at = ledger_only_at(queue, "no-such-task"), .record = record(State::running)};
    const auto answer = std::move(store().swap(std::span(&item, 1)).at(0));
    ASSERT_FALSE(answer) << queue;
    EXPECT_EQ(answer.error().code, Code::not_found);
    EXPECT_FALSE(get(item.at));
    EXPECT_EQ(count(queue, State::running), 0U);
  }
}

TEST_P(LedgerOnlyContract, ABatchIsAnsweredItemByItem) {
  std::vector<Swap> items;
  for (int i = 0; i < 500; ++i)
    items.push_back({.at = at("key-" + std::to_string(i % 400)), .record = record(State::running)});
  const auto answers = store().swap(items);
  ASSERT_THAT(answers, SizeIs(500));
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i]->written, i < 400) << i;
  EXPECT_EQ(count("ledger", State::running), 400U);
}

// --- Leases -------------------------------------------------------------------------------------

TEST_P(LedgerOnlyContract, ALeaseEndsInTheStoresTime) {
  const Stored first = claim("a");
  EXPECT_EQ(first.stamp, store().now());
  EXPECT_FALSE(get(at("a"))->holder_gone) << "nobody joined: only the lease tells";
  pass(queue_.lease - 1ms);
  const auto known = get(at("a")).value();
  const core::Claim other{.worker = "other", .nonce = fresh_nonce()};
  const auto decide = [&] {
    return core::decide(&known, other, core::policy_of(queue_),
                        {.store = store().now(), .wall = store().wall()})
        .verdict;
  };
  EXPECT_EQ(decide(), core::Verdict::held);
  pass(1ms);
  EXPECT_EQ(decide(), core::Verdict::claimed);
  EXPECT_EQ(claim("a").record.claims, 2U);
}

TEST_P(LedgerOnlyContract, AHolderThatJoinedIsKnownToBeGone) {
  if (!GetParam().knows_who_left) GTEST_SKIP() << "this store goes by leases alone";
  auto loop = store().join("ledger", "loop").value();
  EXPECT_EQ(store().counts("ledger").value().workers, 1U);
  claim("a", loop->number());
  EXPECT_FALSE(get(at("a"))->holder_gone);
  loop.reset();
  EXPECT_TRUE(get(at("a"))->holder_gone);
  EXPECT_EQ(claim("a").record.claims, 2U);
}

// --- No feed --------------------------------------------------------------------------------------

TEST_P(LedgerOnlyContract, NothingIsEverHandedOver) {
  publish("task");
  put("waiting", State::waiting);
  put("retrying", State::retrying);
  put("running", State::running);
  auto worker = store().join("ledger", "worker").value();
  claim("held", worker->number());
  worker.reset();
  EXPECT_THAT(handed_over("ledger"), IsEmpty());
  pass(24h);
  EXPECT_THAT(handed_over("ledger"), IsEmpty());
  EXPECT_THAT(store().fetch({.queue = "ledger", .wait = 20ms}).value(), IsEmpty());
  EXPECT_THAT(overlooked("ledger"), IsEmpty());
}

TEST_P(LedgerOnlyContract, AWakeDoesNoHarm) {
  const Entry a = publish("a");
  put("dead", State::dead);
  const std::vector<Wake> wakes{{.sequence = a.sequence, .order = order_of("ann")},
                                {.sequence = {}, .order = order_of("ann")}};
  static_cast<void>(store().wake("ledger", wakes));
  EXPECT_THAT(handed_over("ledger"), IsEmpty());
  EXPECT_EQ(count("ledger", State::dead), 1U);
  EXPECT_EQ(count("ledger", State::waiting), 0U);
}

TEST_P(LedgerOnlyContract, TheTasksOfTheLogAreNotItsOwn) {
  EXPECT_TRUE(append(task("before")).unrouted);
  EXPECT_EQ(unrouted(), 1U);
  EXPECT_EQ(store().add_queue(ledger_of("other")).value().found, 0U);
  EXPECT_EQ(unrouted(), 1U);
  EXPECT_EQ(count("ledger", State::waiting), 0U);
  EXPECT_THAT(rows({}), IsEmpty());
  add("work");
  EXPECT_EQ(unrouted(), 0U);
  store().remove_queue("ledger").value();
  EXPECT_EQ(unrouted(), 0U);
  store().remove_queue("work").value();
  EXPECT_EQ(unrouted(), 1U);
}

TEST_P(LedgerOnlyContract, ItDoesNotKeepTasksFromAging) {
  const Queue work = add("work");
  completed_task(work, "a");
  for (const auto& [stage, expected] :
       {std::pair{1, Retired{.bodies = 1}}, {2, Retired{.records = 1}}, {3, Retired{.ids = 1}}}) {
    pass(24h * 365);
    const Retired retired = retire();
    EXPECT_EQ(retired.bodies, expected.bodies) << stage;
    EXPECT_EQ(retired.records, expected.records) << stage;
    EXPECT_EQ(retired.ids, expected.ids) << stage;
  }
}

// --- Counting and listing -------------------------------------------------------------------------

TEST_P(LedgerOnlyContract, RecordsAreCountedByState) {
  const std::vector<State> states{State::running,   State::completed, State::completed,
                                  State::dead,      State::in_doubt,  State::retrying,
                                  State::cancelled, State::waiting};
  for (std::size_t i = 0; i < states.size(); ++i) put("key-" + std::to_string(i), states[i]);
  const std::map<State, std::uint64_t> expected{
      {State::scheduled, 0}, {State::waiting, 1},   {State::running, 1},
      {State::retrying, 1},  {State::in_doubt, 1},  {State::completed, 2},
      {State::dead, 1},      {State::cancelled, 1}, {State::duplicate, 0}};
  EXPECT_EQ(store().counts("ledger").value().tasks, expected);
}

TEST_P(LedgerOnlyContract, CountsFollowARecord) {
  const Stored running = put("a", State::running);
  const Stored retrying = write(at("a"), running.revision, record(State::retrying));
  EXPECT_EQ(count("ledger", State::running), 0U);
  EXPECT_EQ(count("ledger", State::retrying), 1U);
  EXPECT_FALSE(swap(at("a"), running.revision, record(State::dead)).written);
  EXPECT_EQ(count("ledger", State::dead), 0U);
  write(at("a"), retrying.revision, record(State::completed));
  EXPECT_EQ(count("ledger", State::retrying), 0U);
  EXPECT_EQ(count("ledger", State::completed), 1U);
}

TEST_P(LedgerOnlyContract, TheOldestWaitingAndInDoubtAreKnown) {
  write(lone_at("ledger", "slot"), {}, record(State::in_doubt));
  pass(1min);
  put("doubtful", State::in_doubt);
  pass(1min);
  put("waiting", State::waiting);
  pass(1s);
  const Counts counts = store().counts("ledger").value();
  EXPECT_EQ(counts.oldest_in_doubt, Duration(61s));
  EXPECT_EQ(counts.oldest_waiting, Duration(1s));
}

TEST_P(LedgerOnlyContract, ARowHasTheKeyAndTheRecordAndNoTask) {
  const Stored stored = put("a", State::dead);
  const auto all = rows({});
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all.at(0).queue, "ledger");
  EXPECT_EQ(all.at(0).key, "a");
  EXPECT_EQ(all.at(0).stored, stored);
  EXPECT_FALSE(all.at(0).own);
  EXPECT_FALSE(all.at(0).order);
  EXPECT_FALSE(all.at(0).entry.sequence);
  EXPECT_EQ(all.at(0).entry.id, "");
  EXPECT_EQ(store::state_of(all.at(0), store().now()), State::dead);
}

TEST_P(LedgerOnlyContract, RowsComeByKeyInPagesOfAnySizeAmongOtherQueues) {
  add("after", "orders.>");
  add("zebra", "orders.>");
  publish_many(2);
  for (const char* key : {"b", "a", "B", "ab", "c"}) put(key, State::completed);
  for (const std::size_t page : {1U, 2U, 3U, 100U})
    EXPECT_THAT(keys({}, page),
                ElementsAre("after/task-1", "after/task-2", "ledger/B", "ledger/a", "ledger/ab",
                            "ledger/b", "ledger/c", "zebra/task-1", "zebra/task-2"))
        << page;
}

TEST_P(LedgerOnlyContract, RowsAreFilteredByStateTimeAndTopic) {
  put("old", State::dead);
  put("other", State::completed);
  pass(1h);
  const Time since = store().wall();
  put("young", State::dead);
  EXPECT_THAT(keys({.state = State::dead}), ElementsAre("ledger/old", "ledger/young"));
  EXPECT_THAT(keys({.since = since}), ElementsAre("ledger/young"));
  EXPECT_THAT(keys({.queue = "ledger", .state = State::waiting}), IsEmpty());
  EXPECT_THAT(keys({.topic = "orders.>"}), IsEmpty()) << "it has no topic";
}

TEST_P(LedgerOnlyContract, AFilteredRowIsFoundBehindManyOthers) {
  std::vector<Swap> items;
  for (int i = 0; i < 2500; ++i)
    items.push_back({.at = at("key-" + std::to_string(10'000 + i)),
                     .record = record(i == 2400 ? State::dead : State::completed)});
  for (const auto& answer : store().swap(items)) EXPECT_TRUE(answer->written);
  EXPECT_THAT(keys({.state = State::dead}, 10), ElementsAre("ledger/key-12400"));
  EXPECT_THAT(rows({}, 700), SizeIs(2500));
}

// --- Going ----------------------------------------------------------------------------------------

TEST_P(LedgerOnlyContract, ARemovedLedgerTakesItsRecordsAlong) {
  std::vector<Swap> items;
  for (int i = 0; i < 6000; ++i)
    items.push_back({.at = at("key-" + std::to_string(i)), .record = record(State::dead)});
  store().swap(items);
  write(lone_at("ledger", "slot"), {}, record(State::retrying));
  store().remove_queue("ledger").value();
  EXPECT_THAT(rows({}), IsEmpty());
  add(ledger_of("ledger"));
  EXPECT_FALSE(get(at("key-1")));
  EXPECT_FALSE(get(lone_at("ledger", "slot")));
  EXPECT_EQ(count("ledger", State::dead), 0U);
  EXPECT_THAT(rows({}), IsEmpty());
  put("key-1", State::running);
  EXPECT_THAT(keys({}), ElementsAre("ledger/key-1"));
}

TEST_P(LedgerOnlyContract, CompletedAndCancelledRecordsAreForgottenWhenTheyAreOldEnough) {
  const Retention ages = store().retention().value();
  put("completed", State::completed);
  put("cancelled", State::cancelled);
  for (const State kept :
       {State::waiting, State::running, State::retrying, State::in_doubt, State::dead})
    put("kept-" + std::string(to_string(kept)), kept);
  pass(ages.records - 1ms);
  EXPECT_EQ(retire().records, 0U);
  put("young", State::completed);
  pass(1ms);
  EXPECT_EQ(retire().records, 2U);
  EXPECT_FALSE(get(at("completed")));
  EXPECT_FALSE(get(at("cancelled")));
  EXPECT_TRUE(get(at("young")));
  EXPECT_EQ(count("ledger", State::completed), 1U);
  EXPECT_EQ(count("ledger", State::cancelled), 0U);
  EXPECT_THAT(rows({}), SizeIs(6));
  pass(24h * 365 * 10);
  EXPECT_EQ(retire().records, 1U);
  EXPECT_THAT(rows({}), SizeIs(5)) << "what a person or a loop has to look at stays";
}

TEST_P(LedgerOnlyContract, ASlotIsNotForgotten) {
  const Stored slot = write(lone_at("ledger", "slot"), {}, record(State::completed));
  pass(24h * 365 * 10);
  EXPECT_EQ(retire().records, 0U);
  EXPECT_EQ(get(lone_at("ledger", "slot")), slot);
}

TEST_P(LedgerOnlyContract, AForgottenKeyMayBeUsedAgain) {
  const Stored first = put("a", State::completed);
  pass(24h * 365);
  retire();
  const Stored second = put("a", State::running);
  EXPECT_GT(second.revision, first.revision);
  EXPECT_EQ(count("ledger", State::running), 1U);
}

TEST_P(LedgerOnlyContract, ManyAreForgottenInAFewCalls) {
  std::vector<Swap> items;
  for (int i = 0; i < 5000; ++i)
    items.push_back({.at = at("key-" + std::to_string(i)), .record = record(State::completed)});
  store().swap(items);
  pass(24h * 365);
  std::uint64_t forgotten = 0;
  for (int call = 0; call < 20 && forgotten < 5000; ++call) forgotten += retire(100).records;
  EXPECT_EQ(forgotten, 5000U);
  EXPECT_EQ(count("ledger", State::completed), 0U);
  EXPECT_THAT(rows({}), IsEmpty());
}

}  // namespace
}  // namespace once::contract
