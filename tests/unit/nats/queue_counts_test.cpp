// How entries stand by what was written of them, in whatever order that is seen.
#include "store/nats/queues/queue_counts.h"

#include <gtest/gtest.h>

namespace once::store::nats {
namespace {

constexpr StoreTime kThen{Duration{1000}};

Record completed(bool owes) { return {.state = State::completed, .reply_due = owes}; }

TEST(QueueCounts, WhatOwesAReplyIsOpenAndCountsAgainWhenItIsPaid) {
  QueueCounts tally;
  tally.see_entry({1}, true, kThen);
  tally.see_record(QueueCounts::Place::key, {1}, completed(true), kThen);
  ASSERT_TRUE(tally.open().contains({1}));
  EXPECT_EQ(tally.open().at({1}).state, State::completed);
  EXPECT_TRUE(tally.open().at({1}).owes);
  EXPECT_EQ(tally.open().at({1}).due, kThen + core::kReplyAgain);
  EXPECT_EQ(tally.settled(State::completed), 0U);
  EXPECT_TRUE(tally.owes_replies());
  EXPECT_TRUE(tally.has_state({1}, State::completed));

  tally.see_record(QueueCounts::Place::key, {1}, completed(false), kThen);
  EXPECT_TRUE(tally.open().empty());
  EXPECT_EQ(tally.settled(State::completed), 1U);
  EXPECT_FALSE(tally.owes_replies());
}

TEST(QueueCounts, ARecordMayBeSeenBeforeItsEntry) {
  QueueCounts tally;
  tally.see_record(QueueCounts::Place::own, {1}, completed(true), kThen);
  EXPECT_FALSE(tally.owes_replies()) << "of another queue, perhaps";
  tally.see_entry({1}, true, kThen);
  EXPECT_TRUE(tally.owes_replies());
  EXPECT_TRUE(tally.open().contains({1}));
  tally.see_record(QueueCounts::Place::own, {1}, completed(false), kThen);
  EXPECT_FALSE(tally.owes_replies());
  EXPECT_EQ(tally.settled(State::completed), 1U);
}

TEST(QueueCounts, TheEntrysOwnRecordSaysWhetherItOwes) {
  QueueCounts tally;
  tally.see_entry({1}, true, kThen);
  tally.see_record(QueueCounts::Place::key, {1}, completed(true), kThen);
  tally.see_record(QueueCounts::Place::own, {1}, completed(false), kThen);
  EXPECT_FALSE(tally.owes_replies());
  tally.see_record(QueueCounts::Place::key, {1}, completed(true), kThen);
  EXPECT_FALSE(tally.owes_replies());
  EXPECT_EQ(tally.settled(State::completed), 1U);
}

TEST(QueueCounts, WhatIsDroppedOwesNothing) {
  QueueCounts tally;
  tally.see_entry({1}, false, kThen);
  tally.see_record(QueueCounts::Place::key, {1}, completed(true), kThen);
  EXPECT_TRUE(tally.owes_replies());
  tally.drop_records({1});
  EXPECT_FALSE(tally.owes_replies());
  EXPECT_TRUE(tally.open().empty());
  EXPECT_EQ(tally.records(), 0U);
}

}  // namespace
}  // namespace once::store::nats
