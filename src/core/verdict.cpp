// The names of verdicts.
#include "core/decide.h"

namespace once::core {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::claimed: return "claimed";
    case Verdict::offered: return "offered";
    case Verdict::started: return "started";
    case Verdict::lapsed: return "lapsed";
    case Verdict::renewed: return "renewed";
    case Verdict::overdue: return "overdue";
    case Verdict::completed: return "completed";
    case Verdict::retrying: return "retrying";
    case Verdict::dead: return "dead";
    case Verdict::released: return "released";
    case Verdict::set_aside: return "set_aside";
    case Verdict::doubted: return "doubted";
    case Verdict::cancelled: return "cancelled";
    case Verdict::expired: return "expired";
    case Verdict::asked_to_stop: return "asked_to_stop";
    case Verdict::probed: return "probed";
    case Verdict::step_begun: return "step_begun";
    case Verdict::step_remembered: return "step_remembered";
    case Verdict::step_in_doubt: return "step_in_doubt";
    case Verdict::step_recorded: return "step_recorded";
    case Verdict::step_under_way: return "step_under_way";
    case Verdict::step_refused: return "step_refused";
    case Verdict::replied: return "replied";
    case Verdict::already_done: return "already_done";
    case Verdict::already_completed: return "already_completed";
    case Verdict::already_dead: return "already_dead";
    case Verdict::already_cancelled: return "already_cancelled";
    case Verdict::already_set_aside: return "already_set_aside";
    case Verdict::awaits_decision: return "awaits_decision";
    case Verdict::held: return "held";
    case Verdict::not_due: return "not_due";
    case Verdict::exhausted: return "exhausted";
    case Verdict::duplicate_key: return "duplicate_key";
    case Verdict::conflicting_key: return "conflicting_key";
    case Verdict::wrong_state: return "wrong_state";
    case Verdict::not_started: return "not_started";
    case Verdict::fenced: return "fenced";
  }
  return "?";
}

}  // namespace once::core
