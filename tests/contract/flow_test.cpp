// Workflows: definitions, steps, what they are given, where they run, and who drives them.
#include <thread>

#include "contract/flows.h"

namespace once::contract {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

constexpr std::string_view kDiamond =
    R"({"id":"a","task":"do.a"},{"id":"b","task":"do.b","depends_on":["a"]},)"
    R"({"id":"c","task":"do.c","depends_on":["a"]},{"id":"d","task":"do.d","depends_on":["b","c"]})";

class FlowContract : public FlowZone {};
ONCE_FOR_EVERY_STORE(FlowContract);

// --- Definitions ----------------------------------------------------------------------------

TEST_P(FlowContract, AZoneWithoutWorkflowsSaysSo) {
  EXPECT_THAT(flows.list().value(), IsEmpty());
  EXPECT_THAT(flows.runs({}).value(), IsEmpty());
  EXPECT_EQ(flows.start("w", {}).error().code, Code::not_found);
  EXPECT_EQ(flows.definition("w").error().code, Code::not_found);
  EXPECT_EQ(flows.show("w-1").error().code, Code::not_found);
  EXPECT_EQ(flows.events("w-1").error().code, Code::not_found);
  EXPECT_EQ(flows.signal("w-1", "go", {}, "1").error().code, Code::not_found);
  EXPECT_EQ(flows.approve("w-1", "a", true, by).error().code, Code::not_found);
  EXPECT_EQ(flows.cancel("w-1", by).error().code, Code::not_found);
  EXPECT_EQ(flows.retry("w-1", by).error().code, Code::not_found);
}

TEST_P(FlowContract, TheSameDefinitionAgainIsThereAlready) {
  const FlowAdded first = add_flow(kTwo);
  EXPECT_EQ(first.workflow, "w");
  EXPECT_EQ(first.version, 1U);
  EXPECT_TRUE(first.added);
  EXPECT_EQ(first.steps, 2U);
  EXPECT_THAT(first.hints, IsEmpty());
  const FlowAdded again =
      flows.add(R"({ "steps": [)" + std::string(kTwo) + R"(], "version": 1, "name": "w" })")
          .value();
  EXPECT_FALSE(again.added);
  EXPECT_EQ(again.steps, 2U);
  EXPECT_THAT(flows.list().value(), SizeIs(1));
}

TEST_P(FlowContract, AnotherDefinitionUnderAVersionIsAConflictThatSaysWhatDiffers) {
  add_flow(kTwo);
  const auto refused = flows.add(
      workflow(R"({"id":"a","task":"do.a"},{"id":"b","task":"do.c","depends_on":["a"]})"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::conflicting_duplicate);
  EXPECT_THAT(refused.error().conflict->differs.value(), ElementsAre("$.steps.b.task"));
  EXPECT_THAT(refused.error().message, HasSubstr("give it version 2"));
  EXPECT_EQ(flows.definition("w").value().steps.at(1).detail, "do.b");
}

TEST_P(FlowContract, ADefinitionIsGivenBackAsItWasAdded) {
  add_flow(kTwo, R"("$schema":"x","version":1)");
  add_flow(R"({"id":"a","task":"do.a"})", R"("version":2)");
  const std::string first = flows.definition("w", 1).value().json;
  EXPECT_EQ(first, Workflow("w")
                       .step({.id = "a", .task = "do.a"})
                       .step({.id = "b", .task = "do.b", .depends_on = {"a"}})
                       .json()
                       .value());
  EXPECT_FALSE(flows.add(first).value().added);
  EXPECT_EQ(flows.definition("w").value().json,
            R"({"name":"w","steps":[{"id":"a","task":"do.a"}],"version":2})");
}

TEST_P(FlowContract, AnInterruptedRunnerLeavesEventsToTheNext) {
  add_flow(kTwo);
  const std::string run = start();
  WorkflowRunner interrupted = flows.runner({.name = "interrupted"}).value();
  interrupted.interrupt();
  EXPECT_FALSE(interrupted.run_one().value());
  EXPECT_TRUE(interrupted.run({}));
  EXPECT_EQ(interrupted.metrics().completed, 0U);
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowContract, TheHighestVersionIsTheNewestInWhateverOrderTheyCome) {
  add_flow(R"({"id":"b","task":"do.b"})", R"("version":2)");
  add_flow(R"({"id":"a","task":"do.a"})", R"("version":1)");
  const auto all = flows.list().value();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].version, 1U);
  EXPECT_EQ(all[1].version, 2U);
  EXPECT_EQ(flows.definition("w").value().version, 2U);
  EXPECT_EQ(flows.definition("w", 1).value().version, 1U);
  EXPECT_EQ(flows.definition("w", 3).error().code, Code::not_found);

  const std::string newest = start("2");
  const std::string first = flows.start("w", json("1"), {.version = 1}).value().run;
  settle();
  EXPECT_EQ(show(newest).info.version, 2U);
  EXPECT_EQ(show(first).info.version, 1U);
  EXPECT_THAT(ran, UnorderedElementsAre("b", "a"));
}

TEST_P(FlowContract, ARunStaysOnTheVersionItBeganWith) {
  add_flow(kGoThenA);
  const std::string run = start();
  settle();
  add_flow(R"({"id":"go","signal":"go"},{"id":"b","task":"do.b","depends_on":["go"]})",
           R"("version":2)");
  flows.signal(run, "go", {}, "1").value();
  settle();
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_EQ(show(run).info.version, 1U);
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowContract, WhatIsWrongWithADefinitionIsToldAndNothingIsAdded) {
  const auto refused = flows.add(workflow(
      R"({"id":"a","task":"do.a","depends_on":["b"]},{"id":"b","task":"do.b","depends_on":["a"]})"));
  EXPECT_EQ(refused.error().code, Code::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr("nothing was added"));
  EXPECT_THAT(flows.list().value(), IsEmpty());
}

TEST_P(FlowContract, AWorkflowBuiltInCodeIsTheSameAsItsJson) {
  Workflow built("w");
  built.idempotency_key("order.id")
      .timeout(2h)
      .output(Input::path("steps.b"))
      .step({.id = "a", .task = "do.a", .input = Input::object().with("order", "input.order.id")})
      .step({.id = "b", .task = "do.b", .depends_on = {"a"}});
  EXPECT_TRUE(flows.add(built).value().added);
  const auto written = R"("idempotency_key":"order.id","timeout":"2h","output":"steps.b")";
  EXPECT_FALSE(add_flow(R"({"id":"a","task":"do.a","input":{"order":"input.order.id"}},)"
                        R"({"id":"b","task":"do.b","depends_on":["a"]})",
                        written)
                   .added);
  EXPECT_FALSE(flows.add(built.json().value()).value().added);
}

TEST_P(FlowContract, ADefinitionIsShownAsItIsDrawn) {
  add_flow(R"({"id":"mail","task":"do.mail","depends_on":["nap","ok"]},)"
           R"({"id":"ok","approval":"Send it?","depends_on":["paid"]},)"
           R"({"id":"nap","sleep":"10m"},)"
           R"({"id":"paid","signal":"paid","timeout":"1h","on_failure":"warn"},)"
           R"({"id":"warn","task":"do.warn"})");
  const FlowView view = flows.definition("w").value();
  EXPECT_EQ(view.workflow, "w");
  std::map<std::string, FlowView::Step> steps;
  for (const FlowView::Step& step : view.steps) {
    for (const std::string& before : step.depends_on) EXPECT_TRUE(steps.contains(before));
    steps[step.step] = step;
  }
  ASSERT_THAT(steps, SizeIs(5));
  EXPECT_EQ(steps["mail"].kind, StepKind::task);
  EXPECT_EQ(steps["mail"].detail, "do.mail");
  EXPECT_THAT(steps["mail"].depends_on, UnorderedElementsAre("nap", "ok"));
  EXPECT_EQ(steps["ok"].kind, StepKind::approval);
  EXPECT_EQ(steps["ok"].detail, "Send it?");
  EXPECT_EQ(steps["nap"].kind, StepKind::sleep);
  EXPECT_EQ(steps["nap"].detail, "10m");
  EXPECT_EQ(steps["paid"].kind, StepKind::signal);
  EXPECT_EQ(steps["paid"].detail, "paid");
  EXPECT_EQ(steps["paid"].on_failure, "warn");
}

// --- Steps ----------------------------------------------------------------------------------

TEST_P(FlowContract, EachStepIsGivenWhatItsMappingSays) {
  add_flow(
      R"({"id":"charge","task":"do.charge","input":{"order":"input.id","in":{"value":"EUR"}}},)"
      R"({"id":"mail","task":"do.mail","depends_on":["charge"],"input":
          {"paid":"steps.charge.amount","run":"run","to":{"path":"input.to","default":"us"}}},)"
      R"({"id":"keep","task":"do.keep","depends_on":["mail"],"input":"steps.mail"})",
      R"("output":{"nr":"steps.mail.nr"})");
  does["charge"] = [](Context&) { return Outcome::completed(json(R"({"amount":12})")); };
  does["mail"] = [](Context&) { return Outcome::completed(json(R"({"nr":7})")); };
  const std::string run = start(R"({"id":"o-17"})");
  settle();
  EXPECT_THAT(ran, ElementsAre("charge", "mail", "keep"));
  EXPECT_EQ(given["charge"], R"({"in":"EUR","order":"o-17"})");
  EXPECT_EQ(given["mail"], R"({"paid":12,"run":")" + run + R"(","to":"us"})");
  EXPECT_EQ(given["keep"], R"({"nr":7})");

  const RunView view = show(run);
  EXPECT_EQ(view.info.state, RunPhase::completed);
  EXPECT_EQ(view.info.steps, 3U);
  EXPECT_EQ(view.info.steps_done, 3U);
  EXPECT_EQ(view.input.text(), R"({"id":"o-17"})");
  EXPECT_EQ(view.output.value().text(), R"({"nr":7})");
  EXPECT_EQ(view.round, 1U);
  EXPECT_EQ(step_in(view, "mail").output.value().text(), R"({"nr":7})");
  EXPECT_EQ(step_in(view, "mail").task, "do.mail");
  EXPECT_EQ(step_in(view, "mail").queue, "q");
  EXPECT_EQ(step_in(view, "mail").attempts, 1);
}

TEST_P(FlowContract, AStepIsGivenTheRunsInputAndKnowsItselfByRunAndStep) {
  add_flow(R"({"id":"a","task":"do.a"})");
  std::string key;
  does["a"] = [&](Context& context) {
    key = context.idempotency_key();
    EXPECT_NE(context.idempotency_key("inner"), key);
    return Outcome::completed(Body::bytes("as it is"));
  };
  const std::string run = start(R"({"n":1})");
  settle();
  EXPECT_EQ(key, run + ".a");
  EXPECT_EQ(given["a"], R"({"n":1})");
  EXPECT_EQ(step_of(run, "a").output.value().text(), R"("as it is")") << "text is a JSON string";
  EXPECT_EQ(zone.tasks().inspect(run + ".a").value().queues.at(0).state, State::completed);
}

TEST_P(FlowContract, AStepRunsOnceWhenAllThatItDependsOnIsDone) {
  add_flow(kDiamond);
  const std::string run = start();
  settle();
  ASSERT_THAT(ran, SizeIs(4));
  EXPECT_EQ(ran.front(), "a");
  EXPECT_EQ(ran.back(), "d");
  EXPECT_THAT(ran, UnorderedElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowContract, AStepWhoseInputCannotBeMadeFailsAndRunsNothing) {
  add_flow(R"({"id":"a","task":"do.a"},)"
           R"({"id":"b","task":"do.b","depends_on":["a"],"input":"steps.a.no.such"})");
  const std::string run = start();
  settle();
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_EQ(status(run, "b"), StepStatus::failed);
  EXPECT_THAT(step_of(run, "b").why, HasSubstr("steps.a.no.such"));
  EXPECT_THAT(show(run).info.error, HasSubstr("'b'"));
  EXPECT_EQ(flows.retry(run, by).error().code, Code::wrong_state) << "it would be no better";
}

TEST_P(FlowContract, LargeOutputsReachTheNextStepAndTheRunsOutput) {
  add_flow(
      R"({"id":"a","task":"do.a"},{"id":"b","task":"do.b","depends_on":["a"],"input":"steps.a"})",
      R"("output":"steps.a")");
  for (const std::size_t size : {5'000U, 100'000U, 500'000U}) {
    const std::string large = '"' + std::string(size, 'x') + '"';
    does["a"] = [&](Context&) { return Outcome::completed(json(large)); };
    const std::string run = start(std::to_string(size));
    settle();
    EXPECT_EQ(phase(run), RunPhase::completed) << size;
    EXPECT_TRUE(given["b"] == large) << size << " became " << given["b"].size();
    EXPECT_TRUE(show(run).output.value().text() == large) << size;
    EXPECT_TRUE(step_of(run, "a").output.value().text() == large) << size;
  }
}

TEST_P(FlowContract, AConditionSkipsAStepAndWhatDependsOnItGoesOn) {
  add_flow(R"({"id":"a","task":"do.a","skip_if":{"path":"input.total","equals":0}},)"
           R"({"id":"b","task":"do.b","depends_on":["a"],"input":"steps.a"})");
  const std::string run = start(R"({"total":0})");
  settle();
  EXPECT_THAT(ran, ElementsAre("b"));
  EXPECT_EQ(given["b"], "null");
  EXPECT_EQ(status(run, "a"), StepStatus::skipped);
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_EQ(show(run).info.steps_done, 2U);
  start(R"({"total":1})");
  settle();
  EXPECT_THAT(ran, ElementsAre("b", "a", "b"));
}

TEST_P(FlowContract, AFailureIsHandledByItsStepAndStopsOnlyWhatDependsOnIt) {
  add_flow(R"({"id":"a","task":"do.a","on_failure":"undo"},)"
           R"({"id":"undo","task":"do.undo","input":{"why":"errors.a"}},)"
           R"({"id":"b","task":"do.b","depends_on":["a"]},{"id":"c","task":"do.c"})");
  does["a"] = [](Context&) { return Outcome::dead("no money"); };
  const std::string run = start();
  settle();
  EXPECT_THAT(ran, UnorderedElementsAre("a", "c", "undo"));
  EXPECT_THAT(given["undo"], HasSubstr("no money"));
  EXPECT_EQ(status(run, "a"), StepStatus::failed);
  EXPECT_EQ(status(run, "b"), StepStatus::unreached);
  EXPECT_EQ(status(run, "undo"), StepStatus::completed);
  EXPECT_EQ(phase(run), RunPhase::completed);

  does.clear();
  ran.clear();
  const std::string well = start("1");
  settle();
  EXPECT_THAT(ran, UnorderedElementsAre("a", "c", "b"));
  EXPECT_EQ(status(well, "undo"), StepStatus::skipped);
}

TEST_P(FlowContract, AFailureThatNobodyHandlesFailsTheRunWhenTheRestIsDone) {
  add_flow(R"({"id":"a","task":"do.a"},{"id":"b","task":"do.b"},)"
           R"({"id":"c","task":"do.c","depends_on":["b"]})");
  does["a"] = [](Context&) { return Outcome::dead("never"); };
  const std::string run = start();
  settle();
  EXPECT_THAT(ran, UnorderedElementsAre("a", "b", "c"));
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_THAT(show(run).info.error, HasSubstr("never"));
  EXPECT_FALSE(show(run).output);
}

// --- The policy of a step -------------------------------------------------------------------

TEST_P(FlowContract, TheRetryPolicyOfAStepIsTheOnlyOne) {
  add_flow(
      R"({"id":"a","task":"do.a","retry":{"attempts":2,"backoff":"fixed","wait":"5s","jitter":0}})");
  does["a"] = [](Context&) { return Outcome::failed("not yet"); };
  const std::string run = start();
  settle();
  EXPECT_THAT(ran, SizeIs(1));
  pass(4s);
  settle();
  EXPECT_THAT(ran, SizeIs(1)) << "the queue's backoff is a second";
  EXPECT_EQ(step_of(run, "a").task_state, State::retrying);
  pass(2s);
  settle();
  EXPECT_THAT(ran, SizeIs(2));
  EXPECT_EQ(phase(run), RunPhase::failed) << "the queue has three attempts";
  EXPECT_EQ(step_of(run, "a").attempts, 2);
}

TEST_P(FlowContract, AStepWithoutARetryPolicyHasTheWorkflowsElseTheQueues) {
  add_flow(R"({"id":"a","task":"do.a"})",
           R"("default_retry":{"attempts":5,"backoff":"linear","wait":"1s","jitter":0})");
  flows.add(R"({"name":"plain","steps":[{"id":"a","task":"do.a"}]})").value();
  does["a"] = [](Context&) { return Outcome::failed("not yet"); };
  const auto tries_of = [&](const std::string& run) {
    ran.clear();
    for (int i = 0; i < 10 && phase(run) == RunPhase::running; ++i) {
      settle();
      pass(10s);
    }
    EXPECT_EQ(phase(run), RunPhase::failed);
    return ran.size();
  };
  EXPECT_EQ(tries_of(start()), 5U);
  EXPECT_EQ(tries_of(flows.start("plain", {}).value().run), 3U);
}

TEST_P(FlowContract, TheTimeoutOfAStepEndsAnAttempt) {
  add_flow(
      R"({"id":"a","task":"do.a","timeout":"50ms","retry":{"attempts":2,"wait":"1s","jitter":0}})");
  does["a"] = [](Context& context) {
    if (context.attempt() > 1) return Outcome::completed();
    EXPECT_TRUE(is_told_to_stop(context));
    return Outcome::failed("stopped");
  };
  const std::string run = start();
  settle();
  EXPECT_EQ(zone.tasks().inspect(run + ".a").value().queues.at(0).attempts.at(0).outcome,
            AttemptOutcome::timed_out);
  pass(2s);
  settle();
  EXPECT_THAT(ran, SizeIs(2));
  EXPECT_EQ(phase(run), RunPhase::completed);
}

// --- Queues ---------------------------------------------------------------------------------

TEST_P(FlowContract, AStepWhoseTopicNoQueueTakesWaitsForOne) {
  EXPECT_THAT(add_flow(R"({"id":"a","task":"late.a"})").hints, SizeIs(1));
  const std::string run = start();
  settle();
  EXPECT_EQ(phase(run), RunPhase::running);
  EXPECT_EQ(status(run, "a"), StepStatus::active);
  EXPECT_THAT(step_of(run, "a").why, HasSubstr("no queue takes topic 'late.a'"));
  zone.queues().add({.name = "late", .topic = "late.*"}).value();
  pass(1min);  // the event of the start is handled again, later and later
  settle();
  EXPECT_TRUE(work("late"));
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
}

// Nobody runs what was called off before there was anybody who could.
TEST_P(FlowContract, AQueueThatComesAfterTheEndOfARunRunsNothingOfIt) {
  add_flow(R"({"id":"a","task":"late.a"})");
  const std::string run = start();
  settle();
  flows.cancel(run, {}).value();
  settle();
  EXPECT_EQ(phase(run), RunPhase::cancelled);
  zone.queues().add({.name = "late", .topic = "late.*"}).value();
  pass(1min);
  EXPECT_FALSE(work("late"));
  EXPECT_TRUE(ran.empty());
}

TEST_P(FlowContract, OfTwoQueuesTheNamedOneReplies) {
  zone.queues().add({.name = "named", .topic = "do.a"}).value();
  add_flow(R"({"id":"a","task":"do.a","queue":"named"})");
  const std::string run = start();
  EXPECT_TRUE(drive());
  auto other = zone.worker("q", [](Context&) { return Outcome::dead("of no matter"); }).value();
  EXPECT_TRUE(other.run_one().value());
  EXPECT_FALSE(drive()) << "who is not named says nothing";
  EXPECT_TRUE(work("named"));
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_EQ(step_of(run, "a").output.value().text(), R"({"did":"a"})");
  EXPECT_EQ(step_of(run, "a").queue, "named");
}

TEST_P(FlowContract, TwoQueuesForAStepThatNamesNoneAreRefusedAndMakeARunWait) {
  add_flow(R"({"id":"a","task":"do.a"})");
  zone.queues().add({.name = "second", .topic = "do.a"}).value();
  const auto refused = flows.add(R"({"name":"v","steps":[{"id":"a","task":"do.a"}]})");
  EXPECT_EQ(refused.error().code, Code::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr("second"));

  const std::string run = start();
  settle();
  EXPECT_THAT(ran, IsEmpty()) << "nobody knows which one is meant";
  EXPECT_EQ(phase(run), RunPhase::running);
  EXPECT_THAT(step_of(run, "a").why, HasSubstr("'second': the step has to name one"));
  zone.queues().remove("second").value();
  pass(1min);  // the event of the start is handled again, later and later
  settle();
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_EQ(phase(run), RunPhase::completed);
}

// The advice that a definition gets, taken out of the hint.
std::string advised_skip_if(const FlowAdded& added) {
  const std::string& hint = added.hints.at(0).text;
  const auto begin = hint.find("\"skip_if\"");
  return hint.substr(begin, hint.find('}') + 1 - begin);
}

TEST_P(FlowContract, AStepAfterAHandlerRunsOnlyAfterAFailureWhenItIsToldSo) {
  const std::string charge =
      R"({"id":"a","task":"do.a","on_failure":"refund"},{"id":"refund","task":"do.refund"},)";
  const std::string mail = R"({"id":"mail","task":"do.mail","depends_on":["refund"])";
  const std::string advice = advised_skip_if(flows.check(workflow(charge + mail + "}")).value());
  EXPECT_THAT(add_flow(charge + mail + "," + advice + "}").hints, IsEmpty());
  std::string run = start(R"({"n":1})");
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_EQ(status(run, "refund"), StepStatus::skipped);
  EXPECT_EQ(status(run, "mail"), StepStatus::skipped);
  // Also when the handler has nothing to say.
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  does["refund"] = [](Context&) { return Outcome::completed(); };
  run = start(R"({"n":2})");
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_EQ(status(run, "mail"), StepStatus::completed);
}

TEST_P(FlowContract, AStepAfterAHandlerOfSeveralRunsOnlyAfterAFailureWhenItIsToldSo) {
  const std::string steps =
      R"({"id":"a","task":"do.a","on_failure":"h"},{"id":"b","task":"do.b","on_failure":"h"},)"
      R"({"id":"h","task":"do.h"},)";
  const std::string mail = R"({"id":"mail","task":"do.mail","depends_on":["h"])";
  const std::string advice = advised_skip_if(flows.check(workflow(steps + mail + "}")).value());
  EXPECT_THAT(add_flow(steps + mail + "," + advice + "}").hints, IsEmpty());
  std::string run = start(R"({"n":1})");
  settle();
  EXPECT_EQ(status(run, "mail"), StepStatus::skipped);
  does["b"] = [](Context&) { return Outcome::dead("no"); };
  run = start(R"({"n":2})");
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_EQ(status(run, "mail"), StepStatus::completed);
}

TEST_P(FlowContract, AnOutputThatIsMissingFailsTheRunUnlessItHasADefault) {
  const std::string steps = R"({"id":"a","task":"do.a","on_failure":"h"},{"id":"h","task":"do.h"})";
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  EXPECT_THAT(add_flow(steps, R"("output":{"x":"steps.a"})").hints,
              ElementsAre(Field(&FlowHint::text, HasSubstr("give it a default"))));
  const std::string failed = start();
  settle();
  EXPECT_EQ(phase(failed), RunPhase::failed);
  EXPECT_THAT(
      add_flow(steps, R"("version":2,"output":{"x":{"path": "steps.a", "default": null}})").hints,
      IsEmpty());
  const std::string completed = start(R"({"n":2})");
  settle();
  EXPECT_EQ(phase(completed), RunPhase::completed);
}

TEST_P(FlowContract, WhatIsOnlyWrittenInAnotherWayDoesNotDiffer) {
  add_flow(R"({"id":"a","task":"do.a","timeout":"1m"},{"id":"b","task":"do.b"})");
  EXPECT_FALSE(add_flow(R"({"id":"b","task":"do.b","depends_on":[]},)"
                        R"({"id":"a","task":"do.a","timeout":"60s"})",
                        R"("version":1,"key_ttl":"24h")")
                   .added);
  const auto refused =
      flows.add(workflow(R"({"id":"a","task":"do.a","timeout":"60s"},{"id":"b","task":"do.c"})",
                         R"("version":1,"key_ttl":"24h")"));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().conflict->differs.value(), ElementsAre("$.steps.b.task"));
}

TEST_P(FlowContract, AQueueThatDoesNotTakeTheTopicIsRefusedAndOneThatIsToComeIsHintedAt) {
  EXPECT_EQ(flows.add(workflow(R"({"id":"a","task":"other.a","queue":"q"})")).error().code,
            Code::invalid_input);
  const auto hints = add_flow(R"({"id":"a","task":"do.a","queue":"later"})").hints;
  ASSERT_THAT(hints, SizeIs(1));
  EXPECT_EQ(hints[0].text, "step 'a': there is no queue 'later' as yet ('q' takes topic 'do.a')");
  EXPECT_EQ(hints[0].reason, Reason::no_queue_for_step);
  EXPECT_EQ(hints[0].facts["queue"], "later");
  EXPECT_EQ(hints[0].facts["topic"], "do.a");
}

TEST_P(FlowContract, ADeadStepThatAPersonHasRunAgainGoesOn) {
  add_flow(std::string(kTwo) + R"(,{"id":"go","signal":"go"})");
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  const std::string run = start();
  settle();
  EXPECT_EQ(status(run, "a"), StepStatus::failed);
  EXPECT_EQ(status(run, "b"), StepStatus::unreached);
  zone.tasks().retry(run + ".a", "q", by).value();
  does.clear();
  settle();
  EXPECT_THAT(ran, ElementsAre("a", "a", "b"));
  EXPECT_EQ(status(run, "b"), StepStatus::completed);
  flows.signal(run, "go", {}, "1").value();
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowContract, ADeadStepThatIsCompletedAfterTheRunsEndIsGoneOnFromByARetryOfTheRun) {
  add_flow(kTwo);
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  const std::string run = start();
  settle();
  EXPECT_EQ(phase(run), RunPhase::failed);
  zone.tasks().retry(run + ".a", "q", by).value();
  does.clear();
  settle();
  EXPECT_EQ(status(run, "a"), StepStatus::completed);
  EXPECT_EQ(phase(run), RunPhase::failed) << "an end stands";
  EXPECT_THAT(ran, ElementsAre("a", "a"));
  EXPECT_THAT(flows.retry(run, by).value(), IsEmpty());
  settle();
  EXPECT_THAT(ran, ElementsAre("a", "a", "b"));
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowContract, AStepThatAPersonCompletesGoesOn) {
  zone.queues().change("q", [](Queue& queue) { queue.in_doubt = InDoubt::hold; }).value();
  add_flow(kTwo);
  does["a"] = [](Context&) { return Outcome::unknown("?"); };
  const std::string run = start();
  settle();
  EXPECT_EQ(phase(run), RunPhase::running);
  EXPECT_EQ(step_of(run, "a").task_state, State::in_doubt);
  zone.tasks().complete(run + ".a", "q", json("7"), by).value();
  settle();
  EXPECT_EQ(step_of(run, "a").output.value().text(), "7");
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowContract, AStepWhoseTaskIsCancelledHasFailed) {
  add_flow(kTwo);
  const std::string run = start();
  EXPECT_TRUE(drive());
  zone.tasks().cancel(run + ".a", "q", by).value();
  settle();
  EXPECT_EQ(status(run, "a"), StepStatus::failed);
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_EQ(flows.retry(run, by).error().code, Code::wrong_state) << "it never runs again";
}

TEST_P(FlowContract, QueuesOfWorkflowsAreNotAnybodys) {
  add_flow(kTwo);
  EXPECT_FALSE(zone.queues().remove("once-flow", {.force = true}));
  EXPECT_FALSE(zone.queues().add({.name = "once-runs", .topic = "x"}));
  zone.queues().add({.name = "all", .topic = ">"}).value();
  start();
  settle();
  EXPECT_EQ(zone.status().value().unrouted, 0U);
  EXPECT_FALSE(work("all")) << "what is said of runs is no task of anybody's";
  EXPECT_THAT(ran, IsEmpty()) << "nor does it take the step: two queues would";
}

// --- Several runners ------------------------------------------------------------------------

TEST_P(FlowContract, TwoRunnersThatTakeTurnsDoEachStepOnce) {
  add_flow(kDiamond);
  auto first = flows.runner({.name = "first"}).value();
  // On a store of its own, where there can be two on one zone.
  const Zone other = detail::Access::make<Zone>(
      GetParam().persists
          ? std::make_shared<detail::ZoneState>(GetParam().open(folder.path(), clock))
          : impl);
  auto second = other.flows().runner({.name = "second"}).value();
  std::vector<std::string> all;
  for (int i = 0; i < 5; ++i) all.push_back(start(std::to_string(i)));
  bool more = true;
  while (more) {
    more = first.run_one().value();
    more = second.run_one().value() || more;
    more = work() || more;
  }
  EXPECT_THAT(ran, SizeIs(20));
  for (const std::string& run : all) {
    EXPECT_EQ(phase(run), RunPhase::completed);
    EXPECT_THAT(show(run).steps, Each(::testing::Field(&RunStep::status, StepStatus::completed)));
  }
  EXPECT_GT(first.metrics().completed, 0U);
  EXPECT_GT(second.metrics().completed, 0U);
}

TEST_P(FlowContract, ARunnerRunsUntilNoRunIsActive) {
  add_flow(kDiamond);
  std::vector<std::string> all;
  for (int i = 0; i < 5; ++i) all.push_back(start(std::to_string(i)));
  auto worker = zone.worker("q", [](Context&) { return Outcome::completed(); }).value();
  std::jthread steps([&](std::stop_token stop) { worker.run(stop).value(); });
  flows.runner({.concurrency = 4}).value().run_until_empty().value();
  for (const std::string& run : all) EXPECT_EQ(phase(run), RunPhase::completed);
}

}  // namespace
}  // namespace once::contract
