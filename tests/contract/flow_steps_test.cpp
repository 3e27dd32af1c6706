// What the active steps of a run wait for, and until when.
#include "contract/flows.h"

namespace once::contract {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kNoRunner = ": no runner is at work";

class FlowStepsContract : public FlowZone {
 protected:
  std::string why(std::string_view run, std::string_view step) { return step_of(run, step).why; }
  std::optional<Time> until(std::string_view run, std::string_view step) {
    return step_of(run, step).until;
  }
  // What would run is claimed by nobody.
  void drive_all() {
    while (drive()) continue;
  }
};
ONCE_FOR_EVERY_STORE(FlowStepsContract);

TEST_P(FlowStepsContract, AWaitSaysUntilWhen) {
  add_flow(R"({"id":"nap","sleep":"10m"},{"id":"go","signal":"go","timeout":"1h"},)"
           R"({"id":"ok","approval":"Is it?","timeout":"3d"},{"id":"ever","signal":"ever"})");
  const std::string run = start();
  EXPECT_EQ(why(run, "nap"), "is about to start" + std::string(kNoRunner));
  EXPECT_EQ(until(run, "nap"), std::nullopt);
  const Time begun = clock->now();
  drive_all();
  EXPECT_EQ(until(run, "nap"), begun + 10min);
  EXPECT_EQ(why(run, "nap"), "sleeps 10m");
  EXPECT_EQ(until(run, "go"), begun + 1h);
  EXPECT_EQ(why(run, "go"), "waits for signal go");
  EXPECT_EQ(until(run, "ok"), begun + 72h);
  EXPECT_EQ(until(run, "ever"), std::nullopt);
  pass(5min);
  EXPECT_EQ(until(run, "nap"), begun + 10min) << "it is the same whoever looks";
  pass(6min);
  EXPECT_EQ(why(run, "nap"), "sleeps 10m") << "a runner is about to end it";
  runner.reset();
  EXPECT_EQ(why(run, "nap"), "sleeps 10m" + std::string(kNoRunner));
  drive_all();
  const RunStep ended = step_of(run, "nap");
  EXPECT_EQ(ended.status, StepStatus::completed);
  EXPECT_EQ(ended.until, std::nullopt);
}

TEST_P(FlowStepsContract, ATaskThatWaitsSaysForWhom) {
  add_flow(kTwo);
  const std::string run = start();
  EXPECT_EQ(why(run, "a"), "is about to start" + std::string(kNoRunner));
  zone.queues().pause("once-flow").value();
  EXPECT_EQ(why(run, "a"), "is about to start: queue once-flow is paused");
  zone.queues().resume("once-flow").value();
  EXPECT_EQ(why(run, "b"), "waits for 'a'");
  drive_all();
  EXPECT_EQ(why(run, "a"), "waits for a worker of queue q, which has none");
  zone.queues().pause("q").value();
  EXPECT_EQ(why(run, "a"), "waits for a worker of queue q, which is paused");
  EXPECT_FALSE(work());
  zone.queues().resume("q").value();
  EXPECT_EQ(why(run, "a"), "waits for a worker of queue q");
  does["a"] = [&](Context&) {
    EXPECT_EQ(why(run, "a"), "");
    EXPECT_EQ(step_of(run, "a").task_state, State::running);
    return Outcome::completed();
  };
  EXPECT_TRUE(work());
  EXPECT_EQ(why(run, "a"), "its task is completed; a runner has yet to take note of it");
  runner.reset();
  EXPECT_EQ(why(run, "a"),
            "its task is completed; a runner has yet to take note of it" + std::string(kNoRunner));
}

TEST_P(FlowStepsContract, ATaskThatFailedSaysWhyAndWhenItIsTriedAgain) {
  add_flow(R"({"id":"a","task":"do.a","retry":{"attempts":2,"wait":"1m","jitter":0}})");
  does["a"] = [](Context&) { return Outcome::failed("no box is left"); };
  const std::string run = start();
  settle();
  const RunStep retrying = step_of(run, "a");
  EXPECT_EQ(retrying.task_state, State::retrying);
  EXPECT_EQ(retrying.why, "no box is left");
  EXPECT_EQ(retrying.until, clock->now() + 1min);
  pass(2min);
  EXPECT_EQ(why(run, "a"), "no box is left; waits for a worker of queue q");
  settle();
  EXPECT_EQ(status(run, "a"), StepStatus::failed);
  EXPECT_EQ(until(run, "a"), std::nullopt);
  flows.retry(run, by).value();
  drive_all();
  EXPECT_EQ(why(run, "a"), "waits for a worker of queue q");
}

TEST_P(FlowStepsContract, AStepThatItsRateKeepsFromRunningAgainSaysSo) {
  add_flow(R"({"id":"a","task":"do.a","rate":{"limit":1,"per":"1h"}})");
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  const std::string run = start();
  settle();
  flows.retry(run, by).value();
  drive_all();
  EXPECT_EQ(step_of(run, "a").task_state, State::dead);
  EXPECT_EQ(why(run, "a"), "rate 1 per 1h");
  EXPECT_TRUE(until(run, "a"));
}

TEST_P(FlowStepsContract, AStepThatRanOutOfTimeSaysSo) {
  add_flow(
      R"({"id":"a","task":"do.a","timeout":"50ms","retry":{"attempts":2,"wait":"1s","jitter":0}})");
  does["a"] = [](Context& context) {
    EXPECT_TRUE(is_told_to_stop(context));
    return Outcome::failed("stopped");
  };
  const std::string run = start();
  settle();
  EXPECT_EQ(why(run, "a"), "timed out after 50ms: stopped");
  pass(2s);
  settle();
  EXPECT_EQ(status(run, "a"), StepStatus::failed);
  EXPECT_EQ(why(run, "a"), "no attempts are left: timed out after 50ms: stopped");
  EXPECT_THAT(show(run).info.error, HasSubstr("timed out after 50ms"));
}

TEST_P(FlowStepsContract, AStartThatItsRateRefusedSaysSo) {
  add_flow(R"({"id":"a","task":"do.a","rate":{"limit":1,"per":"1m"}})");
  start("1");
  drive_all();
  const std::string second = start("2");
  drive_all();
  const RunStep refused = step_of(second, "a");
  EXPECT_EQ(refused.why, "rate 1 per 1m");
  ASSERT_TRUE(refused.until);
  EXPECT_GT(*refused.until, clock->now());
  EXPECT_LE(*refused.until, clock->now() + 3min);
  pass(3min);
  drive_all();
  EXPECT_EQ(why(second, "a"), "waits for a worker of queue q, which has none");
}

TEST_P(FlowStepsContract, ARunThatWaitsForItsTurnSaysSo) {
  add_flow(R"({"id":"nap","sleep":"10m"},{"id":"a","task":"do.a"})", R"("max_runs":1)");
  const std::string first = start("1");
  drive_all();
  const std::string second = start("2");
  EXPECT_EQ(why(second, "a"), "is about to start");
  for (int i = 0; i < 2; ++i) {
    drive_all();
    const RunView held = show(second);
    EXPECT_EQ(held.info.state, RunPhase::waiting);
    EXPECT_EQ(held.info.waits_for, "max_runs 1");
    for (const std::string_view step : {"nap", "a"}) {
      EXPECT_EQ(step_in(held, step).why, "max_runs 1: waits until another run has ended");
      EXPECT_EQ(step_in(held, step).until, std::nullopt);
    }
    pass(1min);
  }
  EXPECT_EQ(why(first, "a"), "waits for a worker of queue q, which has none");
  flows.cancel(first, by).value();
  drive_all();
  pass(1min);
  drive_all();
  EXPECT_EQ(why(second, "nap"), "sleeps 10m");
}

TEST_P(FlowStepsContract, AQueueThatIsMissingIsNamed) {
  add_flow(R"({"id":"a","task":"do.a","queue":"nope"},{"id":"b","task":"x.b","queue":"nope"},)"
           R"({"id":"c","task":"x.c"})");
  const std::string run = start();
  drive_all();
  EXPECT_EQ(why(run, "a"), "there is no queue 'nope' as yet ('q' takes topic 'do.a')");
  EXPECT_EQ(why(run, "b"), "there is no queue 'nope' as yet");
  EXPECT_EQ(why(run, "c"), "no queue takes topic 'x.c' as yet");
  zone.queues().add({.name = "nope", .topic = "y"}).value();
  EXPECT_EQ(why(run, "a"), "queue 'nope' does not take topic 'do.a'");
}

}  // namespace
}  // namespace once::contract
