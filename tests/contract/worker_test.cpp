// Workers that come and go: what a worker held is handed over when the store sees that it is gone.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WorkerContract : public Contract {
 protected:
  std::unique_ptr<Membership> join(std::string_view name) {
    return store().join("work", name).value();
  }
  std::uint64_t workers() {
    const std::uint64_t alive = store().workers("work").value();
    EXPECT_EQ(store().counts("work").value().workers, alive);
    return alive;
  }
  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(WorkerContract);

TEST_P(WorkerContract, EveryMembershipHasANumberOfItsOwn) {
  std::set<Member> numbers;
  for (int i = 0; i < 5; ++i) {
    const auto here = join("same-name");
    EXPECT_TRUE(here->number());
    EXPECT_TRUE(numbers.insert(here->number()).second) << "reused after it left";
  }
}

TEST_P(WorkerContract, WorkersAreCountedWhileTheyAreHere) {
  EXPECT_EQ(workers(), 0U);
  auto first = join("first");
  auto second = join("second");
  EXPECT_EQ(workers(), 2U);
  add("other");
  EXPECT_EQ(store().counts("other").value().workers, 0U);
  if (!GetParam().knows_who_left) GTEST_SKIP() << "this store goes by leases alone";
  first.reset();
  EXPECT_EQ(workers(), 1U);
  second.reset();
  EXPECT_EQ(workers(), 0U);
}

TEST_P(WorkerContract, AHolderThatIsHereIsNotGone) {
  const auto here = join("worker");
  publish("a");
  const Held held = claim_one(queue_, here->number()).value();
  EXPECT_FALSE(held.stored.holder_gone);
  EXPECT_FALSE(get(held.at)->holder_gone);
  EXPECT_FALSE(claim_one(queue_));
}

TEST_P(WorkerContract, AClaimWithoutAMembershipGoesByItsLease) {
  publish("a");
  const Held held = claim_one(queue_).value();
  EXPECT_FALSE(get(held.at)->holder_gone);
  EXPECT_FALSE(claim_one(queue_));
  pass(queue_.lease);
  EXPECT_TRUE(claim_one(queue_));
}

TEST_P(WorkerContract, AHolderThatHangsLosesItsTaskWhenTheLeaseEnds) {
  const auto hangs = join("hangs");
  publish("a");
  ASSERT_TRUE(claim_one(queue_, hangs->number()));
  pass(queue_.lease);
  const auto again = claim_one(queue_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stored.record.claims, 2U);
}

TEST_P(WorkerContract, TheTaskOfAWorkerThatIsGoneIsHandedOverAtOnce) {
  if (!GetParam().knows_who_left) GTEST_SKIP() << "this store goes by leases alone";
  auto dies = join("dies");
  const auto stays = join("stays");
  publish("a");
  publish("b");
  const Held lost = claim_one(queue_, dies->number()).value();
  const Held kept = claim_one(queue_, stays->number()).value();
  dies.reset();
  EXPECT_TRUE(get(lost.at)->holder_gone);
  EXPECT_FALSE(get(kept.at)->holder_gone);
  const auto again = claim_one(queue_, stays->number());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->entry.id, lost.entry.id);
  EXPECT_EQ(again->stored.record.claims, 2U);
  EXPECT_TRUE(again->stored.record.in_doubt);
  EXPECT_THAT(handed_over("work"), IsEmpty()) << "the other one's task is still held";
}

TEST_P(WorkerContract, ARenewedTaskOfAWorkerThatIsGoneIsHandedOverAtOnce) {
  if (!GetParam().knows_who_left) GTEST_SKIP() << "this store goes by leases alone";
  auto dies = join("dies");
  publish("a");
  const Held held = claim_one(queue_, dies->number()).value();
  pass(10s);
  write(held.at, held.stored.revision, held.stored.record, held.handle);
  dies.reset();
  EXPECT_TRUE(claim_one(queue_));
}

TEST_P(WorkerContract, WhatAWorkerSettledBeforeItLeftStaysSettled) {
  auto leaves = join("leaves");
  publish("done");
  complete(claim_one(queue_, leaves->number()).value());
  publish("later");
  settle_as(claim_one(queue_, leaves->number()).value(), State::retrying, 1min);
  leaves.reset();
  EXPECT_THAT(handed_over("work"), IsEmpty()) << "a retry still waits for its time";
  pass(1min);
  EXPECT_THAT(handed_over("work"), ElementsAre("later"));
}

TEST_P(WorkerContract, JoiningAnUnknownQueueIsAnError) {
  EXPECT_FALSE(store().join("no-such-queue", "worker"));
}

}  // namespace
}  // namespace once::contract
