// Rates and max_runs: never one too many, nobody is overtaken, and asking again is free.
#include "flow/start_limits.h"

#include <gmock/gmock.h>

#include <map>

#include "once/testing.h"
#include "store/memory/memory_store.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;

core::RunState run_called(const std::string& run) {
  core::RunState state{.run = run, .workflow = "payment", .version = 1, .input = "1"};
  state.started = {1};
  state.rounds[1].sequence = {1};
  return state;
}

class StartLimitsTest : public ::testing::Test {
 protected:
  StartLimitsTest() {
    run_store_.make_event_queue().value();
    step_.id = "charge";
    step_.rate = RateLimit{.limit = 10, .per = 1min};
    definition_.name = "payment";
    definition_.max_runs = 2;
    definition_.steps.push_back(step_);
  }

  // None: it may start.
  std::optional<Duration> ask(const std::string& who, bool sent_away = false) {
    return start_limits_.pass_rate(definition_, step_, who, sent_away).value();
  }
  std::optional<Duration> enter(const std::string& run) {
    return start_limits_.admit(definition_, run_called(run)).value();
  }
  void end(const std::string& run) {
    KnownRun known = run_store_.run(run).value().value();
    known.state.rounds[1].ended = core::EndFact{.sequence = {2}};
    ASSERT_TRUE(run_store_.write(known.state, known.revision)->written);
  }
  std::uint64_t window() const {
    return static_cast<std::uint64_t>(store_->now().time_since_epoch() / 1min);
  }

  std::shared_ptr<once::testing::VirtualClock> clock_ =
      std::make_shared<once::testing::VirtualClock>();
  std::unique_ptr<store::Store> store_ = store::open_memory(clock_);
  std::unique_ptr<Scheduler> scheduler_ = thread_scheduler();
  RunStore run_store_{*store_, *scheduler_};
  StartLimits start_limits_{*store_, *scheduler_, run_store_};
  core::FlowStep step_{};
  core::FlowDefinition definition_{};
};

TEST_F(StartLimitsTest, WhoWasLetInAsksAgainForNothing) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ask("run-" + std::to_string(i)));
  EXPECT_TRUE(ask("one-too-many"));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ask("run-" + std::to_string(i)));
}

TEST_F(StartLimitsTest, AClockThatWasFarAheadAndIsPutRightKeepsNobodyWaiting) {
  const std::string ahead = std::to_string(window() + 1'000'000);
  run_store_
      .write_note("rate.payment.charge.60000",
                  R"({"booked":10,"booked_to":)" + ahead +
                      R"(,"taken":["0","1","2","3","4","5","6","7","8","9"],"window":)" + ahead +
                      "}",
                  {})
      .value();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ask("run-" + std::to_string(i)));
  EXPECT_LE(ask("one-too-many").value(), 2min);
}

// A hundred at once through a limit of ten a minute: each is sent away once at most, and comes back
// to a window that has room for it.
TEST_F(StartLimitsTest, WhoIsSentAwayComesBackOnceAndIsLetIn) {
  std::multimap<Duration, std::string> waiting;
  std::map<std::uint64_t, int> started;
  const Duration begun = store_->now().time_since_epoch();
  for (int i = 0; i < 100; ++i) {
    const std::string run = "run-" + std::to_string(i);
    if (const auto wait = ask(run))
      waiting.emplace(begun + *wait, run);
    else
      ++started[window()];
  }
  EXPECT_EQ(waiting.size(), 90U);
  for (const auto& [at, run] : waiting) {
    const Duration now = store_->now().time_since_epoch();
    if (at > now) clock_->advance(at - now);
    EXPECT_FALSE(ask(run, true)) << run;
    ++started[window()];
  }
  for (const auto& [minute, count] : started) EXPECT_LE(count, 10) << minute;
  EXPECT_EQ(started.size(), 10U);
}

TEST_F(StartLimitsTest, WhoComesLaterDoesNotOvertake) {
  for (int i = 0; i < 25; ++i) static_cast<void>(ask("run-" + std::to_string(i)));
  clock_->advance(1min);
  const auto newcomer = ask("newcomer");  // ten are to come in this minute, five in the next
  ASSERT_TRUE(newcomer);
  EXPECT_GT(*newcomer, 0ms);
  EXPECT_LT(*newcomer, 2min);
  for (int i = 10; i < 20; ++i) EXPECT_FALSE(ask("run-" + std::to_string(i), true));
}

// Ten thousand were started by mistake, and cancelled.
TEST_F(StartLimitsTest, WhatIsBookedForNobodyHoldsNobodyUp) {
  for (int i = 0; i < 10'000; ++i) static_cast<void>(ask("run-" + std::to_string(i)));
  clock_->advance(1min);
  const auto first = ask("first");
  ASSERT_TRUE(first);
  EXPECT_LT(*first, 11min);
  clock_->advance(*first);
  EXPECT_FALSE(ask("first", true));
  EXPECT_FALSE(ask("second"));
}

TEST_F(StartLimitsTest, WindowsOfAnotherLengthAreCountedApart) {
  step_.rate = RateLimit{.limit = 1, .per = 1s};
  EXPECT_FALSE(ask("a"));
  step_.rate = RateLimit{.limit = 1, .per = 1min};
  clock_->advance(1min);
  EXPECT_FALSE(ask("b"));
  const auto wait = ask("c");
  ASSERT_TRUE(wait);
  EXPECT_LT(*wait, 2min);
}

TEST_F(StartLimitsTest, ARetryOfAStepIsAStartOfItsOwn) {
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ask("run-" + std::to_string(i)));
  EXPECT_TRUE(ask("run-0.2"));
}

TEST_F(StartLimitsTest, APlaceIsFreeWhenARunLeaves) {
  EXPECT_FALSE(enter("a"));
  EXPECT_FALSE(enter("b"));
  for (const std::string run : {"a", "b", "c"}) run_store_.write(run_called(run), {}).value();
  EXPECT_TRUE(enter("c"));
  EXPECT_FALSE(start_limits_.admitted(definition_, "c").value());
  start_limits_.leave(definition_, "a").value();
  EXPECT_TRUE(start_limits_.admitted(definition_, "a").value())
      << "it goes on: somebody retried it";
  end("a");
  start_limits_.leave(definition_, "a").value();
  start_limits_.leave(definition_, "a").value();
  EXPECT_FALSE(enter("c"));
  EXPECT_TRUE(start_limits_.admitted(definition_, "c").value());
  EXPECT_TRUE(enter("a"));
}

// Its runner died between the run's end and leaving.
TEST_F(StartLimitsTest, ThePlaceOfARunThatHasEndedIsTaken) {
  for (const std::string run : {"a", "b"}) {
    EXPECT_FALSE(enter(run));
    core::RunState state = run_called(run);
    if (run == "b") state.rounds[1].ended = core::EndFact{.sequence = {2}};
    run_store_.write(state, {}).value();
  }
  run_store_.write(run_called("c"), {}).value();
  EXPECT_FALSE(enter("c"));
  EXPECT_TRUE(enter("d"));
}

}  // namespace
}  // namespace once::engine
