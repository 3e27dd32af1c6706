#include "server/problem.h"

#include "shapes/error_json.h"

namespace once::server {
namespace {

int status_of(const Error& error) {
  if (error.in_doubt) return 503;
  if (error.reason == Reason::queue_not_empty) return 409;
  if (error.reason == Reason::no_valid_token) return 401;
  if (error.reason == Reason::not_permitted) return 403;
  switch (error.code) {
    case Code::invalid_input: return 400;
    case Code::not_found: return 404;
    case Code::queue_mismatch:
    case Code::wrong_state:
    case Code::fenced: return 409;
    case Code::too_large: return 413;
    case Code::conflicting_duplicate: return 422;
    case Code::overloaded: return 429;
    case Code::store_unavailable:
    case Code::outcome_unknown: return 503;
    case Code::timed_out: return 504;
    case Code::failed:
    case Code::store_unusable: break;
  }
  return 500;
}

}  // namespace

Response problem(const Error& error) { return problem(status_of(error), error); }

Response problem(int status, const Error& error) {
  cli::JsonLine line;
  line.text("type", "about:blank")
      .text("title", phrase(status))
      .number("status", static_cast<std::uint64_t>(status))
      .text("detail", error.message)
      .text("code", to_string(error.code));
  Response response{.status = status,
                    .type = "application/problem+json",
                    .body = cli::add_error_facts(line, error).str() + '\n'};
  if (status == 429 || (status == 503 && error.retryable))
    response.headers.push_back({"Retry-After", "1"});
  if (status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer realm=\"once\""});
  return response;
}

Error invalid_input(std::string message) {
  return {.code = Code::invalid_input, .message = std::move(message)};
}

}  // namespace once::server
