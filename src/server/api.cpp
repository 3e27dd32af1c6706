#include "server/api.h"

#include <exception>

#include "server/origin.h"
#include "server/problem.h"

namespace once::server {
namespace {

std::vector<Route> routes_of(Zone& zone) {
  std::vector<Route> routes;
  for (auto* part : {publish_routes, task_routes, queue_routes, claim_routes, zone_routes}) {
    for (Route& route : part(zone)) routes.push_back(std::move(route));
  }
  return routes;
}

Response broken(const std::exception& error) {
  return problem({.code = Code::failed, .message = error.what()});
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

Response json_response(std::string line, int status) {
  return {.status = status, .body = std::move(line) + '\n'};
}

Api::Api(Zone& zone, std::vector<std::string> hosts)
    : hosts_(std::move(hosts)), router_(routes_of(zone)) {}

std::optional<Response> Api::answer_at_once(const Request& head) {
  if (const auto why = foreign(head, hosts_)) return refuse(403, *why);
  // The process is alive even if every thread of the pool waits for the store.
  if (head.target == "/healthz" && (head.method == "GET" || head.method == "HEAD"))
    return json_response(R"({"ok":true})");
  return {};
}

// Nothing that a handler throws may end the server.
Answer Api::answer(const Request& request) {
  try {
    return router_.answer(request);
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
