// fold(): puts the fact of an event into a run's state. Also the ids and topics of events.
#include <algorithm>
#include <array>
#include <utility>

#include "flow/rules/facts.h"

namespace once::core {
namespace {

template <class Enum, std::size_t N>
using Names = std::array<std::pair<Enum, std::string_view>, N>;

template <class Enum, std::size_t N>
std::string_view name_in(const Names<Enum, N>& names, Enum value) {
  for (const auto& [known, name] : names)
    if (known == value) return name;
  return "?";
}

template <class Enum, std::size_t N>
std::optional<Enum> value_in(const Names<Enum, N>& names, std::string_view text) {
  for (const auto& [known, name] : names)
    if (name == text) return known;
  return std::nullopt;
}

constexpr Names<FlowStep::Kind, 4> kKindNames{{{FlowStep::Kind::task, "task"},
                                               {FlowStep::Kind::sleep, "sleep"},
                                               {FlowStep::Kind::signal, "signal"},
                                               {FlowStep::Kind::approval, "approval"}}};
constexpr Names<FlowOutcome, 4> kOutcomes{{{FlowOutcome::completed, "completed"},
                                           {FlowOutcome::failed, "failed"},
                                           {FlowOutcome::cancelled, "cancelled"},
                                           {FlowOutcome::timed_out, "timed_out"}}};
constexpr Names<FlowEvent::Kind, 8> kEvents{{{FlowEvent::Kind::started, "started"},
                                             {FlowEvent::Kind::step, "step"},
                                             {FlowEvent::Kind::signal, "signal"},
                                             {FlowEvent::Kind::rate_retry, "rate_retry"},
                                             {FlowEvent::Kind::admit, "admit"},
                                             {FlowEvent::Kind::timer, "timer"},
                                             {FlowEvent::Kind::retried, "retried"},
                                             {FlowEvent::Kind::ended, "ended"}}};
constexpr Names<RetryPolicy::Backoff, 3> kBackoffs{
    {{RetryPolicy::Backoff::fixed, "fixed"},
     {RetryPolicy::Backoff::linear, "linear"},
     {RetryPolicy::Backoff::exponential, "exponential"}}};
constexpr Names<StepStatus, 6> kStatuses{{{StepStatus::pending, "pending"},
                                          {StepStatus::active, "active"},
                                          {StepStatus::completed, "completed"},
                                          {StepStatus::failed, "failed"},
                                          {StepStatus::skipped, "skipped"},
                                          {StepStatus::unreached, "unreached"}}};
constexpr Names<RunPhase, 6> kPhases{{{RunPhase::running, "running"},
                                      {RunPhase::waiting, "waiting"},
                                      {RunPhase::completed, "completed"},
                                      {RunPhase::failed, "failed"},
                                      {RunPhase::cancelled, "cancelled"},
                                      {RunPhase::unreadable, "unreadable"}}};

bool fold_start(RunState& state, const FlowEvent& event) {
  if (state.started) return false;
  state.run = event.run;
  state.workflow = event.workflow;
  state.version = event.version;
  state.key = event.key;
  state.input = event.value;
  state.started = event.sequence;
  state.started_at = event.at;
  FlowRound& first = state.rounds[1];
  first.sequence = event.sequence;
  first.at = event.at;
  return true;
}

bool fold_signal(RunState& state, const FlowEvent& event) {
  const auto [place, is_new] = state.signals.try_emplace(event.signal);
  if (!is_new && place->second.sequence <= event.sequence) return false;
  place->second = {.id = event.signal_id,
                   .by_name = event.by_name,
                   .value = event.value,
                   .sequence = event.sequence,
                   .at = event.at};
  return true;
}

bool fold_try(TryFact& last, const FlowEvent& event) {
  if (event.n <= last.n) return false;
  last = {.n = event.n, .sequence = event.sequence, .at = event.at};
  return true;
}

bool fold_retry(RunState& state, const FlowEvent& event) {
  FlowRound& round = state.rounds[event.n];
  if (round.sequence) return false;
  round.sequence = event.sequence;
  round.at = event.at;
  round.voided = event.voided;
  return true;
}

bool fold_end(RunState& state, const FlowEvent& event) {
  FlowRound& round = state.rounds[event.n];
  if (round.ended) return false;
  round.ended = EndFact{.outcome = event.run_outcome,
                        .value = event.value,
                        .error = event.error,
                        .step = event.step,
                        .sequence = event.sequence,
                        .at = event.at};
  return true;
}

bool fold_step(RunState& state, const FlowEvent& event) {
  StepFact fact{.outcome = event.outcome,
                .value = event.value,
                .error = event.error,
                .elsewhere = event.elsewhere,
                .sequence = event.sequence,
                .at = event.at};
  return state.steps[event.step].try_emplace(event.n, std::move(fact)).second;
}

// Whether the first of two facts of one step counts before the second. This is a total order. So
// the order in which the events arrive does not matter.
bool goes_before(std::uint32_t n, const StepFact& fact, std::uint32_t other_n,
                 const StepFact& other) {
  const bool completed = fact.outcome == StepOutcome::completed;
  if (completed != (other.outcome == StepOutcome::completed)) return completed;
  return completed ? fact.sequence < other.sequence : n > other_n;
}

}  // namespace

std::string_view to_string(FlowEvent::Kind kind) { return name_in(kEvents, kind); }

std::optional<FlowEvent::Kind> flow_event_from(std::string_view name) {
  return value_in(kEvents, name);
}

std::string step_id(std::string_view run, std::string_view step) {
  return std::string(run) + '.' + std::string(step);
}

std::string event_id(const FlowEvent& event) {
  const std::string n = std::to_string(event.n);
  switch (event.kind) {
    case FlowEvent::Kind::started: return event.run + ".started";
    case FlowEvent::Kind::step: return step_id(event.run, event.step) + ".ended." + n;
    case FlowEvent::Kind::signal:
      return event.run + ".signal." + (event.by_name ? "name:" + event.signal : event.signal_id);
    case FlowEvent::Kind::rate_retry: return step_id(event.run, event.step) + ".rate_retry." + n;
    case FlowEvent::Kind::admit: return event.run + ".admit." + n;
    case FlowEvent::Kind::timer:
      return (event.step.empty() ? event.run : step_id(event.run, event.step)) + ".timer." + n;
    case FlowEvent::Kind::retried: return event.run + ".retried." + n;
    case FlowEvent::Kind::ended: return event.run + ".ended." + n;
  }
  return {};
}

std::string event_topic(std::string_view workflow, FlowEvent::Kind kind) {
  return "$once.flow." + std::string(workflow) + '.' + std::string(to_string(kind));
}

std::uint32_t round_of(const RunState& state) {
  return state.rounds.empty() ? 1 : state.rounds.rbegin()->first;
}

const EndFact* end_of(const RunState& state) {
  if (state.rounds.empty()) return nullptr;
  const auto& ended = state.rounds.rbegin()->second.ended;
  return ended ? &*ended : nullptr;
}

bool over_for_good(const RunState& state) {
  const EndFact* const end = end_of(state);
  return end != nullptr &&
         (end->outcome == RunOutcome::completed || end->outcome == RunOutcome::cancelled);
}

bool failed(const RunState& state) {
  const EndFact* const end = end_of(state);
  return end != nullptr && end->outcome == RunOutcome::failed;
}

bool called_off(const RunState& state) {
  const EndFact* const end = end_of(state);
  return end != nullptr &&
         (end->outcome == RunOutcome::cancelled || end->outcome == RunOutcome::timed_out);
}

CountedFact last_fact(const RunState& state, std::string_view step) {
  const auto found = state.steps.find(std::string(step));
  if (found == state.steps.end()) return {};
  CountedFact best;
  for (const auto& [n, fact] : found->second)
    if (best.fact == nullptr || goes_before(n, fact, best.n, *best.fact)) best = {n, &fact};
  return best;
}

CountedFact counted_fact(const RunState& state, std::string_view step) {
  const CountedFact last = last_fact(state, step);
  if (last.fact == nullptr || last.fact->outcome == StepOutcome::completed) return last;
  const auto voided = voided_try(state, step);
  return voided && last.n <= voided->n ? CountedFact{} : last;
}

std::optional<VoidedTry> voided_try(const RunState& state, std::string_view step) {
  std::optional<VoidedTry> last;
  for (const auto& [round, facts] : state.rounds) {
    const auto found = facts.voided.find(std::string(step));
    if (found == facts.voided.end() || (last && found->second <= last->n)) continue;
    last = {.round = round, .n = found->second};
  }
  return last;
}

bool fold(RunState& state, const FlowEvent& event) {
  switch (event.kind) {
    case FlowEvent::Kind::started: return fold_start(state, event);
    case FlowEvent::Kind::step: return fold_step(state, event);
    case FlowEvent::Kind::signal: return fold_signal(state, event);
    case FlowEvent::Kind::rate_retry: return fold_try(state.rate_retries[event.step], event);
    case FlowEvent::Kind::admit: return fold_try(state.admits, event);
    case FlowEvent::Kind::timer: return false;
    case FlowEvent::Kind::retried: return fold_retry(state, event);
    case FlowEvent::Kind::ended: return fold_end(state, event);
  }
  return false;
}

RunState at(const RunState& state, Sequence upto) {
  RunState then = state;
  const auto later = [&](const auto& fact) { return fact.second.sequence > upto; };
  if (then.started > upto) {
    then = RunState{.steps = std::move(then.steps),
                    .signals = std::move(then.signals),
                    .rate_retries = std::move(then.rate_retries),
                    .admits = then.admits,
                    .rounds = std::move(then.rounds)};
  }
  for (auto& [step, facts] : then.steps) std::erase_if(facts, later);
  std::erase_if(then.steps, [](const auto& step) { return step.second.empty(); });
  std::erase_if(then.signals, later);
  std::erase_if(then.rate_retries, later);
  if (then.admits.sequence > upto) then.admits = {};
  for (auto& [number, round] : then.rounds) {
    if (round.sequence > upto) {
      round.sequence = {};
      round.at = {};
      round.voided.clear();
    }
    if (round.ended && round.ended->sequence > upto) round.ended.reset();
  }
  std::erase_if(then.rounds,
                [](const auto& round) { return !round.second.sequence && !round.second.ended; });
  return then;
}

}  // namespace once::core

namespace once::inline v1 {

std::string_view to_string(RetryPolicy::Backoff backoff) {
  return core::name_in(core::kBackoffs, backoff);
}

std::optional<RetryPolicy::Backoff> backoff_from(std::string_view name) {
  return core::value_in(core::kBackoffs, name);
}

std::string_view to_string(StepKind kind) { return core::name_in(core::kKindNames, kind); }
std::string_view to_string(FlowOutcome outcome) { return core::name_in(core::kOutcomes, outcome); }
std::optional<FlowOutcome> flow_outcome_from(std::string_view name) {
  return core::value_in(core::kOutcomes, name);
}
std::string_view to_string(StepStatus status) { return core::name_in(core::kStatuses, status); }
std::string_view to_string(RunPhase phase) { return core::name_in(core::kPhases, phase); }
std::optional<RunPhase> run_phase_from(std::string_view name) {
  return core::value_in(core::kPhases, name);
}

}  // namespace once::inline v1
