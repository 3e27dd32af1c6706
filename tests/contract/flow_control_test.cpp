// Runs under control: cancelled, retried, and held back by a rate or by how many may be under way.
#include "contract/flows.h"
#include "flow/event_log.h"

namespace once::contract {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class FlowControlContract : public FlowZone {
 protected:
  void handle_events() {
    while (drive()) continue;
  }
  State task_state(const std::string& run, const std::string& step) {
    return zone.tasks().inspect(run + "." + step).value().queues.at(0).state;
  }
  static Outcome dies(Context&) { return Outcome::dead("no"); }
};
ONCE_FOR_EVERY_STORE(FlowControlContract);

// --- Cancel ---------------------------------------------------------------------------------

TEST_P(FlowControlContract, ACancelReachesARunningStepAndNothingIsBegunAfterwards) {
  add_flow(std::string(kTwo) + R"(,{"id":"c","task":"do.c"})");
  const std::string run = start();
  does["a"] = does["c"] = [&](Context& context) {
    flows.cancel(run, by).value();
    handle_events();
    EXPECT_TRUE(is_told_to_stop(context));
    return Outcome::failed("stopped");
  };
  settle();
  EXPECT_THAT(ran, SizeIs(1)) << "the other one was not begun";
  EXPECT_EQ(phase(run), RunPhase::cancelled);
  EXPECT_EQ(task_state(run, "a"), State::cancelled);
  EXPECT_EQ(task_state(run, "c"), State::cancelled);
  EXPECT_EQ(status(run, "b"), StepStatus::unreached);
  EXPECT_THAT(show(run).info.error, HasSubstr("ann"));
  pass(1h);
  settle();
  EXPECT_THAT(ran, SizeIs(1));
}

TEST_P(FlowControlContract, AStepThatCompletesAllTheSameChangesNoCancelledRun) {
  add_flow(kTwo);
  const std::string run = start();
  does["a"] = [&](Context&) {
    flows.cancel(run, by).value();
    handle_events();
    return Outcome::completed();
  };
  settle();
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_EQ(task_state(run, "a"), State::completed);
  EXPECT_EQ(phase(run), RunPhase::cancelled);
}

TEST_P(FlowControlContract, ARunThatIsCancelledBeforeItsStartIsHandledBeginsNothing) {
  add_flow(kTwo);
  const std::string run = start();
  flows.cancel(run, by).value();
  settle();
  EXPECT_THAT(ran, IsEmpty());
  EXPECT_EQ(phase(run), RunPhase::cancelled);
}

TEST_P(FlowControlContract, ACancelledRunLeavesNoTimersBehind) {
  add_flow(R"({"id":"nap","sleep":"10m"},{"id":"ok","approval":"?","timeout":"1h"})",
           R"("timeout":"2h")");
  const std::string run = start();
  settle();
  EXPECT_EQ(timers(), 3U);
  flows.cancel(run, by).value();
  settle();
  EXPECT_EQ(timers(), 0U);
  pass(3h);
  settle();
  EXPECT_EQ(phase(run), RunPhase::cancelled);
}

TEST_P(FlowControlContract, ACompletedRunIsNotCancelledAndACancelledOneStaysSo) {
  add_flow(kTwo);
  const std::string run = start();
  settle();
  EXPECT_EQ(flows.cancel(run, by).error().code, Code::wrong_state);
  EXPECT_EQ(phase(run), RunPhase::completed);
  const std::string other = start("1");
  flows.cancel(other, by).value();
  settle();
  flows.cancel(other, by).value();  // it is what was asked for
  EXPECT_EQ(flows.retry(other, by).error().code, Code::wrong_state);
}

TEST_P(FlowControlContract, WhoHasARunRetriedWaitsForTheEndThatComesOfIt) {
  add_flow(kTwo);
  does["a"] = dies;
  const std::string run = start();
  settle();
  EXPECT_EQ(flows.wait(run, 1ms).value().info.state, RunPhase::failed);
  flows.retry(run, by).value();
  EXPECT_EQ(flows.wait(run, 1ms).error().code, Code::timed_out) << "no runner has heard of it yet";
  EXPECT_EQ(phase(run), RunPhase::running);
  EXPECT_EQ(status(run, "a"), StepStatus::active);
  EXPECT_THAT(events(run), Contains("retried"));
  flows.retry(run, by).value();  // the same again
  does.clear();
  settle();
  EXPECT_EQ(flows.wait(run, 1ms).value().info.state, RunPhase::completed);
}

TEST_P(FlowControlContract, AFailedRunThatIsCancelledIsClosed) {
  add_flow(kTwo);
  does["a"] = dies;
  const std::string run = start();
  settle();
  flows.cancel(run, by).value();
  settle();
  EXPECT_EQ(phase(run), RunPhase::cancelled);
  EXPECT_THAT(flows.runs({.state = RunPhase::failed}).value(), IsEmpty());
  EXPECT_EQ(flows.retry(run, by).error().code, Code::wrong_state);
}

// --- Retry ----------------------------------------------------------------------------------

TEST_P(FlowControlContract, ARetriedRunRunsWhatFailedAndWhatDependsOnIt) {
  add_flow(std::string(kTwo) + R"(,{"id":"c","task":"do.c","depends_on":["a"]},)"
                               R"({"id":"d","task":"do.d","depends_on":["b","c"]})");
  does["b"] = dies;
  const std::string run = start();
  settle();
  EXPECT_THAT(ran, UnorderedElementsAre("a", "b", "c"));
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_EQ(status(run, "d"), StepStatus::unreached);
  EXPECT_EQ(flows.runs({.state = RunPhase::failed}).value().at(0).run, run);

  ran.clear();
  EXPECT_THAT(flows.retry(run, by).value(), ElementsAre("b"));
  settle();
  EXPECT_THAT(ran, ElementsAre("b"));
  EXPECT_EQ(phase(run), RunPhase::failed) << "it failed again";
  EXPECT_EQ(show(run).round, 2U);

  ran.clear();
  does.clear();
  EXPECT_THAT(flows.retry(run, by).value(), ElementsAre("b"));
  settle();
  EXPECT_THAT(ran, ElementsAre("b", "d"));
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_EQ(show(run).round, 3U);
  EXPECT_EQ(step_of(run, "b").attempts, 3);
  EXPECT_THAT(events(run), Contains("retried"));
  EXPECT_THAT(show(run).info.error, IsEmpty());
}

// It waits for a worker that is to run it again, and never will.
TEST_P(FlowControlContract, AStepThatIsCancelledWhileItsRetryWaitsHasFailed) {
  add_flow(R"({"id":"a","task":"do.a"})");
  does["a"] = dies;
  const std::string run = start();
  settle();
  flows.retry(run, by).value();
  handle_events();
  EXPECT_EQ(zone.tasks().cancel(run + ".a", "q", by).value(), State::cancelled);
  settle();
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_THAT(step_of(run, "a").why, HasSubstr("cancelled"));
  EXPECT_EQ(flows.retry(run, by).error().code, Code::wrong_state);
  EXPECT_THAT(ran, ElementsAre("a"));
}

TEST_P(FlowControlContract, ARetryThatIsCancelledAtOnceRunsNothingAndItsKeyIsFreeInTime) {
  add_flow(R"({"id":"a","task":"do.a"})", R"("key_ttl":"1h")");
  does["a"] = dies;
  const std::string run = start();
  settle();
  flows.retry(run, by).value();
  flows.cancel(run, by).value();
  settle();
  EXPECT_EQ(phase(run), RunPhase::cancelled);
  EXPECT_EQ(task_state(run, "a"), State::cancelled);
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_TRUE(flows.start("w", json("{}")).value().duplicate);
  pass(2h);
  EXPECT_FALSE(flows.start("w", json("{}")).value().duplicate);
}

// What the handler of the failure was given stays what it was given.
TEST_P(FlowControlContract, AStepThatFailsAgainInAnotherWayDoesNotFailItsHandler) {
  add_flow(R"({"id":"a","task":"do.a","on_failure":"tell"},
              {"id":"tell","task":"do.tell","input":{"why":"errors.a"}})");
  int tries = 0;
  does["a"] = [&](Context&) { return Outcome::dead("no " + std::to_string(++tries)); };
  const std::string run = start();
  handle_events();
  EXPECT_TRUE(work());
  handle_events();  // `tell` is to run, and a person has `a` run again first
  zone.tasks().retry(run + ".a", "q", by).value();
  does["tell"] = [&](Context&) { return Outcome::completed(); };
  settle();
  EXPECT_EQ(tries, 2);
  EXPECT_EQ(status(run, "tell"), StepStatus::completed);
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowControlContract, OnlyAFailedRunIsRetried) {
  add_flow(kTwo);
  const std::string run = start();
  EXPECT_TRUE(drive());
  EXPECT_EQ(flows.retry(run, by).error().code, Code::wrong_state) << "it goes on";
  settle();
  EXPECT_EQ(flows.retry(run, by).error().code, Code::wrong_state) << "it is completed";
  EXPECT_THAT(ran, ElementsAre("a", "b"));
}

TEST_P(FlowControlContract, OfManyWhoRetryARunAtOnceItGoesOnOnce) {
  add_flow(kTwo);
  does["a"] = dies;
  const std::string run = start();
  settle();
  at_once(4, [&](int) {
    const auto retried = flows.retry(run, by);
    EXPECT_TRUE(retried || retried.error().code == Code::wrong_state);
  });
  does.clear();
  settle();
  EXPECT_THAT(ran, ElementsAre("a", "a", "b"));
  EXPECT_EQ(show(run).round, 2U);
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowControlContract, ARetryRunsAHandlerOfFailureOnlyWhenThereIsOneAgain) {
  add_flow(R"({"id":"a","task":"do.a","on_failure":"undo"},{"id":"undo","task":"do.undo"})");
  does["a"] = does["undo"] = dies;
  const std::string run = start();
  settle();
  EXPECT_THAT(ran, ElementsAre("a", "undo"));
  EXPECT_EQ(phase(run), RunPhase::failed);
  ran.clear();
  does.clear();
  EXPECT_THAT(flows.retry(run, by).value(), UnorderedElementsAre("a", "undo"));
  settle();
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_EQ(status(run, "undo"), StepStatus::skipped);
  EXPECT_EQ(phase(run), RunPhase::completed);
}

// --- By hand --------------------------------------------------------------------------------

// Its output cannot be passed on. Its task is completed: it never runs again, though the step has failed.
class FlowStepOfTooMuch : public FlowControlContract {
 protected:
  std::string failed_run() {
    add_flow(kTwo);
    const std::string run = start();
    does["a"] = [](Context&) {
      constexpr std::size_t kDepth = 512;  // the deepest JSON; the run's event around it is deeper
      return Outcome::completed(
          Body::json(std::string(kDepth, '[') + std::string(kDepth, ']')).value());
    };
    settle();
    EXPECT_EQ(phase(run), RunPhase::failed);
    EXPECT_EQ(task_state(run, "a"), State::completed);
    return run;
  }
  // As a version of Once did that took no look at the task.
  void retry_blindly(const std::string& run) {
    core::FlowEvent retried;
    retried.kind = core::FlowEvent::Kind::retried;
    retried.run = run;
    retried.workflow = "w";
    retried.n = 2;
    retried.voided = {{"a", 1}};
    engine::EventLog(*impl->store, *impl->scheduler)
        .append(engine::EventLog::entry_of(retried))
        .value();
  }
};
ONCE_FOR_EVERY_STORE(FlowStepOfTooMuch);

TEST_P(FlowStepOfTooMuch, IsNotRetriedAndThePersonHearsWhy) {
  const std::string run = failed_run();
  const auto refused = flows.retry(run, by);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::wrong_state);
  EXPECT_THAT(refused.error().message,
              HasSubstr("step 'a' cannot run again: its task is completed, and a completed task "
                        "never runs again; nothing was changed"));
  settle();
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_EQ(show(run).round, 1U);
}

TEST_P(FlowStepOfTooMuch, FailsAgainAtOnceWhenARunnerIsToRetryIt) {
  const std::string run = failed_run();
  retry_blindly(run);
  settle();
  EXPECT_EQ(phase(run), RunPhase::failed) << "and does not wait for ever";
  EXPECT_THAT(show(run).info.error, HasSubstr("its task is completed"));
  EXPECT_THAT(ran, ElementsAre("a"));
  flows.cancel(run, by).value();
  settle();
  EXPECT_EQ(phase(run), RunPhase::cancelled);
}

TEST_P(FlowStepOfTooMuch, FailsAgainAlsoWhenItsTaskIsForgotten) {
  const std::string run = failed_run();
  pass(24h * 100);
  zone.retire().value();
  retry_blindly(run);
  settle();
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_THAT(show(run).info.error, HasSubstr("its task is"));
  EXPECT_EQ(flows.retry(run, by).error().code, Code::wrong_state);
}

TEST_P(FlowControlContract, ADeadStepOfARunThatIsOverForGoodIsNotRunAgain) {
  add_flow(R"({"id":"a","task":"do.a","on_failure":"tell"},{"id":"tell","task":"do.tell"})");
  does["a"] = dies;
  const std::string run = start();
  settle();
  ASSERT_EQ(phase(run), RunPhase::completed) << "the failure was handled";
  ASSERT_EQ(task_state(run, "a"), State::dead);
  ran.clear();
  const auto refused = zone.tasks().retry(run + ".a", "q", by);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::wrong_state);
  EXPECT_THAT(refused.error().message,
              HasSubstr("a step of run '" + run + "', which is completed"));
  EXPECT_THAT(refused.error().message, HasSubstr("nothing was changed"));
  settle();
  EXPECT_THAT(ran, IsEmpty());
  zone.tasks().drop(run + ".a", "q", by).value();
}

TEST_P(FlowControlContract, ADeadStepOfARunThatHasFailedIsRunAgainAndTheRunHearsOfIt) {
  add_flow(kTwo);
  does["a"] = dies;
  const std::string run = start();
  settle();
  const NextView next = zone.tasks().inspect(run + ".a").value().queues.at(0).next;
  EXPECT_EQ(next.kind, NextView::Kind::dead_step);
  EXPECT_EQ(next.run, run);
  does.clear();
  zone.tasks().retry(run + ".a", "q", by).value();
  settle();
  EXPECT_EQ(status(run, "a"), StepStatus::completed);
  EXPECT_THAT(flows.retry(run, by).value(), IsEmpty()) << "nothing is left that failed";
  settle();
  EXPECT_THAT(ran, ElementsAre("a", "a", "b"));
  EXPECT_EQ(phase(run), RunPhase::completed);
}

// --- Held back ------------------------------------------------------------------------------

TEST_P(FlowControlContract, AStartAboveTheRateOfAStepIsTriedAgainLater) {
  add_flow(R"({"id":"a","task":"do.a","rate":{"limit":2,"per":"1m"}})");
  std::vector<std::string> all;
  for (int i = 0; i < 5; ++i) all.push_back(start(std::to_string(i)));
  settle();
  EXPECT_THAT(ran, SizeIs(2));
  std::size_t refused = 0;
  for (const std::string& run : all)
    for (const std::string& event : events(run)) refused += event == "rate_retry a" ? 1 : 0;
  EXPECT_EQ(refused + timers(), 3U) << "each is seen, or lies there to be seen";
  pass(70s);
  settle();
  EXPECT_THAT(ran, SizeIs(4));
  pass(70s);
  settle();
  EXPECT_THAT(ran, SizeIs(5));
  EXPECT_EQ(timers(), 0U);
  for (const std::string& run : all) EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_THAT(events(all.back()), Contains("rate_retry a"));
}

TEST_P(FlowControlContract, MoreRunsThanMayBeUnderWayWaitForAPlace) {
  add_flow(R"({"id":"a","task":"do.a"},{"id":"go","signal":"go","depends_on":["a"]})",
           R"("max_runs":1)");
  const std::string first = start("1");
  const std::string second = start("2");
  settle();
  for (int i = 0; i < 3; ++i) {
    pass(1min);
    settle();
    EXPECT_THAT(ran, ElementsAre("a"));
  }
  EXPECT_EQ(status(first, "a"), StepStatus::completed);
  EXPECT_EQ(status(second, "a"), StepStatus::active);
  flows.signal(first, "go", {}, "1").value();
  settle();
  EXPECT_EQ(phase(first), RunPhase::completed);
  pass(1min);
  settle();
  EXPECT_THAT(ran, ElementsAre("a", "a"));
  EXPECT_THAT(events(second), Contains(HasSubstr("admit")));
  flows.cancel(second, by).value();
  settle();
  const std::string third = start("3");
  settle();
  EXPECT_EQ(status(third, "a"), StepStatus::completed) << "a cancelled run's place is free";
}

TEST_P(FlowControlContract, ARunThatFailedWhileItWaitedForAPlaceGetsOneWhenItIsRetried) {
  add_flow(R"({"id":"ok","approval":"Shall it?","timeout":"9d"},)"
           R"({"id":"a","task":"do.a","depends_on":["ok"]})",
           R"("max_runs":1)");
  const std::string first = start("1");
  const std::string second = start("2");
  settle();
  flows.approve(second, "ok", false, by).value();
  settle();
  EXPECT_EQ(phase(second), RunPhase::failed);
  flows.retry(second, by).value();
  flows.approve(second, "ok", true, by).value();
  settle();
  EXPECT_THAT(ran, IsEmpty()) << "the first has the place";
  flows.approve(first, "ok", true, by).value();
  settle();
  EXPECT_EQ(phase(first), RunPhase::completed);
  pass(1min);
  settle();
  EXPECT_EQ(phase(second), RunPhase::completed);
  EXPECT_THAT(ran, ElementsAre("a", "a"));
}

TEST_P(FlowControlContract, ACancelledRunThatWaitedForAPlaceBeginsNothing) {
  add_flow(R"({"id":"a","task":"do.a"},{"id":"go","signal":"go","depends_on":["a"]})",
           R"("max_runs":1)");
  const std::string first = start("1");
  const std::string second = start("2");
  settle();
  flows.cancel(second, by).value();
  settle();
  flows.signal(first, "go", {}, "1").value();
  for (int i = 0; i < 3; ++i) {
    settle();
    pass(1min);
  }
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_EQ(phase(second), RunPhase::cancelled);
}

}  // namespace
}  // namespace once::contract
