// Definitions: what is read out of them, everything that is refused and in which words, and that the
// schema for editors knows the same fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "flow/definition/definition.h"
#include "flow/definition/reader.h"
#include "json/json.h"

namespace once::encoding {
namespace {

using core::FlowStep;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

constexpr std::string_view kPayment = R"({
  "$schema": "https://once.dev/workflow.schema.json",
  "name": "payment", "version": 3,
  "idempotency_key": "order.id", "on_missing_key": "run_unprotected",
  "key_ttl": "12h", "timeout": "2h", "max_runs": 50,
  "default_retry": {"attempts": 4, "backoff": "exponential", "wait": "30s", "cap": "10m", "jitter": 0.2},
  "output": "steps.receipt",
  "steps": [
    {"id": "receipt", "task": "mail.receipt", "depends_on": ["review"], "input": "steps.charge"},
    {"id": "charge", "task": "pay.charge", "queue": "pay", "depends_on": [],
     "input": {"order": "input.order.id", "currency": {"value": "EUR"},
               "coupon": {"path": "input.coupon", "default": null}},
     "retry": {"attempts": 5, "backoff": "fixed", "wait": "2s"}, "timeout": "1m",
     "skip_if": {"path": "input.order.total", "equals": 0},
     "on_failure": "refund", "rate": {"limit": 10, "per": "1m"}},
    {"id": "refund", "task": "pay.refund", "input": {"why": "errors.charge", "run": "run"}},
    {"id": "settled", "signal": "bank_settled", "depends_on": ["charge"], "timeout": "7d"},
    {"id": "cool", "sleep": "10m", "depends_on": ["settled"]},
    {"id": "review", "approval": "Send the goods?", "depends_on": ["cool"], "timeout": "3d"}]})";

TEST(FlowDefinition, EveryFieldIsRead) {
  const auto parsed = parse_definition(kPayment);
  ASSERT_TRUE(parsed) << parsed.error().message;
  const core::FlowDefinition& flow = parsed->definition;
  EXPECT_EQ(flow.name, "payment");
  EXPECT_EQ(flow.version, 3);
  EXPECT_EQ(flow.key, "{order.id}");
  EXPECT_TRUE(flow.unprotected);
  EXPECT_EQ(flow.key_ttl, 12h);
  EXPECT_EQ(flow.timeout, 2h);
  EXPECT_EQ(flow.max_runs, 50);
  EXPECT_EQ(flow.output, R"("steps.receipt")");

  const std::vector<FlowStep> steps{
      {.id = "charge",
       .kind = FlowStep::Kind::task,
       .topic = "pay.charge",
       .queue = "pay",
       .on_failure = 1,
       .input = R"({"coupon":{"default":null,"path":"input.coupon"},"currency":{"value":"EUR"},)"
                R"("order":"input.order.id"})",
       .skip_if = R"({"equals":0,"path":"input.order.total"})",
       .retry = RetryPolicy{.attempts = 5, .backoff = RetryPolicy::Backoff::fixed, .wait = 2s},
       .timeout = 1min,
       .rate = RateLimit{.limit = 10, .per = 1min}},
      {.id = "refund",
       .topic = "pay.refund",
       .handles = {0},
       .input = R"({"run":"run","why":"errors.charge"})",
       .retry = RetryPolicy{}},
      {.id = "settled",
       .kind = FlowStep::Kind::signal,
       .signal = "bank_settled",
       .depends_on = {0},
       .timeout = 168h},
      {.id = "cool", .kind = FlowStep::Kind::sleep, .depends_on = {2}, .sleep = 10min},
      {.id = "review",
       .kind = FlowStep::Kind::approval,
       .message = "Send the goods?",
       .depends_on = {3},
       .timeout = 72h},
      {.id = "receipt",
       .topic = "mail.receipt",
       .depends_on = {4},
       .input = R"("steps.charge")",
       .retry = RetryPolicy{}}};
  ASSERT_EQ(flow.steps.size(), steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) EXPECT_EQ(flow.steps[i], steps[i]) << steps[i].id;
}

TEST(FlowDefinition, Defaults) {
  const auto parsed = parse_definition(R"({"name":"n","steps":[{"id":"a","task":"t"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  core::FlowDefinition expected;
  expected.name = "n";
  expected.steps.push_back({.id = "a", .topic = "t"});
  EXPECT_EQ(parsed->definition, expected);
  EXPECT_EQ(parsed->definition.version, 1);
  EXPECT_EQ(parsed->definition.key_ttl, 24h);
  EXPECT_FALSE(parsed->definition.unprotected);
}

TEST(FlowDefinition, StepsComeAfterWhatTheyDependOnAndElseAsWritten) {
  const auto parsed = parse_definition(R"({"name":"n","steps":[
      {"id":"d","task":"t","depends_on":["c"]}, {"id":"b","task":"t"}, {"id":"a","task":"t"},
      {"id":"c","task":"t","depends_on":["a"]}, {"id":"e","task":"t"}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  std::string order;
  for (const FlowStep& step : parsed->definition.steps) order += step.id;
  EXPECT_EQ(order, "bacde");
}

TEST(FlowDefinition, IsKeptInItsCanonicalForm) {
  const auto parsed = parse_definition(
      R"({"steps":[{"task":"t", "id":"a"}], "version": 2e0, "name":"n", "$schema":"x"})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->canonical, R"({"name":"n","steps":[{"id":"a","task":"t"}],"version":2})");
  const auto again = parse_definition(parsed->canonical);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->definition, parsed->definition);
  EXPECT_EQ(again->canonical, parsed->canonical);
}

TEST(FlowDefinition, NumbersThatItHoldsCanBeReadAgain) {
  const auto parsed = parse_definition(
      R"({"name":"n","steps":[{"id":"a","task":"t","input":{"x":{"value":[12345678901234567e4,-1e300,7]}}}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto again = parse_definition(parsed->canonical);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->definition, parsed->definition);
  EXPECT_EQ(parsed->definition.steps[0].input,
            R"({"x":{"value":[1.2345678901234567e+20,-1e+300,7]}})");
}

TEST(FlowDefinition, ALongWaitIsItsOwnCap) {
  const auto parsed =
      parse_definition(R"({"name":"n","steps":[{"id":"a","task":"t","retry":{"wait":"1h"}}]})");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->definition.steps[0].retry->cap, 1h);
}

struct Refused {
  std::string_view json;
  std::string_view message;  // between "workflow 'n': " and "; nothing was added"
};

void expect_refused(const Refused& refused, const std::string& begin) {
  const auto parsed = parse_definition(refused.json);
  ASSERT_FALSE(parsed) << refused.json;
  EXPECT_EQ(parsed.error().code, Code::invalid_input);
  EXPECT_EQ(parsed.error().message, begin + std::string(refused.message) + "; nothing was added");
}

TEST(FlowDefinition, RefusedSteps) {
  constexpr Refused kCases[] = {
      {R"({"id":"a","task":"t","depend_on":[]})",
       R"(step 'a': unknown field "depend_on"; did you mean "depends_on"?)"},
      {R"({"id":"a","task":"t","compensate":"b"})",
       R"(step 'a': unknown field "compensate"; known are id, task, sleep, signal, approval, queue, depends_on, input, retry, timeout, skip_if, on_failure, rate)"},
      {R"({"id":"a"})",
       "step 'a': a step is exactly one of task, sleep, signal, approval; this is none"},
      {R"({"id":"a","task":"t","sleep":"1s"})",
       "step 'a': a step is exactly one of task, sleep, signal, approval; this is task and sleep"},
      {R"({"task":"t"})", R"(step 1: it needs an "id")"},
      {R"({"id":7,"task":"t"})", "step 1: $.steps[0].id must be a text in quotes"},
      {R"({"id":"a b","task":"t"})",
       "step 'a b': $.steps[0].id is refused: step name 'a b': 1 to 64 of A-Z a-z 0-9 _ - are "
       "allowed"},
      {R"({"id":"timer","task":"t"})",
       "step 'timer': $.steps[0].id is a word that the run's own events use; not allowed are "
       "started, ended, retried, signal, timer, admit"},
      {R"(7)", "step 1: it must be an object"},
      {R"({"id":"a","task":"t.*"})",
       "step 'a': $.steps[0].task is refused: topic 't.*' has a wildcard; those belong into "
       "filters"},
      {R"({"id":"a","task":""})", "step 'a': $.steps[0].task is empty"},
      {R"({"id":"a","task":"t","queue":"a b"})",
       "step 'a': $.steps[0].queue is refused: queue name 'a b': 1 to 64 of A-Z a-z 0-9 _ - are "
       "allowed"},
      {R"({"id":"a","signal":"a b"})",
       "step 'a': $.steps[0].signal is refused: signal name 'a b': 1 to 64 of A-Z a-z 0-9 _ - are "
       "allowed"},
      {R"({"id":"a","sleep":"5 min"})",
       "step 'a': $.steps[0].sleep \"5 min\" is no length of time from 0s to 365d, written as "
       "500ms, "
       "30s, 2m, 1h30m or 7d"},
      {R"({"id":"a","sleep":5})",
       R"(step 'a': $.steps[0].sleep must be a length of time such as "30s")"},
      {R"({"id":"a","task":"t","timeout":"366d"})",
       "step 'a': $.steps[0].timeout \"366d\" is no length of time from 0s to 365d, written as "
       "500ms, "
       "30s, 2m, 1h30m or 7d"},
      {R"({"id":"a","task":"t","timeout":"200000d"})",
       "step 'a': $.steps[0].timeout \"200000d\" is no length of time from 0s to 365d, written as "
       "500ms, 30s, 2m, 1h30m or 7d"},
      {R"({"id":"a","sleep":"1s","queue":"q","timeout":"1s"})",
       R"(step 'a': "queue" does not go with sleep; step 'a': "timeout" does not go with sleep)"},
      {R"({"id":"a","approval":"?","retry":{}})", R"(step 'a': "retry" does not go with approval)"},
      {R"({"id":"a","task":"t","retry":{"attempts":0}})",
       "step 'a': $.steps[0].retry.attempts must be a whole number from 1 to 1000000"},
      {R"({"id":"a","task":"t","retry":{"attempts":1.5}})",
       "step 'a': $.steps[0].retry.attempts must be a whole number from 1 to 1000000"},
      {R"({"id":"a","task":"t","retry":{"backof":"fixed"}})",
       R"(step 'a': unknown field "backof"; did you mean "backoff"?)"},
      {R"({"id":"a","task":"t","retry":{"backoff":"exponentially"}})",
       "step 'a': $.steps[0].retry.backoff must be fixed, linear or exponential; did you mean "
       "\"exponential\"?"},
      {R"({"id":"a","task":"t","retry":{"wait":"1m","cap":"30s"}})",
       "step 'a': $.steps[0].retry.cap is shorter than the wait, which is 1m"},
      {R"({"id":"a","task":"t","retry":{"cap":"1s"}})",
       "step 'a': $.steps[0].retry.cap is shorter than the wait, which is 30s when none is given"},
      {R"({"id":"a","task":"t","retry":{"jitter":2}})",
       "step 'a': $.steps[0].retry.jitter must be a number from 0 to 1"},
      {R"({"id":"a","task":"t","retry":3})", "step 'a': $.steps[0].retry must be an object"},
      {R"({"id":"a","task":"t","rate":{"limit":5}})", "step 'a': $.steps[0].rate.per is missing"},
      {R"({"id":"a","task":"t","rate":{"limit":5,"per":"100ms"}})",
       "step 'a': $.steps[0].rate.per \"100ms\" is no length of time from 1s to 1d, written as "
       "500ms, "
       "30s, 2m, 1h30m or 7d"},
      {R"({"id":"a","task":"t","rate":{"limit":1001,"per":"1s"}})",
       "step 'a': $.steps[0].rate.limit must be a whole number from 1 to 1000"},
      {R"({"id":"a","task":"t","depends_on":"b"})",
       "step 'a': $.steps[0].depends_on must be a list of step ids"},
      {R"({"id":"a","task":"t","depends_on":[1]})",
       "step 'a': $.steps[0].depends_on must be a list of step ids"},
      {R"({"id":"a","task":"t","input":5})",
       "step 'a': $.steps[0].input must be a path in quotes, or an object of them"},
      {R"({"id":"a","task":"t","input":{"x":{"valeu":1}}})",
       R"(step 'a': unknown field "valeu"; did you mean "value"?; step 'a': $.steps[0].input.x must be a path in quotes, {"value": ...} or {"path": "...", "default": ...})"},
      {R"({"id":"a","task":"t","input":{"x":{"value":1,"path":"run"}}})",
       R"(step 'a': $.steps[0].input.x must be a path in quotes, {"value": ...} or {"path": "...", "default": ...})"},
      {R"({"id":"a","task":"t","input":"imput.order"})",
       "step 'a': input has the path 'imput.order'; a path is input, input.PATH, steps.ID, "
       "steps.ID.PATH, errors.ID or run; did you mean 'input'?"},
      {R"({"id":"a","task":"t","input":{"x":"run.id"}})",
       "step 'a': input has the path 'run.id'; a path is input, input.PATH, steps.ID, "
       "steps.ID.PATH, errors.ID or run"},
      {R"({"id":"a","task":"t","input":"input..a"})",
       "step 'a': input has the path 'input..a': it has an empty part"},
      {R"({"id":"a","task":"t","input":{"x":{"path":".a","default":1}}})",
       "step 'a': input has the path '.a': it has an empty part"},
      {R"({"id":"a","task":"t","skip_if":{"path":"input.a.","exists":true}})",
       "step 'a': skip_if has the path 'input.a.': it has an empty part"},
      {R"({"id":"a","task":"t","input":"input.a\\"})",
       R"(step 'a': input has the path 'input.a\': a backslash at the end escapes nothing)"},
      {R"({"id":"a","task":"t","input":"input.lines[0]"})",
       "step 'a': input has the path 'input.lines[0]': an index is a part of its own, as in "
       "lines.0, "
       "and a member's bracket is written \\["},
      {R"({"id":"a","task":"t","skip_if":"order"})",
       "step 'a': skip_if has the path 'order'; a path is input, input.PATH, steps.ID, "
       "steps.ID.PATH, errors.ID or run"},
      {R"({"id":"a","task":"t","skip_if":{"path":"input.x"}})",
       R"(step 'a': $.steps[0].skip_if needs a "path" and one of "equals", "not_equals", "exists")"},
      {R"({"id":"a","task":"t","skip_if":{"path":"input.x","exists":1}})",
       "step 'a': $.steps[0].skip_if.exists must be true or false"},
      {R"({"id":"a","task":"t","skip_if":true})",
       "step 'a': $.steps[0].skip_if must be a path in quotes, or an object"},
  };
  for (const auto& [step, message] : kCases) {
    const std::string json = R"({"name":"n","steps":[)" + std::string(step) + "]}";
    expect_refused({json, message}, "workflow 'n': ");
  }
}

TEST(FlowDefinition, RefusedGraphs) {
  constexpr Refused kCases[] = {
      {R"({"id":"a","task":"t"},{"id":"b","task":"t"},{"id":"c","task":"t"},{"id":"a","task":"t"})",
       "step id 'a' is used twice (steps 1 and 4)"},
      {R"({"id":"charge","task":"t"},{"id":"mail","task":"t","depends_on":["chagre"]})",
       "step 'mail': depends on 'chagre', which is no step; did you mean 'charge'?"},
      {R"({"id":"charge","task":"t","on_failure":"refnd"},{"id":"refund","task":"t"})",
       "step 'charge': has on_failure 'refnd', which is no step; did you mean 'refund'?"},
      {R"({"id":"a","task":"t"},{"id":"b","task":"t","depends_on":["a","a"]})",
       "step 'b': depends on 'a' twice"},
      {R"({"id":"a","task":"t","depends_on":["a"]})", "steps depend on each other: a -> a"},
      {R"({"id":"a","task":"t","depends_on":["b"]},{"id":"b","task":"t","depends_on":["c"]},
          {"id":"c","task":"t","depends_on":["a"]})",
       "steps depend on each other: a -> b -> c -> a"},
      {R"({"id":"a","task":"t","depends_on":["b"]},{"id":"b","task":"t","depends_on":["c"]},
          {"id":"c","task":"t","depends_on":["a","d"]},{"id":"d","task":"t","depends_on":["c"]},
          {"id":"e","task":"t","depends_on":["d"]},{"id":"f","task":"t","depends_on":["e"]},
          {"id":"g","task":"t"})",
       "steps depend on each other: c -> d -> c; step 'a': can never run: it depends on 'b', which "
       "never does; step 'b': can never run: it depends on 'c', which is in that cycle; step 'e': "
       "can never run: it depends on 'd', which is in that cycle; step 'f': can never run: it "
       "depends on 'e', which never does"},
      {R"({"id":"a","task":"t","on_failure":"b","depends_on":["c"]},{"id":"b","task":"t"},
          {"id":"c","task":"t","depends_on":["b"]})",
       "steps depend on each other: a -> c -> b -> a"},
      {R"({"id":"nap","sleep":"1s","on_failure":"b"},{"id":"b","task":"t"})",
       "step 'b': can never run: only 'nap' names it as on_failure, and a sleep does not fail"},
      {R"({"id":"w","signal":"s","on_failure":"b"},{"id":"nap","sleep":"1s","on_failure":"b"},
          {"id":"b","task":"t"})",
       "step 'b': can never run: only 'w', 'nap' name it as on_failure, and a signal without a "
       "timeout does not fail"},
      {R"({"id":"charge","task":"t","on_failure":"refund"},{"id":"x","task":"t"},
          {"id":"refund","task":"t","depends_on":["x"]})",
       "step 'refund': is on_failure of 'charge' and has depends_on; give the dependencies to "
       "'charge'"},
      {R"({"id":"mail","task":"t"},{"id":"b","task":"t","input":{"x":"steps.mail.id"}})",
       "step 'b': input uses the output of 'mail', which it does not depend on; add it to "
       "depends_on"},
      {R"({"id":"mail","task":"t"},{"id":"b","task":"t","skip_if":"steps.mail"})",
       "step 'b': skip_if uses the output of 'mail', which it does not depend on; add it to "
       "depends_on"},
      {R"({"id":"a","task":"t","input":"steps.a"})",
       "step 'a': input uses the step's own output, which is there when it is over"},
      {R"({"id":"a","task":"t","skip_if":"steps.b"},{"id":"b","task":"t","depends_on":["a"]})",
       "step 'a': skip_if uses the output of 'b', which comes after it"},
      {R"({"id":"a","task":"t","on_failure":"h"},{"id":"h","task":"t","input":"steps.b"},
          {"id":"b","task":"t"})",
       "step 'h': input uses the output of 'b', which it does not depend on; add it to depends_on "
       "of "
       "'a'"},
      {R"({"id":"mail","task":"t"},{"id":"b","task":"t","depends_on":["mail"],"input":"errors.mail"})",
       "step 'b': input uses the error of 'mail', which only its on_failure step can"},
      {R"({"id":"mail","task":"t"},{"id":"b","task":"t","depends_on":["mail"],"input":"steps.mial"})",
       "step 'b': input has the path 'steps.mial', and 'mial' is no step; did you mean 'mail'?"},
      {R"({"id":"a","task":"t","timeout":"x","depends_on":["zz"]},{"id":"b"})",
       "step 'a': $.steps[0].timeout \"x\" is no length of time from 0s to 365d, written as 500ms, "
       "30s, 2m, 1h30m or 7d; step 'b': a step is exactly one of task, sleep, signal, "
       "approval; this is none; step 'a': depends on 'zz', which is no step"},
  };
  for (const auto& [steps, message] : kCases) {
    const std::string json = R"({"name":"n","steps":[)" + std::string(steps) + "]}";
    expect_refused({json, message}, "workflow 'n': ");
  }
}

TEST(FlowDefinition, AnOutputMayBeUsedByAllThatComeAfter) {
  const auto parsed =
      parse_definition(R"({"name":"n","output":{"a":"steps.a","e":"errors.a"},"steps":[
      {"id":"a","task":"t","on_failure":"h"}, {"id":"b","task":"t","depends_on":["a"]},
      {"id":"c","task":"t","depends_on":["b"],"input":"steps.a.x","skip_if":"steps.b"},
      {"id":"h","task":"t","input":{"why":"errors.a"}},
      {"id":"z","task":"t","depends_on":["h"],"input":"steps.h"}]})");
  EXPECT_TRUE(parsed) << parsed.error().message;
}

TEST(FlowDefinition, RefusedWorkflows) {
  constexpr std::string_view kSteps = R"("steps":[{"id":"a","task":"t"}])";
  constexpr Refused kCases[] = {
      {R"("versoin":2)", R"(unknown field "versoin"; did you mean "version"?)"},
      {R"("version":0)", "$.version must be a whole number from 1 to 2147483648"},
      {R"("version":"2")", "$.version must be a whole number from 1 to 2147483648"},
      {R"("idempotency_key":"{a}{b}")",
       R"($.idempotency_key is refused: key template "{a}{b}": nothing tells where one value ends and the next begins; put a character such as : between them)"},
      {R"("idempotency_key":"header:X")",
       R"($.idempotency_key is refused: key template "{header:X}": {header:X} is no path into the input, and there is no topic, id or header)"},
      {R"("idempotency_key":"{a}:{$topic}")",
       R"($.idempotency_key is refused: key template "{a}:{$topic}": {$topic} is no path into the input, and there is no topic, id or header; a member of that name is written {\$...})"},
      {R"("idempotency_key":"}")",
       R"($.idempotency_key is refused: key template "}": a } has no { before it; a literal one is written \})"},
      {R"("idempotency_key":"\\}")",
       R"($.idempotency_key is refused: key template "\}": it has no value in braces, so every run would have the same key)"},
      {R"("idempotency_key":"{}")",
       R"($.idempotency_key is refused: key template "{}": {} names nothing; write {path})"},
      {R"("idempotency_key":"input.order.id")",
       R"($.idempotency_key is refused: the path 'input.order.id': a key's paths begin in the input: leave out 'input.', or write a member of that name as \input)"},
      {R"("idempotency_key":"{a}:{input.b}")",
       R"($.idempotency_key is refused: the path 'input.b': a key's paths begin in the input: leave out 'input.', or write a member of that name as \input)"},
      {R"("idempotency_key":"a..b")",
       "$.idempotency_key is refused: the path 'a..b': it has an empty part"},
      {R"("idempotency_key":".a")",
       "$.idempotency_key is refused: the path '.a': it has an empty part"},
      {R"("idempotency_key":"a[0]")",
       R"($.idempotency_key is refused: the path 'a[0]': an index is a part of its own, as in lines.0, and a member's bracket is written \[)"},
      {R"("version":123456789012345678901)",
       "$.version must be a whole number from 1 to 2147483648"},
      {R"("$schema":1)", "$.$schema must be a text in quotes"},
      {R"("on_missing_key":"run_unprotekted")",
       R"($.on_missing_key must be "refuse" or "run_unprotected"; did you mean "run_unprotected"?)"},
      {R"("key_ttl":"soon")",
       "$.key_ttl \"soon\" is no length of time from 0s to 365d, written as 500ms, 30s, 2m, 1h30m "
       "or "
       "7d"},
      {R"("max_runs":0)", "$.max_runs must be a whole number from 1 to 1000"},
      {R"("default_retry":{"atempts":3})", R"(unknown field "atempts"; did you mean "attempts"?)"},
      {R"("output":"steps.b")", "output has the path 'steps.b', and 'b' is no step"},
      {R"("output":[])", "$.output must be a path in quotes, or an object of them"},
  };
  for (const auto& [field, message] : kCases) {
    const std::string json =
        R"({"name":"n",)" + std::string(field) + "," + std::string(kSteps) + "}";
    expect_refused({json, message}, "workflow 'n': ");
  }
}

TEST(FlowDefinition, RefusedAltogether) {
  constexpr Refused kCases[] = {
      {R"({"steps":[{"id":"a","task":"t"}]})", R"(workflow: it needs a "name")"},
      {R"({"name":"a b","steps":[{"id":"a","task":"t"}]})",
       "workflow 'a b': $.name is refused: workflow name 'a b': 1 to 64 of A-Z a-z 0-9 _ - are "
       "allowed"},
      {R"({"name":"n"})", R"(workflow 'n': "steps" must be a list of 1 to 1000 steps)"},
      {R"({"name":"n","steps":[]})", R"(workflow 'n': "steps" must be a list of 1 to 1000 steps)"},
      {"[]", "workflow: a definition is a JSON object"},
  };
  for (const Refused& refused : kCases) expect_refused(refused, "");
  const auto broken = parse_definition("{\"name\":");
  ASSERT_FALSE(broken);
  EXPECT_TRUE(broken.error().message.starts_with("workflow: JSON refused at 1:9"))
      << broken.error().message;
}

TEST(FlowDefinition, AConstantThatNoTaskMayHaveIsRefused) {
  const auto refused = [](std::size_t bytes, const std::string& field, const std::string& path) {
    const std::string half(bytes / 2, 'x');
    const std::string mapping =
        R"({"a":{"value":")" + half + R"("},"b":{"value":")" + half + R"("}})";
    const bool of_step = field == "input";
    const auto parsed = parse_definition(
        R"({"name":"n",)" + (of_step ? "" : R"("output":)" + mapping + ",") +
        R"("steps":[{"id":"a","task":"t")" + (of_step ? R"(,"input":)" + mapping : "") + "}]}");
    if (parsed) return false;
    EXPECT_THAT(parsed.error().message,
                HasSubstr(path + " has constants of " + std::to_string(bytes + 15) +
                          " bytes; at most 1048576 (1 MiB) are allowed"));
    return true;
  };
  constexpr std::size_t kAround = 15 + 1;  // {"a":"","b":""}, and the limit is even
  for (const bool of_step : {true, false}) {
    const std::string field = of_step ? "input" : "output";
    const std::string path = of_step ? "step 'a': $.steps[0].input" : "$.output";
    EXPECT_FALSE(refused((1 << 20) - kAround, field, path));
    EXPECT_TRUE(refused((1 << 20) - kAround + 2, field, path));
  }
}

TEST(FlowDefinition, AnExactConstantIsStillAskedFor) {
  const auto parsed = parse_definition(
      R"({"name":"n","steps":[{"id":"a","task":"t","input":{"x":{"value":12345678901234567}}}]})");
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, HasSubstr("send it as a string"));
}

TEST(FlowDefinition, AMemberOfTheInputMayHaveAnyName) {
  for (const std::string_view key : {R"(\\input.id)", R"(a\\[0])", "input", "inputs.id", "a.0"})
    EXPECT_TRUE(parse_definition(R"({"name":"n","idempotency_key":")" + std::string(key) +
                                 R"(","steps":[{"id":"a","task":"t","input":"input.a\\[0]"}]})"))
        << key;
}

std::vector<std::string> hints_of(std::string_view output, std::string_view steps) {
  const auto parsed = parse_definition(R"({"name":"n","output":)" + std::string(output) +
                                       R"(,"steps":[)" + std::string(steps) + "]}");
  EXPECT_TRUE(parsed) << parsed.error().message;
  return parsed ? parsed->hints : std::vector<std::string>{};
}

TEST(FlowHints, AnOutputThatMayBeMissing) {
  constexpr std::string_view kSteps = R"(
      {"id":"charge","task":"t","on_failure":"refund"}, {"id":"refund","task":"t"},
      {"id":"mail","task":"t","depends_on":["charge"]},
      {"id":"file","task":"t","depends_on":["mail"],"skip_if":"input.quick"},
      {"id":"note","task":"t","skip_if":"input.quick"}, {"id":"plain","task":"t"})";
  struct Case {
    std::string_view path, when;  // empty: no hint
  };
  constexpr Case kCases[] = {
      {"errors.charge", "'charge' does not fail"},
      {"steps.charge", "'charge' fails and 'refund' handles it"},
      {"steps.charge.nr", "'charge' fails and 'refund' handles it"},
      {"steps.mail", ""},
      {"steps.mail.nr", "'charge' fails and 'refund' handles it"},
      {"steps.file.nr", "'charge' fails and 'refund' handles it"},
      {"steps.refund", ""},
      {"steps.refund.nr", "'refund' is skipped"},
      {"steps.note", ""},
      {"steps.note.nr", "'note' is skipped"},
      {"steps.plain.nr", ""},
      {"input.nr", ""},
  };
  for (const auto& [path, when] : kCases) {
    const std::string text(path);
    const std::string member = R"({"path": ")" + text + R"(", "default": null})";
    EXPECT_THAT(hints_of(R"({"x":{"default":null,"path":")" + text + R"("}})", kSteps), IsEmpty());
    const auto in_object = hints_of(R"({"x":")" + text + R"("})", kSteps);
    const auto alone = hints_of("\"" + text + "\"", kSteps);
    if (when.empty()) {
      EXPECT_THAT(in_object, IsEmpty()) << path;
      EXPECT_THAT(alone, IsEmpty()) << path;
      continue;
    }
    const std::string told = "output: there is nothing at '" + text + "' when " +
                             std::string(when) +
                             ", and the run then fails when all its steps are done; ";
    EXPECT_THAT(in_object, ElementsAre(told + "give it a default: " + member));
    const std::string id = text.substr(text.find('.') + 1);
    EXPECT_THAT(alone, ElementsAre(told + "make it an object with a default: {\"" +
                                   id.substr(0, id.find('.')) + "\": " + member + "}"));
  }
}

TEST(FlowHints, AStepAfterOneThatOnlyRunsWhenSomethingFailed) {
  constexpr std::string_view kCharge =
      R"({"id":"charge","task":"t","on_failure":"refund"},{"id":"refund","task":"t"},)";
  const auto hints = [&](const std::string& rest) {
    return hints_of("\"run\"", std::string(kCharge) + rest);
  };
  EXPECT_THAT(
      hints(R"({"id":"mail","task":"t","depends_on":["refund"]})"),
      ElementsAre(
          R"(step 'mail': depends on 'refund', which is skipped when nothing failed, and then runs all the same; if it is not to, give it "skip_if": {"path": "steps.charge", "exists": true})"));
  EXPECT_THAT(
      hints(
          R"({"id":"b","task":"t","on_failure":"refund"},{"id":"mail","task":"t","depends_on":["refund"]})"),
      ElementsAre(EndsWith(
          R"(give it "skip_if": {"path": "steps.refund", "equals": null}, and 'refund' an output other than null)")));
  for (
      const std::string_view quiet :
      {R"({"id":"mail","task":"t","depends_on":["refund"],"skip_if":{"path":"steps.charge","exists":true}})",
       R"({"id":"mail","task":"t","depends_on":["refund"],"skip_if":{"path":"steps.refund","equals":null}})",
       R"({"id":"mail","task":"t","depends_on":["refund","charge"]})",
       R"({"id":"mail","task":"t","depends_on":["charge"]})"})
    EXPECT_THAT(hints(std::string(quiet)), IsEmpty()) << quiet;
}

TEST(FlowMeaning, IsTheSameHoweverItIsWritten) {
  const auto meaning = [](std::string_view json) {
    const auto parsed = parse_definition(json);
    EXPECT_TRUE(parsed) << parsed.error().message;
    return parsed ? meaning_of(parsed->definition) : "";
  };
  const std::string same = meaning(
      R"({"name":"n","timeout":"1m","steps":[{"id":"a","task":"t","retry":{}},{"id":"b","task":"t"},
          {"id":"c","task":"t","depends_on":["a","b"]}]})");
  EXPECT_EQ(
      same,
      meaning(
          R"({"name":"n","version":1,"on_missing_key":"refuse","key_ttl":"24h","timeout":"60s","steps":[
              {"id":"b","task":"t","timeout":"0","depends_on":[]},{"id":"a","task":"t","retry":{"wait":"30s"}},
              {"id":"c","task":"t","depends_on":["b","a"]}]})"));
  // Everything that can be said makes another meaning.
  std::string all(kPayment);
  std::set<std::string> meanings{meaning(all)};
  constexpr std::pair<std::string_view, std::string_view> kChanges[] = {
      {R"("version": 3)", R"("version": 4)"},
      {R"("order.id", "on)", R"("order", "on)"},
      {R"("run_unprotected")", R"("refuse")"},
      {R"("12h")", R"("13h")"},
      {R"("timeout": "2h")", R"("timeout": "3h")"},
      {R"("max_runs": 50)", R"("max_runs": 51)"},
      {R"("attempts": 4)", R"("attempts": 3)"},
      {R"("cap": "10m")", R"("cap": "11m")"},
      {R"("jitter": 0.2)", R"("jitter": 0.3)"},
      {R"("output": "steps.receipt")", R"("output": "steps.refund")"},
      {R"("mail.receipt")", R"("mail.bill")"},
      {R"(["review"])", R"(["review","settled"])"},
      {R"("queue": "pay")", R"("queue": "paid")"},
      {R"("value": "EUR")", R"("value": "USD")"},
      {R"("backoff": "fixed")", R"("backoff": "linear")"},
      {R"("wait": "2s")", R"("wait": "3s")"},
      {R"("timeout": "1m")", R"("timeout": "2m")"},
      {R"("equals": 0)", R"("equals": 1)"},
      {R"("on_failure": "refund", )", ""},
      {R"("limit": 10)", R"("limit": 11)"},
      {R"("per": "1m")", R"("per": "2m")"},
      {R"("bank_settled")", R"("settled")"},
      {R"("sleep": "10m")", R"("sleep": "11m")"},
      {R"("Send the goods?")", R"("Send it?")"},
  };
  for (const auto& [from, to] : kChanges) {
    std::string changed = all;
    ASSERT_NE(changed.find(from), std::string::npos) << from;
    changed.replace(changed.find(from), from.size(), to);
    if (to.empty())  // then nothing may speak of the error
      changed.replace(changed.find(R"("why": "errors.charge", )"), 24, "");
    EXPECT_TRUE(meanings.insert(meaning(changed)).second) << from;
  }
}

TEST(FlowDefinition, ManyFindingsAreCounted) {
  std::string steps;
  for (int i = 0; i < 60; ++i)
    steps += (i == 0 ? "" : ",") + (R"({"id":"s)" + std::to_string(i) + R"("})");
  const auto parsed = parse_definition(R"({"name":"n","steps":[)" + steps + "]}");
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(parsed.error().message.ends_with("; and 10 more; nothing was added"));
}

// Which fields the schema allows in the object that it says so of.
std::set<std::string> properties_of(const Json& schema, std::string_view part) {
  const Json* object = &schema;
  if (part != "workflow") object = schema.member("$defs")->member(part);
  std::set<std::string> names;
  if (object == nullptr) return names;
  EXPECT_FALSE(object->member("additionalProperties")->boolean()) << part;
  for (const auto& [name, value] : object->member("properties")->members()) names.insert(name);
  return names;
}

std::string text_of_document(std::string_view name) {
  const auto root = std::filesystem::path(__FILE__).parent_path() / ".." / ".." / "..";
  std::ifstream file(root / "docs" / name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(FlowDocument, ShowsADefinitionThatIsTaken) {
  constexpr std::string_view kBegin = "```json\n";
  const std::string document = text_of_document("workflows.md");
  const auto begin = document.find(kBegin);
  ASSERT_NE(begin, std::string::npos);
  const std::string text = document.substr(begin + kBegin.size());
  const auto parsed = parse_definition(text.substr(0, text.find("```")));
  EXPECT_TRUE(parsed) << parsed.error().message;
}

// Whether the parser takes a text as that, and the schema's pattern does.
struct PatternCase {
  std::string_view text;
  bool taken;
};

void expect_agreement(const Json& rule, const std::string& step,
                      std::span<const PatternCase> cases) {
  const std::regex pattern(rule.member("pattern")->string());
  for (const auto& [text, taken] : cases) {
    std::string json = R"({"name":"n","steps":[{"id":"a",)" + step;
    append_canonical_string(text, json);
    EXPECT_EQ(static_cast<bool>(parse_definition(json + "}]}")), taken) << text;
    EXPECT_EQ(std::regex_search(std::string(text), pattern), taken) << text;
  }
}

TEST(FlowSchema, PatternsTakeWhatTheParserTakes) {
  const auto schema = parse_json(text_of_document("workflow.schema.json"));
  ASSERT_TRUE(schema) << schema.error().message;
  const Json& rules = *schema->member("$defs");
  constexpr PatternCase kTopics[] = {
      {"pay", true},    {"pay.charge-2", true}, {"p\u00e4y.x", true}, {"$oncely.x", true},
      {"", false},      {".a", false},          {"a.", false},        {"a..b", false},
      {"a b", false},   {"a.*", false},         {"a.>", false},       {"$once.x", false},
      {"$once", false}, {"a\tb", false}};
  expect_agreement(*rules.member("step")->member("properties")->member("task"), R"("task":)",
                   kTopics);
  constexpr PatternCase kPaths[] = {
      {"input", true},          {"input.a.0", true},   {R"(input.a\.b)", true},
      {R"(input.a\[0])", true}, {"run", true},         {"", false},
      {"input.", false},        {"input..a", false},   {".a", false},
      {R"(input.a\)", false},   {"input.a[0]", false}, {"run.x", false},
      {"inputs", false}};
  expect_agreement(*rules.member("path"), R"("task":"t","input":)", kPaths);
  constexpr PatternCase kDurations[] = {{"0", true},      {"500ms", true},  {"1h30m", true},
                                        {"365d", true},   {"99d", true},    {"", false},
                                        {"1", false},     {"366d", false},  {"400d", false},
                                        {"1000d", false}, {"30m1h", false}, {"-1s", false}};
  expect_agreement(*rules.member("duration"), R"("sleep":)", kDurations);
}

TEST(FlowSchema, KnowsTheFieldsThatTheParserKnows) {
  const auto schema = parse_json(text_of_document("workflow.schema.json"));
  ASSERT_TRUE(schema) << schema.error().message;
  for (const FlowPart part : kFlowParts) {
    const auto fields = fields_of(part);
    EXPECT_EQ(properties_of(*schema, to_string(part)),
              std::set<std::string>(fields.begin(), fields.end()))
        << to_string(part);
  }
}

// Version 0.1 refused a definition with a field that it did not know, and knew no "key_format". So the
// field must be there where it would compute another key, and nowhere else.
TEST(FlowKeyFormat, IsKeptOnlyWhereVersion01MustRefuse) {
  const auto kept = [](std::string_view more, KeyFormat format) {
    const auto parsed = parse_definition(R"({"name":"n",)" + std::string(more) +
                                         R"("steps":[{"id":"a","task":"t"}]})");
    return with_key_format(parsed.value(), format).canonical;
  };
  const std::string rest = R"("name":"n","steps":[{"id":"a","task":"t"}]})";
  const std::string keyed = R"({"idempotency_key":"a",)";
  EXPECT_EQ(kept(R"("idempotency_key":"a",)", KeyFormat::plain),
            keyed + R"("key_format":"plain",)" + rest);
  EXPECT_EQ(kept(R"("idempotency_key":"a",)", KeyFormat::escaped), keyed + rest);
  EXPECT_EQ(kept(R"("idempotency_key":"a","key_format":"escaped",)", KeyFormat::escaped),
            keyed + rest);
  EXPECT_EQ(kept("", KeyFormat::plain), "{" + rest) << "without a template there is no format";
  EXPECT_EQ(parse_kept(keyed + rest)->definition.key_format, KeyFormat::escaped);
  EXPECT_EQ(parse_kept(keyed + R"("key_format":"plain",)" + rest)->definition.key_format,
            KeyFormat::plain);
}

TEST(FlowKeyFormat, IsAWordAndNeedsAKey) {
  const auto wrong = [](std::string_view more) {
    return parse_definition(R"({"name":"n",)" + std::string(more) +
                            R"("steps":[{"id":"a","task":"t"}]})")
        .error()
        .message;
  };
  EXPECT_NE(
      wrong(R"("idempotency_key":"a","key_format":"plane",)").find("\"plain\" or \"escaped\""),
      std::string::npos);
  EXPECT_NE(wrong(R"("key_format":"plain",)").find("needs an \"idempotency_key\""),
            std::string::npos);
}

}  // namespace
}  // namespace once::encoding
