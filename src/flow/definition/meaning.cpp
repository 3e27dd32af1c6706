// The meaning of a definition as JSON, with all defaults filled in.
#include <algorithm>
#include <map>

#include "flow/definition/definition.h"
#include "json/json_number.h"
#include "json/object_text.h"

namespace once::encoding {
namespace {

using core::FlowDefinition;
using core::FlowStep;

void put(std::string_view name, Duration value, ObjectText& text) {
  text.string(name, duration_text(value));
}
// Writes nothing if the value is empty.
void put(std::string_view name, const std::string& value, ObjectText& text) {
  if (!value.empty()) text.string(name, value);
}
void put_json(std::string_view name, const std::string& json, ObjectText& text) {
  if (!json.empty()) text.json(name, json);
}

std::string meaning_of(const RetryPolicy& retry) {
  ObjectText text;
  text.number("attempts", retry.attempts);
  text.string("backoff", to_string(retry.backoff));
  put("wait", retry.wait, text);
  put("cap", retry.cap, text);
  std::string jitter;
  append_number(retry.jitter, jitter);
  text.json("jitter", jitter);
  return std::move(text).take();
}

std::string meaning_of(const RateLimit& rate) {
  ObjectText text;
  text.number("limit", rate.limit);
  put("per", rate.per, text);
  return std::move(text).take();
}

// The names of the steps, sorted. So the order in the definition does not matter.
std::string names_of(const FlowDefinition& definition, const std::vector<std::size_t>& steps) {
  std::vector<std::string> names;
  for (const std::size_t step : steps) names.push_back(definition.steps[step].id);
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) {
    text += text.empty() ? '[' : ',';
    append_canonical_string(name, text);
  }
  return text.empty() ? "[]" : text + ']';
}

std::string meaning_of(const FlowDefinition& definition, const FlowStep& step) {
  ObjectText text;
  put("task", step.topic, text);
  if (step.kind == FlowStep::Kind::sleep) put("sleep", step.sleep, text);
  put("signal", step.signal, text);
  put("approval", step.message, text);
  put("queue", step.queue, text);
  text.json("depends_on", names_of(definition, step.depends_on));
  put_json("input", step.input, text);
  if (step.retry) text.json("retry", meaning_of(*step.retry));
  put("timeout", step.timeout, text);
  put_json("skip_if", step.skip_if, text);
  if (step.on_failure) text.string("on_failure", definition.steps[*step.on_failure].id);
  if (step.rate) text.json("rate", meaning_of(*step.rate));
  return std::move(text).take();
}

}  // namespace

std::string meaning_of(const FlowDefinition& definition) {
  ObjectText text;
  text.string("name", definition.name);
  text.number("version", definition.version);
  put("idempotency_key", definition.key, text);
  if (!definition.key.empty()) text.string("key_format", to_string(definition.key_format));
  text.string("on_missing_key", definition.unprotected ? "run_unprotected" : "refuse");
  put("key_ttl", definition.key_ttl, text);
  put("timeout", definition.timeout, text);
  text.number("max_runs", definition.max_runs);
  put_json("output", definition.output, text);
  std::map<std::string, std::string> by_id;
  for (const FlowStep& step : definition.steps) by_id[step.id] = meaning_of(definition, step);
  ObjectText steps;
  for (const auto& [id, meaning] : by_id) steps.json(id, meaning);
  text.json("steps", std::move(steps).take());
  return std::move(text).take();
}

}  // namespace once::encoding
