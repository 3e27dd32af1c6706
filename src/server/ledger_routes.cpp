// Keys of a ledger-only queue, for loops that get their work from another system: once/ledger.h.
#include <fmt/format.h>

#include "server/api.h"
#include "server/fields.h"
#include "server/problem.h"
#include "shapes/ledger_json.h"
#include "shapes/values.h"

namespace once::server {
namespace {

// A client's claim must not end with the server, so only its lease ends it.
Result<LedgerClient> ledger_of(Zone& zone, const Call& call, std::string worker) {
  return zone.ledger(call.path("queue"),
                     {.name = std::move(worker), .claims_outlive_process = true});
}

Reply claim_key(Zone& zone, const Call& call) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  const auto fields = Fields::read(call.request(), {"nonce", "worker", "lease"});
  if (!fields) return fields.error();
  const auto nonce = fields->text("nonce");
  if (!nonce) return nonce.error();
  if (!*nonce || (*nonce)->empty())
    return invalid_input(
        "\"nonce\" is missing or empty; it makes a repeated request the same claim; nothing was "
        "claimed");
  const auto worker = fields->text("worker");
  if (!worker) return worker.error();
  const auto lease = fields->duration("lease");
  if (!lease) return lease.error();
  auto ledger = ledger_of(zone, call, worker->value_or(""));
  if (!ledger) return ledger.error();
  const auto claim = ledger->claim(call.path("key"), lease->value_or(Duration{0}), **nonce);
  if (!claim) return claim.error();
  return json_response(cli::key_claimed_json(call.path("queue"), call.path("key"), *claim,
                                             cli::now() + claim->wait));
}

// What the holder of a claim says. Only the fields of the act are allowed.
struct KeyAct {
  std::string_view act{};
  std::string_view outcome{};
  std::vector<std::string> fields{};
};

Result<State> apply_to_key(LedgerClient& ledger, const Call& call, const Fields& fields,
                           std::uint64_t token, std::string_view act) {
  const std::string& key = call.path("key");
  if (act == "complete") {
    auto result = fields.body("result");
    if (!result) return result.error();
    return ledger.complete(key, token, std::move(*result));
  }
  const auto lease = fields.duration("lease");
  if (!lease) return lease.error();
  if (act == "renew") return ledger.renew(key, token, lease->value_or(Duration{0}));
  const auto why = fields.text("why");
  if (!why) return why.error();
  if (act == "dead") return ledger.dead(key, token, why->value_or(""));
  const auto retry_in = fields.duration("retry_in");
  if (!retry_in) return retry_in.error();
  return ledger.fail(key, token, why->value_or(""), *retry_in);
}

Reply settle_key(Zone& zone, const Call& call, const KeyAct& act) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  const auto fields = Fields::read(call.request(), act.fields);
  if (!fields) return fields.error();
  const auto token = fields->number("token");
  if (!token) return token.error();
  if (!*token)
    return invalid_input("\"token\" is missing; the claim's answer has it; nothing was recorded");
  auto ledger = ledger_of(zone, call, "");
  if (!ledger) return ledger.error();
  const auto state = apply_to_key(*ledger, call, *fields, **token, act.act);
  if (!state) return state.error();
  return json_response(
      cli::key_settled_json(call.path("queue"), call.path("key"), act.outcome, *state));
}

Route key_route(Zone& zone, KeyAct act) {
  std::string pattern = fmt::format("/v1/queues/{{queue}}/keys/{{key}}:{}", act.act);
  return {"POST", std::move(pattern), {}, [&zone, act = std::move(act)](const Call& call) {
            return settle_key(zone, call, act);
          }};
}

}  // namespace

std::vector<Route> ledger_routes(Zone& zone) {
  return {
      {"POST",
       "/v1/queues/{queue}/keys/{key}:claim",
       {},
       [&zone](const Call& call) { return claim_key(zone, call); }},
      key_route(zone, {"renew", "renewed", {"token", "lease"}}),
      key_route(zone, {"complete", "completed", {"token", "result"}}),
      key_route(zone, {"fail", "failed", {"token", "why", "retry_in"}}),
      key_route(zone, {"dead", "dead", {"token", "why"}}),
  };
}

}  // namespace once::server
