// How entries stand by what was written of them, in whatever order that is seen.
#include "store/nats/queues/queue_counts.h"

#include <gtest/gtest.h>

namespace once::store::nats {
namespace {

constexpr StoreTime kThen{Duration{1000}};

Record completed(bool owes) { return {.state = State::completed, .reply_due = owes}; }

TEST(QueueCounts, WhatOwesAReplyIsOpenAndCountsAgainWhenItIsPaid) {
  QueueCounts counts;
  counts.see_entry({1}, true, kThen);
  counts.see_record(QueueCounts::Place::key, {1}, completed(true), kThen);
  ASSERT_TRUE(counts.open().contains({1}));
  EXPECT_EQ(counts.open().at({1}).state, State::completed);
  EXPECT_TRUE(counts.open().at({1}).owes);
  EXPECT_EQ(counts.open().at({1}).due, kThen + core::kReplyAgain);
  EXPECT_EQ(counts.settled(State::completed), 0U);
  EXPECT_TRUE(counts.owes_replies());
  EXPECT_TRUE(counts.has_state({1}, State::completed));

  counts.see_record(QueueCounts::Place::key, {1}, completed(false), kThen);
  EXPECT_TRUE(counts.open().empty());
  EXPECT_EQ(counts.settled(State::completed), 1U);
  EXPECT_FALSE(counts.owes_replies());
}

TEST(QueueCounts, ARecordMayBeSeenBeforeItsEntry) {
  QueueCounts counts;
  counts.see_record(QueueCounts::Place::own, {1}, completed(true), kThen);
  EXPECT_FALSE(counts.owes_replies()) << "of another queue, perhaps";
  counts.see_entry({1}, true, kThen);
  EXPECT_TRUE(counts.owes_replies());
  EXPECT_TRUE(counts.open().contains({1}));
  counts.see_record(QueueCounts::Place::own, {1}, completed(false), kThen);
  EXPECT_FALSE(counts.owes_replies());
  EXPECT_EQ(counts.settled(State::completed), 1U);
}

TEST(QueueCounts, TheEntrysOwnRecordSaysWhetherItOwes) {
  QueueCounts counts;
  counts.see_entry({1}, true, kThen);
  counts.see_record(QueueCounts::Place::key, {1}, completed(true), kThen);
  counts.see_record(QueueCounts::Place::own, {1}, completed(false), kThen);
  EXPECT_FALSE(counts.owes_replies());
  counts.see_record(QueueCounts::Place::key, {1}, completed(true), kThen);
  EXPECT_FALSE(counts.owes_replies());
  EXPECT_EQ(counts.settled(State::completed), 1U);
}

TEST(QueueCounts, WhatIsDroppedOwesNothing) {
  QueueCounts counts;
  counts.see_entry({1}, false, kThen);
  counts.see_record(QueueCounts::Place::key, {1}, completed(true), kThen);
  EXPECT_TRUE(counts.owes_replies());
  counts.drop_records({1});
  EXPECT_FALSE(counts.owes_replies());
  EXPECT_TRUE(counts.open().empty());
  EXPECT_EQ(counts.records(), 0U);
}

}  // namespace
}  // namespace once::store::nats
