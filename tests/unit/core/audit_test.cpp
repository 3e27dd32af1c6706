// What a task counts for in an audit, and which records contradict themselves.
#include "core/audit.h"

#include <gtest/gtest.h>

#include "core/sequences.h"

namespace once::core {
namespace {

using namespace std::chrono_literals;

const Time kPublished = Time{1'000'000s};

Attempt attempt(std::uint32_t number, Ending ending) {
  Attempt made{.number = number, .worker = "ana", .ending = ending};
  made.started_at = kPublished + std::chrono::seconds{number};
  if (ending != Ending::running) made.ended_at = made.started_at + 500ms;
  return made;
}

Record record(State state, std::vector<Ending> endings) {
  Record made{.sequence = {7}, .state = state};
  for (const Ending ending : endings) made.attempts.push_back(attempt(++made.claims, ending));
  return made;
}

struct Counted {
  Totals totals{};
  std::string contradiction{};
};
Counted counted(const Record& record) {
  Counted result;
  result.contradiction =
      account({.state = record.state, .record = &record, .ready = kPublished}, result.totals);
  return result;
}

TEST(Account, ATaskWithoutARecordIsPublishedAndWaits) {
  Totals totals;
  EXPECT_EQ(account({.state = State::waiting}, totals), "");
  EXPECT_EQ(totals.published, 1U);
  EXPECT_EQ(totals.in(State::waiting), 1U);
  EXPECT_EQ(totals.attempts, 0U);
}

TEST(Account, ACompletionIsMeasured) {
  const Counted done = counted(record(State::completed, {Ending::completed}));
  EXPECT_EQ(done.contradiction, "");
  EXPECT_EQ(done.totals.in(State::completed), 1U);
  EXPECT_EQ(done.totals.attempts, 1U);
  EXPECT_EQ(done.totals.all_reruns(), 0U);
  EXPECT_EQ(done.totals.to_start.sum, 1000ms);
  EXPECT_EQ(done.totals.to_record.sum, 1500ms);
  EXPECT_EQ(done.totals.to_record.count(), 1U);
}

TEST(Account, EveryRerunHasTheReasonOfTheAttemptBefore) {
  const Counted done =
      counted(record(State::completed, {Ending::failed, Ending::lost, Ending::timed_out,
                                        Ending::unknown, Ending::interrupted, Ending::completed}));
  EXPECT_EQ(done.contradiction, "");
  EXPECT_EQ(done.totals.attempts, 6U);
  EXPECT_EQ(done.totals.all_reruns(), 5U);
  for (const Rerun why :
       {Rerun::failed, Rerun::lost, Rerun::timed_out, Rerun::unknown, Rerun::interrupted})
    EXPECT_EQ(done.totals.rerun(why), 1U) << to_string(why);
}

TEST(Account, WhatNeverBeganIsNoRun) {
  Record released = record(State::completed, {Ending::released, Ending::completed});
  EXPECT_EQ(counted(released).totals.attempts, 1U);
  EXPECT_EQ(counted(released).totals.all_reruns(), 0U);
  Record probed = record(State::in_doubt, {Ending::lost, Ending::lost});
  probed.attempts[1].probing = true;
  EXPECT_EQ(counted(probed).totals.attempts, 1U);
}

TEST(Account, ADeadOneRunsAgainOnlyWhenAPersonAsked) {
  Record again = record(State::completed, {Ending::dead, Ending::completed});
  EXPECT_EQ(counted(again).totals.rerun(Rerun::unexplained), 1U);
  EXPECT_NE(counted(again).contradiction, "");
  again.story.push_back({.act = OperatorAction::Act::retried, .by = "eve"});
  again.actions = 1;
  EXPECT_EQ(counted(again).totals.rerun(Rerun::asked), 1U);
  EXPECT_EQ(counted(again).contradiction, "");
}

TEST(Account, AStepThatAPersonCompletedRunsADeadOneAgain) {
  Record again = record(State::completed, {Ending::dead, Ending::completed});
  again.story.push_back({.act = OperatorAction::Act::step_completed, .by = "eve", .step = "pay"});
  again.actions = 1;
  EXPECT_EQ(counted(again).totals.rerun(Rerun::asked), 1U);
  EXPECT_EQ(counted(again).contradiction, "");
}

// The handler said completed, and a step of it was held: decide() makes that in doubt.
TEST(Account, ACompletionWithAStepThatIsHeldIsNone) {
  Record held = record(State::in_doubt, {Ending::completed});
  held.story.push_back({.act = OperatorAction::Act::held, .by = "ana", .step = "pay"});
  held.actions = 1;
  EXPECT_EQ(counted(held).contradiction, "");
  EXPECT_EQ(counted(held).totals.to_record.count(), 0U);
  Record again = record(State::completed, {Ending::completed, Ending::completed});
  again.story.push_back({.act = OperatorAction::Act::step_completed, .by = "eve", .step = "pay"});
  again.actions = 1;
  EXPECT_EQ(counted(again).contradiction, "");
  EXPECT_EQ(counted(again).totals.completed_twice, 0U);
  EXPECT_EQ(counted(again).totals.rerun(Rerun::asked), 1U);
}

TEST(Account, ASecondCompletionIsSeen) {
  const Counted twice = counted(record(State::completed, {Ending::completed, Ending::completed}));
  EXPECT_EQ(twice.totals.completed_twice, 1U);
  EXPECT_EQ(twice.contradiction, "attempt 2 began though attempt 1 ended as completed");
}

// Somebody changed the state of a record: the task would run again, or count as never done.
TEST(Account, ACompletionThatNothingTookBackIsNotAnotherState) {
  for (const State state : {State::waiting, State::retrying, State::in_doubt, State::dead,
                            State::cancelled, State::duplicate})
    EXPECT_EQ(counted(record(state, {Ending::completed})).contradiction,
              "it is " + std::string(to_string(state)) +
                  ", though its last attempt completed, and nothing says why");
  EXPECT_EQ(counted(record(State::dead, {Ending::dead})).contradiction, "");
}

TEST(Account, WhatContradictsItselfIsSaid) {
  EXPECT_EQ(counted(record(State::completed, {Ending::running})).contradiction,
            "attempt 1 has no end, though it is completed");
  EXPECT_EQ(counted(record(State::running, {Ending::running, Ending::running})).contradiction,
            "attempt 1 has no end, though it is not the last one");
  EXPECT_EQ(counted(record(State::running, {Ending::lost})).contradiction,
            "it is running, though its last attempt has ended");
  EXPECT_EQ(counted(record(State::completed, {Ending::failed})).contradiction,
            "it is completed, and nothing says by whom");
  Record by_hand = record(State::completed, {Ending::lost});
  by_hand.story.push_back({.act = OperatorAction::Act::completed, .by = "eve"});
  by_hand.actions = 1;
  EXPECT_EQ(counted(by_hand).contradiction, "");
  EXPECT_EQ(counted(record(State::running, {Ending::failed, Ending::running})).contradiction, "");
  Record more = record(State::retrying, {Ending::failed});
  more.claims = 0;
  EXPECT_EQ(counted(more).contradiction, "it has more attempts than claims");
}

TEST(Account, OldAttemptsThatTheRecordDroppedStillCount) {
  Record old = record(State::completed, {Ending::failed, Ending::completed});
  old.claims = 100;
  const Counted done = counted(old);
  EXPECT_EQ(done.contradiction, "");
  EXPECT_EQ(done.totals.attempts, 100U);
  EXPECT_EQ(done.totals.all_reruns(), 99U);
  EXPECT_EQ(done.totals.rerun(Rerun::older), 98U);
}

TEST(Account, DuplicatesByKeyAreCounted) {
  EXPECT_EQ(counted(record(State::duplicate, {})).totals.duplicates_by_ledger, 1U);
  Record conflict = record(State::dead, {});
  EXPECT_EQ(counted(conflict).totals.duplicates_by_ledger, 0U);
  conflict.reason = std::string(kConflictingKey) + ": the key 'k' belongs to #1";
  EXPECT_EQ(counted(conflict).totals.duplicates_by_ledger, 1U);
}

TEST(Account, AClockThatWasSetBackMakesNoNegativeLatency) {
  Record early = record(State::completed, {Ending::completed});
  early.attempts[0].started_at = kPublished - 1h;
  EXPECT_EQ(counted(early).totals.to_start.sum, 0ms);
}

TEST(PastTotals, WhatIsTakenTwiceCountsOnce) {
  const Record done = record(State::completed, {Ending::completed});
  Past past;
  for (int i = 0; i < 2; ++i) {
    past.take_records(7, kPublished, {.state = State::completed, .record = &done});
    past.take_id(7, kPublished, 3);
  }
  ASSERT_EQ(past.hours.size(), 1U);
  const Totals& totals = past.hours.begin()->second;
  EXPECT_EQ(past.hours.begin()->first, hour_of(kPublished));
  EXPECT_EQ(totals.published, 1U);
  EXPECT_EQ(totals.duplicates_at_append, 3U);
}

TEST(Hours, BeginBeforeTheirMinutesAlsoBefore1970) {
  EXPECT_EQ(hour_of(Time{59min}), 0);
  EXPECT_EQ(hour_of(Time{-1ms}), -1);
  EXPECT_EQ(begin_of_hour(-1), Time{-1h});
}

TEST(SequenceSet, KeepsRangesThatDoNotTouch) {
  Sequences set;
  set.add(5);
  set.add(7);
  EXPECT_EQ(set.ranges().size(), 2U);
  set.add(6);
  EXPECT_EQ(set.ranges(), (Sequences::Ranges{{5, 7}}));
  set.add(1, 3);
  set.add(2, 9);
  EXPECT_EQ(set.ranges(), (Sequences::Ranges{{1, 9}}));
  EXPECT_EQ(set.count(), 9U);
  EXPECT_TRUE(set.contains(9));
  EXPECT_FALSE(set.contains(10));
  EXPECT_FALSE(set.contains(0));
}

TEST(SequenceSet, TellsWhatIsMissing) {
  Sequences set;
  set.add(3, 4);
  set.add(8);
  EXPECT_EQ(set.missing(0, 10).ranges(), (Sequences::Ranges{{1, 2}, {5, 7}, {9, 10}}));
  EXPECT_EQ(set.missing(2, 4).ranges(), Sequences::Ranges{});
  EXPECT_EQ(set.missing(3, 8).ranges(), (Sequences::Ranges{{5, 7}}));
  EXPECT_EQ(Sequences{}.missing(0, 2).ranges(), (Sequences::Ranges{{1, 2}}));
  EXPECT_TRUE(Sequences{}.missing(0, 0).empty());
}

// --- What a store notes of a record outside of it -----------------------------------------------

RecordNote noted_of(const Record& record) {
  return {
      .state = record.state, .member = record.member, .sequence = record.sequence, .revision = {9}};
}

TEST(Contradiction, AStoreThatNotesWhatTheRecordSaysHasNone) {
  Record done = record(State::completed, {Ending::completed});
  done.attempts[0].token = {9};
  EXPECT_EQ(contradiction(done, noted_of(done)), "");
  RecordNote of_no_entry = noted_of(done);
  of_no_entry.sequence = {};
  EXPECT_EQ(contradiction(done, of_no_entry), "");
}

TEST(Contradiction, EachThingThatIsNotedCountsByItself) {
  Record done = record(State::completed, {Ending::completed});
  done.attempts[0].token = {9};
  done.member = {4};
  const Digest other{.bytes = {1}};
  RecordNote state = noted_of(done), member = state, sequence = state, revision = state,
             digest = state;
  state.state = State::dead;
  member.member = {5};
  sequence.sequence = {8};
  revision.revision = {8};
  digest.digest = &other;
  EXPECT_EQ(contradiction(done, state),
            "its record says that it is completed, and the ledger's own column dead");
  EXPECT_NE(contradiction(done, member), "");
  EXPECT_EQ(contradiction(done, sequence), "its record is about #7 and is filed under #8");
  EXPECT_NE(contradiction(done, revision), "");
  EXPECT_NE(contradiction(done, digest), "");
}

TEST(Contradiction, AStageSaysWhatIsStillThere) {
  EXPECT_EQ(contradiction(Stage::whole, true, true), "");
  EXPECT_EQ(contradiction(Stage::body_retired, false, true), "");
  EXPECT_EQ(contradiction(Stage::records_dropped, false, false), "");
  EXPECT_NE(contradiction(Stage::whole, false, true), "");
  EXPECT_NE(contradiction(Stage::body_retired, true, true), "");
  EXPECT_NE(contradiction(Stage::records_dropped, true, false), "");
  EXPECT_NE(contradiction(Stage::records_dropped, false, true), "");
  EXPECT_NE(contradiction(static_cast<Stage>(3), false, false), "");
}

TEST(Contradiction, TotalsAddUp) {
  Totals totals = counted(record(State::completed, {Ending::failed, Ending::completed})).totals;
  EXPECT_EQ(contradiction(totals), "");
  ++totals.published;
  EXPECT_EQ(contradiction(totals), "2 tasks, of which 1 are in a state");
  --totals.published;
  totals.reruns[0] = 3;
  EXPECT_EQ(contradiction(totals), "3 re-runs in 2 attempts");
}

}  // namespace
}  // namespace once::core
