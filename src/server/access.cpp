#include "server/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace once::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr unsigned kPublish = role_bit(AccessRole::publish);
constexpr unsigned kWork = role_bit(AccessRole::work);
constexpr unsigned kRead = role_bit(AccessRole::read);
constexpr unsigned kOperate = role_bit(AccessRole::operate);  // permits every route below
constexpr unsigned kForward = role_bit(AccessRole::forward);
constexpr unsigned kAny = kPublish | kWork | kRead | kOperate | kForward;

constexpr auto kRules = std::to_array<Rule>({
    {"POST", "/v1/topics/{topic}", kPublish | kOperate, Scope::topic},
    {"POST", "/v1/tasks:batch", kPublish | kOperate, Scope::lines},
    {"GET", "/v1/tasks/{id}/result", kPublish | kRead | kOperate, Scope::task},

    {"GET", "/v1/tasks", kRead | kOperate, Scope::tasks},
    {"GET", "/v1/tasks/{id}", kRead | kOperate, Scope::task},
    {"GET", "/v1/log", kRead | kOperate, Scope::log},
    {"GET", "/v1/queues", kRead | kOperate, Scope::zone},
    {"GET", "/v1/queues/{queue}", kRead | kOperate, Scope::queue},
    {"GET", "/v1/status", kRead | kOperate, Scope::zone},
    {"GET", "/metrics", kRead | kOperate, Scope::zone},
    {"GET", "/v1/events", kRead | kOperate, Scope::zone},
    {"GET", "/v1/retention", kRead | kOperate, Scope::zone},
    {"GET", "/v1/audit", kRead | kOperate, Scope::zone},
    {"GET", "/v1/doctor", kRead | kOperate, Scope::zone},
    {"GET", "/v1/flows", kRead | kOperate, Scope::zone},
    {"GET", "/v1/flows/{workflow}", kRead | kOperate, Scope::zone},
    {"GET", "/v1/runs", kRead | kOperate, Scope::zone},
    {"GET", "/v1/runs/{run}", kRead | kOperate, Scope::zone},
    {"GET", "/v1/runs/{run}/events", kRead | kOperate, Scope::zone},
    {"GET", "/openapi.json", kAny, Scope::nothing},
    {"GET", "/readyz", kAny, Scope::nothing},
    {"GET", "/healthz", kAny, Scope::nothing},  // Api answers without a token

    {"POST", "/v1/queues/{queue}/claims", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims:start", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims:renew", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims:settle", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}:complete", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}:fail", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}:dead", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}:unknown", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}:release", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}/steps/{step}:begin", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}/steps/{step}:end", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}/steps/{step}:fail", kWork | kOperate, Scope::claims},
    {"POST", "/v1/claims/{claim}/steps/{step}:hold", kWork | kOperate, Scope::claims},

    {"POST", "/v1/queues/{queue}/keys/{key}:claim", kWork | kOperate, Scope::queue},
    {"POST", "/v1/queues/{queue}/keys/{key}:renew", kWork | kOperate, Scope::queue},
    {"POST", "/v1/queues/{queue}/keys/{key}:complete", kWork | kOperate, Scope::queue},
    {"POST", "/v1/queues/{queue}/keys/{key}:fail", kWork | kOperate, Scope::queue},
    {"POST", "/v1/queues/{queue}/keys/{key}:dead", kWork | kOperate, Scope::queue},

    {"POST", "/v1/flows/{workflow}:start", kPublish | kOperate, Scope::zone},
    {"POST", "/v1/runs/{run}/signals/{signal}", kPublish | kOperate, Scope::zone},
    {"PUT", "/v1/flows/{workflow}", kOperate, Scope::zone},
    {"POST", "/v1/runs/{run}/steps/{step}:approve", kOperate, Scope::zone},
    {"POST", "/v1/runs/{run}/steps/{step}:reject", kOperate, Scope::zone},
    {"POST", "/v1/runs/{run}:cancel", kOperate, Scope::zone},
    {"POST", "/v1/runs/{run}:retry", kOperate, Scope::zone},

    {"PUT", "/v1/retention", kOperate, Scope::zone},
    {"POST", "/v1/tasks:act", kOperate, Scope::zone},
    {"POST", "/v1/tasks/{id}:cancel", kOperate, Scope::act},
    {"POST", "/v1/tasks/{id}:retry", kOperate, Scope::act},
    {"POST", "/v1/tasks/{id}:complete", kOperate, Scope::act},
    {"POST", "/v1/tasks/{id}:drop", kOperate, Scope::act},
    {"PUT", "/v1/queues/{queue}", kOperate, Scope::new_queue},
    {"PATCH", "/v1/queues/{queue}", kOperate, Scope::queue},
    {"DELETE", "/v1/queues/{queue}", kOperate, Scope::queue},
    {"POST", "/v1/queues/{queue}:pause", kOperate, Scope::queue},
    {"POST", "/v1/queues/{queue}:resume", kOperate, Scope::queue},
});

Error not_permitted(const AccessToken& caller, const std::string& message,
                    const std::string& needs) {
  return {.code = Code::invalid_input,
          .message = fmt::format("{}; nothing was done", message),
          .reason = Reason::not_permitted,
          .facts = {{"token", caller.name}, {"needs", needs}}};
}

std::optional<std::string> body_text(const Json& body, const char* name) {
  if (!body.is_object() || !body.contains(name) || !body[name].is_string()) return {};
  return body[name].get<std::string>();
}

// Null for a body that the handler refuses. Body::json() also refuses a member that is there twice.
Json body_of(const Request& request) {
  return Body::json(request.body) ? Json::parse(request.body, nullptr, false) : Json();
}

// --- Scopes of tokens with filters

Result<void> may_act(const AccessToken& caller, const Call& call) {
  const auto queue = body_text(body_of(call.request()), "queue");
  if (queue) return may_use_queue(&caller, *queue);
  return not_permitted(
      caller, fmt::format("the token {} is limited, so \"queue\" must name a queue", caller.name),
      "queue");
}

// A queue that takes other topics would give the token tasks that its filters do not match.
Result<void> may_make_queue(const AccessToken& caller, const Call& call) {
  if (auto may = may_use_queue(&caller, call.path("queue")); !may) return may;
  const Json body = body_of(call.request());
  if (body.is_object() && body.contains("stream"))
    return not_permitted(caller,
                         fmt::format("the token {} is limited, so it may not make a queue on a "
                                     "stream of others",
                                     caller.name),
                         "no filters");
  const auto topic = body_text(body, "topic");
  return topic ? may_use_topic(&caller, *topic) : Result<void>();
}

Result<void> may_see_task(const AccessToken& caller, const Zone& zone, const Call& call) {
  if (const auto queue = call.query("queue"); queue && caller.covers_queue(*queue)) return {};
  const auto task = zone.tasks().inspect(call.path("id"));
  if (!task) return task.error();
  if (caller.covers_topic(task->entry.topic)) return {};
  const bool all =
      std::all_of(task->queues.begin(), task->queues.end(),
                  [&](const QueueView& view) { return caller.covers_queue(view.queue); });
  if (all && !task->queues.empty()) return {};
  return not_permitted(caller,
                       fmt::format("the filters of token {} match neither the topic of the task "
                                   "nor all queues that have it",
                                   caller.name),
                       "topic or queue");
}

Result<void> may_list(const AccessToken& caller, const Call& call, bool by_queue) {
  const auto topic = call.query("topic");
  const auto queue = by_queue ? call.query("queue") : std::nullopt;
  if (topic && caller.covers_topic(*topic)) return {};
  if (queue && caller.covers_queue(*queue)) return {};
  const std::string_view names = by_queue ? "\"topic\" or \"queue\"" : "\"topic\"";
  return not_permitted(caller,
                       fmt::format("the token {} is limited, so {} must name what its filters "
                                   "match",
                                   caller.name, names),
                       by_queue ? "topic or queue" : "topic");
}

}  // namespace

std::span<const Rule> access_rules() { return kRules; }

const Rule* rule_for(std::string_view method, std::string_view pattern) {
  const auto* const found = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& each) {
    return each.method == method && each.pattern == pattern;
  });
  return found == kRules.end() ? nullptr : found;
}

Result<void> may_call(const AccessToken* caller, const Route& route) {
  if (caller == nullptr) return {};
  const Rule* const rule = rule_for(route.method, route.pattern);
  if (rule == nullptr) return not_permitted(*caller, "no role permits this request", "no role");
  std::vector<std::string_view> needed;
  for (const AccessRole role : kAccessRoles) {
    if ((rule->roles & role_bit(role)) == 0) continue;
    if (caller->has(role)) return {};
    needed.push_back(to_string(role));
  }
  const std::string roles = fmt::format("{}", fmt::join(needed, " or "));
  return not_permitted(*caller, fmt::format("the token {} needs the role {}", caller->name, roles),
                       roles);
}

Result<void> may_call(const Zone& zone, const Route& route, const Call& call) {
  const AccessToken* const caller = call.request().caller.get();
  if (auto may = may_call(caller, route); !may) return may;
  if (caller == nullptr || !caller->limited()) return {};
  switch (rule_for(route.method, route.pattern)->scope) {
    case Scope::nothing:
    case Scope::lines:
    case Scope::claims: return {};
    case Scope::topic: return may_use_topic(caller, call.path("topic"));
    case Scope::queue: return may_use_queue(caller, call.path("queue"));
    case Scope::new_queue: return may_make_queue(*caller, call);
    case Scope::act: return may_act(*caller, call);
    case Scope::task: return may_see_task(*caller, zone, call);
    case Scope::tasks: return may_list(*caller, call, true);
    case Scope::log: return may_list(*caller, call, false);
    case Scope::zone: break;
  }
  return not_permitted(
      *caller,
      fmt::format("the token {} is limited, and this is about the whole zone", caller->name),
      "no filters");
}

Result<void> may_use_topic(const AccessToken* caller, std::string_view topic) {
  if (caller == nullptr || caller->covers_topic(topic)) return {};
  return not_permitted(
      *caller,
      fmt::format("the filters of token {} do not match the topic \"{}\"", caller->name, topic),
      "topic");
}

Result<void> may_use_queue(const AccessToken* caller, std::string_view queue) {
  if (caller == nullptr || caller->covers_queue(queue)) return {};
  return not_permitted(
      *caller,
      fmt::format("the filters of token {} do not match the queue \"{}\"", caller->name, queue),
      "queue");
}

Result<std::string> who_of(const Request& request, const std::optional<std::string>& given) {
  if (!request.caller) return given.value_or("");
  const AccessToken& caller = *request.caller;
  if (!given || *given == caller.name) return caller.name;
  return not_permitted(
      caller, fmt::format("\"who\" is the name of the token, {}; leave \"who\" out", caller.name),
      "who");
}

std::optional<std::string_view> bearer_of(const Request& request) {
  constexpr std::string_view kScheme = "Bearer ";
  std::optional<std::string_view> found;
  for (const Header& header : request.headers) {
    if (!equal_ignoring_case(header.name, "Authorization")) continue;
    if (found) return {};
    found = header.value;
  }
  if (!found || found->size() <= kScheme.size() ||
      !equal_ignoring_case(found->substr(0, kScheme.size()), kScheme))
    return {};
  found->remove_prefix(kScheme.size());
  found->remove_prefix(std::min(found->find_first_not_of(' '), found->size()));
  return found;
}

}  // namespace once::server
