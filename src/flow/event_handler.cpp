#include "flow/event_handler.h"

#include <algorithm>
#include <map>

#include "flow/definition/event.h"
#include "flow/definition/input.h"
#include "flow/find_run.h"

namespace once::engine {
namespace {

using EventKind = core::FlowEvent::Kind;

constexpr int kEventTries = 64;  // of reading, folding and replacing the run's value
constexpr auto kAway = std::chrono::seconds{1};  // longer than any event of a store that answers

Report report_of(const Result<void>& taken) {
  if (taken) return {.outcome = Outcome::completed()};
  const Error& error = taken.error();
  return {.outcome = error.code == Code::invalid_input ? Outcome::dead(error.message)
                                                       : Outcome::failed(error.message)};
}

// Whether the event needs store calls of its own before its run's value is written.
bool needs_more(const core::FlowEvent& event) {
  return event.kind == EventKind::timer || event.kind == EventKind::retried ||
         (event.kind == EventKind::step && event.value_place);
}

}  // namespace

// The events of a batch by their run. Each stage leaves out the runs for which shared store calls
// are not enough. handle_alone() handles their events.
class EventHandler::Batch {
 public:
  Batch(EventHandler& handler, std::span<Handled* const> events) : handler_(handler) {
    for (Handled* const each : events)
      if (!needs_more(each->event)) runs_[each->event.run].events.push_back(each);
  }

  void handle() {
    find_runs();
    fold();
    write();
    act();
  }

 private:
  struct RunEvents {
    std::vector<Handled*> events{};
    KnownRun known{};
    bool recalled = false;  // `known` is remembered and may be outdated
    FlowDefinitionRef definition{};
    bool changed = false;  // a fact is new
  };
  using Runs = std::map<std::string_view, RunEvents>;

  void find_runs() {
    std::vector<std::string> unknown;
    for (auto& [run, events] : runs_) {
      auto known = handler_.run_store_.recall(run);
      events.recalled = known.has_value();
      if (known)
        events.known = std::move(*known);
      else
        unknown.emplace_back(run);
    }
    auto found = handler_.run_store_.runs(unknown);
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      const auto events = runs_.find(unknown[i]);
      if (!found[i])
        fail(events, found[i].error());
      else if (*found[i])
        events->second.known = std::move(**found[i]);
      else if (!has_started(events->second))
        runs_.erase(events);
    }
  }

  // An error of the store is the answer. Alone, each event would meet it again, one after the other.
  void fail(Runs::iterator run, const Error& why) {
    for (Handled* const each : run->second.events) each->done = why;
    runs_.erase(run);
  }

  static bool has_started(const RunEvents& run) {
    return std::any_of(run.events.begin(), run.events.end(),
                       [](const Handled* each) { return each->event.kind == EventKind::started; });
  }

  void fold() {
    for (auto each = runs_.begin(); each != runs_.end();)
      each = fold(each->second) ? std::next(each) : runs_.erase(each);
  }

  // Returns false if the events must be handled alone, or if no event is left. A remembered value
  // may be outdated, so an event that adds nothing to it is handled alone.
  bool fold(RunEvents& run) {
    core::RunState& state = run.known.state;
    // The version of a run without a value is in its `started`. That event is folded first.
    if (!run.known.revision)
      for (Handled* const handled : run.events)
        if (handled->event.kind == EventKind::started)
          run.changed = core::fold(state, handled->event) || run.changed;
    auto definition =
        handler_.run_store_.definition(run.events.front()->event.workflow, state.version);
    if (!definition) return false;
    run.definition = std::move(*definition);
    std::erase_if(run.events, [&](Handled* handled) { return leave_out(run, *handled); });
    for (Handled* const handled : run.events)
      run.changed = core::fold(state, handled->event) || run.changed;
    return !run.events.empty() && (run.changed || !run.recalled);
  }

  // Any caller may send any signal. Only signals that a step waits for become facts.
  static bool leave_out(const RunEvents& run, Handled& handled) {
    const core::FlowEvent& event = handled.event;
    if (event.kind == EventKind::signal && !core::awaits(*run.definition, event.signal)) {
      handled.done = Result<void>{};
      return true;
    }
    return event.kind == EventKind::step && event.value.size() > most_kept(*run.definition);
  }

  void write() {
    std::vector<std::string_view> names;
    std::vector<const KnownRun*> writes;
    for (const auto& [name, run] : runs_) {
      if (!run.changed) continue;
      names.push_back(name);
      writes.push_back(&run.known);
    }
    if (writes.empty()) return;
    const auto written = handler_.run_store_.write(writes);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!written[i])
        fail(runs_.find(names[i]), written[i].error());
      else if (!written[i]->written)
        runs_.erase(names[i]);
    }
  }

  void act() {
    std::vector<Folded> folded;
    std::vector<Handled*> handled;
    for (const auto& [name, run] : runs_) {
      for (Handled* const each : run.events) {
        folded.push_back(
            {.definition = *run.definition, .state = run.known.state, .event = each->event});
        handled.push_back(each);
      }
    }
    if (folded.empty()) return;
    auto done = handler_.act(folded);
    for (std::size_t i = 0; i < handled.size(); ++i) handled[i]->done = std::move(done[i]);
  }

  EventHandler& handler_;
  Runs runs_;
};

std::vector<Report> EventHandler::handle(std::span<const TaskAttempt> attempts) {
  std::vector<Handled> handled(attempts.size());
  std::vector<Handled*> events;
  for (std::size_t i = 0; i < attempts.size(); ++i) {
    const TaskAttempt& attempt = attempts[i];
    auto event = encoding::decode_event(attempt.task.id, attempt.task.topic, attempt.task.body,
                                        attempt.sequence, attempt.published_at);
    if (!event) {
      handled[i].done = Error{.code = Code::invalid_input, .message = event.error().message};
      continue;
    }
    // ActionExecutor has stored the run's output already.
    if (event->kind == EventKind::ended) event->value_place.reset();
    handled[i].event = std::move(*event);
    events.push_back(&handled[i]);
  }
  try {
    Batch(*this, events).handle();
  } catch (const std::exception&) {
    // The events are handled alone, so that only the event that causes the exception fails.
  }
  std::vector<Report> reports;
  std::optional<Error> away;
  for (std::size_t i = 0; i < handled.size(); ++i) {
    if (!handled[i].done)
      handled[i].done = try_alone(attempts[i], std::move(handled[i].event), away);
    reports.push_back(report_of(*handled[i].done));
  }
  return reports;
}

// If the store does not answer, `away` says so to the events behind this one, so that they do not wait too.
Result<void> EventHandler::try_alone(const TaskAttempt& attempt, core::FlowEvent event,
                                     std::optional<Error>& away) {
  if (away) return *away;
  if (attempt.stop.stop_requested())
    return Error{.code = Code::failed, .message = "the runner was told to stop"};
  const Moment begun = scheduler_.now();
  try {
    auto handled = handle_alone(std::move(event));
    if (!handled && handled.error().retryable && scheduler_.now() - begun > kAway)
      away = handled.error();
    return handled;
  } catch (const std::exception& thrown) {
    return Error{.code = Code::failed, .message = thrown.what()};
  }
}

Result<void> EventHandler::handle_alone(core::FlowEvent event) {
  bool placed = false;
  std::optional<KnownRun> known = run_store_.recall(event.run);
  bool recalled = known.has_value();
  for (int tries = 0; tries < kEventTries; ++tries) {
    if (!known) {
      auto found = find(event);
      if (!found) return found.error();
      if (!*found) return end_forgotten(event);
      known = std::move(*found);
    }
    core::RunState& state = known->state;
    auto definition = run_store_.definition(event.workflow, state.version);
    if (!definition) return definition.error();
    // Any caller may send any signal. Only signals that a step waits for become facts.
    if (event.kind == EventKind::signal && !core::awaits(**definition, event.signal)) return {};
    if (!placed)
      if (auto done = place_value(**definition, event); !done) return done;
    placed = true;
    if (core::fold(state, event) || !known->revision) {
      auto written = run_store_.write(state, known->revision);
      if (!written) return written.error();
      if (!written->written) {
        known = std::move(written->current);
        recalled = false;
        continue;
      }
    } else if (recalled) {  // the remembered value may be outdated: read the run's value
      known.reset();
      recalled = false;
      continue;
    }
    const Folded folded{.definition = **definition, .state = state, .event = event};
    return std::move(act(std::span(&folded, 1)).front());
  }
  return Error{.code = Code::store_unavailable,
               .message = "others keep writing the facts of run '" + event.run +
                          "'; the event is handled again",
               .retryable = true};
}

Result<std::optional<KnownRun>> EventHandler::find(const core::FlowEvent& event) {
  if (event.kind != EventKind::started) return find_run(run_store_, log_, event.run);
  auto known = run_store_.run(event.run);
  if (!known || *known) return known;
  KnownRun begun;
  core::fold(begun.state, event);
  return std::optional(std::move(begun));
}

// The runner that handled the end may have died before it settled the key. If the log has lost
// `started` too, the run does not lead to its key. Then FlowStarter::settle_forgotten() settles the
// key at its next start.
Result<void> EventHandler::end_forgotten(const core::FlowEvent& event) {
  if (event.kind != EventKind::ended) return {};
  auto started = log_.find(event.run + ".started");
  if (!started) return started.error();
  if (!*started) return {};
  core::RunState state;
  core::fold(state, **started);
  return run_store_.settle_key(state);
}

Result<void> EventHandler::place_value(const core::FlowDefinition& definition,
                                       core::FlowEvent& event) {
  if (event.kind != EventKind::step || event.outcome != core::StepOutcome::completed) return {};
  if (event.value_place) {
    const core::FlowPlace& place = *event.value_place;
    const store::Address at{
        .kind = place.key.empty() ? store::Address::Kind::entry : store::Address::Kind::task,
        .queue = place.queue,
        .key = place.key,
        .sequence = place.sequence};
    auto stored = std::move(store_.get(std::span(&at, 1)).front());
    if (!stored && stored.error().code != Code::not_found) return stored.error();
    if (!stored || !*stored || !(*stored)->record.result) {
      event.outcome = core::StepOutcome::failed;
      event.error = "its output is not in queue '" + place.queue + "' any more";
      event.value_place.reset();
      return {};
    }
    event.value = encoding::output_json(*(*stored)->record.result);
    event.value_place.reset();
  }
  if (event.value.size() <= most_kept(definition)) return {};
  event.elsewhere = true;
  return run_store_.put_value(RunStore::value_key(event.run, event.step, event.n),
                              std::exchange(event.value, {}));
}

Result<std::optional<core::FlowEvent>> EventHandler::awaited_signal(
    const core::FlowDefinition& definition, const core::RunState& state,
    const core::FlowEvent& timer) {
  const auto index = core::index_of(definition, timer.step);
  if (!index || definition.steps[*index].kind != core::FlowStep::Kind::signal ||
      state.signals.contains(definition.steps[*index].signal))
    return std::optional<core::FlowEvent>{};
  core::FlowEvent signal = core::event_in(state, EventKind::signal, 0);
  signal.signal = definition.steps[*index].signal;
  signal.by_name = true;
  return log_.find(core::event_id(signal));
}

std::vector<Result<void>> EventHandler::act(std::span<const Folded> events) {
  std::vector<Result<void>> answers(events.size());
  std::vector<std::size_t> planned;
  std::vector<ActionExecutor::Caused> caused;
  std::vector<std::pair<std::size_t, std::size_t>>
      relies;  // an event on an earlier event's actions
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& [definition, state, event] = events[i];
    const auto goes_on = before_plan(events[i]);
    if (!goes_on) answers[i] = goes_on.error();
    if (!goes_on || !*goes_on) continue;
    auto judged = run_store_.with_judged_outputs(definition, state);
    if (!judged) {
      answers[i] = judged.error();
      continue;
    }
    auto actions = core::plan(definition, *judged, event, encoding::judge());
    // Two events of one run may cause the same action. Only the first one performs it, because a start
    // must pass the start limits once.
    std::erase_if(actions, [&](const core::FlowAction& action) {
      for (std::size_t at = 0; at < planned.size(); ++at) {
        const auto& before = caused[at].actions;
        if (&events[planned[at]].state != &state ||
            std::find(before.begin(), before.end(), action) == before.end())
          continue;
        relies.emplace_back(i, planned[at]);
        return true;
      }
      return false;
    });
    planned.push_back(i);
    caused.push_back({.definition = definition,
                      .state = std::move(*judged),
                      .actions = std::move(actions),
                      .gated = event.kind != EventKind::timer});
  }
  auto performed = executor_.perform(std::move(caused));
  for (std::size_t at = 0; at < planned.size(); ++at) answers[planned[at]] = performed[at];
  for (const auto& [event, on] : relies)
    if (!answers[on]) answers[event] = answers[on];
  settle_ended_keys(events, answers);
  return answers;
}

Result<bool> EventHandler::before_plan(const Folded& folded) {
  const auto& [definition, state, event] = folded;
  if (event.kind == EventKind::retried)
    if (auto settled = run_store_.settle_key(state); !settled) return settled.error();
  // From the end of the run on, its large outputs age. An output that arrives after the end ages
  // from then on. This needs `state` without the large outputs, because only then it says which are
  // large.
  if ((event.kind == EventKind::ended || event.elsewhere) && core::over_for_good(state))
    if (auto settled = run_store_.settle_values(state); !settled) return settled.error();
  if (event.kind != EventKind::timer) return true;
  // The sender of a signal that is in the log was told that it counts. So the signal is handled
  // before the timer, even if its own event comes later.
  auto signal = awaited_signal(definition, state, event);
  if (!signal) return signal.error();
  if (!*signal) return true;
  if (auto taken = handle_alone(std::move(**signal)); !taken) return taken.error();
  return false;
}

// Also for the end of an earlier round: the runner that handled it may have died before this.
void EventHandler::settle_ended_keys(std::span<const Folded> events,
                                     std::span<Result<void>> answers) {
  std::vector<const core::RunState*> runs;  // events of one run in a batch share its state
  const auto has_ended = [&](std::size_t i) {
    return answers[i] && events[i].event.kind == EventKind::ended;
  };
  for (std::size_t i = 0; i < events.size(); ++i)
    if (has_ended(i) && std::find(runs.begin(), runs.end(), &events[i].state) == runs.end())
      runs.push_back(&events[i].state);
  const auto settled = run_store_.settle_keys(runs);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!has_ended(i)) continue;
    const auto at = std::find(runs.begin(), runs.end(), &events[i].state) - runs.begin();
    answers[i] = settled[static_cast<std::size_t>(at)];
  }
}

}  // namespace once::engine
