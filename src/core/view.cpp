// The names of public enumerations.
#include "once/view.h"

#include <array>
#include <utility>

#include "once/ledger.h"

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

std::string_view to_string(AttemptOutcome outcome) {
  switch (outcome) {
    case AttemptOutcome::running: return "running";
    case AttemptOutcome::completed: return "completed";
    case AttemptOutcome::failed: return "failed";
    case AttemptOutcome::dead: return "dead";
    case AttemptOutcome::lost: return "lost";
    case AttemptOutcome::timed_out: return "timed_out";
    case AttemptOutcome::unknown: return "unknown";
    case AttemptOutcome::interrupted: return "interrupted";
    case AttemptOutcome::released: return "released";
  }
  return "?";
}

std::string_view to_string(StepView::State state) {
  switch (state) {
    case StepView::State::running: return "running";
    case StepView::State::done: return "done";
    case StepView::State::failed: return "failed";
    case StepView::State::in_doubt: return "in_doubt";
    case StepView::State::again: return "again";
  }
  return "?";
}

std::string_view to_string(ActionView::Kind kind) {
  switch (kind) {
    case ActionView::Kind::retried: return "retried";
    case ActionView::Kind::completed: return "completed";
    case ActionView::Kind::dropped: return "dropped";
    case ActionView::Kind::cancelled: return "cancelled";
    case ActionView::Kind::cancel_asked: return "cancel_asked";
    case ActionView::Kind::happened: return "happened";
    case ActionView::Kind::did_not_happen: return "did_not_happen";
    case ActionView::Kind::held: return "held";
    case ActionView::Kind::step_completed: return "step_completed";
    case ActionView::Kind::retry_asked: return "retry_asked";
    case ActionView::Kind::step_completion_asked: return "step_completion_asked";
  }
  return "?";
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

std::string_view to_string(ClaimResult::Kind kind) {
  switch (kind) {
    case ClaimResult::Kind::claimed: return "claimed";
    case ClaimResult::Kind::completed: return "completed";
    case ClaimResult::Kind::held: return "held";
    case ClaimResult::Kind::not_due: return "not_due";
    case ClaimResult::Kind::dead: return "dead";
    case ClaimResult::Kind::in_doubt: return "in_doubt";
    case ClaimResult::Kind::cancelled: return "cancelled";
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
    case Code::overloaded: return "overloaded";
  }
  return "?";
}

}  // namespace once::inline v1
