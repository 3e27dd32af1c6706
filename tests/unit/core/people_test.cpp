// What people do to a task: order it to run again, say how it ended, drop it, call it off; and the
// story that is kept of it.
#include <gtest/gtest.h>

#include "unit/core/examples.h"
#include "unit/core/table.h"

namespace once::core {
namespace {

using namespace examples;

Decision ask(const Stored& holds, const Command& command, Now now = after(seconds(5))) {
  return decide(&holds, command, policy(), now);
}

Record written(const Decision& made) {
  EXPECT_TRUE(made.next) << "nothing was written: " << to_string(made.verdict);
  return made.next.value_or(Record{});
}

const Record& not_settled_or_done(int which) {
  static const Record records[] = {waiting(),   running(),   retrying(),
                                   completed(), cancelled(), duplicate()};
  return records[which];
}

// --- Orders ---------------------------------------------------------------------------------

TEST(Order, RunsADeadOrDoubtfulTaskWithAllItsAttemptsBeforeIt) {
  for (const Record& settled : {ended(Ending::failed, State::dead, 3), in_doubt()}) {
    SCOPED_TRACE(to_string(settled.state));
    Record before = settled;
    before.reason = "no attempts are left";
    before.error = "no paper";
    before.probe = true;
    const Decision made = ask(stored(before), claim_with(retry_order(before.claims)));
    EXPECT_EQ(in_words(made), "claimed -> running");
    EXPECT_EQ(made.until, kStamp + seconds(5) + kLease);
    const Record next = written(made);
    EXPECT_EQ(next.claims, before.claims + 1);
    EXPECT_EQ(next.counted, 1U);
    EXPECT_EQ(next.nonce, kBen);
    EXPECT_FALSE(next.probe);
    EXPECT_FALSE(next.attempts.back().probing);
    EXPECT_EQ(next.in_doubt, before.in_doubt);
    EXPECT_EQ(next.reason, "");
    EXPECT_EQ(next.error, "no paper");
    EXPECT_EQ(next.attempts.size(), before.attempts.size() + 1);
    EXPECT_EQ(next.actions, 1U);
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0],
              (OperatorAction{.act = OperatorAction::Act::retried,
                              .at = kThen,  // when it was given, not when it is applied
                              .by = "eve",
                              .why = "paper is there",
                              .nonce = kEve}));
  }
}

TEST(Order, IsAppliedOnce) {
  const Record first = written(ask(stored(dead()), claim_with(retry_order())));
  const Record dead_again = written(ask(stored(first), fail_for_good(kBen)));
  const Record in_doubt_again =
      written(decide_on(stored(first), doubt(kBen), policy(InDoubt::hold), after(ms(0))));
  for (const std::uint32_t claims : {1U, 2U}) {
    SCOPED_TRACE(claims);
    const Claim again = claim_with(retry_order(claims));
    EXPECT_EQ(in_words(ask(stored(dead_again), again)), "already_dead");
    EXPECT_EQ(in_words(ask(stored(in_doubt_again), again)), "awaits_decision");
  }

  Order second = retry_order(2);
  second.nonce = nonce(0xE2);
  const Record next = written(ask(stored(dead_again), claim_with(second)));
  EXPECT_EQ(next.claims, 3U);
  EXPECT_EQ(next.counted, 1U);
  EXPECT_EQ(next.actions, 2U);
}

// Two people asked, the first one's order ran the task, and it died again: nobody has said yet what
// is to become of that.
TEST(Order, IsAboutTheDeathOrDoubtThatThePersonSaw) {
  for (const Record& settled : {ended(Ending::failed, State::dead, 3), in_doubt()}) {
    const Record holds = with(settled, {begun("push", 1)});
    SCOPED_TRACE(to_string(holds.state));
    const char* left = holds.state == State::dead ? "already_dead" : "awaits_decision";
    for (const std::uint32_t seen : {holds.claims - 1, holds.claims + 1})
      for (const Order& order : {retry_order(seen), complete_step_order("push", seen)}) {
        EXPECT_EQ(in_words(ask(stored(holds), claim_with(order))), left);
        EXPECT_EQ(in_words(ask(stored(holds), Retry{order})), "wrong_state");
      }
    for (const Order& order :
         {retry_order(holds.claims), complete_step_order("push", holds.claims)}) {
      EXPECT_EQ(in_words(ask(stored(holds), claim_with(order))), "claimed -> running");
      EXPECT_EQ(in_words(ask(stored(holds), Retry{order})), "released -> waiting");
    }
  }
}

// The attempt that it finds lost is not the one whose end the person saw.
TEST(Order, IsNotForTheDeathThatItsOwnClaimFindsOut) {
  const Record before = running(3);
  const Decision found = ask(holder_gone(before), claim_with(retry_order(2)));
  EXPECT_EQ(in_words(found), "exhausted -> dead");
  EXPECT_EQ(in_words(ask(stored(written(found)), claim_with(retry_order(2)))), "already_dead");
}

TEST(Order, WithoutATimeOfItsOwnIsOfNow) {
  Order order = retry_order();
  order.at = {};
  EXPECT_EQ(written(ask(stored(dead()), claim_with(order))).story.at(0).at, kWallNow);
}

TEST(Order, MeansNothingInAnyOtherState) {
  for (int which = 0; which < 6; ++which) {
    const Stored holds = stored(not_settled_or_done(which));
    const Decision plain = ask(holds, claim());
    const Decision with_order = ask(holds, claim_with(retry_order(holds.record.claims)));
    EXPECT_EQ(with_order.verdict, plain.verdict) << to_string(holds.record.state);
    EXPECT_EQ(with_order.next, plain.next) << to_string(holds.record.state);
  }
}

TEST(Order, ToRetryRunsEveryCutOffStepAgain) {
  const Record before =
      with(in_doubt(), {done("write"), begun("push", 1, InDoubt::hold), begun("tell", 1)});
  const Record next = written(ask(stored(before), claim_with(retry_order())));
  ASSERT_EQ(next.steps.size(), 3U);
  EXPECT_EQ(next.steps[0], done("write"));
  EXPECT_EQ(next.steps[1].state, Step::State::again);
  EXPECT_EQ(next.steps[1].runs, 1U);
  EXPECT_EQ(next.steps[2].state, Step::State::again);
  const StepBegin begin{.nonce = kBen, .name = "push", .policy = InDoubt::hold};
  EXPECT_EQ(in_words(ask(stored(next), begin)), "step_begun -> running");
}

TEST(Order, ToCompleteAStepRemembersThePersonsWord) {
  const Record before = with(in_doubt(), {begun("push", 1, InDoubt::hold), begun("tell", 1)});
  const Record next = written(ask(stored(before), claim_with(complete_step_order("push"))));
  EXPECT_EQ(next.state, State::running);
  EXPECT_EQ(next.steps[0].state, Step::State::done);
  EXPECT_EQ(next.steps[0].result, Body::bytes("eve's word"));
  EXPECT_FALSE(next.steps[0].result_cut);
  EXPECT_EQ(next.steps[0].ended_at, kWallNow);
  EXPECT_EQ(next.steps[1], before.steps[1]);
  ASSERT_EQ(next.story.size(), 1U);
  EXPECT_EQ(next.story[0], (OperatorAction{.act = OperatorAction::Act::step_completed,
                                           .at = kThen,
                                           .by = "eve",
                                           .why = "paper is there",
                                           .step = "push",
                                           .nonce = kEve}));
  const StepBegin begin{.nonce = kBen, .name = "push"};
  EXPECT_EQ(in_words(ask(stored(next), begin)), "step_remembered");
}

TEST(Order, ToCompleteAStepThatWasToRunAgain) {
  const Record next =
      written(ask(stored(with(dead(), {again("push")})), claim_with(complete_step_order("push"))));
  EXPECT_EQ(next.steps[0].state, Step::State::done);
}

TEST(Order, ToCompleteAStepKeepsTheTaskInDoubtWhileAnotherOneIs) {
  Record before =
      with(in_doubt(), {begun("push", 1, InDoubt::hold), begun("pay", 1, InDoubt::hold)});
  before.reason = "step 'push' was cut off";
  const Decision made = ask(stored(before), claim_with(complete_step_order("push")));
  EXPECT_EQ(in_words(made), "doubted -> in_doubt");
  const Record next = written(made);
  EXPECT_EQ(next.claims, 1U);
  EXPECT_EQ(next.nonce, kAna);
  EXPECT_EQ(next.steps[0].state, Step::State::done);
  EXPECT_EQ(next.steps[1], before.steps[1]);
  EXPECT_EQ(next.actions, 1U);
  EXPECT_EQ(next.reason, "step 'pay' was cut off");
  EXPECT_EQ(in_words(ask(stored(next), claim_with(complete_step_order("push")))),
            "awaits_decision");

  Order other = complete_step_order("pay");
  other.nonce = nonce(0xE2);
  EXPECT_EQ(in_words(ask(stored(next), claim_with(other))), "claimed -> running");
}

// Somebody else was faster, or the name is wrong: the person did not say "run it again".
TEST(Order, ToCompleteAStepThatIsNotOpenChangesNothing) {
  for (const std::vector<Step>& steps :
       {std::vector<Step>{}, std::vector<Step>{done("push")},
        std::vector<Step>{done("push"), begun("pay", 1, InDoubt::hold)}}) {
    EXPECT_EQ(
        in_words(ask(stored(with(in_doubt(), steps)), claim_with(complete_step_order("push")))),
        "awaits_decision");
    EXPECT_EQ(in_words(ask(stored(with(dead(), steps)), claim_with(complete_step_order("push")))),
              "already_dead");
    EXPECT_EQ(in_words(ask(stored(with(dead(), steps)), Retry{complete_step_order("push")})),
              "wrong_state");
  }
}

// Without a feed to wake: the next claim of anybody takes it.
TEST(Retry, MakesItClaimableWithAllItsAttempts) {
  for (const Record& settled : {ended(Ending::failed, State::dead, 3), in_doubt()}) {
    Record before = settled;
    before.delay = seconds(60);
    const Decision made = ask(stored(before), Retry{retry_order(before.claims)});
    EXPECT_EQ(in_words(made), "released -> waiting");
    EXPECT_EQ(made.until, kStamp + seconds(5));
    const Record next = written(made);
    EXPECT_EQ(next.counted, 0U);
    EXPECT_EQ(next.claims, before.claims);
    EXPECT_EQ(next.delay, ms(0));
    EXPECT_EQ(next.since, kWallNow);
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0].act, OperatorAction::Act::retried);
    EXPECT_EQ(next.story[0].at, kThen);
    EXPECT_EQ(next.story[0].nonce, kEve);
    const Record taken = written(ask(stored(next), claim()));
    EXPECT_EQ(taken.counted, 1U);
    EXPECT_EQ(taken.claims, before.claims + 1);
  }
}

// --- Resolve and drop -----------------------------------------------------------------------

TEST(Resolve, IsACompletionByAPerson) {
  Record before = in_doubt();
  before.reason = "held";
  before.error = "killed";
  before.result_cut = true;
  const Decision made = ask(stored(before), resolve());
  EXPECT_EQ(in_words(made), "completed -> completed");
  Record expected = in_doubt();
  expected.state = State::completed;
  expected.result = Body::bytes("sent");
  expected.since = kWallNow;
  expected.actions = 1;
  expected.story = {{.act = OperatorAction::Act::completed,
                     .at = kWallNow,
                     .by = "eve",
                     .why = "I saw it",
                     .nonce = kEve}};
  EXPECT_EQ(written(made), expected);
  // There is no second one: not the worker's, not another person's.
  EXPECT_EQ(in_words(ask(stored(expected), complete())), "fenced");
  Resolve other = resolve();
  other.nonce = nonce(0xE2);
  EXPECT_EQ(in_words(ask(stored(expected), other)), "wrong_state");
  EXPECT_EQ(in_words(ask(stored(expected), claim())), "already_completed");
}

TEST(Drop, LeavesItWithAReason) {
  struct Row {
    const char* by;
    const char* why;
    const char* reason;
  };
  const Row rows[] = {
      {"eve", "not worth it", "dropped by eve: not worth it"},
      {"eve", "", "dropped by eve"},
      {"", "not worth it", "dropped: not worth it"},
      {"", "", "dropped"},
  };
  for (const Row& row : rows)
    for (const Record& settled : {dead(), in_doubt()}) {
      const Record next =
          written(ask(stored(settled), Drop{.nonce = kEve, .by = row.by, .why = row.why}));
      EXPECT_EQ(next.state, State::cancelled);
      EXPECT_EQ(next.reason, row.reason);
      EXPECT_EQ(next.since, kWallNow);
      ASSERT_EQ(next.story.size(), 1U);
      EXPECT_EQ(next.story[0], (OperatorAction{.act = OperatorAction::Act::dropped,
                                               .at = kWallNow,
                                               .by = row.by,
                                               .why = row.why,
                                               .nonce = kEve}));
    }
}

// A person who decides by what the record said must not decide about a later attempt.
TEST(Drop, IsRefusedIfTheTaskWasClaimedSince) {
  const Record settled = ended(Ending::failed, State::dead, 3);
  for (const std::uint32_t seen : {0U, 2U, 4U})
    EXPECT_EQ(ask(stored(settled), Drop{.nonce = kEve, .claims = seen}).verdict,
              Verdict::wrong_state)
        << seen;
  const Decision made = ask(stored(settled), Drop{.nonce = kEve, .claims = settled.claims});
  EXPECT_EQ(made.verdict, Verdict::cancelled);
  EXPECT_EQ(ask(stored(written(made)), Drop{.nonce = kEve, .claims = 0}).verdict,
            Verdict::already_done)
      << "a repeated command is known again, whatever it says";
}

TEST(Resolve, IsRefusedIfTheTaskWasClaimedSince) {
  const Record held = in_doubt();
  EXPECT_EQ(ask(stored(held), Resolve{.nonce = kEve, .claims = held.claims + 1}).verdict,
            Verdict::wrong_state);
  EXPECT_EQ(ask(stored(held), Resolve{.nonce = kEve, .claims = held.claims}).verdict,
            Verdict::completed);
}

// --- Cancel ---------------------------------------------------------------------------------

TEST(Cancel, IsRefusedIfTheTaskWasClaimedSince) {
  core::Cancel command = cancel();
  command.claims = 0;
  EXPECT_EQ(decide(nullptr, command, policy(), after(seconds(5))).verdict, Verdict::cancelled);
  EXPECT_EQ(ask(stored(running()), command).verdict, Verdict::wrong_state);
  command.claims = 1;
  EXPECT_EQ(decide(nullptr, command, policy(), after(seconds(5))).verdict, Verdict::wrong_state);
}

TEST(Cancel, OfATaskWithoutARecordMakesOne) {
  const Decision made = decide(nullptr, cancel(), policy(), after(seconds(5)));
  Record expected{.sequence = kSequence, .digest = kDigest, .state = State::cancelled};
  expected.reason = "cancelled by eve: not today";
  expected.since = kWallNow;
  expected.actions = 1;
  expected.story = {{.act = OperatorAction::Act::cancelled,
                     .at = kWallNow,
                     .by = "eve",
                     .why = "not today",
                     .nonce = kEve}};
  EXPECT_EQ(made.verdict, Verdict::cancelled);
  EXPECT_EQ(written(made), expected);
}

// Somebody has ordered it to run again, and somebody else calls that off before a worker came.
TEST(Cancel, OfADeadTaskThatWaitsByAnOrderLeavesNothingForTheOrder) {
  for (const Record& settled : {ended(Ending::failed, State::dead, 3), in_doubt()}) {
    const Record next = written(ask(stored(settled), cancel_ordered()));
    EXPECT_EQ(next.state, State::cancelled);
    EXPECT_EQ(next.reason, "cancelled by eve: not today");
    ASSERT_EQ(next.story.size(), 2U);
    EXPECT_EQ(next.story[0].act, OperatorAction::Act::retried)
        << "asked for, though it came to nothing";
    EXPECT_EQ(next.story[0].at, kThen);
    EXPECT_EQ(next.story[1].act, OperatorAction::Act::cancelled);
    Order waiting = retry_order(settled.claims);
    waiting.nonce = nonce(0xE2);
    EXPECT_EQ(in_words(ask(stored(next), claim_with(waiting))), "already_cancelled");
  }
}

TEST(Cancel, OfARunningTaskAsksItsHolder) {
  Record before = running();
  const Decision made = ask(stored(before), cancel());
  EXPECT_EQ(made.verdict, Verdict::asked_to_stop);
  EXPECT_EQ(made.until, kStamp + kLease);
  Record expected = before;
  expected.attempts.back().token = Token{kRevision.value};
  expected.cancel_asked = true;
  expected.lease = kLease - seconds(5);  // it ends when it would have ended
  expected.actions = 1;
  expected.story = {{.act = OperatorAction::Act::cancel_asked,
                     .at = kWallNow,
                     .by = "eve",
                     .why = "not today",
                     .nonce = kEve}};
  EXPECT_EQ(written(made), expected);

  const Decision renewed = ask(stored(expected), renew());
  EXPECT_EQ(in_words(renewed), "asked_to_stop -> running");
  EXPECT_TRUE(written(renewed).cancel_asked);
  EXPECT_EQ(written(renewed).lease, kLease);
  EXPECT_EQ(renewed.until, kStamp + seconds(5) + kLease);
  EXPECT_EQ(in_words(ask(stored(*renewed.next), renew())), "asked_to_stop -> running");
}

TEST(Cancel, ComesTooLateForAHandlerThatIsDone) {
  const Record next = written(ask(stored(cancel_asked(running())), complete()));
  EXPECT_EQ(next.state, State::completed);
  EXPECT_FALSE(next.cancel_asked);
  EXPECT_EQ(next.reason, "");
}

TEST(Cancel, OfALostAttemptNeedsNobody) {
  for (const auto& [holds, now, error] :
       {std::tuple{holder_gone(running()), after(seconds(5)), "the worker died"},
        std::tuple{stored(running()), after(kLease), "the lease ended without a word"}}) {
    const Record next = written(ask(holds, cancel(), now));
    EXPECT_EQ(next.state, State::cancelled);
    EXPECT_EQ(next.reason, "cancelled by eve: not today");
    EXPECT_EQ(next.attempts.back().ending, Ending::lost);
    EXPECT_EQ(next.attempts.back().error, error);
    EXPECT_TRUE(next.in_doubt);
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0].act, OperatorAction::Act::cancelled);
    EXPECT_EQ(in_words(ask(stored(next), complete(), now)), "fenced");
  }
}

TEST(Cancel, TheLastOneWhoAskedIsNamed) {
  Cancel second = cancel();
  second.nonce = nonce(0xE2);
  second.by = "joe";
  second.why.clear();
  const Record twice = written(ask(stored(cancel_asked(running())), second));
  EXPECT_EQ(twice.actions, 2U);
  EXPECT_EQ(written(ask(stored(twice), fail())).reason, "cancelled by joe");
}

// --- The lease a claim asks for -------------------------------------------------------------

TEST(Lease, IsTheQueuesUnlessTheClaimSaysOtherwise) {
  Claim claimed = claim();
  Renew renewed = renew();
  EXPECT_EQ(written(ask(stored(waiting()), claimed)).lease, kLease);
  claimed.lease = renewed.lease = seconds(7);
  EXPECT_EQ(written(ask(stored(waiting()), claimed)).lease, seconds(7));
  EXPECT_EQ(ask(stored(waiting()), claimed).until, kStamp + seconds(12));
  EXPECT_EQ(written(ask(stored(running()), renewed)).lease, seconds(7));
  EXPECT_EQ(ask(stored(running()), renewed).until, kStamp + seconds(12));
  // One beyond all reason still ends after now.
  claimed.lease = renewed.lease = Duration::max();
  EXPECT_GT(ask(stored(waiting()), claimed).until, kStamp + seconds(5));
  EXPECT_GT(ask(stored(running()), renewed).until, kStamp + seconds(5));
  EXPECT_EQ(in_words(ask(stored(*ask(stored(waiting()), claimed).next), claim(kAna))), "held");
}

// --- The story ------------------------------------------------------------------------------

TEST(Story, KeepsTheLastActionsAndCountsAll) {
  Record record = running();
  for (std::uint32_t i = 1; i <= kActionsKept + 3; ++i) {
    Cancel each = cancel();
    each.nonce.bytes[0] = static_cast<std::uint8_t>(i >> 8);
    each.nonce.bytes[1] = static_cast<std::uint8_t>(i);
    each.why = std::to_string(i);
    record = written(ask(stored(record), each));
    record.lease = kLease;
    EXPECT_EQ(record.actions, i);
  }
  ASSERT_EQ(record.story.size(), kActionsKept);
  EXPECT_EQ(record.story.front().why, "4");
  EXPECT_EQ(record.story.back().why, std::to_string(kActionsKept + 3));
}

TEST(Story, KeepsWhatPeopleSayShort) {
  Drop chatty = drop();
  chatty.by = std::string(kOldErrorKept + 1, 'b');
  chatty.why = std::string(9999, 'w');
  const Record next = written(ask(stored(dead()), chatty));
  EXPECT_EQ(next.story[0].by.size(), kOldErrorKept);
  EXPECT_EQ(next.story[0].why.size(), kOldErrorKept);
  EXPECT_LE(next.reason.size(), kErrorKept);
}

TEST(Story, OfOlderAttemptsOnlyTheBeginningOfTheErrorIsKept) {
  Policy rules = policy();
  rules.attempts = 1000;
  const std::string error(kErrorKept, 'e');
  Record record = running();
  for (int i = 0; i < 12; ++i) {
    Fail failed = fail(record.nonce);
    failed.error = error;
    failed.retry_in = ms(0);
    record = written(decide_on(stored(record), failed, rules, after(ms(0))));
    record = written(decide_on(stored(record), claim(), rules, after(ms(0))));
  }
  ASSERT_EQ(record.attempts.size(), 13U);
  for (std::size_t i = 0; i < 12; ++i)
    EXPECT_EQ(record.attempts[i].error.size(), i < 13 - kAttemptsWhole ? kOldErrorKept : kErrorKept)
        << i;
}

TEST(Story, EveryCommandThatEndsAnAttemptLeavesItsLog) {
  const std::string log = "cannot reach the printer\n";
  Record probing = running();
  probing.attempts.back().probing = true;
  const std::pair<Record, Command> rows[] = {
      {running(), Complete{.nonce = kAna, .log = log}},
      {running(), Fail{.nonce = kAna, .log = log}},
      {running(), Fail{.nonce = kAna, .final = true, .log = log}},
      {running(), Doubt{.nonce = kAna, .log = log}},
      {running(), Release{.nonce = kAna, .started = true, .log = log}},
      {running(), Release{.nonce = kAna, .log = log}},
      {probing, Probed{.nonce = kAna, .log = log}},
  };
  for (const auto& [record, command] : rows) {
    SCOPED_TRACE(command.index());
    EXPECT_EQ(written(ask(stored(record), command)).attempts.back().log, log);
  }
}

TEST(Story, OfALogTheEndIsKeptFromTheBeginningOfACharacter) {
  const std::string end(kLogKept - 1, 'z');
  const std::pair<std::string, std::string> rows[] = {
      {end + "y", end + "y"},
      {"x" + end + "y", end + "y"},
      {"é" + end, end},
      {"a€" + end, end},
  };
  for (const auto& [given, kept] : rows) {
    const Fail failed{.nonce = kAna, .log = given};
    EXPECT_EQ(written(ask(stored(running()), failed)).attempts.back().log, kept);
  }
}

TEST(Story, TheOldestLogsGoFirst) {
  Policy rules = policy();
  rules.attempts = 1000;
  Record record = running();
  const auto of = [](std::size_t i) {
    return std::string(kLogKept, static_cast<char>('a' + static_cast<int>(i)));
  };
  for (std::size_t i = 0; i < 20; ++i) {
    const Fail failed{.nonce = record.nonce, .retry_in = ms(0), .log = of(i)};
    record = written(decide_on(stored(record), failed, rules, after(ms(0))));
    record = written(decide_on(stored(record), claim(), rules, after(ms(0))));
  }
  ASSERT_EQ(record.attempts.size(), 21U);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(record.attempts[i].log, i < 4 ? "" : of(i)) << i;
}

TEST(OperatorAction, EveryActHasItsName) {
  const std::pair<OperatorAction::Act, const char*> rows[] = {
      {OperatorAction::Act::retried, "retried"},
      {OperatorAction::Act::completed, "completed"},
      {OperatorAction::Act::dropped, "dropped"},
      {OperatorAction::Act::cancelled, "cancelled"},
      {OperatorAction::Act::cancel_asked, "cancel_asked"},
      {OperatorAction::Act::happened, "happened"},
      {OperatorAction::Act::did_not_happen, "did_not_happen"},
      {OperatorAction::Act::held, "held"},
      {OperatorAction::Act::step_completed, "step_completed"},
      {OperatorAction::Act::retry_asked, "retry_asked"},
      {OperatorAction::Act::step_completion_asked, "step_completion_asked"},
  };
  for (const auto& [act, name] : rows) EXPECT_EQ(to_string(act), name);
}

}  // namespace
}  // namespace once::core
