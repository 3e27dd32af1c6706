// What becomes of an attempt that ended and did not complete: every way to end under every policy;
// the claims that ask the probe; and tasks whose time is over.
#include <gtest/gtest.h>

#include <map>

#include "unit/core/examples.h"
#include "unit/core/table.h"

namespace once::core {
namespace {

using namespace examples;

Decision ask(const Stored& holds, const Command& command, const Policy& rules,
             Now now = after(seconds(5))) {
  return decide(&holds, command, rules, now);
}

Record written(const Decision& made) {
  EXPECT_TRUE(made.next) << "nothing was written: " << to_string(made.verdict);
  return made.next.value_or(Record{});
}

// --- What comes next ------------------------------------------------------------------------

// "probing": Ben's claim asks the probe. "probe next": whoever claims next does.
constexpr const char* kWhatComesNext = R"(
 it ends as         | retry                  | steps                  | hold                  | probe
 lost, holder gone  | claimed -> running     | claimed -> running     | doubted -> in_doubt   | claimed -> running, probing
 lost, lease over   | claimed -> running     | claimed -> running     | doubted -> in_doubt   | claimed -> running, probing
 unknown            | retrying -> retrying   | retrying -> retrying   | doubted -> in_doubt   | retrying -> retrying, probe next
 timed_out          | retrying -> retrying   | retrying -> retrying   | doubted -> in_doubt   | retrying -> retrying, probe next
 interrupted        | released -> retrying   | released -> retrying   | doubted -> in_doubt   | released -> retrying, probe next
 failed             | retrying -> retrying   | retrying -> retrying   | retrying -> retrying  | retrying -> retrying
 failed for good    | dead -> dead           | dead -> dead           | dead -> dead          | dead -> dead
 released           | released -> waiting    | released -> waiting    | released -> waiting   | released -> waiting
)";

// In doubt is looked at before attempts are counted out.
constexpr const char* kAfterTheLastAttempt = R"(
 it ends as         | retry                  | steps                  | hold                  | probe
 lost, holder gone  | exhausted -> dead      | exhausted -> dead      | doubted -> in_doubt   | claimed -> running, probing
 lost, lease over   | exhausted -> dead      | exhausted -> dead      | doubted -> in_doubt   | claimed -> running, probing
 unknown            | dead -> dead           | dead -> dead           | doubted -> in_doubt   | retrying -> retrying, probe next
 timed_out          | dead -> dead           | dead -> dead           | doubted -> in_doubt   | retrying -> retrying, probe next
 interrupted        | released -> retrying   | released -> retrying   | doubted -> in_doubt   | released -> retrying, probe next
 failed             | dead -> dead           | dead -> dead           | dead -> dead          | dead -> dead
 failed for good    | dead -> dead           | dead -> dead           | dead -> dead          | dead -> dead
 released           | released -> waiting    | released -> waiting    | released -> waiting   | released -> waiting
)";

// A step with the policy hold was cut off: whatever the queue says, a person decides.
constexpr const char* kWithAStepToHold = R"(
 it ends as         | retry                  | steps                  | hold                  | probe
 lost, holder gone  | doubted -> in_doubt    | doubted -> in_doubt    | doubted -> in_doubt   | doubted -> in_doubt
 lost, lease over   | doubted -> in_doubt    | doubted -> in_doubt    | doubted -> in_doubt   | doubted -> in_doubt
 unknown            | doubted -> in_doubt    | doubted -> in_doubt    | doubted -> in_doubt   | doubted -> in_doubt
 timed_out          | doubted -> in_doubt    | doubted -> in_doubt    | doubted -> in_doubt   | doubted -> in_doubt
 interrupted        | doubted -> in_doubt    | doubted -> in_doubt    | doubted -> in_doubt   | doubted -> in_doubt
 failed             | doubted -> in_doubt    | doubted -> in_doubt    | doubted -> in_doubt   | doubted -> in_doubt
 failed for good    | dead -> dead           | dead -> dead           | dead -> dead          | dead -> dead
 released           | doubted -> in_doubt    | doubted -> in_doubt    | doubted -> in_doubt   | doubted -> in_doubt
)";

// A cancel was asked for: that comes before everything else.
constexpr const char* kWithACancel = R"(
 it ends as         | retry                  | steps                  | hold                  | probe
 lost, holder gone  | cancelled -> cancelled | cancelled -> cancelled | cancelled -> cancelled| cancelled -> cancelled
 lost, lease over   | cancelled -> cancelled | cancelled -> cancelled | cancelled -> cancelled| cancelled -> cancelled
 unknown            | cancelled -> cancelled | cancelled -> cancelled | cancelled -> cancelled| cancelled -> cancelled
 timed_out          | cancelled -> cancelled | cancelled -> cancelled | cancelled -> cancelled| cancelled -> cancelled
 interrupted        | cancelled -> cancelled | cancelled -> cancelled | cancelled -> cancelled| cancelled -> cancelled
 failed             | cancelled -> cancelled | cancelled -> cancelled | cancelled -> cancelled| cancelled -> cancelled
 failed for good    | cancelled -> cancelled | cancelled -> cancelled | cancelled -> cancelled| cancelled -> cancelled
 released           | cancelled -> cancelled | cancelled -> cancelled | cancelled -> cancelled| cancelled -> cancelled
)";

struct End {
  Command command;
  Now now = after(seconds(5));
  bool gone = false;
  Ending ending{};
};

const std::map<std::string, End>& ends() {
  static const Doubt timed_out{.nonce = kAna, .ending = Ending::timed_out, .error = "too long"};
  static const std::map<std::string, End> all{
      {"lost, holder gone", {claim_that_can_probe(), after(seconds(5)), true, Ending::lost}},
      {"lost, lease over", {claim_that_can_probe(), after(kLease), false, Ending::lost}},
      {"unknown", {.command = doubt(), .ending = Ending::unknown}},
      {"timed_out", {.command = timed_out, .ending = Ending::timed_out}},
      {"interrupted", {.command = interrupt(), .ending = Ending::interrupted}},
      {"failed", {.command = fail(), .ending = Ending::failed}},
      {"failed for good", {.command = fail_for_good(), .ending = Ending::dead}},
      {"released", {.command = release(), .ending = Ending::released}},
  };
  return all;
}

Decision end_it(const Record& running, const std::string& how, InDoubt in_doubt) {
  const End& end = ends().at(how);
  const Stored holds = end.gone ? holder_gone(running) : stored(running);
  return ask(holds, end.command, policy(in_doubt), end.now);
}

std::string in_words_with_probe(const Decision& made) {
  std::string text = in_words(made);
  if (!made.next) return text;
  if (made.next->state != State::running) return made.next->probe ? text + ", probe next" : text;
  return made.next->attempts.back().probing ? text + ", probing" : text;
}

void expect_table(const char* table, const Record& running) {
  const auto rows = rows_of(table);
  const auto& header = rows.front();
  EXPECT_EQ(rows.size() - 1, ends().size());
  EXPECT_EQ(header.size() - 1, 4U);
  for (std::size_t r = 1; r < rows.size(); ++r)
    for (std::size_t c = 1; c < header.size(); ++c) {
      SCOPED_TRACE(rows[r][0] + " under " + header[c]);
      const Decision made = end_it(running, rows[r][0], in_doubt_from(header[c]).value());
      EXPECT_EQ(in_words_with_probe(made), rows[r].at(c));
      const Record next = written(made);
      // Whatever comes of it, the attempt and its doubt are in the record.
      const Attempt& ended = next.attempts.at(running.attempts.size() - 1);
      const Ending ending = ends().at(rows[r][0]).ending;
      EXPECT_EQ(ended.ending, ending);
      EXPECT_EQ(ended.ended_at, kWallNow);
      EXPECT_EQ(ended.token, Token{kRevision.value});
      EXPECT_EQ(next.in_doubt,
                running.in_doubt || without_verdict(ending) || next.state == State::in_doubt);
      EXPECT_FALSE(next.cancel_asked);
    }
}

TEST(WhatComesNext, EveryEndingUnderEveryPolicy) { expect_table(kWhatComesNext, running()); }
TEST(WhatComesNext, AfterTheLastAttempt) { expect_table(kAfterTheLastAttempt, running(3)); }
TEST(WhatComesNext, WithAStepThatIsToBeHeld) {
  for (const std::uint32_t count : {1U, 3U})
    expect_table(kWithAStepToHold,
                 with(running(count), {done("write"), begun("push", count, InDoubt::hold)}));
}
TEST(WhatComesNext, WhenACancelWasAskedFor) {
  for (const std::uint32_t count : {1U, 3U}) {
    expect_table(kWithACancel, cancel_asked(running(count)));
    expect_table(kWithACancel,
                 cancel_asked(with(running(count), {begun("push", count, InDoubt::hold)})));
  }
}

TEST(WhatComesNext, AStepThatMayRunAgainHoldsNothing) {
  for (const InDoubt own : {InDoubt::retry, InDoubt::probe}) {
    expect_table(kWhatComesNext, with(running(), {begun("push", 1, own)}));
    expect_table(kAfterTheLastAttempt, with(running(3), {begun("push", 3, own)}));
  }
}

TEST(WhatComesNext, AFinishedStepHoldsNothing) {
  Step finished = done("push");
  finished.policy = InDoubt::hold;
  Step to_run_again = again("deploy");
  to_run_again.policy = InDoubt::hold;
  expect_table(kWhatComesNext, with(running(), {finished, to_run_again}));
}

TEST(WhatComesNext, HoldingSaysWhoHeldItAndWhy) {
  struct Row {
    const char* what;
    Record running;
    const char* how;
    InDoubt policy;
    const char* why;
    const char* step;
  };
  const Record cut_off = with(running(2), {begun("push", 2, InDoubt::hold)});
  const Row rows[] = {
      {"lost under hold", running(2), "lost, holder gone", InDoubt::hold,
       "attempt 2 ended without a verdict (lost)", ""},
      {"timed out under hold", running(2), "timed_out", InDoubt::hold,
       "attempt 2 ended without a verdict (timed_out)", ""},
      {"a step cut off", cut_off, "unknown", InDoubt::steps, "step 'push' was cut off", "push"},
      {"under hold, too, the step is named", cut_off, "unknown", InDoubt::hold,
       "step 'push' was cut off", "push"},
      {"lost while it asked for the last time", probing(3), "lost, holder gone", InDoubt::probe,
       "attempt 3 ended without a verdict (lost) while it asked the probe", ""},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Record next = written(end_it(row.running, row.how, row.policy));
    EXPECT_EQ(next.state, State::in_doubt);
    EXPECT_TRUE(next.in_doubt);
    EXPECT_EQ(next.reason, row.why);
    EXPECT_EQ(next.since, kWallNow);
    EXPECT_EQ(next.actions, 1U);
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0],
              (OperatorAction{.act = OperatorAction::Act::held,
                              .at = kWallNow,
                              // Who noticed: of a lost one that is the next worker.
                              .by = std::string_view(row.how).starts_with("lost") ? "ben" : "ana",
                              .why = row.why,
                              .step = row.step}));
    EXPECT_EQ(look_again(next), std::nullopt);
  }
}

TEST(WhatComesNext, ACancelThatWasAskedForIsTheReason) {
  const Record next = written(end_it(cancel_asked(running()), "lost, holder gone", InDoubt::hold));
  EXPECT_EQ(next.reason, "cancelled by eve: not today");
  EXPECT_EQ(next.actions, 1U);
  EXPECT_EQ(next.story.size(), 1U);
}

// --- Probing claims -------------------------------------------------------------------------

Record to_be_asked_about(std::uint32_t counted = 1) {
  Record record = ended(Ending::unknown, State::retrying, counted);
  record.probe = true;
  return record;
}

TEST(Probe, TheNextClaimAsksAndIsAnAttempt) {
  const Decision made =
      ask(stored(to_be_asked_about()), claim_that_can_probe(), policy(InDoubt::probe));
  EXPECT_EQ(made.verdict, Verdict::claimed);
  const Record next = written(made);
  EXPECT_TRUE(next.attempts.back().probing);
  EXPECT_EQ(next.claims, 2U);
  EXPECT_EQ(next.counted, 2U);
  EXPECT_TRUE(next.probe);
}

TEST(Probe, AWorkerThatCannotAskHoldsIt) {
  const Stored lost = holder_gone(running());
  for (const Stored& holds : {stored(to_be_asked_about()), lost}) {
    const Decision made = ask(holds, claim(), policy(InDoubt::probe));
    EXPECT_EQ(made.verdict, Verdict::doubted);
    const Record next = written(made);
    EXPECT_EQ(next.state, State::in_doubt);
    EXPECT_EQ(next.claims, 1U);
    EXPECT_EQ(next.nonce, kAna);
    EXPECT_EQ(next.reason, "this worker has no probe to ask");
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0].act, OperatorAction::Act::held);
    EXPECT_EQ(next.story[0].by, "ben");
  }
}

TEST(Probe, IsNotAskedWhenTheQueueHasAnotherPolicyByNow) {
  for (const InDoubt now : {InDoubt::retry, InDoubt::steps, InDoubt::hold}) {
    const Decision made = ask(stored(to_be_asked_about()), claim(), policy(now));
    EXPECT_EQ(made.verdict, Verdict::claimed);
    EXPECT_FALSE(written(made).attempts.back().probing);
  }
  EXPECT_EQ(ask(stored(to_be_asked_about(3)), claim(), policy(InDoubt::retry)).verdict,
            Verdict::exhausted);
}

TEST(Probe, ItHappenedCompletesTheTask) {
  for (const std::uint32_t count : {2U, 3U, 4U}) {
    const Decision made = ask(stored(probing(count)), it_happened(), policy(InDoubt::probe));
    EXPECT_EQ(made.verdict, Verdict::completed);
    const Record next = written(made);
    EXPECT_EQ(next.state, State::completed);
    EXPECT_EQ(next.result, Body::bytes("post 7"));
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0],
              (OperatorAction{.act = OperatorAction::Act::happened, .at = kWallNow, .by = "ana"}));
    EXPECT_EQ(in_words(ask(stored(next), it_happened(), policy(InDoubt::probe))), "already_done");
  }
}

TEST(Probe, ItDidNotHappenRunsTheHandlerInTheSameAttempt) {
  const Decision made = ask(stored(probing()), it_did_not_happen(), policy(InDoubt::probe));
  EXPECT_EQ(made.verdict, Verdict::probed);
  const Record next = written(made);
  EXPECT_EQ(next.state, State::running);
  EXPECT_EQ(next.claims, 2U);
  EXPECT_EQ(next.counted, 2U);
  EXPECT_FALSE(next.probe);
  EXPECT_FALSE(next.attempts.back().probing);
  EXPECT_EQ(next.attempts.back().ending, Ending::running);
  EXPECT_EQ(next.attempts.back().token, Token{kRevision.value});
  ASSERT_EQ(next.story.size(), 1U);
  EXPECT_EQ(next.story[0], (OperatorAction{.act = OperatorAction::Act::did_not_happen,
                                           .at = kWallNow,
                                           .by = "ana",
                                           .why = "no such post"}));
  EXPECT_EQ(in_words(ask(stored(next), it_did_not_happen(), policy(InDoubt::probe))),
            "already_done");

  // A later failure is a verdict: the next claim need not ask.
  const Record failed = written(ask(stored(next), fail(), policy(InDoubt::probe)));
  EXPECT_FALSE(failed.probe);
  EXPECT_EQ(failed.state, State::retrying);
}

// The last attempt was lost; one claim more may ask, but not run.
TEST(Probe, ItDidNotHappenAndNoAttemptIsLeft) {
  EXPECT_EQ(ask(stored(probing(3)), it_did_not_happen(), policy(InDoubt::probe)).verdict,
            Verdict::probed);
  const Decision made = ask(stored(probing(4)), it_did_not_happen(), policy(InDoubt::probe));
  EXPECT_EQ(in_words(made), "dead -> dead");
  const Record next = written(made);
  EXPECT_EQ(next.reason, "no attempts are left");
  EXPECT_EQ(next.attempts.back().ending, Ending::failed);
  EXPECT_EQ(next.attempts.back().error, "the probe says that it did not happen");
  ASSERT_EQ(next.story.size(), 1U);
  EXPECT_EQ(next.story[0].act, OperatorAction::Act::did_not_happen);
  EXPECT_EQ(in_words(ask(stored(next), it_did_not_happen(), policy(InDoubt::probe))),
            "already_done");
}

TEST(Probe, NobodyKnowsHoldsIt) {
  for (const std::uint32_t count : {2U, 3U, 4U}) {
    const Decision made = ask(stored(probing(count)), nobody_knows(), policy(InDoubt::probe));
    EXPECT_EQ(in_words(made), "doubted -> in_doubt");
    const Record next = written(made);
    EXPECT_EQ(next.reason, "the probe does not know whether it happened");
    EXPECT_EQ(next.error, "the site is down");
    EXPECT_EQ(next.attempts.back().ending, Ending::unknown);
    ASSERT_EQ(next.story.size(), 1U);
    EXPECT_EQ(next.story[0].act, OperatorAction::Act::held);
    EXPECT_EQ(in_words(ask(stored(next), nobody_knows(), policy(InDoubt::probe))), "already_done");
  }
}

TEST(Probe, AnAnswerThatIsNotMineIsFenced) {
  const Stored lost = stored(ended(Ending::lost, State::in_doubt, 2));
  for (const Command& command :
       {Command(it_did_not_happen()), Command(nobody_knows()), Command(it_happened())}) {
    EXPECT_EQ(in_words(ask(lost, command, policy(InDoubt::probe))), "fenced");
    Stored bens = stored(probing());
    bens.record.nonce = kBen;
    EXPECT_EQ(in_words(ask(bens, command, policy(InDoubt::probe))), "fenced");
  }
}

TEST(Probe, AnAttemptThatAsksNothingHasNoUseForAnAnswer) {
  EXPECT_EQ(in_words(ask(stored(running()), it_did_not_happen(), policy(InDoubt::probe))),
            "already_done");
}

// A probe that kills its worker is counted like an attempt, and the last one holds the task.
TEST(Probe, CutOffWhileItAsks) {
  const std::pair<std::uint32_t, const char*> rows[] = {
      {1, "claimed -> running, probing"},
      {2, "claimed -> running, probing"},
      {3, "doubted -> in_doubt"},
      {4, "doubted -> in_doubt"},
  };
  for (const auto& [count, expected] : rows)
    for (const char* how : {"lost, holder gone", "lost, lease over"})
      EXPECT_EQ(in_words_with_probe(end_it(probing(count), how, InDoubt::probe)), expected)
          << count << " " << how;
  EXPECT_EQ(in_words_with_probe(end_it(probing(2), "unknown", InDoubt::probe)),
            "retrying -> retrying, probe next");
  EXPECT_EQ(in_words_with_probe(end_it(probing(3), "timed_out", InDoubt::probe)),
            "doubted -> in_doubt");
  EXPECT_EQ(in_words_with_probe(end_it(probing(3), "interrupted", InDoubt::probe)),
            "released -> retrying, probe next");
  EXPECT_EQ(in_words_with_probe(end_it(probing(3), "released", InDoubt::probe)),
            "released -> waiting, probe next");
}

// Whatever the probe says, a task that somebody has called off is not run or kept.
TEST(Probe, ACancelComesBeforeItsAnswer) {
  for (const Command& command : {Command(it_did_not_happen()), Command(nobody_knows())})
    for (const std::uint32_t count : {2U, 4U})
      EXPECT_EQ(
          in_words(ask(stored(cancel_asked(probing(count))), command, policy(InDoubt::probe))),
          "cancelled -> cancelled");
  EXPECT_EQ(in_words(ask(stored(cancel_asked(probing())), it_happened(), policy(InDoubt::probe))),
            "completed -> completed");
}

// --- Not before, expired --------------------------------------------------------------------

TEST(NotBefore, TheFirstClaimWaitsForIt) {
  Claim early = claim();
  early.not_before = kStamp + seconds(9);
  const Stored given_back = stored(waiting());
  for (const Stored* holds : {static_cast<const Stored*>(nullptr), &given_back}) {
    const Decision made = decide(holds, early, policy(), after(seconds(9) - ms(1)));
    EXPECT_EQ(in_words(made), "not_due");
    EXPECT_EQ(made.until, kStamp + seconds(9));
    EXPECT_EQ(in_words(decide(holds, early, policy(), after(seconds(9)))), "claimed -> running");
  }
}

TEST(Expired, IsNotBegunAnyMore) {
  struct Row {
    const char* what;
    std::optional<Stored> holds;
    InDoubt policy;
    const char* answer;
  };
  const Row rows[] = {
      {"never claimed", {}, InDoubt::retry, "expired -> cancelled"},
      {"given back", stored(waiting()), InDoubt::retry, "expired -> cancelled"},
      {"to be retried", stored(retrying()), InDoubt::retry, "expired -> cancelled"},
      {"to be asked about", stored(to_be_asked_about()), InDoubt::probe, "claimed -> running"},
      {"lost, retry", holder_gone(running()), InDoubt::retry, "expired -> cancelled"},
      {"lost, steps", holder_gone(running()), InDoubt::steps, "expired -> cancelled"},
      {"lost, hold", holder_gone(running()), InDoubt::hold, "doubted -> in_doubt"},
      {"lost, probe", holder_gone(running()), InDoubt::probe, "claimed -> running"},
      {"lost, the last", holder_gone(running(3)), InDoubt::retry, "exhausted -> dead"},
      {"somebody is at it", stored(running()), InDoubt::retry, "held"},
      {"completed", stored(completed()), InDoubt::retry, "already_completed"},
      {"dead", stored(dead()), InDoubt::retry, "already_dead"},
      {"in doubt", stored(in_doubt()), InDoubt::retry, "awaits_decision"},
  };
  Claim late = claim_that_can_probe();
  late.expires = kStamp + seconds(20);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Stored* holds = row.holds ? &*row.holds : nullptr;
    const Decision made = decide(holds, late, policy(row.policy), after(seconds(20)));
    EXPECT_EQ(in_words(made), row.answer);
    if (made.verdict != Verdict::expired) continue;
    EXPECT_EQ(made.next->reason, "expired");
    EXPECT_EQ(made.next->claims, row.holds ? row.holds->record.claims : 0U);
    EXPECT_EQ(in_words(decide(holds, late, policy(row.policy), after(seconds(20) - ms(1)))),
              "claimed -> running");
  }
}

// A person who orders a task to run again means it, though its time is over: until it is settled.
TEST(Expired, APersonsOrderStandsAboveIt) {
  Claim late = claim_with(retry_order());
  late.expires = kStamp;
  for (const Record& settled : {dead(), in_doubt()}) {
    const Decision made = ask(stored(settled), late, policy());
    ASSERT_EQ(in_words(made), "claimed -> running");
    late.nonce = kAna;
    const Record given_back = written(ask(stored(*made.next), release(kBen), policy()));
    EXPECT_EQ(in_words(ask(stored(given_back), late, policy())), "claimed -> running");
    const Record failed = written(ask(stored(*made.next), fail(kBen), policy()));
    EXPECT_EQ(in_words(ask(stored(failed), late, policy(), after(kLease))), "claimed -> running");
    EXPECT_EQ(in_words(ask(holder_gone(*made.next), late, policy())), "claimed -> running");
    late.nonce = kBen;
  }
}

}  // namespace
}  // namespace once::core
