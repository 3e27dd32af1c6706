#include "core/record.h"

namespace once::core {

const Step* find_step(const Record& record, std::string_view name) {
  for (const Step& step : record.steps)
    if (step.name == name) return &step;
  return nullptr;
}

bool cut_off(const Record& record, const Step& step) {
  if (step.state != Step::State::begun) return false;
  return record.state != State::running || record.offer || step.attempt != record.claims;
}

StepView step_view(const Record& record, const Step& step) {
  StepView view{.step = step.name,
                .policy = step.policy,
                .runs = static_cast<int>(step.runs),
                .attempt = static_cast<int>(step.attempt),
                .started_at = step.started_at,
                .ended_at = step.ended_at,
                .result_cut = step.result_cut,
                .failed = static_cast<int>(step.failed),
                .error = step.error};
  switch (step.state) {
    case Step::State::begun:
      view.state = cut_off(record, step) ? StepView::State::in_doubt : StepView::State::running;
      break;
    case Step::State::done:
      view.state = StepView::State::done;
      view.result = step.result;
      break;
    case Step::State::again:
      view.state = step.ended_at ? StepView::State::failed : StepView::State::again;
      break;
  }
  return view;
}

bool without_verdict(Ending ending) {
  return ending == Ending::lost || ending == Ending::timed_out || ending == Ending::unknown ||
         ending == Ending::interrupted;
}

bool settled(State state) {
  switch (state) {
    case State::scheduled:
    case State::waiting:
    case State::running:
    case State::retrying: return false;
    case State::in_doubt:
    case State::completed:
    case State::dead:
    case State::cancelled:
    case State::duplicate: return true;
  }
  return false;
}

bool over(State state) { return settled(state) && state != State::in_doubt; }

std::optional<Duration> look_again(const Record& record) {
  if (record.reply_due) return kReplyAgain;
  switch (record.state) {
    case State::waiting: return Duration{0};
    case State::running: return record.lease;
    case State::retrying: return record.delay;
    default: return std::nullopt;
  }
}

std::string last_error(const Record& record) {
  if (record.attempts.empty() || record.attempts.back().ending != Ending::timed_out)
    return record.error;
  const bool own = record.own && record.own->timeout > Duration{0};
  const std::string& error = record.attempts.back().error;
  return "timed out" + (own ? " after " + duration_text(record.own->timeout) : "") +
         (error.empty() ? "" : ": " + error);
}

Token token_of(const Record& record, Revision revision) {
  if (!record.offer && !record.attempts.empty() && record.attempts.back().token)
    return record.attempts.back().token;
  return Token{revision.value};
}

}  // namespace once::core
