#include "server/api.h"

#include <exception>

#include "server/openapi.h"
#include "server/origin.h"
#include "server/problem.h"

namespace once::server {
namespace {

Response broken(const std::exception& error) {
  return problem({.code = Code::failed, .message = error.what()});
}

// Nothing that a handler throws may end the server.
Parked guarded(Parked parked) {
  return {.limit = parked.limit,
          .look = [look = std::move(parked.look)](bool last) -> std::optional<Response> {
            try {
              return look(last);
            } catch (const std::exception& error) {
              return broken(error);
            }
          }};
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

Api::Api(Zone& zone, std::vector<std::string> hosts)
    : hosts_(std::move(hosts)), router_(all_routes(zone)) {}

std::optional<Response> Api::answer_at_once(const Request& head) {
  if (const auto why = foreign(head, hosts_)) return refuse(403, *why);
  // The process is alive even if every thread of the pool waits for the store.
  if (head.target == "/healthz" && (head.method == "GET" || head.method == "HEAD"))
    return json_response(R"({"ok":true})");
  return {};
}

Answer Api::answer(const Request& request) {
  try {
    Answer answer = router_.answer(request);
    if (auto* parked = std::get_if<Parked>(&answer)) return guarded(std::move(*parked));
    return answer;
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
