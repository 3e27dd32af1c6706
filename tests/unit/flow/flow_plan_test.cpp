// Where steps and runs stand, and what each event causes: the rules at the top of src/flow/rules/plan.cpp
// as tables.
#include <gtest/gtest.h>

#include "unit/flow/flow_words.h"

namespace once::core {
namespace {

using namespace flow_words;

TEST(FlowStand, FollowsFromTheFacts) {
  constexpr const char* kTable = R"(
   charge mail<charge          | started                                                        | charge active, mail pending: running
   charge mail<charge          | started, charge completed 1                                    | charge completed, mail active: running
   charge mail<charge          | started, charge completed 1, mail completed 1                  | charge completed, mail completed: running
   charge mail<charge          | started, charge completed 1, mail completed 1, ended 1 completed | charge completed, mail completed: completed
   charge mail<charge          | started, charge failed 1                                       | charge failed, mail unreached: running
   charge mail<charge end<mail | started, charge failed 1                                       | charge failed, mail unreached, end unreached: running
   charge mail<charge          | started, charge failed 1, ended 1 failed                       | charge failed, mail unreached: failed
   charge mail<charge          | started, charge cancelled 1, ended 1 failed                    | charge failed, mail unreached: failed
   a b c<a,b                   | started, a completed 1                                         | a completed, b active, c pending: running
   a b c<a,b                   | started, a failed 1                                            | a failed, b active, c pending: running
   a b c<a,b                   | started, a failed 1, b completed 1                             | a failed, b completed, c unreached: running
   a b?yes<a c<b               | started                                                        | a active, b pending, c pending: running
   a b?yes<a c<b               | started, a completed 1                                         | a completed, b skipped, c active: running
   a b?no<a                    | started, a completed 1                                         | a completed, b active: running
   a b?yes<a                   | started, a failed 1                                            | a failed, b unreached: running
   charge!refund refund        | started                                                        | charge active, refund pending: running
   charge!refund refund        | started, charge completed 1                                    | charge completed, refund skipped: running
   charge!refund refund        | started, charge failed 1                                       | charge failed, refund active: running
   charge!refund refund        | started, charge timed_out 1, refund completed 1                | charge failed, refund completed: running
   charge!refund refund?yes    | started, charge failed 1                                       | charge failed, refund skipped: running
   a!r b!r r                   | started, a failed 1                                            | a failed, b active, r pending: running
   a!r b!r r                   | started, a failed 1, b completed 1                             | a failed, b completed, r active: running
   a!r b!r r                   | started, a completed 1, b completed 1                          | a completed, b completed, r skipped: running
   a b!r<a r                   | started, a failed 1                                            | a failed, b unreached, r skipped: running
   charge!refund refund mail<refund | started, charge completed 1                               | charge completed, refund skipped, mail active: running
   nap:sleep/10m               | started                                                        | nap active: waiting
   paid:signal ok:approval     | started                                                        | paid active, ok active: waiting
   paid:signal charge          | started                                                        | paid active, charge active: running
   paid:signal charge<paid     | started, paid completed 1                                      | paid completed, charge active: running
   charge mail<charge          | started, ended 1 cancelled                                     | charge unreached, mail unreached: cancelled
   charge mail<charge          | started, ended 1 timed_out                                     | charge unreached, mail unreached: failed
   charge mail<charge          | started, ended 1 cancelled, charge completed 1                 | charge completed, mail unreached: cancelled
   charge mail<charge          | started, ended 1 cancelled, charge cancelled 2                 | charge unreached, mail unreached: cancelled
   charge mail<charge          | started, ended 1 timed_out, charge cancelled 2                 | charge unreached, mail unreached: failed
   charge mail<charge          | started, charge cancelled 1, ended 1 cancelled                 | charge failed, mail unreached: cancelled
   charge mail<charge          | started, charge failed 1, ended 1 failed, retried 2 charge=1   | charge active, mail pending: running
   charge mail<charge          | started, charge failed 1, ended 1 failed, retried 2 charge=1, charge completed 2 | charge completed, mail active: running
   charge mail<charge          | started, charge failed 1, ended 1 failed, charge completed 2   | charge completed, mail unreached: failed
   ok:approval mail<ok         | started, ok failed 1, ended 1 failed, retried 2 ok=1           | ok active, mail pending: waiting
  )";
  for (const auto& row : examples::rows_of(kTable)) {
    const FlowDefinition definition = definition_from(row[0]);
    const RunState state = folded(events_from(row[1]));
    EXPECT_EQ(in_words(definition, stand(definition, state, judge())), row[2]) << row[0] << row[1];
  }
}

TEST(FlowStand, SaysWhy) {
  const FlowDefinition definition =
      definition_from("charge!refund refund mail<charge end<mail ok?yes more nap:sleep/1m<more");
  const auto why = [&](const std::string& events, std::size_t step) {
    return stand(definition, folded(events_from(events)), judge()).steps[step].why;
  };
  EXPECT_EQ(why("started, charge failed 1", 0), "it broke");
  EXPECT_EQ(why("started, charge cancelled 1", 0), "cancelled: it broke");
  EXPECT_EQ(why("started", 1), "waits for 'charge'");
  EXPECT_EQ(why("started, charge completed 1", 1), "there was no failure to handle");
  EXPECT_EQ(why("started, charge failed 1", 2), "depends on 'charge', which failed");
  EXPECT_EQ(why("started, charge failed 1", 3), "depends on 'mail', which was not reached");
  EXPECT_EQ(why("started", 4), "skip_if holds");
  EXPECT_EQ(why("started", 6), "waits for 'more'");
  EXPECT_EQ(why("started, ended 1 cancelled", 6), "the run was cancelled");
  EXPECT_EQ(why("started, ended 1 timed_out", 5), "the run ran out of time");
}

TEST(FlowStand, TheTryIsOneAfterTheVoidedOne) {
  const FlowDefinition definition = definition_from("ok:approval/1h");
  const auto n = [&](const std::string& events) {
    return stand(definition, folded(events_from(events)), judge()).steps[0].n;
  };
  EXPECT_EQ(n("started"), 1);
  EXPECT_EQ(n("started, ok failed 1"), 1);
  EXPECT_EQ(n("started, ok failed 1, retried 2 ok=1"), 2);
  EXPECT_EQ(n("started, ok failed 1, retried 2 ok=1, ok completed 2"), 2);
}

// The last of the events is the one that is handled; the others were folded before it.
constexpr const char* kPlans = R"(
   charge mail<charge       | started                                                    | start charge
   a b c<a,b                | started                                                    | start a, start b
   charge mail<charge       | started, charge completed 1                                | start mail
   a b c<a,b                | started, a completed 1                                     | nothing
   a b c<a,b                | started, a completed 1, b completed 1                      | start c
   a b?yes<a c<b            | started, a completed 1                                     | start c
   a?yes                    | started                                                    | end run 1 completed
   charge mail<charge       | started, charge completed 1, mail completed 1              | end run 1 completed
   charge mail<charge       | started, charge failed 1                                   | end run 1 failed by charge
   a b c<a,b                | started, a failed 1                                        | nothing
   a b c<a,b                | started, b completed 1, a failed 1                         | end run 1 failed by a
   charge!refund refund     | started, charge failed 1                                   | start refund
   charge!refund refund     | started, charge completed 1                                | end run 1 completed
   charge!refund refund     | started, charge failed 1, refund completed 1               | end run 1 completed
   charge!refund refund     | started, charge failed 1, refund failed 1                  | end run 1 failed by charge
   charge!refund refund?yes | started, charge failed 1                                   | end run 1 failed by charge
   charge!refund refund     | started, charge failed 1, charge failed 2                  | start refund
   charge!refund refund     | started, charge failed 1, charge completed 2               | end run 1 completed
   charge mail<charge       | started, charge completed 2, charge failed 3               | nothing
   charge mail<charge       | started, charge failed 0                                   | end run 1 failed by charge
   nap:sleep/10m            | started                                                    | arm nap 1 for 10m
   nap:sleep/10m            | started, timer nap 1                                       | end nap 1 completed
   nap:sleep/10m            | started, nap completed 1                                   | end run 1 completed
   nap:sleep/10m            | started, nap completed 1, timer nap 1                      | nothing
   nap:sleep/0s             | started                                                    | arm nap 1 for 0s
   paid:signal              | started                                                    | nothing
   paid:signal/7d           | started                                                    | arm paid 1 for 7d
   paid:signal/7d           | started, signal for_paid                                   | end paid 1 completed
   paid:signal/7d           | started, signal other                                      | nothing
   a paid:signal/7d<a       | started, signal for_paid                                   | nothing
   a paid:signal/7d<a       | started, signal for_paid, a completed 1                    | end paid 1 completed
   paid:signal/7d           | started, timer paid 1                                      | end paid 1 timed_out
   paid:signal/7d           | started, signal for_paid, timer paid 1                     | nothing
   paid:signal/7d more      | started, paid completed 1                                  | call off timer paid 1
   paid:signal/7d           | started, paid completed 1                                  | end run 1 completed, call off timer paid 1
   paid:signal/7d           | started, paid timed_out 1                                  | end run 1 failed by paid
   ok:approval              | started                                                    | nothing
   ok:approval/3d           | started                                                    | arm ok 1 for 3d
   ok:approval/3d           | started, timer ok 1                                        | end ok 1 timed_out
   ok:approval mail<ok      | started, ok completed 1                                    | start mail
   ok:approval mail<ok      | started, ok failed 1                                       | end run 1 failed by ok
   charge                   | started, timer charge 1                                    | nothing
   charge                   | started, timer other 1                                     | nothing
   charge mail<charge       | started, ended 1 cancelled                                 | call off charge, finish 1
   charge mail<charge       | started, charge completed 1, ended 1 timed_out             | call off mail, finish 1
   charge                   | started, charge completed 1, ended 1 completed             | finish 1
   ok:approval/3d paid:signal | started, ended 1 cancelled                               | call off timer ok 1, finish 1
   charge mail<charge       | started, ended 1 cancelled, charge completed 1             | nothing
   charge!refund refund     | started, ended 1 cancelled, charge cancelled 1             | nothing
   charge                   | started, rate_retry charge 1                               | start charge again
   a b                      | started, rate_retry b 1                                    | start b again
   a b                      | started, rate_retry b 2, rate_retry b 1                    | nothing
   charge                   | started, charge completed 1, rate_retry charge 1           | nothing
   a nap:sleep/1m c<a       | started, admit 1                                           | start a again, arm nap 1 for 1m again
   paid:signal              | started, signal for_paid, admit 1                          | end paid 1 completed again
   a                        | started, ended 1 cancelled, admit 1                        | nothing
   charge mail<charge       | started, charge failed 1, ended 1 failed, retried 2 charge=1 | retry charge of round 2
   charge mail<charge       | started, charge failed 1, ended 1 failed, retried 2 charge=1, charge completed 2 | start mail
   charge mail<charge       | started, charge failed 1, ended 1 failed, retried 2 charge=1, charge failed 2 | end run 2 failed by charge
   charge mail<charge       | started, charge failed 1, ended 1 failed, charge completed 2 | nothing
   charge mail<charge       | started, charge failed 1, ended 1 failed, charge completed 2, retried 2 | start mail
   ok:approval/3d           | started, ok timed_out 1, ended 1 failed, retried 2 ok=1    | arm ok 2 for 3d
   paid:signal/3d           | started, paid timed_out 1, ended 1 failed, retried 2 paid=1, signal for_paid | end paid 2 completed
   ok:approval/3d           | started, ok timed_out 1, ended 1 failed, retried 2 ok=1, timer ok 1 | nothing
   charge                   | started, charge failed 1, ended 1 failed, retried 2 charge=1, ended 2 cancelled | call off charge, finish 2
)";

TEST(FlowPlan, WhatEachEventCauses) {
  for (const auto& row : examples::rows_of(kPlans)) {
    const FlowDefinition definition = definition_from(row[0]);
    const auto events = events_from(row[1]);
    const auto actions = plan(definition, folded(events), events.back(), judge());
    EXPECT_EQ(in_words(definition, actions), row[2]) << row[0] << " | " << row[1];
  }
}

// What came in between may have made it stale; then it causes nothing.
TEST(FlowPlan, AnEventThatIsHandledLaterCausesTheSameOrNothing) {
  constexpr const char* kTable = R"(
   charge mail<charge   | started, charge completed 1                                             | 1 | start mail
   charge mail<charge   | started, charge completed 1                                             | 0 | start mail
   a b c<a,b            | started, a completed 1, b completed 1                                   | 1 | start c
   a b c<a,b            | started, a completed 1, b completed 1, c completed 1                    | 1 | end run 1 completed
   a b c<a,b            | started, a completed 1, b completed 1, c completed 1, ended 1 completed | 1 | nothing
   charge!refund refund | started, charge failed 1, charge failed 2                               | 1 | nothing
   charge mail<charge   | started, charge failed 1, ended 1 failed, retried 2 charge=1            | 2 | nothing
   charge mail<charge   | started, charge failed 1, ended 1 failed, retried 2 charge=1            | 1 | nothing
   paid:signal/7d more<paid | started, signal for_paid, paid completed 1, more completed 1, ended 1 completed | 2 | call off timer paid 1
   charge               | started, ended 1 cancelled, charge completed 1                          | 1 | finish 1
   charge               | started, charge failed 1, ended 1 failed, retried 2 charge=1, ended 2 cancelled | 2 | nothing
  )";
  for (const auto& row : examples::rows_of(kTable)) {
    const FlowDefinition definition = definition_from(row[0]);
    const auto events = events_from(row[1]);
    const auto actions = plan(definition, folded(events), events.at(std::stoul(row[2])), judge());
    EXPECT_EQ(in_words(definition, actions), row[3]) << row[0] << " | " << row[1];
  }
}

TEST(FlowPlan, ARunWithATimeoutHasATimerForEachRound) {
  FlowDefinition definition = definition_from("charge");
  definition.timeout = std::chrono::hours(2);
  constexpr const char* kTable = R"(
   started                                                             | start charge, arm run 1 for 2h
   started, run timer 1                                                | end run 1 timed_out
   started, charge completed 1                                         | end run 1 completed
   started, charge completed 1, ended 1 completed                      | call off run timer 1, finish 1
   started, ended 1 timed_out                                          | call off charge, finish 1
   started, charge completed 1, ended 1 completed, run timer 1         | nothing
   started, charge failed 1, ended 1 failed, retried 2 charge=1        | retry charge of round 2, arm run 2 for 2h
   started, charge failed 1, ended 1 failed, retried 2 charge=1, run timer 1 | nothing
   started, charge failed 1, retried 2 charge=1, ended 1 failed        | call off run timer 1
   started, charge failed 1, ended 1 failed, retried 2 charge=1, run timer 2 | end run 2 timed_out
  )";
  for (const auto& row : examples::rows_of(kTable)) {
    const auto events = events_from(row[0]);
    const auto actions = plan(definition, folded(events), events.back(), judge());
    EXPECT_EQ(in_words(definition, actions), row[1]) << row[0];
  }
}

TEST(FlowPlan, NothingIsDoneForARunWhoseStartIsNotKnown) {
  const FlowDefinition definition = definition_from("charge nap:sleep/1m");
  for (const char* const event : {"charge completed 1", "timer nap 1", "admit 1", "signal paid"}) {
    const auto events = events_from(event);
    EXPECT_EQ(in_words(definition, plan(definition, folded(events), events[0], judge())), "nothing")
        << event;
  }
}

TEST(FlowPlan, ActionsMakeTheirEvents) {
  const FlowDefinition definition = definition_from("charge nap:sleep/1m paid:signal/1h");
  const RunState state = folded(events_from("started"));
  EXPECT_EQ(event_id(event_of(definition, state, StartWait{.step = 1, .n = 2})), "r.nap.timer.2");
  EXPECT_EQ(event_id(event_of(state, ArmRunTimer{.round = 2})), "r.timer.2");
  EXPECT_EQ(event_id(event_of(definition, state, CallOffTimer{.step = 1, .n = 2})),
            "r.nap.timer.2");
  EXPECT_EQ(event_id(event_of(definition, state, CallOffTimer{.step = {}, .n = 1})), "r.timer.1");

  const auto timed_out = plan(definition, state, event_from("timer paid 1"), judge());
  const FlowEvent ended = event_of(definition, state, std::get<EndStep>(timed_out.at(0)));
  EXPECT_EQ(event_id(ended), "r.paid.ended.1");
  EXPECT_EQ(ended.outcome, StepOutcome::timed_out);
  EXPECT_EQ(ended.error, "no signal 'for_paid' within 60 min");

  const auto slept = plan(definition, state, event_from("timer nap 1"), judge());
  EXPECT_EQ(event_of(definition, state, std::get<EndStep>(slept.at(0))).value, "null");

  const FlowEvent over = event_of(state, EndRun{.round = 1,
                                                .outcome = RunOutcome::failed,
                                                .step = "charge",
                                                .error = "step 'charge' failed: it broke"});
  EXPECT_EQ(event_id(over), "r.ended.1");
  EXPECT_EQ(over.workflow, "payment");
  EXPECT_EQ(over.step, "charge");
}

TEST(FlowPlan, AFailedRunSaysWhoseFailureItWas) {
  const FlowDefinition definition = definition_from("charge");
  const auto events = events_from("started, charge failed 1");
  const auto actions = plan(definition, folded(events), events.back(), judge());
  EXPECT_EQ(std::get<EndRun>(actions.at(0)).error, "step 'charge' failed: it broke");
}

TEST(FlowPlan, TheSignalsBodyIsTheStepsOutput) {
  const FlowDefinition definition = definition_from("paid:signal");
  const auto events = events_from("started, signal for_paid a, signal for_paid b");
  const auto actions = plan(definition, folded(events), events.at(1), judge());
  EXPECT_EQ(std::get<EndStep>(actions.at(0)).value, R"("for_paid a")");
  EXPECT_TRUE(plan(definition, folded(events), events.at(2), judge()).empty());
}

TEST(FlowAwaits, OnlyWhatSomeStepWaitsFor) {
  const FlowDefinition definition = definition_from("charge paid:signal");
  EXPECT_TRUE(awaits(definition, "for_paid"));
  EXPECT_FALSE(awaits(definition, "other"));
}

TEST(FlowRetry, VoidsWhatFailedAndWasNotHandled) {
  constexpr const char* kTable = R"(
   charge                    | started, charge failed 3, ended 1 failed                          | charge=3
   charge!refund refund more | started, charge failed 1, refund completed 1, more failed 2, ended 1 failed | more=2
   charge!refund refund      | started, charge failed 1, refund failed 2, ended 1 failed         | charge=1 refund=2
   ok:approval               | started, ok timed_out 1, ended 1 failed                           | ok=1
   charge mail<charge        | started, charge failed 1, ended 1 failed, charge completed 2      |
   charge                    | started                                                           | it is not over yet
   charge                    | started, charge completed 1, ended 1 completed                    | it is completed
   charge                    | started, ended 1 cancelled                                        | it is cancelled, and its steps were called off
   charge                    | started, ended 1 timed_out                                        | it is timed_out, and its steps were called off
   charge                    | started, charge cancelled 1, ended 1 failed                       | step 'charge' was cancelled, and a cancelled task never runs again
   charge                    | started, charge cancelled 0, ended 1 failed                       | step 'charge' was cancelled, and a cancelled task never runs again
   charge                    | started, charge failed 0, ended 1 failed                          | step 'charge' got no task (it broke), and the facts that it goes by stay as they are
   charge                    | started, charge failed 1, ended 1 failed, retried 2 charge=1      | it is not over yet
  )";
  for (const auto& row : examples::rows_of(kTable)) {
    const FlowDefinition definition = definition_from(row[0]);
    const auto voided = retry_of(definition, folded(events_from(row[1])), judge());
    std::string words;
    if (voided) {
      for (const auto& [step, n] : *voided) words += " " + step + "=" + std::to_string(n);
    } else {
      EXPECT_EQ(voided.error().code, Code::wrong_state);
      words = voided.error().message;
    }
    const std::string expected = row.size() > 2 ? row[2] : "";
    if (voided)
      EXPECT_EQ(examples::trimmed(words), expected) << row[0] << row[1];
    else
      EXPECT_EQ(words, "run 'r' cannot be retried: " + expected + "; nothing was changed");
  }
}

TEST(FlowRetry, WhatNoStepDidIsNotMended) {
  const FlowDefinition definition = definition_from("a");
  auto events = events_from("started, a completed 1, ended 1 failed");
  events.back().step.clear();
  events.back().error = "no value at steps.a.id";
  const auto voided = retry_of(definition, folded(events), judge());
  ASSERT_FALSE(voided);
  EXPECT_NE(voided.error().message.find("no value at steps.a.id"), std::string::npos);
}

// The fact of a step's try says failed; whether another try can follow, its task's record says.
TEST(FlowRetry, ATaskThatIsOverRunsAgainOnlyIfItIsDead) {
  const auto why = [](State state, std::uint32_t claims, std::uint32_t n, bool cut = false) {
    return why_never_again({.state = state, .claims = claims, .result_cut = cut, .reason = "r"}, n);
  };
  EXPECT_EQ(why(State::dead, 1, 1), "");
  EXPECT_EQ(why(State::running, 1, 1), "") << "it will say how it ended";
  EXPECT_EQ(why(State::in_doubt, 1, 1), "") << "a person will";
  EXPECT_EQ(why(State::completed, 2, 1), "") << "it completed in a later try";
  EXPECT_EQ(why(State::completed, 1, 1),
            "its task is completed, and a completed task never runs again");
  EXPECT_EQ(
      why(State::completed, 1, 1, true),
      "its task is completed, and a completed task never runs again; its output was too large "
      "to be kept");
  EXPECT_EQ(why(State::completed, 1, 2), why(State::completed, 1, 1)) << "said before";
  EXPECT_EQ(why(State::duplicate, 0, 0), "its task was set aside: r");
  EXPECT_EQ(why(State::cancelled, 1, 1), "its task was cancelled by hand");
}

}  // namespace
}  // namespace once::core
