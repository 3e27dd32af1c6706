// What steps are given, when they are skipped, and by what a start is known.
#include <gtest/gtest.h>

#include <ctime>
#include <limits>

#include "codec/digest.h"
#include "flow/definition/definition.h"
#include "flow/definition/input.h"
#include "unit/core/table.h"
#include "unit/flow/flow_words.h"

namespace once::encoding {
namespace {

using namespace core::flow_words;

core::RunState state() {
  auto events = events_from(
      "started, charge completed 1, mail failed 1, mail failed 2, late failed 1, retried 2 late=1");
  events[0].value =
      R"({"order":{"id":"o-1","total":12.5,"lines":[{"sku":"x"}]},"none":null,"no":false,"zero":0,"empty":"","a.b":1})";
  events[1].value = R"({"receipt":{"nr":7},"list":[]})";
  events[3].error = "mailbox \"full\"";
  return folded(events);
}

const core::Judge::Unreached kAllReached = [](std::string_view) { return false; };

TEST(FlowPaths, BeginSomewhere) {
  using Root = FlowPath::Root;
  struct Case {
    std::string_view text;
    Root root;
    std::string_view step, rest;
  };
  constexpr Case kGood[] = {
      {"input", Root::input, "", ""},
      {"input.order.id", Root::input, "", "order.id"},
      {R"(input.a\.)", Root::input, "", R"(a\.)"},
      {"steps.charge", Root::steps, "charge", ""},
      {"steps.charge.receipt.nr", Root::steps, "charge", "receipt.nr"},
      {"errors.mail", Root::errors, "mail", ""},
      {"run", Root::run, "", ""},
  };
  for (const Case& good : kGood) {
    const auto path = flow_path(good.text);
    ASSERT_TRUE(path) << good.text;
    EXPECT_EQ(path->root, good.root) << good.text;
    EXPECT_EQ(path->step, good.step) << good.text;
    EXPECT_EQ(path->rest, good.rest) << good.text;
  }
  for (const std::string_view bad : {"", ".", "order", "Input", "inputs.x", "input.", "steps",
                                     "steps.", "steps..x", "errors", "errors.a.b", "run.id"})
    EXPECT_FALSE(flow_path(bad)) << bad;
}

TEST(FlowInput, Mappings) {
  constexpr const char* kTable = R"(
   "input"                                       | {"a.b":1,"empty":"","no":false,"none":null,"order":{"id":"o-1","lines":[{"sku":"x"}],"total":12.5},"zero":0}
   "input.order.id"                              | "o-1"
   "input.order.lines.0.sku"                     | "x"
   "input.a\\.b"                                 | 1
   "input.none"                                  | null
   "input.order.nr"                              | error: no value at input.order.nr
   "steps.charge"                                | {"list":[],"receipt":{"nr":7}}
   "steps.charge.receipt.nr"                     | 7
   "steps.charge.receipt.xx"                     | error: no value at steps.charge.receipt.xx
   "steps.skipped"                               | null
   "steps.skipped.x"                             | error: no value at steps.skipped.x
   "steps.mail"                                  | error: no value at steps.mail
   "steps.late"                                  | null
   "errors.mail"                                 | "mailbox \"full\""
   "errors.charge"                               | error: no value at errors.charge
   "errors.late"                                 | error: no value at errors.late
   "run"                                         | "r"
   {}                                            | {}
   {"b":"run","a":"input.order.total"}           | {"a":12.5,"b":"r"}
   {"a":{"value":{"path":"run"}}}                | {"a":{"path":"run"}}
   {"a":{"path":"input.zero"}}                   | {"a":0}
   {"a":{"path":"input.xx","default":[1.0]}}     | {"a":[1]}
   {"a":{"path":"input.zero","default":1}}       | {"a":0}
   {"a":{"path":"steps.mail","default":null}}    | {"a":null}
   {"a":"run","b":"input.xx"}                    | error: no value at input.xx
  )";
  for (const auto& row : core::examples::rows_of(kTable)) {
    core::FlowStep step;
    step.input = row[0];
    const auto given = task_input(step, state(), kAllReached);
    EXPECT_EQ(given ? *given : "error: " + given.error().message, row[1]) << row[0];
    core::FlowDefinition definition;
    definition.output = row[0];
    const auto output = run_output(definition, state(), kAllReached);
    EXPECT_EQ(output ? *output : "error: " + output.error().message, row[1]) << row[0];
  }
}

TEST(FlowInput, WithoutAMappingItIsTheRunsInput) {
  EXPECT_EQ(task_input({}, state(), kAllReached).value(), state().input);
  EXPECT_EQ(run_output({}, state(), kAllReached).value(), "null");
}

TEST(FlowInput, WhatWouldBeTooDeepIsRefused) {
  core::RunState deep = state();
  deep.input.clear();
  for (int i = 0; i < 512; ++i) deep.input += '[';
  for (int i = 0; i < 512; ++i) deep.input += ']';
  core::FlowStep step;
  step.input = R"("input")";
  EXPECT_TRUE(task_input(step, deep, kAllReached));
  step.input = R"({"x":"input"})";
  EXPECT_FALSE(task_input(step, deep, kAllReached));
}

TEST(FlowConditions, Hold) {
  constexpr const char* kTable = R"(
   "input.order"                                       | yes
   "input.order.id"                                    | yes
   "input.order.total"                                 | yes
   "input.none"                                        | no
   "input.no"                                          | no
   "input.zero"                                        | no
   "input.empty"                                       | no
   "input.xx"                                          | no
   "steps.charge.list"                                 | yes
   "steps.skipped"                                     | no
   {"path":"input.zero","equals":0}                    | yes
   {"path":"input.zero","equals":0.0}                  | yes
   {"path":"input.zero","equals":"0"}                  | no
   {"path":"input.order.lines","equals":[{"sku":"x"}]} | yes
   {"path":"input.xx","equals":null}                   | no
   {"path":"input.none","equals":null}                 | yes
   {"path":"input.zero","not_equals":1}                | yes
   {"path":"input.zero","not_equals":0}                | no
   {"path":"input.xx","not_equals":0}                  | yes
   {"path":"input.none","exists":true}                 | yes
   {"path":"input.xx","exists":true}                   | no
   {"path":"input.xx","exists":false}                  | yes
   {"path":"errors.mail","exists":true}                | yes
   {"path":"errors.charge","exists":true}              | no
  )";
  for (const auto& row : core::examples::rows_of(kTable)) {
    const core::RunState looked_at = state();
    core::FlowStep step;
    step.skip_if = row[0];
    EXPECT_EQ(judge().of(looked_at)(step, kAllReached), row[1] == "yes") << row[0];
  }
}

// Of the process, so that others on the machine do not count: the least of some tries.
std::clock_t time_to_judge(std::size_t steps, const core::RunState& looked_at) {
  core::FlowStep step;
  step.skip_if = R"("input.order.none")";
  auto least = std::numeric_limits<std::clock_t>::max();
  for (int round = 0; round < 5; ++round) {
    const std::clock_t begin = std::clock();
    const auto skips = judge().of(looked_at);
    for (std::size_t i = 0; i < steps; ++i) EXPECT_FALSE(skips(step, kAllReached));
    least = std::min(least, std::clock() - begin);
  }
  return least;
}

TEST(FlowConditions, OfAThousandStepsReadTheInputOnce) {
  core::RunState large = state();
  large.input = R"({"order":{"none":null,"lines":[0)";
  while (large.input.size() < 200'000) large.input += R"(,{"sku":"x"})";
  large.input += "]}}";
  EXPECT_LT(time_to_judge(1000, large), 50 * time_to_judge(1, large));
}

// What parse_definition() advises for a step that depends on one which handles failures.
TEST(FlowConditions, TellWhetherAHandlerHadSomethingToDo) {
  const auto parsed = parse_definition(R"({"name":"n","steps":[
      {"id":"charge","task":"t","on_failure":"refund"}, {"id":"refund","task":"t"},
      {"id":"mail","task":"t","depends_on":["refund"],
       "skip_if":{"path": "steps.charge", "exists": true}}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto mail = core::index_of(parsed->definition, "mail").value();
  const auto status = [&](std::string_view events) {
    auto facts = events_from(std::string(events));
    for (core::FlowEvent& fact : facts) fact.value = "null";
    return core::stand(parsed->definition, folded(facts), judge()).steps[mail].status;
  };
  EXPECT_EQ(status("started, charge completed 1"), StepStatus::skipped);
  EXPECT_EQ(status("started, charge failed 1"), StepStatus::pending);
  EXPECT_EQ(status("started, charge failed 1, refund completed 1"), StepStatus::active);
}

// `charge` failed and `refund` handled it, so `mail` was not reached, and `sorry` had nothing to handle.
TEST(FlowInput, TheOutputOfAStepThatWasNotReachedIsMissing) {
  const auto parsed = parse_definition(R"({"name":"n","output":"steps.mail","steps":[
      {"id":"charge","task":"t","on_failure":"refund"}, {"id":"refund","task":"t"},
      {"id":"mail","task":"t","depends_on":["charge"],"on_failure":"sorry"},
      {"id":"sorry","task":"t"},
      {"id":"end","task":"t","depends_on":["sorry"],
       "input":{"mail":{"path":"steps.mail","default":"not sent"}},
       "skip_if":{"path":"steps.mail","exists":true}}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const core::FlowDefinition& definition = parsed->definition;
  auto facts = events_from("started, charge failed 1, refund completed 1");
  for (core::FlowEvent& fact : facts) fact.value = "null";
  const core::RunState now = folded(facts);
  const auto end = core::index_of(definition, "end").value();
  EXPECT_EQ(core::stand(definition, now, judge()).steps[end].status, StepStatus::active);
  const auto unreached = unreached_in(definition, now);
  EXPECT_EQ(task_input(definition.steps[end], now, unreached).value(), R"({"mail":"not sent"})");
  EXPECT_EQ(run_output(definition, now, unreached).error().message, "no value at steps.mail");
}

Body input(std::string_view json) { return Body::json(json).value(); }

TEST(FlowKeys, AreTakenFromTheInput) {
  core::FlowDefinition definition;
  definition.name = "payment";
  definition.key = "{order.id}:{attempt}";
  EXPECT_EQ(run_key(definition, input(R"({"order":{"id":"o 1"},"attempt":2})")).value(), "o 1:2");
  const auto missing = run_key(definition, input(R"({"order":{"id":"o-1"}})"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::invalid_input);
  EXPECT_EQ(missing.error().message,
            "no key: there is nothing at attempt in the input, which the key of workflow 'payment' "
            "needs; nothing was started");
  definition.key = "{a}";
  EXPECT_EQ(run_key(definition, input(R"({"a":null})")).error().message,
            "no key: there is null, not a string, number, true or false, at a in the input, which "
            "the key of workflow 'payment' needs; nothing was started");
  EXPECT_EQ(run_key(definition, input(R"({"a":""})")).error().message,
            "no key: there is an empty string at a in the input, which the key of workflow "
            "'payment' needs; nothing was started");
  definition.key_format = KeyFormat::escaped;
  EXPECT_EQ(run_key(definition, input(R"({"a":17})")).value(), "=17") << "as version 0.1 has it";
}

TEST(FlowKeys, WithoutATemplateAreTheContent) {
  core::FlowDefinition definition;
  const auto key = run_key(definition, input(R"({"b":1.0, "a":2})")).value();
  EXPECT_EQ(key, hex(sha256(R"({"a":2,"b":1})")));
  EXPECT_EQ(run_key(definition, input(R"({"a":2,"b":1})")).value(), key);
  EXPECT_NE(run_key(definition, input(R"({"a":2,"b":2})")).value(), key);
  const auto bytes = run_key(definition, Body::bytes("{}"));
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().message, "the input of a workflow must be JSON; nothing was started");
}

}  // namespace
}  // namespace once::encoding
