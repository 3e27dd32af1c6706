#include "api/queue_mismatch.h"

#include <string>
#include <vector>

#include "core/decide.h"

namespace once::api {
namespace {

struct Setting {
  std::string name;
  bool changeable;  // by Queues::change()
  std::string value;
};

std::string list_text(const std::vector<Duration>& values) {
  std::string text;
  for (const Duration value : values) text += (text.empty() ? "" : ",") + duration_text(value);
  return text;
}

// Both definitions have the same settings, in this order. Values are those that count, so that a
// default is the same as its value.
std::vector<Setting> settings_of(const Queue& queue) {
  const core::Policy policy = core::policy_of(queue);
  const auto or_none = [](const std::string& text) { return text.empty() ? "none" : text; };
  return {
      {"topic", false, or_none(queue.topic)},
      {"key", false, queue.key.empty() ? "the task's id" : queue.key},
      {"key format", false, queue.key.empty() ? "none" : std::string(to_string(queue.key_format))},
      {"stream", false, or_none(queue.stream)},
      {"ledger", false, queue.ledger ? "yes" : "no"},
      {"from", false, queue.from ? "#" + std::to_string(*queue.from) : "start"},
      {"lease", true, duration_text(queue.lease)},
      {"timeout", true, duration_text(queue.timeout)},
      {"attempts", true, std::to_string(policy.attempts)},
      {"backoff", true, list_text(policy.backoff)},
      {"in-doubt", true, std::string(to_string(queue.in_doubt))},
      {"max-running", true, std::to_string(queue.max_running)},
      {"max-result", true, std::to_string(policy.max_result)},
      {"window", true, std::to_string(queue.window)},
      {"same-key", true, queue.same_key == SameKey::ignore ? "ignore" : "duplicate"}};
}

}  // namespace

std::optional<Error> queue_mismatch(const Queue& existing, const Queue& given) {
  const std::vector<Setting> old = settings_of(existing);
  const std::vector<Setting> wanted = settings_of(given);
  std::string differs, fixed;
  std::vector<Facts::Fact> facts{{"queue", given.name}};
  const auto add = [](std::string& to, const std::string& text) {
    to += (to.empty() ? "" : ", ") + text;
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Setting& setting = wanted[i];
    if (setting.value == old[i].value) continue;
    add(differs, setting.name + " is " + old[i].value + ", not " + setting.value);
    if (setting.changeable)
      facts.push_back({"set." + setting.name, setting.value});
    else
      add(fixed, setting.name);
  }
  const bool pause = given.paused && !existing.paused;
  if (pause) add(differs, "it is not paused");
  if (differs.empty()) return std::nullopt;
  std::string message = "queue '" + given.name + "' exists with other settings: " + differs +
                        "; nothing was changed.";
  if (!fixed.empty())
    message += " The " + fixed +
               " of a queue can't be changed: give this queue another name, or first remove the "
               "old one.";
  if (pause) facts.push_back({"pause", "yes"});
  if (!fixed.empty()) facts.push_back({"fixed", std::move(fixed)});
  return Error{.code = Code::queue_mismatch,
               .message = std::move(message),
               .reason = Reason::queue_differs,
               .facts = Facts(std::move(facts))};
}

}  // namespace once::api
