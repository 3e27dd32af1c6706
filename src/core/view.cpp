// The names of public enumerations.
#include "once/view.h"

#include <array>
#include <utility>

#include "once/guard.h"

namespace once::inline v1 {
namespace {

constexpr std::array<std::pair<State, std::string_view>, 9> kStates{{
    {State::scheduled, "scheduled"},
    {State::waiting, "waiting"},
    {State::running, "running"},
    {State::retrying, "retrying"},
    {State::in_doubt, "in_doubt"},
    {State::completed, "completed"},
    {State::dead, "dead"},
    {State::cancelled, "cancelled"},
    {State::duplicate, "duplicate"},
}};

}  // namespace

std::string_view to_string(State state) {
  for (const auto& [value, name] : kStates)
    if (value == state) return name;
  return "?";
}

std::optional<State> state_from(std::string_view name) {
  for (const auto& [value, known] : kStates)
    if (known == name) return value;
  return std::nullopt;
}

std::string_view to_string(InDoubt policy) {
  switch (policy) {
    case InDoubt::retry: return "retry";
    case InDoubt::steps: return "steps";
    case InDoubt::hold: return "hold";
    case InDoubt::probe: return "probe";
  }
  return "?";
}

std::string_view to_string(KeyFormat format) {
  return format == KeyFormat::plain ? "plain" : "escaped";
}

std::optional<KeyFormat> key_format_from(std::string_view name) {
  for (const KeyFormat format : {KeyFormat::plain, KeyFormat::escaped})
    if (to_string(format) == name) return format;
  return std::nullopt;
}

std::optional<InDoubt> in_doubt_from(std::string_view name) {
  for (const InDoubt policy : {InDoubt::retry, InDoubt::steps, InDoubt::hold, InDoubt::probe})
    if (to_string(policy) == name) return policy;
  return std::nullopt;
}

std::string_view to_string(Admission::Kind kind) {
  switch (kind) {
    case Admission::Kind::claimed: return "claimed";
    case Admission::Kind::completed: return "completed";
    case Admission::Kind::held: return "held";
    case Admission::Kind::not_due: return "not_due";
    case Admission::Kind::dead: return "dead";
    case Admission::Kind::in_doubt: return "in_doubt";
    case Admission::Kind::cancelled: return "cancelled";
  }
  return "?";
}

std::string_view to_string(Code code) {
  switch (code) {
    case Code::conflicting_duplicate: return "conflicting_duplicate";
    case Code::invalid_input: return "invalid_input";
    case Code::too_large: return "too_large";
    case Code::queue_mismatch: return "queue_mismatch";
    case Code::not_found: return "not_found";
    case Code::wrong_state: return "wrong_state";
    case Code::fenced: return "fenced";
    case Code::failed: return "failed";
    case Code::store_unavailable: return "store_unavailable";
    case Code::store_unusable: return "store_unusable";
    case Code::outcome_unknown: return "outcome_unknown";
    case Code::timed_out: return "timed_out";
  }
  return "?";
}

}  // namespace once::inline v1
