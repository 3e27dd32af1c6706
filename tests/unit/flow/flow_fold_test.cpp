// How the facts of a run add up, what its events are called, and the waits between attempts.
#include <gtest/gtest.h>

#include "unit/flow/flow_words.h"

namespace once::core {
namespace {

using namespace flow_words;

TEST(FlowIds, WhatTwoMayRaceForHasOneId) {
  constexpr const char* kTable = R"(
    started                | r.started
    charge completed 1     | r.charge.ended.1
    charge failed 1        | r.charge.ended.1
    charge timed_out 1     | r.charge.ended.1
    charge completed 3     | r.charge.ended.3
    signal paid tx9        | r.signal.tx9
    signal other tx9       | r.signal.tx9
    rate_retry charge 2    | r.charge.rate_retry.2
    admit 4                | r.admit.4
    timer cool 1           | r.cool.timer.1
    run timer 2            | r.timer.2
    retried 2 charge=1     | r.retried.2
    ended 1 completed      | r.ended.1
    ended 1 cancelled      | r.ended.1
  )";
  for (const auto& row : examples::rows_of(kTable)) EXPECT_EQ(event_id(event_from(row[0])), row[1]);
}

TEST(FlowIds, TopicsSayWorkflowAndKind) {
  EXPECT_EQ(event_topic("payment", FlowEvent::Kind::rate_retry), "$once.flow.payment.rate_retry");
  EXPECT_EQ(flow_event_from("rate_retry"), FlowEvent::Kind::rate_retry);
  EXPECT_EQ(flow_event_from("other"), std::nullopt);
}

TEST(FlowFold, TheStartSaysWhatTheRunIs) {
  FlowEvent started = event_from("started");
  started.version = 3;
  started.key = "o-1";
  started.value = R"({"order":1})";
  started.sequence = Sequence{17};
  started.at = Time(std::chrono::seconds(5));
  RunState state;
  EXPECT_TRUE(fold(state, started));
  EXPECT_EQ(state.run, "r");
  EXPECT_EQ(state.workflow, "payment");
  EXPECT_EQ(state.version, 3);
  EXPECT_EQ(state.key, "o-1");
  EXPECT_EQ(state.input, R"({"order":1})");
  EXPECT_EQ(state.started, Sequence{17});
  EXPECT_EQ(state.rounds.at(1).sequence, Sequence{17});
  EXPECT_EQ(round_of(state), 1);
  EXPECT_EQ(end_of(state), nullptr);
}

TEST(FlowFold, AnEventThatComesAgainChangesNothing) {
  const auto events = events_from(
      "started, charge failed 1, charge completed 2, signal paid, rate_retry charge 1, admit 1, "
      "retried 2 charge=1, ended 1 failed, ended 2 completed");
  const RunState once_each = folded(events);
  RunState state = once_each;
  for (const FlowEvent& event : events) EXPECT_FALSE(fold(state, event)) << event_id(event);
  EXPECT_EQ(state, once_each);
}

TEST(FlowFold, ATimerIsNoFact) {
  RunState state = folded(events_from("started"));
  const RunState before = state;
  EXPECT_FALSE(fold(state, event_from("timer cool 1")));
  EXPECT_EQ(state, before);
}

TEST(FlowFold, OfTwoSignalsTheFirstInTheLogStays) {
  const auto events = events_from("started, signal paid a, signal paid b, signal other c");
  RunState state;
  for (const std::size_t index : {2, 0, 3}) EXPECT_TRUE(fold(state, events[index]));
  EXPECT_EQ(state.signals.at("paid").id, "b");
  EXPECT_TRUE(fold(state, events[1]));
  EXPECT_FALSE(fold(state, events[2]));
  EXPECT_EQ(state.signals.at("paid").id, "a");
  EXPECT_EQ(state.signals.at("other").id, "c");
}

TEST(FlowFold, OfTriesTheLastStays) {
  RunState state;
  EXPECT_TRUE(fold(state, event_from("admit 2")));
  EXPECT_FALSE(fold(state, event_from("admit 1")));
  EXPECT_TRUE(fold(state, event_from("rate_retry charge 1")));
  EXPECT_TRUE(fold(state, event_from("rate_retry charge 3")));
  EXPECT_EQ(state.admits.n, 2);
  EXPECT_EQ(state.rate_retries.at("charge").n, 3);
}

TEST(FlowFacts, ACompletionCountsElseTheLastTryThatNoRetryVoided) {
  constexpr const char* kTable = R"(
    nothing yet                         | started                                                              | none
    failed                              | started, charge failed 1                                             | failed 1
    failed twice                        | started, charge failed 1, charge timed_out 2                         | timed_out 2
    completed after it failed           | started, charge failed 1, charge completed 2                         | completed 2
    failed after it completed           | started, charge completed 1, charge failed 2                         | completed 1
    two completions: first in the log   | started, charge completed 2, charge completed 1                      | completed 2
    it got no task                      | started, charge failed 0                                             | failed 0
    voided                              | started, charge failed 1, ended 1 failed, retried 2 charge=1         | none
    voided and failed again             | started, charge failed 1, retried 2 charge=1, charge failed 3        | failed 3
    voided twice                        | started, charge failed 3, retried 2 charge=1, retried 3 charge=3     | none
    a completion cannot be voided       | started, charge completed 1, retried 2 charge=1                      | completed 1
    another step was voided             | started, charge failed 1, retried 2 mail=1                           | failed 1
  )";
  for (const auto& row : examples::rows_of(kTable)) {
    const RunState state = folded(events_from(row[1]));
    const CountedFact counted = counted_fact(state, "charge");
    const std::string words =
        counted.fact == nullptr
            ? "none"
            : std::string(to_string(counted.fact->outcome)) + " " + std::to_string(counted.n);
    EXPECT_EQ(words, row[2]) << row[0];
  }
}

TEST(FlowFacts, ARetryIsKnownByItsRound) {
  const RunState state =
      folded(events_from("started, charge failed 1, retried 2 charge=1, retried 3 charge=2"));
  const auto voided = voided_try(state, "charge");
  ASSERT_TRUE(voided);
  EXPECT_EQ(voided->round, 3);
  EXPECT_EQ(voided->n, 2);
  EXPECT_FALSE(voided_try(state, "mail"));
}

TEST(FlowAt, IsTheStateThatTheLogHadThen) {
  const auto events = events_from(
      "started, charge failed 1, signal paid, ended 1 failed, retried 2 charge=1, admit 1, "
      "charge completed 2, rate_retry mail 1, mail completed 1, ended 2 completed");
  const RunState all = folded(events);
  RunState then;
  EXPECT_EQ(at(all, Sequence{0}), then);
  for (const FlowEvent& event : events) {
    fold(then, event);
    EXPECT_EQ(at(all, event.sequence), then) << event_id(event);
  }
}

TEST(FlowWaits, BetweenAttempts) {
  using Backoff = RetryPolicy::Backoff;
  const auto seconds = [](const RetryPolicy& retry) {
    std::string text;
    for (const Duration wait : waits_of(retry)) text += duration_text(wait) + " ";
    return examples::trimmed(text);
  };
  const Duration one{1'000}, ten{10'000};
  EXPECT_EQ(seconds({.attempts = 5, .backoff = Backoff::fixed, .wait = one, .cap = ten}), "1s");
  EXPECT_EQ(seconds({.attempts = 5, .backoff = Backoff::linear, .wait = one, .cap = ten}),
            "1s 2s 3s 4s");
  EXPECT_EQ(seconds({.attempts = 9, .backoff = Backoff::exponential, .wait = one, .cap = ten}),
            "1s 2s 4s 8s 10s");
  EXPECT_EQ(seconds({.attempts = 1, .backoff = Backoff::exponential, .wait = one, .cap = ten}),
            "1s");
  EXPECT_EQ(seconds({.attempts = 9, .backoff = Backoff::exponential, .wait = {}, .cap = ten}),
            "0s");
  EXPECT_EQ(seconds({.attempts = 3, .backoff = Backoff::fixed, .wait = ten, .cap = one}), "1s");
  EXPECT_EQ(waits_of({.attempts = 1000, .backoff = Backoff::linear, .wait = Duration{1}}).size(),
            100);
}

}  // namespace
}  // namespace once::core
