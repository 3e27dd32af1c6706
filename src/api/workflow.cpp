// The builder writes a definition and has it checked: there is one validator.
#include "once/workflow.h"

#include <charconv>
#include <set>

#include "core/names.h"
#include "core/utf8.h"
#include "flow/definition/definition.h"
#include "json/json_string.h"
#include "json/object_text.h"

namespace once::inline v1 {
namespace {

constexpr char kNothingMade[] = "nothing was made";

}  // namespace

// Writes only what was said; the rest has its defaults where the definition is read.
class WorkflowText {
 public:
  using ObjectText = encoding::ObjectText;

  static Result<std::string> of(const Workflow& flow) {
    WorkflowText writer;
    std::string text = writer.text_of(flow);
    if (!core::valid_utf8(text)) writer.fault_ = "some name or text is not UTF-8";
    if (writer.fault_.empty()) return text;
    return Error{
        .code = Code::invalid_input,
        .message = "workflow '" + flow.name_ + "': " + writer.fault_ + "; " + kNothingMade};
  }

 private:
  std::string text_of(const Workflow& flow) {
    ObjectText text;
    text.string("name", flow.name_);
    text.number("version", flow.version_);
    if (!flow.key_.empty()) text.string("idempotency_key", flow.key_);
    if (flow.unprotected_) text.string("on_missing_key", "run_unprotected");
    if (flow.key_ttl_) put("key_ttl", *flow.key_ttl_, text);
    if (flow.timeout_ != Duration{0}) put("timeout", flow.timeout_, text);
    if (flow.max_runs_ != 0) text.number("max_runs", flow.max_runs_);
    if (flow.default_retry_) text.json("default_retry", text_of(*flow.default_retry_));
    if (flow.output_) text.json("output", text_of(*flow.output_));
    std::string steps;
    for (const Workflow::Step& step : flow.steps_)
      steps += (steps.empty() ? "" : ",") + text_of(step);
    text.json("steps", "[" + steps + "]");
    return std::move(text).take();
  }

  std::string text_of(const Workflow::Step& step) {
    ObjectText text;
    put("id", step.id, text);
    put("task", step.task, text);
    put("signal", step.signal, text);
    put("approval", step.approval, text);
    if (step.sleep) put("sleep", *step.sleep, text);
    put("queue", step.queue, text);
    if (!step.depends_on.empty()) text.json("depends_on", text_of(step.depends_on));
    if (step.input) text.json("input", text_of(*step.input));
    if (step.retry) text.json("retry", text_of(*step.retry));
    if (step.timeout != Duration{0}) put("timeout", step.timeout, text);
    put_condition(step, text);
    put("on_failure", step.on_failure, text);
    if (step.rate) text.json("rate", text_of(*step.rate));
    return std::move(text).take();
  }

  void put_condition(const Workflow::Step& step, ObjectText& text) {
    if (!step.skip_if.starts_with('{')) return put("skip_if", step.skip_if, text);
    if (const auto condition = encoding::parse_json(step.skip_if); !condition)
      fault_ = "step '" + step.id + "': skip_if: " + condition.error().message;
    text.json("skip_if", step.skip_if);
  }

  static std::string text_of(const std::vector<std::string>& names) {
    std::string text;
    for (const std::string& name : names) {
      text += text.empty() ? '[' : ',';
      encoding::append_canonical_string(name, text);
    }
    return text + ']';
  }

  static std::string text_of(const RetryPolicy& retry) {
    ObjectText text;
    text.number("attempts", retry.attempts);
    text.string("backoff", to_string(retry.backoff));
    put("wait", retry.wait, text);
    put("cap", std::max(retry.cap, retry.wait), text);
    char jitter[32];
    const auto end = std::to_chars(jitter, jitter + sizeof jitter, retry.jitter).ptr;
    text.json("jitter", {jitter, end});
    return std::move(text).take();
  }

  static std::string text_of(const RateLimit& rate) {
    ObjectText text;
    text.number("limit", rate.limit);
    put("per", rate.per, text);
    return std::move(text).take();
  }

  std::string text_of(const Input& input) {
    if (!input.path_.empty()) {
      if (!input.members_.empty()) fault_ = "an input is a path and has members too";
      return encoding::json_string(input.path_);
    }
    ObjectText text;
    std::set<std::string> names;
    for (const Input::Member& member : input.members_) {
      if (!names.insert(member.name).second) fault_ = "an input has '" + member.name + "' twice";
      if (member.path && !member.value) {
        text.json(member.name, encoding::json_string(*member.path));
        continue;
      }
      ObjectText value;
      if (member.path) value.string("path", *member.path);
      if (member.value) {
        if (!member.value->is_json()) fault_ = "'" + member.name + "' is bytes, not JSON";
        value.json(member.path ? "default" : "value", member.value->text());
      }
      text.json(member.name, std::move(value).take());
    }
    return std::move(text).take();
  }

  static void put(std::string_view name, const std::string& value, ObjectText& text) {
    if (!value.empty()) text.string(name, value);
  }
  static void put(std::string_view name, Duration value, ObjectText& text) {
    text.string(name, duration_text(value));
  }

  std::string fault_;
};

Input Input::path(std::string dot_path) {
  Input input;
  input.path_ = std::move(dot_path);
  return input;
}

Input Input::object() { return {}; }

Input& Input::with(std::string name, std::string dot_path) {
  members_.push_back({.name = std::move(name), .path = std::move(dot_path), .value = {}});
  return *this;
}

Input& Input::with(std::string name, std::string dot_path, Body otherwise) {
  members_.push_back(
      {.name = std::move(name), .path = std::move(dot_path), .value = std::move(otherwise)});
  return *this;
}

Input& Input::with_value(std::string name, Body json) {
  members_.push_back({.name = std::move(name), .path = {}, .value = std::move(json)});
  return *this;
}

Workflow::Workflow(std::string name, int version) : name_(std::move(name)), version_(version) {}

Workflow& Workflow::idempotency_key(std::string path_or_template) {
  key_ = std::move(path_or_template);
  return *this;
}

Workflow& Workflow::run_unprotected_without_key() {
  unprotected_ = true;
  return *this;
}

Workflow& Workflow::key_ttl(Duration after_the_finish) {
  key_ttl_ = after_the_finish;
  return *this;
}

Workflow& Workflow::timeout(Duration of_a_run) {
  timeout_ = of_a_run;
  return *this;
}

Workflow& Workflow::max_runs(int at_once) {
  max_runs_ = at_once;
  return *this;
}

Workflow& Workflow::default_retry(RetryPolicy policy) {
  default_retry_ = policy;
  return *this;
}

Workflow& Workflow::output(Input mapping) {
  output_ = std::move(mapping);
  return *this;
}

Workflow& Workflow::step(Step step) {
  steps_.push_back(std::move(step));
  return *this;
}

Result<std::string> Workflow::json() const {
  auto text = WorkflowText::of(*this);
  if (!text) return text;
  auto parsed = encoding::parse_definition(*text, kNothingMade);
  if (!parsed) return parsed.error();
  return std::move(parsed->canonical);
}

}  // namespace once::inline v1
