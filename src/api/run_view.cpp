// What people see of runs: runs, show, events, wait.
#include <algorithm>
#include <map>

#include "api/active_steps.h"
#include "api/flows_state.h"
#include "codec/stored_body.h"
#include "flow/definition/input.h"

namespace once::inline v1 {
namespace {

using core::FlowEvent;

constexpr std::size_t kUlid = 26;  // what a run's id ends with; in the order of starts

std::string_view ulid_of(std::string_view run) {
  return run.substr(run.size() - std::min(run.size(), kUlid));
}

// When the run was started, by its id: the first ten digits are milliseconds. See FlowStarter::new_run().
Time started_by(std::string_view run) {
  constexpr std::string_view kDigits = "0123456789abcdefghjkmnpqrstvwxyz";
  constexpr std::size_t kTimeDigits = 10;
  std::int64_t ms = 0;
  for (const char digit : ulid_of(run).substr(0, kTimeDigits))
    ms = ms * 32 + static_cast<std::int64_t>(std::min(kDigits.find(digit), kDigits.size() - 1));
  return Time{std::chrono::milliseconds{ms}};
}

std::optional<Body> body_of(const std::string& json) {
  if (json.empty()) return std::nullopt;
  return StoredBody::json(json);
}

RunInfo info_of(const core::FlowDefinition& definition, const core::RunState& state,
                const core::RunStanding& standing) {
  RunInfo info{.run = state.run,
               .workflow = state.workflow,
               .version = state.version,
               .key = state.key,
               .state = standing.phase,
               .steps = standing.steps.size(),
               .started_at = state.started_at};
  for (std::size_t i = 0; i < standing.steps.size(); ++i) {
    const StepStatus status = standing.steps[i].status;
    if (status == StepStatus::completed || status == StepStatus::skipped) ++info.steps_done;
    if (status != StepStatus::active) continue;
    info.waits_for += (info.waits_for.empty() ? "" : ", ") + definition.steps[i].id;
  }
  if (const core::EndFact* const end = core::end_of(state)) {
    info.ended_at = end->at;
    info.error = end->error;
  }
  return info;
}

// It waits for its turn, whatever its steps would do.
void hold(RunInfo& info, const core::FlowDefinition& definition) {
  info.state = RunPhase::waiting;
  info.waits_for = "max_runs " + std::to_string(definition.max_runs);
}

// What closes a run that failed ends a round that nobody began.
std::uint32_t rounds_begun(const core::RunState& state) {
  std::uint32_t last = 1;
  for (const auto& [number, round] : state.rounds)
    if (round.sequence) last = std::max(last, number);
  return last;
}

// A timer is no fact of a run, so no fact in the list has that kind.
RunEvent::Kind public_kind(FlowEvent::Kind kind) {
  switch (kind) {
    case FlowEvent::Kind::started: return RunEvent::Kind::started;
    case FlowEvent::Kind::step: return RunEvent::Kind::step;
    case FlowEvent::Kind::signal: return RunEvent::Kind::signal;
    case FlowEvent::Kind::rate_retry: return RunEvent::Kind::rate_retry;
    case FlowEvent::Kind::admit: return RunEvent::Kind::admit;
    case FlowEvent::Kind::retried: return RunEvent::Kind::retried;
    case FlowEvent::Kind::timer:
    case FlowEvent::Kind::ended: return RunEvent::Kind::ended;
  }
  return RunEvent::Kind::ended;
}

// The facts of a run as a list.
class EventList {
 public:
  explicit EventList(const core::RunState& state) : state_(state) {
    FlowEvent started = event(FlowEvent::Kind::started, {}, 0);
    add(started, state.started, state.started_at, {}, state.input, {});
    for (const auto& [step, facts] : state.steps)
      for (const auto& [n, fact] : facts)
        add(event(FlowEvent::Kind::step, step, n), fact.sequence, fact.at, fact.outcome, fact.value,
            fact.error);
    for (const auto& [name, fact] : state.signals) {
      FlowEvent signal = event(FlowEvent::Kind::signal, {}, 0);
      signal.signal_id = fact.id;
      signal.by_name = fact.by_name;
      signal.signal = name;
      add(signal, fact.sequence, fact.at, {}, fact.value, {});
    }
    for (const auto& [step, last] : state.rate_retries)
      add(event(FlowEvent::Kind::rate_retry, step, last.n), last.sequence, last.at, {}, {}, {});
    if (state.admits.n > 0)
      add(event(FlowEvent::Kind::admit, {}, state.admits.n), state.admits.sequence, state.admits.at,
          {}, {}, {});
    for (const auto& [number, round] : state.rounds) add_round(number, round);
  }

  void add_task(const store::Entry& entry, const std::string& step) {
    all_.push_back({.sequence = entry.sequence.value,
                    .at = entry.published_at,
                    .kind = RunEvent::Kind::task,
                    .id = entry.id,
                    .step = step,
                    .value = entry.body});
  }

  // Who had the run retried; the log says it as long as it has the entry.
  Result<void> add_names(store::Store& store) {
    for (RunEvent& event : all_) {
      if (event.kind != RunEvent::Kind::retried) continue;
      const auto entry = store.find(event.id);
      if (!entry) return entry.error();
      if (*entry) event.by = engine::FlowControl::said_in((*entry)->headers);
    }
    return {};
  }

  std::vector<RunEvent> take() && {
    std::sort(all_.begin(), all_.end(),
              [](const RunEvent& a, const RunEvent& b) { return a.sequence < b.sequence; });
    return std::move(all_);
  }

 private:
  FlowEvent event(FlowEvent::Kind kind, std::string step, std::uint32_t n) const {
    return core::event_in(state_, kind, n, std::move(step));
  }

  void add(const FlowEvent& made, core::Sequence sequence, Time at,
           std::optional<FlowOutcome> outcome, const std::string& value, const std::string& error) {
    if (!sequence) return;
    all_.push_back({.sequence = sequence.value,
                    .at = at,
                    .kind = public_kind(made.kind),
                    .id = core::event_id(made),
                    .step = made.step,
                    .signal = made.signal,
                    .n = made.n,
                    .outcome = outcome,
                    .value = body_of(value),
                    .error = error});
  }

  void add_round(std::uint32_t number, const core::FlowRound& round) {
    if (number > 1)
      add(event(FlowEvent::Kind::retried, {}, number), round.sequence, round.at, {}, {}, {});
    if (!round.ended) return;
    const core::EndFact& end = *round.ended;
    add(event(FlowEvent::Kind::ended, end.step, number), end.sequence, end.at, end.outcome,
        end.value, end.error);
  }

  const core::RunState& state_;
  std::vector<RunEvent> all_;
};

std::uint64_t last_of(const core::RunState& state) {
  const auto events = EventList(state).take();
  return events.empty() ? 0 : events.back().sequence;
}

RunStep step_of(const core::FlowStep& step, const core::StepStanding& standing,
                const core::RunState& state) {
  RunStep view{.step = step.id,
               .kind = step.kind,
               .status = standing.status,
               .why = standing.why,
               .task = step.topic,
               .queue = step.queue};
  const core::CountedFact counted = core::counted_fact(state, step.id);
  if (counted.fact != nullptr) {
    if (counted.fact->outcome == core::StepOutcome::completed)
      view.output = body_of(counted.fact->value);
    view.sequence = counted.fact->sequence.value;
    view.at = counted.fact->at;
  } else if (standing.status == StepStatus::active) {
    if (step.kind == core::FlowStep::Kind::signal) view.why = "waits for signal " + step.signal;
    if (step.kind == core::FlowStep::Kind::approval) view.why = step.message;
    if (step.kind == core::FlowStep::Kind::sleep) view.why = "sleeps " + duration_text(step.sleep);
  }
  return view;
}

}  // namespace

// The last started of those that are wanted, at most so many, in that order.
class NewestRuns {
 public:
  NewestRuns(const RunFilter& filter, const RunInfo* after) : filter_(filter) {
    if (after != nullptr) before_ = place_of(after->run);
  }

  bool has_place_for(std::string_view run) const {
    const std::string place = place_of(run);
    if (before_ && place >= *before_) return false;
    return runs_.size() < filter_.limit || (!runs_.empty() && place > runs_.rbegin()->first);
  }
  // As far as the facts say; the rest is seen when it is added.
  bool wants(const core::RunState& state) const {
    return has_place_for(state.run) &&
           (filter_.workflow.empty() || state.workflow == filter_.workflow) &&
           (filter_.version == 0 || state.version == filter_.version) &&
           (!filter_.key || state.key == filter_.key) &&
           (!filter_.since || state.started_at >= *filter_.since);
  }
  void add(RunInfo info) {
    if (filter_.state && info.state != *filter_.state) return;
    std::string place = place_of(info.run);
    runs_.emplace(std::move(place), std::move(info));
    if (runs_.size() > filter_.limit) runs_.erase(std::prev(runs_.end()));
  }
  // Nothing is known of it but its id, which begins with the workflow's name and '-'.
  void add_unreadable(RunInfo info) {
    if (info.workflow.ends_with('-')) info.workflow.pop_back();
    const bool wanted = (filter_.workflow.empty() || info.workflow == filter_.workflow) &&
                        filter_.version == 0 && !filter_.key &&
                        (!filter_.since || info.started_at >= *filter_.since);
    if (wanted) add(std::move(info));
  }
  std::vector<RunInfo> take() && {
    std::vector<RunInfo> all;
    for (auto& [place, info] : runs_) all.push_back(std::move(info));
    return all;
  }

 private:
  // In the order of starts.
  static std::string place_of(std::string_view run) {
    return std::string(ulid_of(run)) + std::string(run);
  }

  const RunFilter& filter_;
  std::optional<std::string> before_;
  std::map<std::string, RunInfo, std::greater<>> runs_;  // by place
};

Result<std::vector<RunInfo>> Flows::runs(const RunFilter& filter, const RunInfo* after) const {
  NewestRuns newest(filter, after);
  if (filter.key && !filter.workflow.empty()) {
    auto key = state_->run_store.key(filter.workflow, *filter.key);
    if (!key) return key.error();
    if (*key) {
      auto known = state_->control.find((*key)->run);
      if (!known && known.error().code == Code::not_found)  // it has not begun
        return std::vector<RunInfo>{};
      if (!known) return known.error();
      if (auto added = state_->add_run(known->run.state, newest); !added) return added.error();
      return std::move(newest).take();
    }
  }
  if (auto read = state_->read_runs(filter, newest); !read) return read.error();
  return std::move(newest).take();
}

Result<void> detail::FlowsState::read_runs(const RunFilter& filter, NewestRuns& newest) {
  using Which = engine::RunStore::Which;
  const bool ended = !filter.state || *filter.state == RunPhase::completed ||
                     *filter.state == RunPhase::cancelled || *filter.state == RunPhase::unreadable;
  return run_store.each_run(
      ended ? Which::all : Which::open,
      [&](const engine::KnownRun& known) -> Result<bool> {
        if (auto added = add_run(known.state, newest); !added) return added.error();
        return true;
      },
      [&](const std::string& run, const Error& why) {
        newest.add_unreadable({.run = run,
                               .workflow = run.substr(0, run.size() - ulid_of(run).size()),
                               .state = RunPhase::unreadable,
                               .started_at = started_by(run),
                               .error = why.message});
      },
      [&](std::string_view run) { return newest.has_place_for(run); });
}

Result<void> detail::FlowsState::add_run(const core::RunState& state, NewestRuns& newest) {
  if (!newest.wants(state)) return {};
  auto described = info(state);
  if (!described && described.error().retryable) return described.error();
  if (!described)
    described = RunInfo{.run = state.run,
                        .workflow = state.workflow,
                        .version = state.version,
                        .key = state.key,
                        .state = RunPhase::unreadable,
                        .started_at = state.started_at,
                        .error = described.error().message};
  newest.add(std::move(*described));
  return {};
}

Result<RunInfo> detail::FlowsState::info(const core::RunState& state) {
  auto definition = run_store.definition(state.workflow, state.version);
  if (!definition) return definition.error();
  auto judged = run_store.with_judged_outputs(**definition, state);
  if (!judged) return judged.error();
  RunInfo info =
      info_of(**definition, *judged, core::stand(**definition, *judged, encoding::judge()));
  const auto kept_out = held(**definition, *judged);
  if (!kept_out) return kept_out.error();
  if (*kept_out) hold(info, **definition);
  return info;
}

// The event that asks again is in the log from the first refusal on.
Result<bool> detail::FlowsState::held(const core::FlowDefinition& definition,
                                      const core::RunState& state) {
  if (definition.max_runs == 0 || core::end_of(state) != nullptr) return false;
  const auto in = start_limits.admitted(definition, state.run);
  if (!in) return in.error();
  if (*in) return false;
  const auto next = zone->store->find(
      core::event_id(core::event_in(state, FlowEvent::Kind::admit, state.admits.n + 1)));
  if (!next) return next.error();
  return next->has_value();
}

Result<RunView> Flows::show(std::string_view run, std::optional<std::uint64_t> at) const {
  auto known = state_->control.find(run, engine::FlowControl::Outputs::all);
  if (!known) return known.error();
  const core::FlowDefinition& definition = *known->definition;
  core::RunState state = std::move(known->run.state);
  if (at) {
    if (core::Sequence{*at} < state.started)
      return Error{.code = Code::not_found,
                   .message = "run '" + std::string(run) + "' began at #" +
                              std::to_string(state.started.value) + ": at #" + std::to_string(*at) +
                              " there is nothing of it"};
    state = core::at(state, core::Sequence{*at});
  }
  const core::RunStanding standing = core::stand(definition, state, encoding::judge());
  const std::uint32_t round = rounds_begun(state);
  RunView view{.info = info_of(definition, state, standing),
               .input = StoredBody::json(state.input),
               .round = round,
               .closed = round < core::round_of(state),
               .sequence = last_of(state)};
  for (std::size_t i = 0; i < definition.steps.size(); ++i)
    view.steps.push_back(step_of(definition.steps[i], standing.steps[i], state));
  if (view.info.state == RunPhase::completed) view.output = body_of(core::end_of(state)->value);
  if (at) return view;
  const auto held = state_->held(definition, state);
  if (!held) return held.error();
  if (*held) hold(view.info, definition);
  ActiveSteps steps(*state_->zone->store, definition, state);
  if (auto added = steps.add_to(view.steps, standing, *held); !added) return added.error();
  return view;
}

Result<std::vector<RunEvent>> Flows::events(std::string_view run) const {
  auto known = state_->control.find(run, engine::FlowControl::Outputs::all);
  if (!known) return known.error();
  EventList list(known->run.state);
  for (const core::FlowStep& step : known->definition->steps) {
    if (step.kind != core::FlowStep::Kind::task) continue;
    auto entry = state_->zone->store->find(core::step_id(run, step.id));
    if (!entry) return entry.error();
    if (*entry) list.add_task(**entry, step.id);
  }
  if (auto named = list.add_names(*state_->zone->store); !named) return named.error();
  return std::move(list).take();
}

Result<RunView> Flows::wait(std::string_view run, Duration limit) const {
  engine::Scheduler& scheduler = *state_->zone->scheduler;
  const auto mutex = scheduler.mutex();
  const auto condition = mutex->condition();
  constexpr Duration kLongest = std::chrono::hours{24 * 365};
  const engine::Moment deadline = scheduler.now() + std::clamp(limit, Duration{0}, kLongest);
  Duration look{2};
  while (true) {
    auto known = state_->run_store.run(run);
    if (!known) return known.error();
    if (*known && core::end_of((*known)->state) != nullptr) {
      auto view = show(run);
      if (!view || view->info.ended_at) return view;  // else somebody has had it retried
    }
    if (!*known)
      if (auto found = state_->control.find(run); !found) return found.error();
    const engine::Moment now = scheduler.now();
    if (now >= deadline)
      return Error{.code = Code::timed_out,
                   .message = "run '" + std::string(run) +
                              "' has not ended yet; waiting again is "
                              "safe",
                   .retryable = true};
    const std::lock_guard lock(*mutex);
    condition->wait(std::min<engine::Moment>(deadline, now + look));
    look = std::min(look * 2, Duration{100});
  }
}

}  // namespace once::inline v1
