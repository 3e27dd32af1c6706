// What persists: a zone that is closed and opened again, and one that is open twice, are one zone.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<StoreUnderTest> stores_that_persist() {
  std::vector<StoreUnderTest> chosen = stores();
  std::erase_if(chosen, [](const StoreUnderTest& store) { return !store.persists; });
  return chosen;
}

class DurabilityContract : public Contract {};
INSTANTIATE_TEST_SUITE_P(, DurabilityContract, ::testing::ValuesIn(stores_that_persist()),
                         [](const auto& tested) { return tested.param.name; });

// --- Opened again -----------------------------------------------------------------------------

TEST_P(DurabilityContract, TheLogIsStillThere) {
  Append given = task("a", "orders.new", R"({"amount":12})");
  given.headers = {{"Trace", "1"}};
  append(given);
  append(task("a", "orders.new", R"({"amount":12})"));
  const Entry before = entry("a");
  const std::string uuid = store().uuid();
  pass(1h);
  reopen();
  const Entry after = entry("a");
  EXPECT_EQ(after.sequence, before.sequence);
  EXPECT_EQ(after.body, given.body);
  EXPECT_EQ(after.headers, given.headers);
  EXPECT_EQ(after.digest, given.digest);
  EXPECT_EQ(after.published_at, before.published_at);
  EXPECT_EQ(after.duplicates, 1U);
  EXPECT_EQ(store().uuid(), uuid);
  EXPECT_EQ(append(given).verdict, AppendVerdict::accepted) << "its own nonce is remembered";
  EXPECT_EQ(append(task("a", "orders.new", R"({"amount":12})")).verdict, AppendVerdict::duplicate);
  EXPECT_EQ(append(task("a")).verdict, AppendVerdict::conflict);
  EXPECT_GT(publish("b").sequence, before.sequence);
}

TEST_P(DurabilityContract, QueuesCountsAndAgesAreStillThere) {
  Queue work = queue_of("work", "orders.>");
  work.backoff = {1s, 2s};
  add(work);
  store().set_retention({.bodies = 1h, .records = 2h, .ids = 3h}).value();
  completed_task(work, "a");
  publish("b");
  publish("c", "elsewhere");
  reopen();
  EXPECT_THAT(store().queues().value(), ElementsAre(work));
  EXPECT_EQ(store().retention().value(), (Retention{.bodies = 1h, .records = 2h, .ids = 3h}));
  EXPECT_EQ(count("work", State::completed), 1U);
  EXPECT_EQ(count("work", State::waiting), 1U);
  EXPECT_EQ(unrouted(), 1U);
  EXPECT_FALSE(store().add_queue(work).value().added);
}

TEST_P(DurabilityContract, RecordsAndTheirDueTimesAreStillThere) {
  const Queue work = add("work");
  completed_task(work, "done");
  publish("later");
  const Stored later = settle_as(claim_one(work).value(), State::retrying, 1min);
  const Stored lone = write(lone_at("work", "slot"), {}, Record{.state = State::running});
  reopen();
  EXPECT_EQ(get(task_at("work", entry("later"))), later);
  EXPECT_EQ(get(lone_at("work", "slot")), lone);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1min - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  const Held again = claim_one(work).value();
  EXPECT_EQ(again.entry.id, "later");
  EXPECT_GT(again.stored.revision, lone.revision);
}

TEST_P(DurabilityContract, WhatWasHandedOverAndNotAnsweredComesAgain) {
  add("work");
  publish("a");
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
  reopen();
  pass(queue_of("work").lease);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(DurabilityContract, ATaskThatWasRunningWhenTheStoreWentAwayIsHandedOverAgain) {
  const Queue work = add("work");
  publish("a");
  auto worker = store().join("work", "worker").value();
  const Member number = worker->number();
  const Held held = claim_one(work, number).value();
  worker.reset();
  reopen();
  if (!GetParam().knows_who_left) pass(work.lease);
  const Held again = claim_one(work).value();
  EXPECT_EQ(again.stored.record.claims, 2U);
  EXPECT_GT(store().join("work", "worker").value()->number(), number);
}

TEST_P(DurabilityContract, WhatIsOverlookedIsStillOverlooked) {
  add("work");
  const Entry a = publish("a");
  settle(fetch("work").at(0), "work");
  reopen();
  EXPECT_THAT(overlooked("work"), ElementsAre(a.sequence));
}

TEST_P(DurabilityContract, WhatIsScheduledIsStillScheduled) {
  const Queue work = add("work");
  Append item = delayed_task("a", 1h);
  item.lives = 2h;
  append(item);
  const Entry before = entry("a");
  reopen();
  const Entry after = entry("a");
  EXPECT_EQ(after.appended_at, before.appended_at);
  EXPECT_EQ(after.delay, 1h);
  EXPECT_EQ(after.lives, 2h);
  EXPECT_EQ(count("work", State::scheduled), 1U);
  pass(1h - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(DurabilityContract, AnOrderIsStillThereUntilItIsAnswered) {
  const Queue work = add("work");
  publish("a");
  settle_as(claim_one(work).value(), State::dead);
  const core::Order order = order_of("ann", 1, core::Order::Kind::complete_step);
  wake("work", entry("a").sequence, order);
  reopen();
  EXPECT_EQ(count("work", State::waiting), 1U);
  EXPECT_EQ(fetch("work").at(0).order, order);
  reopen();
  pass(work.lease);
  const Delivery delivery = fetch("work").at(0);
  EXPECT_EQ(delivery.order, order);
  reopen();
  settle(delivery, "work");
  reopen();
  EXPECT_EQ(count("work", State::dead), 1U);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(DurabilityContract, AnOrderThatWasCarriedOutIsNotCarriedOutAgain) {
  const Queue work = add("work");
  publish("a");
  settle_as(claim_one(work).value(), State::dead);
  wake("work", entry("a").sequence, order_of("ann"));
  const Held held = claim_one(work).value();
  reopen();
  pass(work.lease);
  const Held again = claim_one(work).value();
  EXPECT_EQ(again.stored.record.claims, held.stored.record.claims + 1);
  EXPECT_EQ(again.stored.record.actions, 1U);
}

TEST_P(DurabilityContract, APausedQueueIsStillPaused) {
  Queue work = add("work");
  publish("a");
  work.paused = true;
  store().set_queue(work, store().queues().value().at(0)).value();
  reopen();
  EXPECT_THAT(store().queues().value(), ElementsAre(work));
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(DurabilityContract, TheRecordsOfALedgerOnlyQueueAreStillThere) {
  const Queue ledger = add(ledger_of("ledger"));
  const Stored stored = write(ledger_only_at("ledger", "a"), {}, Record{.state = State::completed});
  reopen();
  EXPECT_THAT(store().queues().value(), ElementsAre(ledger));
  EXPECT_EQ(get(ledger_only_at("ledger", "a")), stored);
  EXPECT_EQ(count("ledger", State::completed), 1U);
  EXPECT_GT(write(ledger_only_at("ledger", "b"), {}, Record{}).revision, stored.revision);
  EXPECT_EQ(get(ledger_only_at("ledger", "a")), stored);
}

TEST_P(DurabilityContract, SequencesAndRevisionsGoOnAfterEverythingWasForgotten) {
  const Queue work = add("work");
  const Held last = completed_task(work, "a");
  for (int stage = 0; stage < 3; ++stage) {
    pass(24h * 365);
    retire();
  }
  ASSERT_THAT(ids_in_log(), IsEmpty());
  reopen();
  EXPECT_GT(publish("a").sequence, last.entry.sequence);
  EXPECT_GT(claim_one(work).value().stored.revision, last.stored.revision);
}

TEST_P(DurabilityContract, TimeDoesNotGoBackOverAReopening) {
  pass(1h);
  add("work");
  const Entry a = publish("a");
  const Stored before = write(task_at("work", a), {}, record_of(a, State::running));
  set_back(30min);
  reopen();
  EXPECT_GE(store().now(), before.stamp);
}

// --- Open twice -------------------------------------------------------------------------------

TEST_P(DurabilityContract, TwoStoresOnOneZoneSeeEachOthersWrites) {
  const auto other = open();
  const Queue work = add("work");
  const Entry a = publish("a");
  EXPECT_EQ(other->uuid(), store().uuid());
  const Append again = task("a");
  EXPECT_EQ(other->append(std::span(&again, 1)).at(0)->verdict, AppendVerdict::duplicate);
  EXPECT_FALSE(other->add_queue(work).value().added);
  const Held held = claim_one(work, {}, other.get()).value();
  EXPECT_FALSE(claim_one(work));
  complete(held);
  const Address at = task_at("work", a);
  EXPECT_EQ((*other->get(std::span(&at, 1)).at(0))->record.state, State::completed);
  EXPECT_EQ(other->counts("work").value().tasks.at(State::completed), 1U);
}

TEST_P(DurabilityContract, AQueueThatTheOtherStoreAddedRoutesWhatThisOnePublishes) {
  const auto other = open();
  publish("before");
  EXPECT_EQ(other->add_queue(queue_of("work")).value().found, 1U);
  EXPECT_FALSE(append(task("after")).unrouted);
  EXPECT_EQ(unrouted(), 0U);
  EXPECT_THAT(handed_over("work"), ElementsAre("before", "after"));
  other->remove_queue("work").value();
  EXPECT_TRUE(append(task("orphan")).unrouted);
  EXPECT_FALSE(store().fetch({.queue = "work"}));
  EXPECT_EQ(unrouted(), 3U);
}

TEST_P(DurabilityContract, AnAppendInOneStoreWakesAFetchThatWaitsInTheOther) {
  const auto other = open();
  add("work");
  std::atomic<int> taken{0};
  const auto start = std::chrono::steady_clock::now();
  std::jthread consumer([&] {
    for (int i = 0; i < 20; ++i) {
      EXPECT_THAT(other->fetch({.queue = "work", .wait = 10min}).value(), SizeIs(1));
      ++taken;
      taken.notify_all();
    }
  });
  for (int i = 0; i < 20; ++i) {
    append(task("id-" + std::to_string(i)));
    taken.wait(i);
  }
  consumer.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

TEST_P(DurabilityContract, AQueueThatIsPausedAndResumedInOneStoreIsSoInTheOther) {
  const auto other = open();
  Queue work = add("work");
  publish("first");
  EXPECT_THAT(other->fetch({.queue = "work"}).value(), SizeIs(1));
  publish("second");
  work.paused = true;
  store().set_queue(work, store().queues().value().at(0)).value();
  EXPECT_THAT(other->fetch({.queue = "work"}).value(), IsEmpty());
  work.paused = false;
  store().set_queue(work, store().queues().value().at(0)).value();
  EXPECT_THAT(ids(other->fetch({.queue = "work", .wait = 10min}).value()), ElementsAre("second"));
}

TEST_P(DurabilityContract, AnOrderInOneStoreIsCarriedOutInTheOther) {
  const auto other = open();
  const Queue work = add("work");
  publish("a");
  settle_as(claim_one(work).value(), State::dead);
  const core::Order order = order_of("ann");
  std::jthread person([&] { wake("work", entry("a").sequence, order); });
  TestClaimer claimer(work);
  const auto deliveries =
      other->fetch({.queue = "work", .claimer = &claimer, .wait = 10min}).value();
  ASSERT_THAT(deliveries, SizeIs(1));
  EXPECT_EQ(deliveries.at(0).order, order);
}

TEST_P(DurabilityContract, AWorkerOfTheOtherStoreHoldsItsTaskUntilItIsGone) {
  if (!GetParam().knows_who_left) GTEST_SKIP() << "this store goes by leases alone";
  const auto other = open();
  const Queue work = add("work");
  publish("a");
  auto worker = other->join("work", "worker").value();
  const Held held = claim_one(work, worker->number(), other.get()).value();
  EXPECT_FALSE(get(held.at)->holder_gone);
  EXPECT_EQ(store().counts("work").value().workers, 1U);
  EXPECT_FALSE(claim_one(work));
  worker.reset();
  EXPECT_TRUE(get(held.at)->holder_gone);
  EXPECT_EQ(store().counts("work").value().workers, 0U);
  EXPECT_EQ(claim_one(work).value().stored.record.claims, 2U);
}

TEST_P(DurabilityContract, TwoStoresShareTheWorkWithoutOverlap) {
  const auto other = open();
  const Queue work = add("work");
  publish_many(300);
  std::atomic<std::size_t> first_claims{0};
  std::atomic<std::size_t> second_claims{0};
  const auto drain_from = [&](Store* from, std::atomic<std::size_t>& claims) {
    while (const auto held = claim_one(work, {}, from)) {
      const Swap done{.at = held->at,
                      .expected = held->stored.revision,
                      .record = record_of(held->entry, State::completed),
                      .handle = held->handle};
      EXPECT_TRUE(from->swap(std::span(&done, 1)).at(0)->written);
      ++claims;
    }
  };
  {
    std::jthread first([&] { drain_from(&store(), first_claims); });
    std::jthread second([&] { drain_from(other.get(), second_claims); });
  }
  EXPECT_EQ(first_claims + second_claims, 300U);
  EXPECT_EQ(count("work", State::completed), 300U);
}

}  // namespace
}  // namespace once::contract
