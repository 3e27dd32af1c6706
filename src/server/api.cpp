#include "server/api.h"

#include <exception>

#include "server/access.h"
#include "server/openapi.h"
#include "server/problem.h"

namespace once::server {
namespace {

Response broken(const std::exception& error) {
  return problem({.code = Code::failed, .message = error.what()});
}

std::string hash_of(const Request& request) {
  return request.caller ? request.caller->hash : std::string();
}

Code code_of(int status) {
  switch (status) {
    case 413:
    case 431: return Code::too_large;
    case 429:
    case 503: return Code::overloaded;
    default: return Code::invalid_input;
  }
}

}  // namespace

std::vector<Route> all_routes(Zone& zone) {
  std::vector<Route> routes;
  for (auto* part : {publish_routes, task_routes, queue_routes, claim_routes, zone_routes,
                     care_routes, flow_routes, ledger_routes, act_routes}) {
    for (Route& route : part(zone)) routes.push_back(std::move(route));
  }
  routes.push_back(openapi_route(routes));
  return routes;
}

Response json_response(std::string line, int status) {
  return {.status = status, .body = std::move(line) + '\n'};
}

Api::Api(Zone& zone, Site site, AccessTokens tokens)
    : site_(std::move(site)),
      tokens_(zone, std::move(tokens), {.required = site_.any_host}),
      router_(all_routes(zone), [&zone](const Route& route, const Call& call) {
        return may_call(zone, route, call);
      }) {}

std::optional<Response> Api::answer_at_once(Request& head) {
  if (const auto why = foreign(head, site_)) return refuse(403, *why);
  // The process is alive even if every thread of the pool waits for the store.
  if (head.target == "/healthz" && (head.method == "GET" || head.method == "HEAD"))
    return json_response(R"({"ok":true})");
  const auto secret = bearer_of(head);
  auto caller = tokens_.find(secret ? token_hash(*secret) : "");
  if (!caller) return problem(caller.error());
  head.caller = std::move(*caller);
  const Route* const route = router_.route_of(head);
  if (route == nullptr) return {};
  if (auto may = may_call(head.caller.get(), *route); !may) return problem(may.error());
  return {};
}

// Nothing that a handler throws may end the server.
Answer Api::answer(const Request& request) {
  try {
    // The body may have taken minutes to arrive.
    if (auto still = tokens_.find(hash_of(request)); !still) return problem(still.error());
    return poll_guard_.guarded(router_.answer(request), hash_of(request));
  } catch (const Failure& failure) {
    return problem(failure.error());
  } catch (const std::exception& error) {
    return broken(error);
  }
}

Response Api::refuse(int status, std::string_view detail) {
  const bool busy = status == 429 || status == 503;
  return problem(status,
                 {.code = code_of(status), .message = std::string(detail), .retryable = busy});
}

}  // namespace once::server
