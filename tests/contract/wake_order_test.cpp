// A person's order comes with a wake, stays with the entry until a delivery that carried it is
// answered, and is carried out once.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using core::OperatorAction;
using core::Order;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class WakeOrderContract : public Contract {
 protected:
  // What the rules make of a claimed task.
  Stored decide(const Held& held, const core::Command& command) {
    auto decision = core::decide(&held.stored, command, core::policy_of(queue_),
                                 {.store = store().now(), .wall = store().wall()});
    return write(held.at, held.stored.revision, decision.next.value(), held.handle);
  }
  // A task that died by the rules.
  Entry dead_task(const std::string& id) {
    publish(id);
    bury(claim_one(queue_).value());
    return entry(id);
  }
  Stored bury(const Held& held) {
    return decide(held,
                  core::Fail{.nonce = held.stored.record.nonce, .error = "no", .final = true});
  }
  Row row(const std::string& queue = "work") { return rows({.queue = queue}).at(0); }
  State state(const std::string& queue = "work") {
    return store::state_of(row(queue), store().now());
  }
  std::optional<Order> next_order() {
    const auto deliveries = fetch("work");
    return deliveries.empty() ? std::nullopt : deliveries.at(0).order;
  }

  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(WakeOrderContract);

// --- Carried ----------------------------------------------------------------------------------

TEST_P(WakeOrderContract, TheOrderComesWithTheDelivery) {
  const Entry a = dead_task("a");
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  const auto deliveries = fetch("work");
  ASSERT_THAT(deliveries, SizeIs(1));
  EXPECT_EQ(deliveries.at(0).order, order);
}

TEST_P(WakeOrderContract, AWakeWithoutAnOrderCarriesNone) {
  const Entry a = dead_task("a");
  wake("work", a.sequence);
  const auto deliveries = fetch("work");
  ASSERT_THAT(deliveries, SizeIs(1));
  EXPECT_FALSE(deliveries.at(0).order);
  EXPECT_EQ(state(), State::dead);
}

TEST_P(WakeOrderContract, AnOrderIsKeptToTheByte) {
  const Entry a = dead_task("a");
  Order order = order_of("Änne \"the\" operator\n", 1, Order::Kind::complete_step);
  order.at = store().wall() + 5s;
  order.why = std::string("nul \0 inside", 12);
  order.result = Body::bytes(std::string("\x00\xff\x7f", 3));
  wake("work", a.sequence, order);
  EXPECT_EQ(next_order(), order);
}

TEST_P(WakeOrderContract, ManyAreWokenAtOnceEachWithItsOwn) {
  std::vector<Wake> wakes;
  for (const char* id : {"a", "b", "c"})
    wakes.push_back({.sequence = dead_task(id).sequence, .order = order_of(id)});
  wakes.at(1).order.reset();
  store().wake("work", wakes).value();
  std::map<std::string, std::string> orders;
  for (const Delivery& each : drain("work"))
    orders[each.entry.id] = each.order ? each.order->by : "none";
  EXPECT_THAT(orders,
              ElementsAre(std::pair{"a", "a"}, std::pair{"b", "none"}, std::pair{"c", "c"}));
}

TEST_P(WakeOrderContract, AnOrderForWhatIsNotThereDoesNoHarm) {
  add("bills", "bills.>");
  const Entry a = publish("a");
  const std::vector<Wake> wakes{{.sequence = {987'654'321}, .order = order_of("ann")},
                                {.sequence = a.sequence, .order = order_of("ann")}};
  static_cast<void>(store().wake("bills", wakes));
  EXPECT_THAT(handed_over("bills"), IsEmpty());
  EXPECT_FALSE(store().wake("nowhere", wakes));
}

// --- Carried out ------------------------------------------------------------------------------

TEST_P(WakeOrderContract, ADeadTaskIsClaimedWithTheOrderAndItsStorySaysSo) {
  const Entry a = dead_task("a");
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  const Held held = claim_one(queue_).value();
  EXPECT_EQ(held.stored.record.state, State::running);
  EXPECT_EQ(held.stored.record.claims, 2U);
  EXPECT_EQ(held.stored.record.counted, 1U) << "all its attempts are before it";
  ASSERT_THAT(held.stored.record.story, SizeIs(1));
  EXPECT_EQ(held.stored.record.story.at(0).act, OperatorAction::Act::retried);
  EXPECT_EQ(held.stored.record.story.at(0).by, "ann");
  EXPECT_EQ(held.stored.record.story.at(0).nonce, order.nonce);
  EXPECT_FALSE(row().order);
  complete(held);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_EQ(state(), State::completed);
}

TEST_P(WakeOrderContract, ADoubtfulTaskIsClaimedWithTheOrder) {
  publish("a");
  settle_as(claim_one(queue_).value(), State::in_doubt);
  wake("work", entry("a").sequence, order_of("ann"));
  const Held held = claim_one(queue_).value();
  EXPECT_EQ(held.stored.record.story.at(0).act, OperatorAction::Act::retried);
}

TEST_P(WakeOrderContract, AStepThatAPersonCompletedIsDoneWhenTheTaskGoesOn) {
  publish("a");
  Held held = claim_one(queue_).value();
  const Nonce nonce = held.stored.record.nonce;
  held.stored =
      decide(held, core::StepBegin{.nonce = nonce, .name = "pay", .policy = InDoubt::hold});
  decide(held, core::StepHold{.nonce = nonce, .name = "pay", .by = "tester", .why = "who knows"});
  EXPECT_EQ(state(), State::in_doubt);
  const Order order = order_of("ann", 1, Order::Kind::complete_step);
  wake("work", entry("a").sequence, order);
  const Held again = claim_one(queue_).value();
  const core::Step* step = core::find_step(again.stored.record, "pay");
  ASSERT_TRUE(step);
  EXPECT_EQ(step->state, core::Step::State::done);
  EXPECT_EQ(step->result, order.result);
  EXPECT_EQ(again.stored.record.story.back().act, OperatorAction::Act::step_completed);
}

TEST_P(WakeOrderContract, WhenTheWorkerLeavesTheOrderIsNotCarriedOutASecondTime) {
  const Entry a = dead_task("a");
  wake("work", a.sequence, order_of("ann"));
  auto worker = store().join("work", "worker").value();
  ASSERT_TRUE(claim_one(queue_, worker->number()));
  worker.reset();
  if (!GetParam().knows_who_left) pass(queue_.lease);
  TestClaimer claimer(queue_);
  const auto deliveries = store().fetch({.queue = "work", .claimer = &claimer}).value();
  ASSERT_THAT(deliveries, SizeIs(1));
  EXPECT_FALSE(deliveries.at(0).order);
  const Stored stored = get(task_at("work", a)).value();
  EXPECT_THAT(stored.record.story, SizeIs(1));
  EXPECT_EQ(stored.record.actions, 1U);
}

TEST_P(WakeOrderContract, AClaimBySwapAnswersTheOrderToo) {
  const Entry a = dead_task("a");
  wake("work", a.sequence, order_of("ann"));
  const Delivery delivery = fetch("work").at(0);
  const Address at = task_at("work", a);
  TestClaimer claimer(queue_);
  const Stored stored = get(at).value();
  const auto record = claimer.claim(delivery.entry, &stored, &*delivery.order,
                                    {.store = store().now(), .wall = store().wall()});
  write(at, stored.revision, record.value(), delivery.handle);
  EXPECT_FALSE(row().order);
  EXPECT_EQ(count("work", State::running), 1U);
  pass(queue_.lease);
  const auto again = fetch("work");
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_FALSE(again.at(0).order);
}

TEST_P(WakeOrderContract, AnOrderThatIsGivenAgainAfterItWasCarriedOutChangesNothing) {
  const Entry a = dead_task("a");
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  const Stored dead = bury(claim_one(queue_).value());
  Order once_more = order;
  once_more.claims = dead.record.claims;
  for (const Order& each : {order, once_more}) {
    wake("work", a.sequence, each);
    EXPECT_FALSE(claim_one(queue_)) << "its nonce is in the story";
    EXPECT_EQ(get(task_at("work", a)), dead);
    EXPECT_EQ(state(), State::dead);
  }
}

TEST_P(WakeOrderContract, AnOrderForADeathThatIsOverIsAnsweredAndGone) {
  const Entry a = dead_task("a");
  wake("work", a.sequence, order_of("ann"));
  const Stored dead = bury(claim_one(queue_).value());
  wake("work", a.sequence, order_of("ben"));
  EXPECT_FALSE(claim_one(queue_));
  EXPECT_EQ(get(task_at("work", a)), dead);
  EXPECT_FALSE(row().order);
  EXPECT_EQ(state(), State::dead);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(WakeOrderContract, AnotherOrderAfterwardsIsCarriedOutToo) {
  const Entry a = dead_task("a");
  std::uint32_t claims = 1;
  for (const char* who : {"ann", "ben", "cem"}) {
    wake("work", a.sequence, order_of(who, claims++));
    const Stored dead = bury(claim_one(queue_).value());
    EXPECT_EQ(dead.record.story.back().by, who);
  }
  EXPECT_EQ(get(task_at("work", a))->record.actions, 3U);
}

// --- Until it is answered ---------------------------------------------------------------------

TEST_P(WakeOrderContract, OfTwoOrdersTheFirstStands) {
  const Entry a = dead_task("a");
  const Order first = order_of("ann");
  wake("work", a.sequence, first);
  wake("work", a.sequence, order_of("ben"));
  wake("work", a.sequence);
  EXPECT_EQ(next_order(), first);
  const Held held = [&] {
    pass(queue_.lease);
    return claim_one(queue_).value();
  }();
  EXPECT_THAT(held.stored.record.story, SizeIs(1));
  bury(held);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty()) << "the second is gone with the first";
  EXPECT_EQ(state(), State::dead);
}

TEST_P(WakeOrderContract, WhatIsNotAnsweredComesAgainWithItsOrder) {
  const Entry a = dead_task("a");
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  for (int time = 0; time < 3; ++time) {
    EXPECT_EQ(next_order(), order);
    EXPECT_FALSE(next_order()) << "somebody has it";
    pass(queue_.lease);
  }
}

TEST_P(WakeOrderContract, AWorkerThatDiesAfterTheFetchLeavesTheOrder) {
  const Entry a = dead_task("a");
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  auto worker = store().join("work", "worker").value();
  EXPECT_THAT(store().fetch({.queue = "work", .member = worker->number()}).value(), SizeIs(1));
  worker.reset();
  pass(queue_.lease);
  EXPECT_EQ(next_order(), order);
}

TEST_P(WakeOrderContract, PutOffItComesAgainWithItsOrder) {
  const Entry a = dead_task("a");
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  settle(fetch("work").at(0), "work", 1min);
  EXPECT_EQ(state(), State::waiting);
  pass(1min - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_EQ(next_order(), order);
}

TEST_P(WakeOrderContract, SettledAsDoneWithItIsGone) {
  const Entry a = dead_task("a");
  wake("work", a.sequence, order_of("ann"));
  settle(fetch("work").at(0), "work");
  EXPECT_FALSE(row().order);
  EXPECT_EQ(state(), State::dead);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  wake("work", a.sequence);
  EXPECT_FALSE(fetch("work").at(0).order);
}

TEST_P(WakeOrderContract, AWriteThatAnswersNoDeliveryLeavesTheOrder) {
  const Entry a = dead_task("a");
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  const Stored dead = get(task_at("work", a)).value();
  write(task_at("work", a), dead.revision, record_of(a, State::cancelled));
  EXPECT_EQ(state(), State::cancelled) << "an order changes only what a person waits for";
  EXPECT_EQ(count("work", State::cancelled), 1U);
  EXPECT_EQ(count("work", State::waiting), 0U);
  const auto deliveries = fetch("work");
  ASSERT_THAT(deliveries, SizeIs(1));
  EXPECT_EQ(deliveries.at(0).order, order);
  settle(deliveries.at(0), "work");
  EXPECT_FALSE(row().order);
}

TEST_P(WakeOrderContract, ADeliveryFromBeforeTheOrderDoesNotAnswerIt) {
  const Entry a = dead_task("a");
  wake("work", a.sequence);
  const Delivery before = fetch("work").at(0);
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  settle(before, "work");
  EXPECT_TRUE(row().order);
  EXPECT_EQ(next_order(), order);
  pass(queue_.lease);
  EXPECT_EQ(next_order(), order);
}

TEST_P(WakeOrderContract, AnOrderForATaskThatRunsWaitsForTheNextDelivery) {
  publish("a");
  const Held held = claim_one(queue_).value();
  const Order order = order_of("ann");
  wake("work", held.entry.sequence, order);
  EXPECT_EQ(state(), State::running);
  bury(held);
  EXPECT_EQ(state(), State::waiting);
  const Held again = claim_one(queue_).value();
  EXPECT_EQ(again.stored.record.story.at(0).nonce, order.nonce);
  EXPECT_FALSE(row().order);
}

TEST_P(WakeOrderContract, AnOrderForATaskThatCompletesMeanwhileIsAnsweredAndGone) {
  publish("a");
  const Held held = claim_one(queue_).value();
  wake("work", held.entry.sequence, order_of("ann"));
  const Stored completed = complete(held);
  EXPECT_FALSE(claim_one(queue_));
  EXPECT_FALSE(row().order);
  EXPECT_EQ(get(held.at), completed);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(WakeOrderContract, AnOrderThatComesBeforeTheFeedIsHandedOverOnceWithTheEntry) {
  const Entry a = publish("a");
  publish("b");
  write(task_at("work", a), {}, record_of(a, State::dead));
  wake("work", a.sequence, order_of("ann"));
  std::map<std::string, int> orders;
  for (const Delivery& each : drain("work")) orders[each.entry.id] += each.order ? 1 : 10;
  EXPECT_THAT(orders, ElementsAre(std::pair{"a", 1}, std::pair{"b", 10}));
}

TEST_P(WakeOrderContract, AnOrderForAScheduledTaskWaitsWithIt) {
  const Entry a = publish_delayed("a", 1min);
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_EQ(state(), State::scheduled);
  EXPECT_EQ(count("work", State::scheduled), 1U);
  pass(1min);
  EXPECT_EQ(next_order(), order);
}

TEST_P(WakeOrderContract, AnOrderIsOfOneQueueAlone) {
  add("other");
  const Entry a = dead_task("a");
  settle_as(claim_one(queue_of("other")).value(), State::dead);
  wake("work", a.sequence, order_of("ann"));
  EXPECT_THAT(handed_over("other"), IsEmpty());
  EXPECT_EQ(state("other"), State::dead);
  EXPECT_EQ(state("work"), State::waiting);
}

// --- Seen ---------------------------------------------------------------------------------------

TEST_P(WakeOrderContract, WhileAnOrderWaitsTheTaskIsWaiting) {
  dead_task("a");
  const Entry b = dead_task("b");
  publish("c");
  settle_as(claim_one(queue_).value(), State::in_doubt);
  const Entry c = entry("c");
  pass(1h);
  wake("work", b.sequence, order_of("ann"));
  wake("work", c.sequence, order_of("ann"));
  const auto expect_waiting = [&] {
    const Counts counts = store().counts("work").value();
    EXPECT_EQ(counts.tasks.at(State::dead), 1U);
    EXPECT_EQ(counts.tasks.at(State::in_doubt), 0U);
    EXPECT_EQ(counts.tasks.at(State::waiting), 2U);
    EXPECT_FALSE(counts.oldest_in_doubt);
    EXPECT_THAT(ids(rows({.queue = "work", .state = State::dead}, 1)), ElementsAre("a"));
    EXPECT_THAT(rows({.queue = "work", .state = State::in_doubt}), IsEmpty());
    const auto waiting = rows({.queue = "work", .state = State::waiting}, 1);
    EXPECT_THAT(ids(waiting), ElementsAre("b", "c"));
    for (const Row& each : waiting) EXPECT_TRUE(each.order);
    EXPECT_EQ(waiting.at(0).stored->record.state, State::dead) << "the record is as it was";
  };
  expect_waiting();
  EXPECT_EQ(store().counts("work").value().oldest_waiting, 0ms);
  drain("work");
  pass(1s);
  expect_waiting();
  EXPECT_EQ(store().counts("work").value().oldest_waiting, 1s);
}

TEST_P(WakeOrderContract, AWakeWithoutAnOrderLeavesTheStateAsItIs) {
  const Entry a = dead_task("a");
  wake("work", a.sequence);
  EXPECT_EQ(count("work", State::dead), 1U);
  EXPECT_EQ(count("work", State::waiting), 0U);
  EXPECT_FALSE(row().order);
}

TEST_P(WakeOrderContract, ATaskThatWasSetAsideCanBeOrderedToo) {
  const Entry a = publish("a");
  const Delivery delivery = fetch("work").at(0);
  const Stored own =
      write(entry_at("work", a.sequence), {}, record_of(a, State::dead), delivery.handle);
  EXPECT_TRUE(row().own);
  EXPECT_EQ(row().stored, own);
  const Order order = order_of("ann");
  wake("work", a.sequence, order);
  EXPECT_EQ(state(), State::waiting);
  EXPECT_EQ(count("work", State::waiting), 1U);
  const Delivery again = fetch("work").at(0);
  EXPECT_EQ(again.order, order);
  write(entry_at("work", a.sequence), own.revision, record_of(a, State::dead), again.handle);
  EXPECT_FALSE(row().order);
  EXPECT_EQ(count("work", State::dead), 1U);
  pass(24h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(WakeOrderContract, TheRecordOfAKeyIsNotTheEntrysOwn) {
  publish("a");
  EXPECT_FALSE(row().own);
  claim_one(queue_).value();
  EXPECT_FALSE(row().own);
  const Entry b = publish("b");
  write(entry_at("work", b.sequence), {}, record_of(b, State::duplicate));
  EXPECT_TRUE(rows({}).at(1).own);
}

}  // namespace
}  // namespace once::contract
