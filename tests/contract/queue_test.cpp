// Queues and what people see of them: adding, removing, unrouted tasks, counts and rows.
#include <gmock/gmock.h>

#include <algorithm>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class QueueContract : public Contract {
 protected:
  std::vector<std::string> queue_names() {
    std::vector<std::string> names;
    for (const Queue& queue : store().queues().value()) names.push_back(queue.name);
    return names;
  }
};
ONCE_FOR_EVERY_STORE(QueueContract);

Queue unusual_queue() {
  Queue queue = queue_of("unusual", "orders.*.eu.>");
  queue.key = "{order.id}:{$topic}";
  queue.key_format = KeyFormat::escaped;
  queue.lease = 7s;
  queue.timeout = 12min;
  queue.attempts = 9;
  queue.backoff = {1ms, 2h, 3s};
  queue.same_key = SameKey::ignore;
  queue.max_running = 3;
  queue.window = 4;
  queue.from = 5;
  return queue;
}

// --- Adding and removing ----------------------------------------------------------------------

TEST_P(QueueContract, ANewZoneHasNoQueues) { EXPECT_THAT(store().queues().value(), IsEmpty()); }

TEST_P(QueueContract, ADefinitionIsKeptAsItWasGiven) {
  const auto added = store().add_queue(unusual_queue()).value();
  EXPECT_TRUE(added.added);
  EXPECT_EQ(added.existing, unusual_queue());
  EXPECT_THAT(store().queues().value(), ElementsAre(unusual_queue()));
}

TEST_P(QueueContract, TheSameQueueAgainIsNotAdded) {
  add(unusual_queue());
  const auto again = store().add_queue(unusual_queue()).value();
  EXPECT_FALSE(again.added);
  EXPECT_EQ(again.existing, unusual_queue());
  EXPECT_THAT(store().queues().value(), SizeIs(1));
}

TEST_P(QueueContract, AnotherDefinitionDoesNotReplaceTheOneThatStands) {
  add(unusual_queue());
  Queue other = unusual_queue();
  other.topic = ">";
  other.lease = 1s;
  const auto refused = store().add_queue(other).value();
  EXPECT_FALSE(refused.added);
  EXPECT_EQ(refused.existing, unusual_queue());
  EXPECT_THAT(store().queues().value(), ElementsAre(unusual_queue()));
}

TEST_P(QueueContract, AddingAQueueAgainDoesNotHandItsTasksOverAgain) {
  const Queue work = add("work");
  completed_task(work, "a");
  EXPECT_FALSE(store().add_queue(work).value().added);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_EQ(count("work", State::completed), 1U);
}

TEST_P(QueueContract, QueuesAreAllListed) {
  for (const char* name : {"b", "a", "B", "a-1", "a_1"}) add(name);
  EXPECT_THAT(queue_names(), UnorderedElementsAre("b", "a", "B", "a-1", "a_1"));
}

TEST_P(QueueContract, ANewQueueStartsAtTheLogsBeginningAndSaysHowManyItFound) {
  publish("1", "orders.new");
  publish("2", "refunds.new");
  publish("3", "orders.paid");
  const auto added = store().add_queue(queue_of("orders", "orders.*")).value();
  EXPECT_EQ(added.found, 2U);
  EXPECT_EQ(count("orders", State::waiting), 2U);
  publish("4", "orders.new");
  EXPECT_THAT(handed_over("orders"), ElementsAre("1", "3", "4"));
}

TEST_P(QueueContract, AQueueMayBeginAtALaterSequence) {
  const auto entries = publish_many(5);
  Queue late = queue_of("late");
  late.from = entries[3].sequence.value;
  EXPECT_EQ(store().add_queue(late).value().found, 2U);
  publish("new");
  EXPECT_EQ(count("late", State::waiting), 3U);
  EXPECT_THAT(handed_over("late"), ElementsAre("task-4", "task-5", "new"));
}

TEST_P(QueueContract, AQueueFindsThousandsOfTasks) {
  publish_many(2500);
  EXPECT_EQ(store().add_queue(queue_of("work")).value().found, 2500U);
  EXPECT_THAT(handed_over("work"), SizeIs(2500));
}

TEST_P(QueueContract, ARemovedQueueIsGoneAndItsTasksStayInTheLog) {
  const Queue work = add("work");
  add("other");
  const Held done = completed_task(work, "a");
  publish("b");
  store().remove_queue("work").value();
  EXPECT_THAT(queue_names(), ElementsAre("other"));
  EXPECT_FALSE(store().fetch({.queue = "work"}));
  EXPECT_FALSE(store().counts("work"));
  EXPECT_THAT(ids_in_log(), ElementsAre("a", "b"));
  EXPECT_EQ(append(task("a")).verdict, AppendVerdict::duplicate);
  EXPECT_EQ(count("other", State::waiting), 2U);
  EXPECT_THAT(handed_over("other"), ElementsAre("a", "b"));
}

TEST_P(QueueContract, RemovingAnUnknownQueueIsAnError) {
  add("work");
  const auto removed = store().remove_queue("no-such-queue");
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Code::not_found);
  EXPECT_THAT(queue_names(), ElementsAre("work"));
}

TEST_P(QueueContract, AQueueThatIsAddedAfterItsRemovalStartsAnew) {
  const Queue work = add("work");
  const Held done = completed_task(work, "a");
  const Entry own = publish("b");
  write(entry_at("work", own.sequence), {}, record_of(own, State::duplicate));
  write(lone_at("work", "slot"), {}, Record{});
  store().remove_queue("work").value();
  const auto added = store().add_queue(work).value();
  EXPECT_TRUE(added.added);
  EXPECT_EQ(added.found, 2U);
  EXPECT_FALSE(get(done.at));
  EXPECT_FALSE(get(entry_at("work", own.sequence)));
  EXPECT_FALSE(get(lone_at("work", "slot")));
  const auto held = claim_one(work);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->entry.id, "a");
  EXPECT_EQ(held->stored.record.claims, 1U);
  EXPECT_GT(held->stored.revision, done.stored.revision) << "tokens are never reused";
}

TEST_P(QueueContract, AQueueOnAStreamThatIsNotThereIsRefusedAndLeavesNothing) {
  Queue queue = queue_of("outside");
  queue.key = "header:Nats-Msg-Id";
  queue.stream = "NOBODYS";
  const auto added = store().add_queue(queue);
  ASSERT_FALSE(added);
  const bool has_streams = added.error().code == Code::not_found;
  EXPECT_TRUE(has_streams || added.error().code == Code::invalid_input) << added.error().message;
  EXPECT_THAT(added.error().message, ::testing::HasSubstr("NOBODYS"));
  EXPECT_THAT(store().queues().value(), IsEmpty());
}

// --- Unrouted ---------------------------------------------------------------------------------

TEST_P(QueueContract, ATaskThatNoQueueMatchesIsUnroutedAndKept) {
  add("orders", "orders.>");
  EXPECT_FALSE(append(task("1", "orders.new")).unrouted);
  EXPECT_TRUE(append(task("2", "refunds.new")).unrouted);
  EXPECT_TRUE(append(task("3", "orders")).unrouted);
  EXPECT_EQ(unrouted(), 2U);
  EXPECT_THAT(ids_in_log(), ElementsAre("1", "2", "3"));
}

TEST_P(QueueContract, ADuplicateSaysWhetherItsEntryIsRoutedNow) {
  EXPECT_TRUE(append(task("1", "orders.new")).unrouted);
  EXPECT_TRUE(append(task("1", "orders.new")).unrouted);
  add("orders", "orders.>");
  EXPECT_FALSE(append(task("1", "orders.new")).unrouted);
  EXPECT_EQ(unrouted(), 0U);
}

TEST_P(QueueContract, AQueueTakesUnroutedTasksInAndItsRemovalLeavesThemUnrouted) {
  publish("1", "orders.new");
  publish("2", "refunds.new");
  EXPECT_EQ(unrouted(), 2U);
  add("orders", "orders.>");
  EXPECT_EQ(unrouted(), 1U);
  add("all");
  EXPECT_EQ(unrouted(), 0U);
  store().remove_queue("orders").value();
  EXPECT_EQ(unrouted(), 0U) << "the other queue has it";
  store().remove_queue("all").value();
  EXPECT_EQ(unrouted(), 2U);
}

// --- Counts -----------------------------------------------------------------------------------

TEST_P(QueueContract, EveryStateIsCounted) {
  const Queue work = add("work");
  const std::vector<State> states{State::running,   State::retrying,  State::in_doubt,
                                  State::completed, State::dead,      State::cancelled,
                                  State::duplicate, State::completed, State::completed};
  for (std::size_t i = 0; i < states.size(); ++i) {
    publish("id-" + std::to_string(i));
    const Held held = claim_one(work).value();
    settle_as(held, states[i], 1h);
  }
  publish("released");
  settle_as(claim_one(work).value(), State::waiting);
  publish_many(4);

  const Counts counts = store().counts("work").value();
  const std::map<State, std::uint64_t> expected{
      {State::scheduled, 0}, {State::waiting, 5},   {State::running, 1},
      {State::retrying, 1},  {State::in_doubt, 1},  {State::completed, 3},
      {State::dead, 1},      {State::cancelled, 1}, {State::duplicate, 1}};
  EXPECT_EQ(counts.tasks, expected);
}

TEST_P(QueueContract, AnEmptyQueueCountsEveryStateAsZero) {
  add("work");
  const Counts counts = store().counts("work").value();
  EXPECT_THAT(counts.tasks, SizeIs(9));
  for (const auto& [state, tasks] : counts.tasks) EXPECT_EQ(tasks, 0U) << to_string(state);
  EXPECT_FALSE(counts.oldest_waiting);
  EXPECT_FALSE(counts.oldest_in_doubt);
}

TEST_P(QueueContract, CountsFollowATaskThroughItsLife) {
  const Queue work = add("work");
  const auto expect_only = [&](State expected) {
    for (const auto& [state, tasks] : store().counts("work").value().tasks)
      EXPECT_EQ(tasks, state == expected ? 1U : 0U) << to_string(state);
  };
  publish("a");
  expect_only(State::waiting);
  Held held = claim_one(work).value();
  expect_only(State::running);
  write(held.at, held.stored.revision, held.stored.record, held.handle);
  expect_only(State::running);
  held.stored = *get(held.at);
  settle_as(held, State::retrying, 1s);
  expect_only(State::retrying);
  pass(1s);
  expect_only(State::retrying);
  held = claim_one(work).value();
  expect_only(State::running);
  pass(work.lease);
  held = claim_one(work).value();
  expect_only(State::running);
  complete(held);
  expect_only(State::completed);
}

TEST_P(QueueContract, ARefusedSwapDoesNotCount) {
  const Queue work = add("work");
  publish("a");
  const Held held = claim_one(work).value();
  swap(held.at, {}, record_of(held.entry, State::dead), held.handle);
  EXPECT_EQ(count("work", State::running), 1U);
  EXPECT_EQ(count("work", State::dead), 0U);
}

TEST_P(QueueContract, TheOldestWaitingAndInDoubtAreKnown) {
  const Queue work = add("work");
  publish("first");
  pass(1min);
  publish("second");
  pass(1min);
  EXPECT_EQ(store().counts("work").value().oldest_waiting, Duration(2min));
  settle_as(claim_one(work).value(), State::in_doubt);
  pass(5s);
  settle_as(claim_one(work).value(), State::in_doubt);
  pass(5s);
  const Counts counts = store().counts("work").value();
  EXPECT_FALSE(counts.oldest_waiting);
  EXPECT_EQ(counts.oldest_in_doubt, Duration(10s));
}

TEST_P(QueueContract, CountsOfAnUnknownQueueAreAnError) {
  const auto counts = store().counts("no-such-queue");
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().code, Code::not_found);
}

// --- Rows -------------------------------------------------------------------------------------

TEST_P(QueueContract, ARowSaysHowATaskStandsInAQueue) {
  const Queue work = add("work");
  Append given = task("a", "orders.new", R"({"amount":1})");
  given.headers = {{"Trace", "1"}};
  append(given);
  publish("b");
  const Held held = claim_one(work).value();
  const auto all = rows({});
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].queue, "work");
  EXPECT_EQ(all[0].key, "a");
  EXPECT_EQ(all[0].entry.id, "a");
  EXPECT_EQ(all[0].entry.topic, "orders.new");
  EXPECT_EQ(all[0].entry.sequence, held.entry.sequence);
  EXPECT_EQ(all[0].entry.digest, given.digest);
  EXPECT_FALSE(all[0].entry.body);
  EXPECT_EQ(all[0].stored, held.stored);
  EXPECT_EQ(all[1].entry.id, "b");
  EXPECT_EQ(all[1].key, "b");
  EXPECT_FALSE(all[1].stored) << "never claimed";
}

TEST_P(QueueContract, ARowOfATaskThatWasSetAsideHasItsOwnRecord) {
  Queue keyed = queue_of("keyed");
  keyed.key = "{document}";
  add(keyed);
  const Entry first = publish("a", "orders.new", R"({"document":"d1"})");
  const Entry second = publish("b", "orders.new", R"({"document":"d1"})");
  const Stored of_key =
      write(task_at("keyed", first, "d1"), {}, record_of(first, State::completed));
  const Stored own =
      write(entry_at("keyed", second.sequence), {}, record_of(second, State::duplicate));
  const auto all = rows({.queue = "keyed"});
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].stored, of_key);
  EXPECT_EQ(all[0].key, "d1");
  EXPECT_EQ(all[1].stored, own);
}

TEST_P(QueueContract, RowsComeByQueueAndSequenceInPagesOfAnySize) {
  add("b", "orders.*");
  add("a", "orders.new");
  add("c", "refunds.>");
  for (int i = 0; i < 5; ++i) publish("new-" + std::to_string(i), "orders.new");
  publish("paid", "orders.paid");
  const auto all = rows({});
  ASSERT_THAT(all, SizeIs(11));
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].queue == all[i - 1].queue) {
      EXPECT_GT(all[i].entry.sequence, all[i - 1].entry.sequence);
    }
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Row& row) { return row.queue == "a"; }),
            5);
  for (const std::size_t page : {1U, 2U, 3U, 5U, 11U, 12U}) {
    const auto paged = rows({}, page);
    ASSERT_EQ(ids(paged), ids(all)) << "pages of " << page;
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(paged[i].queue, all[i].queue);
  }
}

TEST_P(QueueContract, RowsAreFilteredByQueueStateTopicAndTime) {
  const Queue work = add("work", "orders.>");
  add("other", "orders.paid");
  publish("0", "orders.old");
  const Held early = claim_one(work).value();
  publish("1", "orders.new");
  settle_as(claim_one(work).value(), State::dead);
  pass(10s);
  const Time later = store().wall();
  publish("2", "orders.paid");
  settle_as(claim_one(work).value(), State::dead);
  publish("3", "orders.paid");
  settle_as(claim_one(work).value(), State::completed);
  publish("4", "orders.new");
  settle_as(early, State::cancelled);

  EXPECT_THAT(ids(rows({.queue = "work"})), ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_THAT(ids(rows({.queue = "other"})), ElementsAre("2", "3"));
  EXPECT_THAT(ids(rows({.queue = "work", .state = State::dead})), ElementsAre("1", "2"));
  EXPECT_THAT(ids(rows({.queue = "work", .state = State::waiting})), ElementsAre("4"));
  EXPECT_THAT(ids(rows({.queue = "work", .state = State::running})), IsEmpty());
  EXPECT_THAT(ids(rows({.queue = "work", .topic = "orders.paid"})), ElementsAre("2", "3"));
  EXPECT_THAT(ids(rows({.queue = "work", .topic = "*.new"})), ElementsAre("1", "4"));
  EXPECT_THAT(ids(rows({.queue = "work", .since = later})), ElementsAre("0", "2", "3", "4"));
  EXPECT_THAT(ids(rows({.queue = "work", .state = State::dead, .since = later})), ElementsAre("2"));
  EXPECT_THAT(ids(rows({.state = State::waiting})), UnorderedElementsAre("4", "2", "3"));
  EXPECT_THAT(ids(rows({.queue = "work", .topic = "orders.paid"}, 1)), ElementsAre("2", "3"));
}

TEST_P(QueueContract, AFilteredRowIsFoundBehindManyOthers) {
  add("work");
  const auto entries = publish_many(600);
  write(task_at("work", entries[550]), {}, record_of(entries[550], State::dead));
  EXPECT_THAT(ids(rows({.queue = "work", .state = State::dead}, 10)), ElementsAre("task-551"));
}

// A worker of a queue that was removed must not go on in another one of the same name: key and
// policy may be others.
TEST_P(QueueContract, AWorkerOfARemovedQueueIsHandedNothingByItsSuccessor) {
  add("work");
  const auto old_worker = store().join("work", "old").value();
  ASSERT_TRUE(store().remove_queue("work"));
  add("work");
  publish("a");
  const auto refused = store().fetch({.queue = "work", .member = old_worker->number()});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::not_found);
  const auto new_worker = store().join("work", "new").value();
  EXPECT_THAT(store().fetch({.queue = "work", .member = new_worker->number()}).value(), SizeIs(1));
}

// --- The zone ---------------------------------------------------------------------------------

TEST_P(QueueContract, AZoneHasAUuidThatStays) {
  const std::string uuid = store().uuid();
  EXPECT_THAT(uuid, SizeIs(36));
  EXPECT_EQ(store().uuid(), uuid);
}

TEST_P(QueueContract, TimeIsTheClocksAndNeverGoesBack) {
  const StoreTime start = store().now();
  const Time wall = store().wall();
  pass(90s);
  EXPECT_EQ(store().now(), start + 90s);
  EXPECT_EQ(store().wall(), wall + 90s);
  set_back(1h);
  EXPECT_EQ(store().now(), start + 90s);
  add("work");
  const Entry a = publish("a");
  EXPECT_EQ(write(task_at("work", a), {}, record_of(a, State::running)).stamp, start + 90s);
}

}  // namespace
}  // namespace once::contract
