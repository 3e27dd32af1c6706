// stand() and plan(): the status of the steps of a run, and the actions that an event causes.
//
// The status of a step is the first line that applies. Steps are judged in the definition's order:
//
//   a fact that counts                          completed -> completed, any other -> failed
//   it handles failures, of a step that is
//     pending or active                         pending
//     none failed                               skipped
//   a dependency is pending or active           pending
//   a dependency failed or was not reached      unreached, also when that failure is handled: its
//                                               output is missing
//   skip_if holds                               skipped
//   else                                        active
//
// If the round of a run has ended, that end is the run's status. If no step is pending or active,
// the run must end. It fails if a step failed and the step that handles the failure did not
// complete. Otherwise it completes. A failed step stops only the steps that depend on it. So the
// end depends on the outcomes of the steps, and not on their order.
//
// No action is caused by each of two facts alone, because a step depends on all of its predecessors
// together. So plan() can compute a difference. If two runners handle two events at the same time
// and one of them dies, no action is lost.
#include <algorithm>
#include <iterator>

#include "core/words.h"
#include "flow/rules/facts.h"

namespace once::core {
namespace {

bool open(StepStatus status) {
  return status == StepStatus::pending || status == StepStatus::active;
}

bool is_wait(const FlowStep& step) { return step.kind != FlowStep::Kind::task; }

// Zero if the step waits without a timer.
Duration timer_of(const FlowStep& step) {
  if (step.kind == FlowStep::Kind::task) return Duration{0};
  return step.kind == FlowStep::Kind::sleep ? step.sleep : step.timeout;
}
bool has_timer(const FlowStep& step) {
  return step.kind == FlowStep::Kind::sleep || timer_of(step) > Duration{0};
}

// The status of each step of a run that has not ended.
class Standings {
 public:
  Standings(const FlowDefinition& definition, const RunState& state, const Judge& judge)
      : definition_(definition), state_(state), skips_(judge.of(state)) {
    all_.reserve(definition.steps.size());
    for (const FlowStep& step : definition.steps) all_.push_back(of(step));
  }

  const StepStanding& operator[](std::size_t step) const { return all_[step]; }
  std::vector<StepStanding> take() && { return std::move(all_); }

  bool any_open() const {
    return std::any_of(all_.begin(), all_.end(),
                       [](const StepStanding& step) { return open(step.status); });
  }
  bool only_waits() const {
    bool waits = false;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (all_[i].status != StepStatus::active) continue;
      if (!is_wait(definition_.steps[i])) return false;
      waits = true;
    }
    return waits;
  }
  bool failed_for_good(std::size_t step) const {
    if (all_[step].status != StepStatus::failed) return false;
    const auto handler = definition_.steps[step].on_failure;
    return !handler || all_[*handler].status != StepStatus::completed;
  }
  std::optional<std::size_t> first_failed_for_good() const {
    for (std::size_t i = 0; i < all_.size(); ++i)
      if (failed_for_good(i)) return i;
    return std::nullopt;
  }

 private:
  StepStanding of(const FlowStep& step) const {
    if (const auto counted = counted_fact(state_, step.id); counted.fact != nullptr) {
      const bool completed = counted.fact->outcome == StepOutcome::completed;
      return {.status = completed ? StepStatus::completed : StepStatus::failed,
              .n = counted.n,
              .why = completed ? "" : why_failed(*counted.fact)};
    }
    StepStanding standing = undecided(step);
    const auto voided = voided_try(state_, step.id);
    standing.n = voided ? voided->n + 1 : 1;
    return standing;
  }

  StepStanding undecided(const FlowStep& step) const {
    if (const auto awaited = first_of(step.handles, open)) return pending_on(*awaited);
    if (!step.handles.empty() &&
        !first_of(step.handles, [](StepStatus status) { return status == StepStatus::failed; }))
      return {.status = StepStatus::skipped, .n = 0, .why = "there was no failure to handle"};
    if (const auto awaited = first_of(step.depends_on, open)) return pending_on(*awaited);
    if (const auto lost = first_of(step.depends_on, [](StepStatus status) {
          return status == StepStatus::failed || status == StepStatus::unreached;
        })) {
      const bool failed = all_[*lost].status == StepStatus::failed;
      return {.status = StepStatus::unreached,
              .n = 0,
              .why = "depends on " + quoted(definition_.steps[*lost].id) + ", which " +
                     (failed ? "failed" : "was not reached")};
    }
    if (!step.skip_if.empty() && skips_(step, [&](std::string_view other) {
          const auto index = index_of(definition_, other);
          return index && *index < all_.size() && all_[*index].status == StepStatus::unreached;
        }))
      return {.status = StepStatus::skipped, .n = 0, .why = "skip_if holds"};
    return {.status = StepStatus::active, .n = 0, .why = {}};
  }

  template <class Test>
  std::optional<std::size_t> first_of(const std::vector<std::size_t>& steps, Test test) const {
    for (const std::size_t step : steps)
      if (test(all_[step].status)) return step;
    return std::nullopt;
  }

  StepStanding pending_on(std::size_t step) const {
    return {.status = StepStatus::pending,
            .n = 0,
            .why = "waits for " + quoted(definition_.steps[step].id)};
  }

  static std::string why_failed(const StepFact& fact) {
    if (fact.outcome != StepOutcome::cancelled) return fact.error;
    return fact.error.empty() ? "cancelled" : "cancelled: " + fact.error;
  }

  const FlowDefinition& definition_;
  const RunState& state_;
  Judge::Skips skips_;
  std::vector<StepStanding> all_;
};

FlowTries tries_of(const FlowStep& step, const RunState& state) {
  const auto found = state.rate_retries.find(step.id);
  return {.admits = state.admits.n,
          .rate_retries = found == state.rate_retries.end() ? 0 : found->second.n};
}

FlowAction start_of_task(std::size_t index, const FlowStep& step, const RunState& state) {
  if (const auto voided = voided_try(state, step.id))
    return RetryTask{
        .step = index, .round = voided->round, .n = voided->n, .tries = tries_of(step, state)};
  return StartTask{.step = index, .tries = tries_of(step, state)};
}

// A wait that has no timer, and whose signal has not arrived, needs no action.
std::optional<FlowAction> start_of(std::size_t index, const FlowStep& step, std::uint32_t n,
                                   const RunState& state) {
  if (!is_wait(step)) return start_of_task(index, step, state);
  if (step.kind == FlowStep::Kind::signal) {
    const auto signal = state.signals.find(step.signal);
    if (signal != state.signals.end())
      return EndStep{.step = index,
                     .n = n,
                     .outcome = StepOutcome::completed,
                     .value = signal->second.value,
                     .error = {},
                     .tries = tries_of(step, state)};
  }
  if (!has_timer(step)) return std::nullopt;
  return StartWait{.step = index, .n = n, .after = timer_of(step), .tries = tries_of(step, state)};
}

// Whether the wait ended before its timer, so that the timer must be cancelled.
bool outlived_by_its_timer(const FlowStep& step, const RunState& state) {
  if (step.kind == FlowStep::Kind::sleep || !has_timer(step)) return false;
  const auto counted = counted_fact(state, step.id);
  return counted.fact != nullptr && counted.fact->outcome != StepOutcome::timed_out;
}

EndRun end_of_all(const FlowDefinition& definition, const RunState& state,
                  const Standings& standings) {
  EndRun end{.round = round_of(state), .outcome = RunOutcome::completed, .step = {}, .error = {}};
  if (const auto failed = standings.first_failed_for_good()) {
    end.outcome = RunOutcome::failed;
    end.step = definition.steps[*failed].id;
    end.error = "step " + quoted(end.step) + " failed: " + standings[*failed].why;
  }
  return end;
}

// All actions that these facts ever required and that later facts did not make obsolete. Sorted.
std::vector<FlowAction> wanted(const FlowDefinition& definition, const RunState& state,
                               const Judge& judge) {
  std::vector<FlowAction> actions;
  if (!state.started) return actions;
  const Standings standings(definition, state, judge);
  const bool over = end_of(state) != nullptr;
  for (std::size_t i = 0; i < definition.steps.size(); ++i) {
    const FlowStep& step = definition.steps[i];
    if (outlived_by_its_timer(step, state))
      actions.emplace_back(CallOffTimer{.step = i, .n = standings[i].n});
    if (over || standings[i].status != StepStatus::active) continue;
    if (auto start = start_of(i, step, standings[i].n, state)) actions.push_back(std::move(*start));
  }
  if (!over && definition.timeout > Duration{0})
    actions.emplace_back(ArmRunTimer{.round = round_of(state), .after = definition.timeout});
  if (!over && !standings.any_open())
    actions.emplace_back(end_of_all(definition, state, standings));
  std::sort(actions.begin(), actions.end());
  return actions;
}

void take_back(TryFact& last, std::uint32_t n) {
  if (last.n == n) --last.n;
}

// Removes all facts of the event's step, not only the event's own. An earlier fact of the step may
// require the same action and would hide it. The event of that fact was handled long ago.
RunState without(RunState state, const FlowEvent& event) {
  switch (event.kind) {
    case FlowEvent::Kind::started: return {};
    case FlowEvent::Kind::step:
      if (last_fact(state, event.step).n == event.n) state.steps.erase(event.step);
      break;
    case FlowEvent::Kind::signal: {
      const auto found = state.signals.find(event.signal);
      if (found != state.signals.end() && found->second.sequence == event.sequence)
        state.signals.erase(found);
      break;
    }
    case FlowEvent::Kind::rate_retry: take_back(state.rate_retries[event.step], event.n); break;
    case FlowEvent::Kind::admit: take_back(state.admits, event.n); break;
    case FlowEvent::Kind::retried: state.rounds.erase(event.n); break;
    case FlowEvent::Kind::timer:
    case FlowEvent::Kind::ended: break;
  }
  return state;
}

std::string why_out_of_time(const FlowStep& step) {
  const std::string time = time_text(step.timeout);
  return step.kind == FlowStep::Kind::signal
             ? "no signal " + quoted(step.signal) + " within " + time
             : "nobody approved or rejected it within " + time;
}

std::vector<FlowAction> when_time_is_up(const FlowDefinition& definition, const RunState& state,
                                        const FlowEvent& event, const Judge& judge) {
  if (!state.started || end_of(state) != nullptr) return {};
  if (event.step.empty()) {
    if (event.n != round_of(state)) return {};
    return {EndRun{.round = event.n,
                   .outcome = RunOutcome::timed_out,
                   .step = {},
                   .error = "not finished within " + time_text(definition.timeout)}};
  }
  const auto index = index_of(definition, event.step);
  if (!index) return {};
  const FlowStep& step = definition.steps[*index];
  const Standings standings(definition, state, judge);
  if (!has_timer(step) || standings[*index].status != StepStatus::active ||
      standings[*index].n != event.n)
    return {};
  // If the signal has arrived, its own event ends the step.
  if (step.kind == FlowStep::Kind::signal && state.signals.contains(step.signal)) return {};
  EndStep end{.step = *index, .n = event.n, .tries = tries_of(step, state)};
  if (step.kind == FlowStep::Kind::sleep) {
    end.value = "null";
  } else {
    end.outcome = StepOutcome::timed_out;
    end.error = why_out_of_time(step);
  }
  return {std::move(end)};
}

// Steps that were active when the run ended have not failed. Their tasks later report "cancelled".
RunState without_called_off(RunState state) {
  const Sequence ended = end_of(state)->sequence;
  for (auto& [step, facts] : state.steps)
    std::erase_if(facts, [&](const auto& fact) {
      return fact.second.outcome == StepOutcome::cancelled && fact.second.sequence > ended;
    });
  return state;
}

std::vector<FlowAction> when_over(const FlowDefinition& definition, const RunState& state,
                                  const FlowEvent& event, const Judge& judge) {
  const auto round = state.rounds.find(event.n);
  if (round == state.rounds.end() || !round->second.ended) return {};
  std::vector<FlowAction> actions;
  if (definition.timeout > Duration{0} && round->second.ended->outcome != RunOutcome::timed_out)
    actions.emplace_back(CallOffTimer{.step = {}, .n = event.n});
  if (event.n != round_of(state)) return actions;  // the run was retried or closed since
  const Standings standings(definition, state, judge);
  for (std::size_t i = 0; i < definition.steps.size(); ++i) {
    if (standings[i].status != StepStatus::active) continue;
    if (!is_wait(definition.steps[i]))
      actions.emplace_back(CallOff{i});
    else if (has_timer(definition.steps[i]))
      actions.emplace_back(CallOffTimer{.step = i, .n = standings[i].n});
  }
  actions.emplace_back(Finish{event.n});
  std::sort(actions.begin(), actions.end());
  return actions;
}

RunPhase phase_of(const EndFact& end) {
  switch (end.outcome) {
    case RunOutcome::completed: return RunPhase::completed;
    case RunOutcome::cancelled: return RunPhase::cancelled;
    case RunOutcome::failed:
    case RunOutcome::timed_out: return RunPhase::failed;
  }
  return RunPhase::failed;
}

Error no_retry(const RunState& state, const std::string& why) {
  return {.code = Code::wrong_state,
          .message =
              "run " + quoted(state.run) + " cannot be retried: " + why + "; nothing was changed"};
}

// Why a retry of the failed step is useless: it would not run, or would fail in the same way. Empty
// if a retry may help.
std::string why_not_again(const RunState& state, const FlowStep& step) {
  const CountedFact failed = counted_fact(state, step.id);
  if (failed.fact->outcome == StepOutcome::cancelled)
    return "step " + quoted(step.id) + " was cancelled, and a cancelled task never runs again";
  if (failed.n == 0)
    return "step " + quoted(step.id) + " got no task (" + failed.fact->error +
           "), and the facts that it goes by stay as they are";
  return {};
}

}  // namespace

std::optional<std::size_t> index_of(const FlowDefinition& definition, std::string_view step) {
  for (std::size_t i = 0; i < definition.steps.size(); ++i)
    if (definition.steps[i].id == step) return i;
  return std::nullopt;
}

bool awaits(const FlowDefinition& definition, std::string_view signal) {
  return std::any_of(definition.steps.begin(), definition.steps.end(), [&](const FlowStep& step) {
    return step.kind == FlowStep::Kind::signal && step.signal == signal;
  });
}

std::vector<Duration> waits_of(const RetryPolicy& retry) {
  constexpr std::size_t kMost = 100;
  std::vector<Duration> waits{std::min(retry.wait, retry.cap)};
  const auto wanted_waits = static_cast<std::size_t>(std::max(retry.attempts - 1, 1));
  while (retry.backoff != RetryPolicy::Backoff::fixed && waits.back() < retry.cap &&
         waits.back() > Duration{0} && waits.size() < std::min(wanted_waits, kMost)) {
    const Duration last = waits.back();
    const bool linear = retry.backoff == RetryPolicy::Backoff::linear;
    waits.push_back(std::min(linear ? last + retry.wait : last * 2, retry.cap));
  }
  return waits;
}

RunStanding stand(const FlowDefinition& definition, const RunState& all, const Judge& judge) {
  RunStanding standing;
  std::optional<RunState> rest;
  if (called_off(all)) rest = without_called_off(all);
  const RunState& state = rest ? *rest : all;
  Standings steps(definition, state, judge);
  if (state.started && steps.only_waits()) standing.phase = RunPhase::waiting;
  standing.steps = std::move(steps).take();
  const EndFact* const end = end_of(state);
  if (end == nullptr) return standing;
  standing.phase = phase_of(*end);
  for (StepStanding& step : standing.steps) {
    if (!open(step.status)) continue;
    step.status = StepStatus::unreached;
    step.why = end->outcome == RunOutcome::timed_out
                   ? "the run ran out of time"
                   : "the run was " + std::string(to_string(end->outcome));
  }
  return standing;
}

std::vector<FlowAction> plan(const FlowDefinition& definition, const RunState& state,
                             const FlowEvent& event, const Judge& judge) {
  if (event.kind == FlowEvent::Kind::timer) return when_time_is_up(definition, state, event, judge);
  if (event.kind == FlowEvent::Kind::ended) return when_over(definition, state, event, judge);
  const auto with = wanted(definition, state, judge);
  const auto less = wanted(definition, without(state, event), judge);
  std::vector<FlowAction> caused;
  std::set_difference(with.begin(), with.end(), less.begin(), less.end(),
                      std::back_inserter(caused));
  return caused;
}

std::uint32_t told_try(const Record& record) {
  // A cancelled task never runs again. It may have had another end before.
  return record.claims + (record.state == State::cancelled ? 1 : 0);
}

std::string why_never_again(const Record& record, std::uint32_t n) {
  if (record.state == State::cancelled) return "its task was cancelled by hand";
  if (!over(record.state) || record.state == State::dead || told_try(record) > n) return {};
  if (record.state == State::duplicate) return "its task was set aside: " + record.reason;
  return "its task is completed, and a completed task never runs again" +
         std::string(record.result_cut ? "; its output was too large to be kept" : "");
}

FlowEvent event_in(const RunState& state, FlowEvent::Kind kind, std::uint32_t n, std::string step) {
  FlowEvent event;
  event.kind = kind;
  event.run = state.run;
  event.workflow = state.workflow;
  event.n = n;
  event.step = std::move(step);
  return event;
}

FlowEvent event_of(const FlowDefinition& definition, const RunState& state, const StartWait& wait) {
  return event_in(state, FlowEvent::Kind::timer, wait.n, definition.steps[wait.step].id);
}

FlowEvent event_of(const FlowDefinition& definition, const RunState& state, const EndStep& end) {
  FlowEvent event = event_in(state, FlowEvent::Kind::step, end.n, definition.steps[end.step].id);
  event.outcome = end.outcome;
  event.value = end.value;
  event.error = end.error;
  return event;
}

FlowEvent event_of(const RunState& state, const ArmRunTimer& timer) {
  return event_in(state, FlowEvent::Kind::timer, timer.round);
}

FlowEvent event_of(const RunState& state, const EndRun& end) {
  FlowEvent event = event_in(state, FlowEvent::Kind::ended, end.round, end.step);
  event.run_outcome = end.outcome;
  event.error = end.error;
  return event;
}

FlowEvent event_of(const FlowDefinition& definition, const RunState& state,
                   const CallOffTimer& timer) {
  FlowEvent event = event_in(state, FlowEvent::Kind::timer, timer.n);
  if (timer.step) event.step = definition.steps[*timer.step].id;
  return event;
}

Result<std::map<std::string, std::uint32_t>> retry_of(const FlowDefinition& definition,
                                                      const RunState& state, const Judge& judge) {
  const EndFact* const end = end_of(state);
  if (end == nullptr) return no_retry(state, "it is not over yet");
  if (end->outcome != RunOutcome::failed) {
    const bool steps_called_off = end->outcome != RunOutcome::completed;
    return no_retry(state, "it is " + std::string(to_string(end->outcome)) +
                               (steps_called_off ? ", and its steps were called off" : ""));
  }
  const Standings standings(definition, state, judge);
  std::map<std::string, std::uint32_t> voided;
  for (std::size_t i = 0; i < definition.steps.size(); ++i) {
    if (!standings.failed_for_good(i)) continue;
    const FlowStep& step = definition.steps[i];
    if (const std::string why = why_not_again(state, step); !why.empty())
      return no_retry(state, why);
    voided[step.id] = standings[i].n;
  }
  // A failed step that was completed since needs no retry. The steps that depend on it continue.
  if (voided.empty() && end->step.empty())
    return no_retry(state, "no step failed, and what did stays as it is: " + end->error);
  return voided;
}

}  // namespace once::core
