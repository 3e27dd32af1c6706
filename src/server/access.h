// Who may do what: one row per route (access.cpp). If the zone has tokens, a request to a route
// without a row is refused.
//
// A role permits a route. If the token has filters, the row's Scope says which topic or queue they
// must match.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "once/zone.h"
#include "server/router.h"
#include "tooling/tokens.h"

namespace once::server {

// What the filters of a token apply to.
enum class Scope {
  nothing,    // no topic and no queue
  topic,      // the topic in the path
  lines,      // the topic in each line of the body; the handler asks may_use_topic()
  queue,      // the queue in the path
  new_queue,  // the queue in the path, and the topic in the body
  claims,     // the queue of each claim; Consumers::of() asks may_use_queue()
  act,        // the queue in the body
  task,       // the task's topic, or the queue in the query, or all queues that have the task
  tasks,      // the topic or the queue in the query
  log,        // the topic in the query
  zone,       // the whole zone, so tokens with filters are refused
};

struct Rule {
  std::string_view method{};
  std::string_view pattern{};
  unsigned roles{};  // see role_bit()
  Scope scope{};
};

constexpr unsigned role_bit(AccessRole role) { return 1U << static_cast<unsigned>(role); }
std::span<const Rule> access_rules();
// Returns null if the route has no row.
const Rule* rule_for(std::string_view method, std::string_view pattern);

// Each of these permits everything if `caller` is null: the server then asks for no tokens. The
// errors have Reason::not_permitted.

// Whether the token has a role for the route.
Result<void> may_call(const AccessToken* caller, const Route& route);
// Whether the token's filters permit the call. Reads the task if the scope needs it.
Result<void> may_call(const Zone& zone, const Route& route, const Call& call);
Result<void> may_use_topic(const AccessToken* caller, std::string_view topic);
Result<void> may_use_queue(const AccessToken* caller, std::string_view queue);

// The person or program that decides, for the story of a task. With a token, it is the token's name,
// and `given` must be that name or missing. Returns an empty text if there is neither.
Result<std::string> who_of(const Request& request, const std::optional<std::string>& given);

// The secret of an `Authorization: Bearer` header. Returns nullopt if the request has no such
// header, two of them, or another scheme.
std::optional<std::string_view> bearer_of(const Request& request);

}  // namespace once::server
