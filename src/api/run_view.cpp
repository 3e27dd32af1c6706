// What people see of runs: runs, show, events, wait.
#include <algorithm>
#include <map>

#include "api/active_steps.h"
#include "api/flows_impl.h"
#include "codec/stored_body.h"
#include "core/names.h"
#include "flow/definition/input.h"
#include "flow/definition/state.h"

namespace once::inline v1 {
namespace {

using core::FlowEvent;

constexpr std::size_t kPage = 20'000;  // a store may have to read all for each
constexpr std::size_t kUlid = 26;      // what a run's id ends with; in the order of starts

std::string_view ulid_of(std::string_view run) {
  return run.substr(run.size() - std::min(run.size(), kUlid));
}

std::optional<Body> body_of(const std::string& json) {
  if (json.empty()) return std::nullopt;
  return StoredBody::json(json);
}

// How its record stands while the run stands so.
State recorded_as(RunPhase phase) {
  switch (phase) {
    case RunPhase::running:
    case RunPhase::waiting: return State::waiting;
    case RunPhase::completed: return State::completed;
    case RunPhase::failed: return State::dead;
    case RunPhase::cancelled: return State::cancelled;
  }
  return State::waiting;
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

// The facts of a run as a list.
class EventList {
 public:
  explicit EventList(const core::RunState& state) : state_(state) {
    FlowEvent started = event(FlowEvent::Kind::started, {}, 0);
    add(started, state.started, state.started_at, {}, state.input, {});
    for (const auto& [step, facts] : state.steps)
      for (const auto& [n, fact] : facts)
        add(event(FlowEvent::Kind::step, step, n), fact.sequence, fact.at,
            core::to_string(fact.outcome), fact.value, fact.error);
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
                    .event = "task",
                    .id = entry.id,
                    .step = step,
                    .value = entry.body});
  }

  // Who had the run retried; the log says it as long as it has the entry.
  Result<void> add_names(store::Store& store) {
    for (RunEvent& event : all_) {
      if (event.event != core::to_string(FlowEvent::Kind::retried)) continue;
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

  void add(const FlowEvent& made, core::Sequence sequence, Time at, std::string_view outcome,
           const std::string& value, const std::string& error) {
    if (!sequence) return;
    all_.push_back({.sequence = sequence.value,
                    .at = at,
                    .event = std::string(core::to_string(made.kind)),
                    .id = core::event_id(made),
                    .step = made.step,
                    .signal = made.signal,
                    .n = made.n,
                    .outcome = std::string(outcome),
                    .value = body_of(value),
                    .error = error});
  }

  void add_round(std::uint32_t number, const core::FlowRound& round) {
    if (number > 1)
      add(event(FlowEvent::Kind::retried, {}, number), round.sequence, round.at, {}, {}, {});
    if (!round.ended) return;
    const core::EndFact& end = *round.ended;
    add(event(FlowEvent::Kind::ended, end.step, number), end.sequence, end.at,
        core::to_string(end.outcome), end.value, end.error);
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
               .kind = std::string(core::to_string(step.kind)),
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
    auto key = impl_->book.key(filter.workflow, *filter.key);
    if (!key) return key.error();
    if (*key && !(*key)->run.empty()) {  // else it was given back
      auto known = impl_->control.find((*key)->run);
      if (!known && known.error().code == Code::not_found)  // it has not begun
        return std::vector<RunInfo>{};
      if (!known) return known.error();
      if (auto added = impl_->add_run(known->run.state, newest); !added) return added.error();
      return std::move(newest).take();
    }
  }
  if (auto read = impl_->read_runs(filter, newest); !read) return read.error();
  return std::move(newest).take();
}

Result<void> Flows::Impl::read_runs(const RunFilter& filter, NewestRuns& newest) {
  store::Store& store = *zone->store;
  const auto queues = store.queues();
  if (!queues) return queues.error();
  if (std::none_of(queues->begin(), queues->end(),
                   [](const Queue& queue) { return queue.name == core::kRunsLedger; }))
    return {};  // there has been no workflow yet
  store::RowFilter wanted{.queue = std::string(core::kRunsLedger)};
  if (filter.state) wanted.state = recorded_as(*filter.state);
  std::optional<store::Row> last;
  while (true) {
    auto page = store.rows(wanted, last ? &*last : nullptr, kPage);
    if (!page) return page.error();
    for (const store::Row& row : page->rows) {
      if (!newest.has_place_for(row.key)) continue;
      if (!row.stored || row.damaged || !row.stored->record.result) continue;
      auto state = encoding::decode_state(row.stored->record.result->text());
      if (!state) return state.error();
      if (auto added = add_run(*state, newest); !added) return added;
    }
    if (!page->more || page->rows.empty()) return {};
    last = std::move(page->rows.back());
  }
}

Result<void> Flows::Impl::add_run(const core::RunState& state, NewestRuns& newest) {
  if (!newest.wants(state)) return {};
  auto described = info(state);
  if (!described) return described.error();
  newest.add(std::move(*described));
  return {};
}

Result<RunInfo> Flows::Impl::info(const core::RunState& state) {
  auto definition = book.definition(state.workflow, state.version);
  if (!definition) return definition.error();
  auto judged = book.with_judged_outputs(**definition, state);
  if (!judged) return judged.error();
  RunInfo info =
      info_of(**definition, *judged, core::stand(**definition, *judged, encoding::judge()));
  const auto kept_out = held(**definition, *judged);
  if (!kept_out) return kept_out.error();
  if (*kept_out) hold(info, **definition);
  return info;
}

// The event that asks again is in the log from the first refusal on.
Result<bool> Flows::Impl::held(const core::FlowDefinition& definition,
                               const core::RunState& state) {
  if (definition.max_runs == 0 || core::end_of(state) != nullptr) return false;
  const auto in = gates.admitted(definition, state.run);
  if (!in) return in.error();
  if (*in) return false;
  const auto next = zone->store->find(
      core::event_id(core::event_in(state, FlowEvent::Kind::admit, state.admits.n + 1)));
  if (!next) return next.error();
  return next->has_value();
}

Result<RunView> Flows::show(std::string_view run, std::optional<std::uint64_t> at) const {
  auto known = impl_->control.find(run, engine::FlowControl::Outputs::all);
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
  const auto held = impl_->held(definition, state);
  if (!held) return held.error();
  if (*held) hold(view.info, definition);
  ActiveSteps steps(*impl_->zone->store, definition, state);
  if (auto added = steps.add_to(view.steps, standing, *held); !added) return added.error();
  return view;
}

Result<std::vector<RunEvent>> Flows::events(std::string_view run) const {
  auto known = impl_->control.find(run, engine::FlowControl::Outputs::all);
  if (!known) return known.error();
  EventList list(known->run.state);
  for (const core::FlowStep& step : known->definition->steps) {
    if (step.kind != core::FlowStep::Kind::task) continue;
    auto entry = impl_->zone->store->find(core::step_id(run, step.id));
    if (!entry) return entry.error();
    if (*entry) list.add_task(**entry, step.id);
  }
  if (auto named = list.add_names(*impl_->zone->store); !named) return named.error();
  return std::move(list).take();
}

Result<RunView> Flows::wait(std::string_view run, Duration limit) const {
  engine::Scheduler& scheduler = *impl_->zone->scheduler;
  const auto mutex = scheduler.mutex();
  const auto condition = mutex->condition();
  constexpr Duration kLongest = std::chrono::hours{24 * 365};
  const engine::Moment deadline = scheduler.now() + std::clamp(limit, Duration{0}, kLongest);
  Duration look{2};
  while (true) {
    auto known = impl_->book.run(run);
    if (!known) return known.error();
    if (*known && core::end_of((*known)->state) != nullptr) {
      auto view = show(run);
      if (!view || view->info.ended_at) return view;  // else somebody has had it retried
    }
    if (!*known)
      if (auto found = impl_->control.find(run); !found) return found.error();
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
