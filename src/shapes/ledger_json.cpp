#include "shapes/ledger_json.h"

#include "shapes/json_line.h"
#include "shapes/values.h"

namespace once::cli {

std::string key_claimed_json(std::string_view queue, std::string_view key, const ClaimResult& claim,
                             Time until) {
  using Kind = ClaimResult::Kind;
  JsonLine line;
  line.text("outcome", to_string(claim.kind)).text("queue", queue).text("key", key);
  switch (claim.kind) {
    case Kind::claimed:
      return line.number("token", claim.token)
          .number("attempt", static_cast<std::uint64_t>(claim.attempt))
          .boolean("in_doubt", claim.in_doubt)
          .text("lease", format_duration(claim.wait))
          .str();
    case Kind::completed: return line.body("result", "raw", claim.result).str();
    case Kind::held:
    case Kind::not_due: return line.time("until", until).str();
    case Kind::dead:
    case Kind::in_doubt:
    case Kind::cancelled: break;
  }
  return line.text_or_null("reason", claim.why).str();
}

std::string_view key_outcome(std::string_view outcome, State state) {
  return state == State::dead || state == State::cancelled ? to_string(state) : outcome;
}

std::string key_settled_json(std::string_view queue, std::string_view key, std::string_view outcome,
                             State state) {
  return JsonLine{}
      .text("outcome", key_outcome(outcome, state))
      .text("queue", queue)
      .text("key", key)
      .text("state", to_string(state))
      .str();
}

}  // namespace once::cli
