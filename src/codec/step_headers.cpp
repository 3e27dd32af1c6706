#include "codec/step_headers.h"

#include <cmath>

#include "json/json.h"

namespace once::encoding {
namespace {

constexpr const char* kRun = "Once-Run";
constexpr const char* kStepHeader = "Once-Step";
constexpr const char* kReplyHeader = "Once-Reply";
constexpr const char* kQueue = "Once-Queue";
constexpr const char* kPolicy = "Once-Policy";

std::string text_of(const core::TaskPolicy& policy) {
  std::string text = "{";
  const auto member = [&](std::string_view name, const std::string& value) {
    if (text.size() > 1) text += ',';
    append_canonical_string(name, text);
    text += ':' + value;
  };
  if (policy.attempts > 0) member("attempts", std::to_string(policy.attempts));
  if (!policy.backoff.empty()) {
    std::string waits;
    for (const Duration wait : policy.backoff)
      waits += (waits.empty() ? "[" : ",") + std::to_string(wait.count());
    member("backoff", waits + "]");
  }
  if (policy.in_doubt) member("in_doubt", '"' + std::string(to_string(*policy.in_doubt)) + '"');
  if (policy.jitter_permille != core::kJitter)
    member("jitter", std::to_string(policy.jitter_permille));
  if (policy.timeout > Duration{0}) member("timeout", std::to_string(policy.timeout.count()));
  return text + "}";
}

// A whole number that is not below zero, at most `most`; else what is there stays.
template <class Number>
void read_number(const Json* value, double most, Number& target) {
  if (!value || value->kind() != Json::Kind::number) return;
  const double number = value->number();
  if (number >= 0 && number <= most && number == std::floor(number))
    target = static_cast<Number>(number);
}

void read_duration(const Json* value, Duration& target) {
  constexpr double kMost = 1e15;  // milliseconds; far from where time overflows
  Duration::rep count = target.count();
  read_number(value, kMost, count);
  target = Duration{count};
}

// Of what is not as it was written the queue's own holds.
core::TaskPolicy policy_from(const Json& json) {
  constexpr double kMost = 1e9;
  core::TaskPolicy policy;
  read_number(json.member("attempts"), kMost, policy.attempts);
  read_number(json.member("jitter"), kMost, policy.jitter_permille);
  read_duration(json.member("timeout"), policy.timeout);
  if (const Json* waits = json.member("backoff"))
    for (const Json& wait : waits->items()) read_duration(&wait, policy.backoff.emplace_back());
  if (const Json* in_doubt = json.member("in_doubt"))
    policy.in_doubt = in_doubt_from(in_doubt->string());
  return policy;
}

const std::string* find(const Headers& headers, const char* name) {
  const auto found = headers.find(name);
  return found == headers.end() ? nullptr : &found->second;
}

}  // namespace

Headers step_headers(const StepTask& task) {
  Headers headers{{kRun, task.run}, {kStepHeader, task.step}, {kReplyHeader, task.reply}};
  if (!task.queue.empty()) headers[kQueue] = task.queue;
  if (task.policy) headers[kPolicy] = text_of(*task.policy);
  return headers;
}

std::optional<StepTask> read_step(const Headers& headers, std::string_view queue) {
  if (headers.empty()) return std::nullopt;
  const std::string* reply = find(headers, kReplyHeader);
  if (!reply) return std::nullopt;
  const std::string* run = find(headers, kRun);
  const std::string* step = find(headers, kStepHeader);
  const std::string* named = find(headers, kQueue);
  if (!run || !step || (named && *named != queue)) return std::nullopt;
  StepTask task{.run = *run, .step = *step, .reply = *reply};
  if (named) task.queue = *named;
  if (const std::string* policy = find(headers, kPolicy))
    if (const auto json = parse_json(*policy)) task.policy = policy_from(*json);
  return task;
}

bool is_task_of(const Headers& headers, std::string_view run, std::string_view step) {
  const std::string* const its_run = find(headers, kRun);
  const std::string* const its_step = find(headers, kStepHeader);
  return its_run && its_step && *its_run == run && *its_step == step;
}

core::ReplyTo reply_to(const StepTask& task) {
  return {.topic = task.reply, .id = task.run + "." + task.step};
}

}  // namespace once::encoding
