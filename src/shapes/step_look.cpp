#include "shapes/step_look.h"

namespace once::cli {
namespace {

bool settled(State state) {
  return state == State::completed || state == State::dead || state == State::cancelled ||
         state == State::duplicate;
}

StepLook active_look(const RunStep& step) {
  constexpr StepLook kActive{"▶", "active", State::running};
  if (step.kind != StepKind::task) return {"⏸", "waiting", State::retrying};
  if (!step.task_state || settled(*step.task_state)) return kActive;
  const State state = *step.task_state;
  if (state == State::running) return {"▶", to_string(state), state};
  return {"⏸", to_string(state), state == State::in_doubt ? state : State::retrying};
}

}  // namespace

StepLook look_of(const RunStep& step) {
  switch (step.status) {
    case StepStatus::pending: return {"○", to_string(step.status), State::waiting};
    case StepStatus::active: return active_look(step);
    case StepStatus::completed: return {"✓", to_string(step.status), State::completed};
    case StepStatus::failed: return {"✗", to_string(step.status), State::dead};
    case StepStatus::skipped: return {"–", to_string(step.status), State::cancelled};
    case StepStatus::unreached: return {"·", to_string(step.status), State::cancelled};
  }
  return {};
}

StepLook look_of(RunPhase phase) {
  switch (phase) {
    case RunPhase::running: return {"▶", to_string(phase), State::running};
    case RunPhase::waiting: return {"⏸", to_string(phase), State::retrying};
    case RunPhase::completed: return {"✓", to_string(phase), State::completed};
    case RunPhase::failed: return {"✗", to_string(phase), State::dead};
    case RunPhase::cancelled: return {"–", to_string(phase), State::cancelled};
    case RunPhase::unreadable: return {"?", to_string(phase), State::in_doubt};
  }
  return {};
}

std::string why_of(const RunStep& step) {
  return step.needs_runner ? step.why + " (once flow work)" : step.why;
}

}  // namespace once::cli
