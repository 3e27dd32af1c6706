// Tasks with a not-before: nobody is handed them earlier, they count as scheduled until then, and
// nothing else waits for them.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class ScheduledContract : public Contract {
 protected:
  std::vector<std::string> listed(const std::string& queue, State state) {
    return ids(rows({.queue = queue, .state = state}, 2));
  }

  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(ScheduledContract);

// --- What is kept ---------------------------------------------------------------------------

TEST_P(ScheduledContract, AnEntrySaysWhenItCameHowLongItWaitsAndHowLongItLives) {
  pass(1h);
  Append item = delayed_task("a", 10min);
  item.lives = 90min;
  const StoreTime before = store().now();
  append(item);
  const auto check = [&](const Entry& entry) {
    EXPECT_EQ(entry.appended_at, before);
    EXPECT_EQ(entry.delay, 10min);
    EXPECT_EQ(entry.lives, 90min);
    EXPECT_EQ(entry.not_before(), before + 10min);
  };
  check(entry("a"));
  check(store().read({}, 1, {}).value().at(0));
  check(rows({}).at(0).entry);
  pass(10min);
  check(fetch("work").at(0).entry);
}

TEST_P(ScheduledContract, WithoutADelayAnEntryMayBeRunAtOnceAndLivesForEver) {
  const Entry a = publish("a");
  EXPECT_EQ(a.appended_at, store().now());
  EXPECT_EQ(a.delay, 0ms);
  EXPECT_EQ(a.not_before(), a.appended_at);
  EXPECT_FALSE(a.lives);
}

TEST_P(ScheduledContract, WhenItCameIsStillKnownWhenTheBodyIsGone) {
  const Entry a = completed_task(queue_, "a").entry;
  pass(24h * 30);
  ASSERT_EQ(retire().bodies, 1U);
  EXPECT_EQ(entry("a").appended_at, a.appended_at);
}

TEST_P(ScheduledContract, ADuplicateLeavesTheDelayOfTheOriginal) {
  const Entry a = publish_delayed("a", 1h);
  EXPECT_EQ(append(delayed_task("a", 5min)).verdict, AppendVerdict::duplicate);
  EXPECT_EQ(append(task("a")).verdict, AppendVerdict::duplicate);
  EXPECT_EQ(entry("a").delay, 1h);
  EXPECT_EQ(entry("a").appended_at, a.appended_at);
  pass(1h - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

// --- Handing over ---------------------------------------------------------------------------

TEST_P(ScheduledContract, ItIsHandedOverExactlyWhenItsTimeComes) {
  publish_delayed("a", 1min);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1min - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(ScheduledContract, ItIsClaimedByTheRulesAndRunsLikeAnyOther) {
  publish_delayed("a", 1min);
  EXPECT_FALSE(claim_one(queue_));
  pass(1min);
  const Held held = claim_one(queue_).value();
  EXPECT_EQ(held.stored.record.claims, 1U);
  EXPECT_EQ(count("work", State::running), 1U);
  complete(held);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_EQ(count("work", State::completed), 1U);
  EXPECT_EQ(count("work", State::waiting), 0U);
  EXPECT_EQ(count("work", State::scheduled), 0U);
}

TEST_P(ScheduledContract, TheOthersDoNotWaitForIt) {
  publish("1");
  publish_delayed("later", 1h);
  publish("2");
  publish_delayed("soon", 1min);
  publish("3");
  EXPECT_THAT(handed_over("work"), ElementsAre("1", "2", "3"));
  pass(1min);
  EXPECT_THAT(handed_over("work"), UnorderedElementsAre("soon", "1", "2", "3"));
  pass(59min);
  EXPECT_THAT(handed_over("work"), UnorderedElementsAre("later", "soon", "1", "2", "3"));
}

TEST_P(ScheduledContract, TheEarliestIsHandedOverFirst) {
  publish_delayed("third", 3min);
  publish_delayed("first", 1min);
  publish_delayed("second", 2min);
  EXPECT_THAT(handed_over("work"), IsEmpty()) << "somebody looked, as workers do";
  pass(3min);
  EXPECT_THAT(ids(fetch("work", 2)), ElementsAre("first", "second"));
  EXPECT_THAT(ids(fetch("work", 2)), ElementsAre("third"));
}

TEST_P(ScheduledContract, TheFirstHandOverIsNoSecondOne) {
  publish_delayed("a", 1min);
  pass(1min);
  EXPECT_THAT(store().fetch({.queue = "work", .again = 0}).value(), SizeIs(1));
  pass(queue_.lease);
  EXPECT_THAT(store().fetch({.queue = "work", .again = 0}).value(), IsEmpty());
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(ScheduledContract, WhatIsNotAnsweredComesAgainAfterTheLeaseAndIsNotScheduledAgain) {
  publish_delayed("a", 1min);
  pass(1min);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
  EXPECT_EQ(count("work", State::scheduled), 0U);
  EXPECT_EQ(count("work", State::waiting), 1U);
  pass(queue_.lease - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(ScheduledContract, AWakeDoesNotHandItOverBeforeItsTime) {
  const Entry a = publish_delayed("a", 1min);
  wake("work", a.sequence);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  wake("work", a.sequence);
  EXPECT_EQ(count("work", State::scheduled), 1U);
  pass(1min);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(ScheduledContract, OneThatIsCancelledBeforeItsTimeIsNotClaimedAnyMore) {
  const Entry a = publish_delayed("a", 1min);
  write(task_at("work", a), {}, record_of(a, State::cancelled));
  EXPECT_EQ(count("work", State::scheduled), 0U);
  EXPECT_EQ(count("work", State::cancelled), 1U);
  pass(1min);
  EXPECT_FALSE(claim_one(queue_));
  EXPECT_EQ(count("work", State::cancelled), 1U);
  EXPECT_EQ(count("work", State::waiting), 0U);
}

TEST_P(ScheduledContract, TheSweeperDoesNotMissIt) {
  publish("before");
  const Entry a = publish_delayed("a", 1min);
  const Entry after = publish("after");
  for (const Delivery& each : drain("work")) settle(each, "work");
  const Sequence before = entry("before").sequence;
  EXPECT_THAT(overlooked("work"), ElementsAre(before, after.sequence));
  pass(1min);
  EXPECT_THAT(overlooked("work"), ElementsAre(before, after.sequence));
  for (const Delivery& each : drain("work")) settle(each, "work");
  EXPECT_THAT(overlooked("work"), ElementsAre(before, a.sequence, after.sequence));
}

TEST_P(ScheduledContract, WhatWasHandedOverAndNotSettledIsNotPassedByTheSweep) {
  const Entry first = completed_task(queue_, "1").entry;
  const Entry later = publish_delayed("later", 1h);
  completed_task(queue_, "2");
  pass(1h);
  EXPECT_THAT(handed_over("work"), ElementsAre("later"));
  pass(queue_.lease);
  const auto held = claim_one(queue_);
  ASSERT_TRUE(held);
  const auto page = store().overlooked("work", {}, 100).value();
  EXPECT_GE(page.settled, first.sequence);
  EXPECT_LT(page.settled, later.sequence);
}

// --- Counting and listing ---------------------------------------------------------------------

TEST_P(ScheduledContract, ItIsScheduledUntilThenAndWaitingAfterwards) {
  publish("now");
  publish_delayed("soon", 1min);
  publish_delayed("later", 1h);
  const auto expect = [&](std::vector<std::string> scheduled, std::vector<std::string> waiting) {
    EXPECT_EQ(count("work", State::scheduled), scheduled.size());
    EXPECT_EQ(count("work", State::waiting), waiting.size());
    EXPECT_EQ(listed("work", State::scheduled), scheduled);
    EXPECT_EQ(listed("work", State::waiting), waiting);
    EXPECT_THAT(rows({.queue = "work"}, 1), SizeIs(3));
  };
  expect({"soon", "later"}, {"now"});
  pass(1min - 1ms);
  expect({"soon", "later"}, {"now"});
  pass(1ms);
  expect({"later"}, {"now", "soon"});
  drain("work");
  expect({"later"}, {"now", "soon"});
  pass(1h);
  expect({}, {"now", "soon", "later"});
}

TEST_P(ScheduledContract, ARowStandsByOneRule) {
  publish_delayed("a", 1min);
  Row row = rows({}).at(0);
  EXPECT_FALSE(row.stored);
  EXPECT_FALSE(row.order);
  EXPECT_FALSE(row.own);
  EXPECT_EQ(store::state_of(row, store().now()), State::scheduled);
  pass(1min);
  EXPECT_EQ(store::state_of(row, store().now()), State::waiting);
  const Held held = claim_one(queue_).value();
  EXPECT_EQ(store::state_of(rows({}).at(0), store().now()), State::running);
}

TEST_P(ScheduledContract, TheOldestWaitsSinceItsTimeCame) {
  publish_delayed("a", 1h);
  pass(10min);
  EXPECT_FALSE(store().counts("work").value().oldest_waiting);
  pass(50min);
  EXPECT_EQ(store().counts("work").value().oldest_waiting, 0ms);
  pass(5min);
  EXPECT_EQ(store().counts("work").value().oldest_waiting, 5min);
  drain("work");
  EXPECT_EQ(store().counts("work").value().oldest_waiting, 5min);
  pass(5min);
  publish("b");
  EXPECT_EQ(store().counts("work").value().oldest_waiting, 10min);
}

TEST_P(ScheduledContract, TheOldestIsNoneOfAnotherQueue) {
  add("bills", "bills.>");
  Append later = task("later", "bills.new");
  later.delay = 1min;
  append(later);
  publish("order");
  append([&] {
    Append last = task("last", "bills.new");
    last.delay = 2min;
    return last;
  }());
  pass(90s);
  const Counts counts = store().counts("bills").value();
  EXPECT_EQ(counts.tasks.at(State::waiting), 1U);
  EXPECT_EQ(counts.tasks.at(State::scheduled), 1U);
  EXPECT_EQ(counts.oldest_waiting, 30s);
}

TEST_P(ScheduledContract, ManyThatWaitAreListedInPages) {
  std::vector<Append> items;
  for (int i = 0; i < 2500; ++i)
    items.push_back(i % 2 == 0 ? delayed_task("later-" + std::to_string(i), 1h)
                               : task("now-" + std::to_string(i)));
  for (const auto& answer : store().append(items)) EXPECT_TRUE(answer);
  EXPECT_EQ(count("work", State::scheduled), 1250U);
  EXPECT_EQ(count("work", State::waiting), 1250U);
  EXPECT_THAT(rows({.queue = "work", .state = State::scheduled}, 400), SizeIs(1250));
  EXPECT_THAT(drain("work"), SizeIs(1250));
  pass(1h);
  EXPECT_EQ(count("work", State::scheduled), 0U);
  EXPECT_THAT(drain("work"), SizeIs(2500));
}

// --- Queues -----------------------------------------------------------------------------------

TEST_P(ScheduledContract, EveryQueueWaits) {
  add("other", "orders.>");
  publish_delayed("a", 1min);
  for (const char* queue : {"work", "other"}) {
    EXPECT_EQ(count(queue, State::scheduled), 1U);
    EXPECT_THAT(handed_over(queue), IsEmpty());
  }
  pass(1min);
  for (const char* queue : {"work", "other"}) EXPECT_THAT(handed_over(queue), ElementsAre("a"));
}

TEST_P(ScheduledContract, AQueueThatIsAddedLaterWaitsToo) {
  publish_delayed("soon", 1min);
  publish_delayed("later", 1h);
  publish("now");
  pass(1min);
  EXPECT_EQ(store().add_queue(queue_of("new")).value().found, 3U);
  EXPECT_EQ(count("new", State::scheduled), 1U);
  EXPECT_EQ(count("new", State::waiting), 2U);
  EXPECT_THAT(listed("new", State::scheduled), ElementsAre("later"));
  EXPECT_THAT(handed_over("new"), UnorderedElementsAre("soon", "now"));
  pass(59min);
  EXPECT_EQ(count("new", State::scheduled), 0U);
  EXPECT_THAT(handed_over("new"), UnorderedElementsAre("soon", "later", "now"));
}

TEST_P(ScheduledContract, AQueueThatBeginsLaterOrHasOtherTopicsHasNoneOfIt) {
  const Entry a = publish_delayed("a", 1min);
  Queue later = queue_of("later");
  later.from = a.sequence.value + 1;
  add(later);
  add("elsewhere", "bills.>");
  pass(1h);
  EXPECT_THAT(handed_over("later"), IsEmpty());
  EXPECT_THAT(handed_over("elsewhere"), IsEmpty());
  EXPECT_EQ(count("later", State::waiting), 0U);
}

TEST_P(ScheduledContract, ARemovedQueueTakesItsScheduleAlong) {
  publish_delayed("a", 1min);
  store().remove_queue("work").value();
  EXPECT_EQ(unrouted(), 1U);
  add("work");
  EXPECT_EQ(unrouted(), 0U);
  EXPECT_EQ(count("work", State::scheduled), 1U);
  pass(1min);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

}  // namespace
}  // namespace once::contract
