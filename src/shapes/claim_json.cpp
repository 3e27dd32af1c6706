#include "shapes/claim_json.h"

#include "shapes/error_json.h"
#include "shapes/task_json.h"

namespace once::cli {
namespace {

std::uint64_t in_ms(Duration duration) { return static_cast<std::uint64_t>(duration.count()); }

std::string_view name_of(RenewResult::Kind kind) {
  switch (kind) {
    case RenewResult::Kind::renewed: return "renewed";
    case RenewResult::Kind::asked_to_stop: return "asked_to_stop";
    case RenewResult::Kind::overdue: return "overdue";
  }
  return "";
}

std::string_view name_of(StepStart::Kind kind) {
  switch (kind) {
    case StepStart::Kind::run: return "run";
    case StepStart::Kind::remembered: return "remembered";
    case StepStart::Kind::ask: return "ask";
  }
  return "";
}

}  // namespace

std::string offer_json(const Offer& offer) {
  if (offer.started) return started_json(*offer.started);
  return JsonLine{}
      .text("claim", offer.claim)
      .text("id", offer.id)
      .text("key", offer.key)
      .number("lease_ms", in_ms(offer.lease))
      .str();
}

std::string started_json(const StartedTask& task) {
  JsonLine line;
  line.text("claim", task.claim)
      .text("id", task.task.id)
      .text("topic", task.task.topic)
      .text("key", task.key)
      .number("sequence", task.sequence)
      .number("token", task.token)
      .number("attempt", static_cast<std::uint64_t>(task.attempt))
      .boolean("in_doubt", task.in_doubt)
      .boolean("probing", task.probing)
      .number("lease_ms", in_ms(task.lease))
      .text("idempotency_key", task.idempotency_key)
      .body("body", "raw", task.task.body)
      .json("headers", json_object(task.task.headers))
      .time_if("not_before", task.task.not_before)
      .time_if("expires", task.task.expires);
  return line.json("steps", steps_json(task.steps)).str();
}

std::string renewed_json(std::string_view claim, const RenewResult& renewed) {
  return JsonLine{}
      .text("claim", claim)
      .text("outcome", name_of(renewed.kind))
      .number("lease_ms", in_ms(renewed.lease))
      .str();
}

std::string settled_json(std::string_view claim, State state) {
  return JsonLine{}.text("claim", claim).text("state", to_string(state)).str();
}

std::string step_start_json(const StepStart& begun) {
  JsonLine line;
  line.text("outcome", name_of(begun.kind)).text("idempotency_key", begun.idempotency_key);
  if (begun.kind == StepStart::Kind::remembered) line.body("result", "raw", begun.result);
  return line.str();
}

std::string claim_error_json(std::string_view claim, const Error& error) {
  JsonLine line;
  line.text("claim", claim);
  return add_error(line, error, error.message).str();
}

}  // namespace once::cli
