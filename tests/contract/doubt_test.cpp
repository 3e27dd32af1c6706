// Attempts that ended without a verdict: what each policy makes of them, and what people can do.
#include "contract/effects.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DoubtContract : public Effects {
 protected:
  // An attempt that had its effect and was never heard of again.
  void lose(InDoubt policy, int attempts = 0) {
    add({.attempts = attempts, .in_doubt = policy});
    publish("a");
    EXPECT_TRUE(run([&](Context&) {
      ++effects;
      hang([&] { taken_over = run(handler, options); });
      return Outcome::completed();
    }));
  }
  std::function<Outcome(Context&)> handler = [this](Context& context) {
    ++effects;
    told = context.in_doubt();
    return Outcome::completed();
  };
  WorkerOptions options{.name = "second"};
  int effects = 0;
  bool taken_over = false;
  bool told = false;
};
ONCE_FOR_EVERY_STORE(DoubtContract);

TEST_P(DoubtContract, RetryRunsItAgainAndTellsTheHandler) {
  lose(InDoubt::retry);
  EXPECT_TRUE(taken_over);
  EXPECT_TRUE(told);
  EXPECT_EQ(effects, 2);
  EXPECT_EQ(state(), State::completed);
}

TEST_P(DoubtContract, StepsRunsItAgainWhenNoStepWasCutOff) {
  lose(InDoubt::steps);
  EXPECT_EQ(effects, 2);
  EXPECT_EQ(state(), State::completed);
}

TEST_P(DoubtContract, HoldWaitsForAPerson) {
  lose(InDoubt::hold);
  EXPECT_FALSE(taken_over);
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(state(), State::in_doubt);
  EXPECT_EQ(view().attempts.at(0).outcome, AttemptOutcome::lost);
  EXPECT_THAT(story(), ElementsAre("held"));
  EXPECT_EQ(count(State::in_doubt), 1U);
  EXPECT_THAT(listed(State::in_doubt), ElementsAre("a"));
  pass(24h);
  EXPECT_FALSE(run(handler));
}

TEST_P(DoubtContract, HoldComesBeforeCountingOut) {
  lose(InDoubt::hold, 1);
  EXPECT_EQ(state(), State::in_doubt) << "the last attempt, and nobody knows whether it happened";
}

TEST_P(DoubtContract, EveryEndWithoutAVerdictIsHeld) {
  add({.in_doubt = InDoubt::hold});
  publish("a");
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("the connection broke"); }));
  EXPECT_EQ(state(), State::in_doubt);
  EXPECT_THAT(view().reason, HasSubstr("(unknown)"));
  EXPECT_EQ(view().error, "the connection broke");
}

TEST_P(DoubtContract, AFailureIsNoDoubt) {
  add({.in_doubt = InDoubt::hold});
  publish("a");
  EXPECT_TRUE(run([](Context&) { return Outcome::failed("no"); }));
  EXPECT_EQ(state(), State::retrying);
}

// --- Probe ----------------------------------------------------------------------------------

TEST_P(DoubtContract, AProbeThatFindsItCompletesTheTaskWithoutRunningItAgain) {
  int asked = 0;
  options.probe = [&](const Context& context) {
    ++asked;
    EXPECT_EQ(context.task().id, "a");
    EXPECT_EQ(context.attempt(), 2);
    return Outcome::completed(Body::json("\"found\"").value());
  };
  lose(InDoubt::probe);
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(view().result->text(), "\"found\"");
  EXPECT_THAT(story(), ElementsAre("happened"));
  EXPECT_EQ(view().story.at(0).by, "second");
}

TEST_P(DoubtContract, AProbeThatFindsNothingHasItRunAgain) {
  options.probe = [&](const Context&) { return Outcome::failed("no such commit"); };
  lose(InDoubt::probe);
  EXPECT_EQ(effects, 2);
  EXPECT_EQ(state(), State::completed);
  EXPECT_THAT(story(), ElementsAre("did_not_happen"));
  EXPECT_EQ(view().attempts.size(), 2U) << "asking and running are one attempt";
}

TEST_P(DoubtContract, AProbeThatDoesNotKnowHoldsTheTask) {
  options.probe = [&](const Context&) -> Outcome { throw std::runtime_error("host is down"); };
  lose(InDoubt::probe);
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(state(), State::in_doubt);
  EXPECT_EQ(view().attempts.at(1).error, "host is down");
}

TEST_P(DoubtContract, AProbeThatThrowsSomethingElseDoesNotKnowEither) {
  options.probe = [&](const Context&) -> Outcome { throw 7; };
  lose(InDoubt::probe);
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(state(), State::in_doubt);
}

TEST_P(DoubtContract, WithoutAProbeTheTaskIsHeld) {
  lose(InDoubt::probe);
  EXPECT_FALSE(taken_over);
  EXPECT_EQ(state(), State::in_doubt);
}

TEST_P(DoubtContract, TheFirstAttemptAsksNothing) {
  add({.in_doubt = InDoubt::probe});
  publish("a");
  int asked = 0;
  options.probe = [&](const Context&) { return ++asked, Outcome::completed(); };
  EXPECT_TRUE(run([](Context&) { return Outcome::failed("no"); }, options));
  pass(2s);
  EXPECT_TRUE(run(handler, options));
  EXPECT_EQ(asked, 0) << "a failed attempt has a verdict";
}

TEST_P(DoubtContract, TheLastAttemptIsAskedAboutBeforeItIsCountedOut) {
  options.probe = [&](const Context&) { return Outcome::completed(); };
  lose(InDoubt::probe, 1);
  EXPECT_EQ(state(), State::completed);
}

TEST_P(DoubtContract, TheLastAttemptThatDidNotHappenIsADeadLetter) {
  options.probe = [&](const Context&) { return Outcome::failed("no such commit"); };
  lose(InDoubt::probe, 1);
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(state(), State::dead);
}

TEST_P(DoubtContract, AWorkerThatIsLostWhileItAsksIsAskedForAgain) {
  add({.attempts = 5, .in_doubt = InDoubt::probe});
  publish("a");
  EXPECT_TRUE(run([&](Context&) {
    hang([&] {
      WorkerOptions first{.name = "first", .probe = [&](const Context&) {
                            hang([&] {
                              options.probe = [](const Context&) { return Outcome::completed(); };
                              EXPECT_TRUE(run(handler, options));
                            });
                            return Outcome::failed("nobody hears this");
                          }};
      EXPECT_TRUE(run(handler, first));
    });
    return Outcome::completed();
  }));
  EXPECT_EQ(effects, 0);
  EXPECT_EQ(state(), State::completed);
  EXPECT_THAT(story(), ElementsAre("happened"));
}

// --- People ---------------------------------------------------------------------------------

TEST_P(DoubtContract, APersonCompletesIt) {
  lose(InDoubt::hold);
  zone.tasks().complete("a", "q", Body::json("7").value(), by).value();
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(view().result->text(), "7");
  EXPECT_THAT(story(), ElementsAre("held", "completed"));
  EXPECT_EQ(view().story.back().by, "ann");
  EXPECT_EQ(view().story.back().why, "she looked");
  EXPECT_EQ(view().story.back().at, clock->now());
  EXPECT_THAT(listed(State::in_doubt), IsEmpty());
  EXPECT_FALSE(run(handler));
  EXPECT_EQ(zone.tasks().complete("a", "q", {}, by).error().code, Code::wrong_state);
}

TEST_P(DoubtContract, APersonHasItRunAgain) {
  lose(InDoubt::hold);
  zone.tasks().retry("a", "q", by).value();
  EXPECT_EQ(state(), State::waiting);
  EXPECT_EQ(count(State::waiting), 1U);
  EXPECT_EQ(count(State::in_doubt), 0U);
  EXPECT_THAT(listed(State::waiting), ElementsAre("a"));
  EXPECT_EQ(zone.tasks().retry("a", "q", by).error().code, Code::wrong_state)
      << "asked for already";
  EXPECT_TRUE(run(handler));
  EXPECT_TRUE(told);
  EXPECT_EQ(state(), State::completed);
  EXPECT_THAT(story(), ElementsAre("held", "retried"));
}

TEST_P(DoubtContract, APersonDropsIt) {
  lose(InDoubt::hold);
  zone.tasks().drop("a", "q", by).value();
  EXPECT_EQ(state(), State::cancelled);
  EXPECT_EQ(view().reason, "dropped by ann: she looked");
  EXPECT_FALSE(run(handler));
  EXPECT_EQ(zone.tasks().retry("a", "q", by).error().code, Code::wrong_state);
}

TEST_P(DoubtContract, WaitingForADoubtfulTaskSaysSo) {
  lose(InDoubt::hold);
  EXPECT_EQ(zone.tasks().wait("a", "q", 0s).value().kind(), Outcome::Kind::unknown);
}

}  // namespace
}  // namespace once::contract
