// A queue's definition can be changed, and a paused queue hands nothing over while everything else
// goes on.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class PauseContract : public Contract {
 protected:
  void pause(bool paused = true) {
    queue_.paused = paused;
    change();
  }
  // To what queue_ says.
  void change() {
    for (const Queue& queue : store().queues().value())
      if (queue.name == queue_.name) store().set_queue(queue_, queue).value();
  }
  void resume() { pause(false); }

  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(PauseContract);

TEST_P(PauseContract, AChangedDefinitionIsKept) {
  add("other");
  queue_.lease = 5s;
  queue_.timeout = 10min;
  queue_.attempts = 3;
  queue_.backoff = {1s, 2s};
  queue_.in_doubt = InDoubt::hold;
  queue_.max_running = 4;
  queue_.paused = true;
  change();
  EXPECT_THAT(store().queues().value(), ElementsAre(queue_of("other"), queue_));
  EXPECT_EQ(store().add_queue(queue_of("work")).value().existing, queue_);
}

TEST_P(PauseContract, AnUnknownQueueCannotBeChanged) {
  const auto changed = store().set_queue(queue_of("nowhere"), queue_of("nowhere"));
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::not_found);
  EXPECT_THAT(store().queues().value(), ElementsAre(queue_));
}

TEST_P(PauseContract, ADefinitionThatAnotherChangedIsNotOverwritten) {
  Queue mine = queue_;
  mine.attempts = 9;
  Queue theirs = queue_;
  theirs.paused = true;
  EXPECT_TRUE(store().set_queue(theirs, queue_).value());
  EXPECT_FALSE(store().set_queue(mine, queue_).value());
  EXPECT_TRUE(store().set_queue(theirs, theirs).value()) << "the same again changes nothing";
  EXPECT_THAT(store().queues().value(), ElementsAre(theirs));
}

TEST_P(PauseContract, ChangingAQueueLeavesItsTasksAsTheyAre) {
  completed_task(queue_, "done");
  publish("waiting");
  queue_.attempts = 9;
  change();
  EXPECT_EQ(count("work", State::completed), 1U);
  EXPECT_EQ(count("work", State::waiting), 1U);
  EXPECT_THAT(handed_over("work"), ElementsAre("waiting"));
}

TEST_P(PauseContract, APausedQueueHandsNothingOverUntilItIsResumed) {
  publish("handed over before");
  drain("work");
  publish("fresh");
  publish_delayed("scheduled", 1min);
  pause();
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1h);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_FALSE(claim_one(queue_));
  resume();
  EXPECT_THAT(handed_over("work"),
              UnorderedElementsAre("handed over before", "fresh", "scheduled"));
}

TEST_P(PauseContract, AQueueMayBePausedFromTheBeginning) {
  Queue paused = queue_of("later");
  paused.paused = true;
  publish("a");
  add(paused);
  EXPECT_EQ(count("later", State::waiting), 1U);
  EXPECT_THAT(handed_over("later"), IsEmpty());
}

TEST_P(PauseContract, EverythingElseGoesOn) {
  publish("a");
  settle_as(claim_one(queue_).value(), State::dead);
  pause();
  EXPECT_FALSE(append(task("b")).unrouted);
  EXPECT_EQ(count("work", State::waiting), 1U);
  auto worker = store().join("work", "worker").value();
  EXPECT_EQ(store().counts("work").value().workers, 1U);
  const core::Order order = order_of("ann");
  wake("work", entry("a").sequence, order);
  EXPECT_EQ(count("work", State::waiting), 2U);
  EXPECT_THAT(rows({.queue = "work"}), SizeIs(2));
  EXPECT_THAT(store().fetch({.queue = "work", .member = worker->number()}).value(), IsEmpty());
  resume();
  for (const Delivery& each : drain("work"))
    EXPECT_EQ(each.order.has_value(), each.entry.id == "a") << each.entry.id;
}

TEST_P(PauseContract, WhatRunsIsRenewedAndSettledWhileTheQueueIsPaused) {
  publish("a");
  Held held = claim_one(queue_).value();
  pause();
  held.stored = write(held.at, held.stored.revision, held.stored.record, held.handle);
  complete(held);
  EXPECT_EQ(count("work", State::completed), 1U);
}

TEST_P(PauseContract, ALeaseThatEndsMeanwhileIsHandedOverAfterwards) {
  publish("a");
  claim_one(queue_).value();
  pause();
  pass(queue_.lease);
  EXPECT_FALSE(claim_one(queue_));
  EXPECT_EQ(count("work", State::running), 1U);
  resume();
  EXPECT_EQ(claim_one(queue_).value().stored.record.claims, 2U);
}

TEST_P(PauseContract, AWorkerThatLeavesMeanwhileIsNoticedAfterwards) {
  publish("a");
  auto worker = store().join("work", "worker").value();
  claim_one(queue_, worker->number()).value();
  pause();
  worker.reset();
  EXPECT_FALSE(claim_one(queue_));
  if (!GetParam().knows_who_left) pass(queue_.lease);
  resume();
  EXPECT_EQ(claim_one(queue_).value().stored.record.claims, 2U);
}

TEST_P(PauseContract, OtherQueuesAreNotPaused) {
  add("other");
  publish("a");
  pause();
  EXPECT_THAT(handed_over("other"), ElementsAre("a"));
}

TEST_P(PauseContract, AnotherLeaseIsThatOfTheNextHandOver) {
  publish("a");
  drain("work");
  queue_.lease = 1s;
  change();
  pass(30s);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
  pass(1s - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(PauseContract, AWorkerThatLeavesIsNoticedThoughTheLeaseWasLongerWhenItClaimed) {
  if (!GetParam().knows_who_left) GTEST_SKIP() << "this store goes by leases alone";
  publish("a");
  auto worker = store().join("work", "worker").value();
  claim_one(queue_, worker->number()).value();
  queue_.lease = 1s;
  change();
  worker.reset();
  EXPECT_EQ(claim_one(queue_).value().stored.record.claims, 2U);
}

}  // namespace
}  // namespace once::contract
