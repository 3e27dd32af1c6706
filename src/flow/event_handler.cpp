#include "flow/event_handler.h"

#include "flow/definition/event.h"
#include "flow/definition/input.h"
#include "flow/find_run.h"

namespace once::engine {
namespace {

using EventKind = core::FlowEvent::Kind;

constexpr int kEventTries = 64;  // of reading, folding and replacing the run's value

}  // namespace

Report EventHandler::handle(const TaskAttempt& assignment) {
  auto event =
      encoding::decode_event(assignment.task.id, assignment.task.topic, assignment.task.body,
                             assignment.sequence, assignment.published_at);
  if (!event) return {.outcome = Outcome::dead(event.error().message)};
  const Result<void> taken = take(std::move(*event));
  if (taken) return {.outcome = Outcome::completed()};
  const Error& error = taken.error();
  return {.outcome = error.code == Code::invalid_input ? Outcome::dead(error.message)
                                                       : Outcome::failed(error.message)};
}

Result<void> EventHandler::take(core::FlowEvent event) {
  bool placed = false;
  std::optional<KnownRun> known = book_.recall(event.run);
  bool recalled = known.has_value();
  for (int tries = 0; tries < kEventTries; ++tries) {
    if (!known) {
      auto found = find(event);
      if (!found) return found.error();
      if (!*found) return end_forgotten(event);
      known = std::move(*found);
    }
    core::RunState& state = known->state;
    auto definition = book_.definition(event.workflow, state.version);
    if (!definition) return definition.error();
    // Any caller may send any signal. Only signals that a step waits for become facts.
    if (event.kind == EventKind::signal && !core::awaits(**definition, event.signal)) return {};
    if (!placed)
      if (auto done = place_value(**definition, event); !done) return done;
    placed = true;
    if (core::fold(state, event) || !known->revision) {
      auto written = book_.write(state, known->revision);
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
    return act(**definition, state, event);
  }
  return Error{.code = Code::store_unavailable,
               .message = "others keep writing the facts of run '" + event.run +
                          "'; the event is handled again",
               .retryable = true};
}

Result<std::optional<KnownRun>> EventHandler::find(const core::FlowEvent& event) {
  if (event.kind != EventKind::started) return find_run(book_, log_, event.run);
  auto known = book_.run(event.run);
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
  return book_.settle_key(state);
}

Result<void> EventHandler::place_value(const core::FlowDefinition& definition,
                                       core::FlowEvent& event) {
  if (event.kind == EventKind::ended) {  // ActionExecutor has stored the run's output already
    event.value_place.reset();
    return {};
  }
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
  return book_.put_value(RunStore::value_key(event.run, event.step, event.n),
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

Result<void> EventHandler::act(const core::FlowDefinition& definition, const core::RunState& state,
                               const core::FlowEvent& event) {
  if (event.kind == EventKind::retried)
    if (auto settled = book_.settle_key(state); !settled) return settled;
  // From the end of the run on, its large outputs age. An output that arrives after the end ages
  // from then on. This needs `state` without the large outputs, because only then it says which are
  // large.
  if ((event.kind == EventKind::ended || event.elsewhere) && core::over_for_good(state))
    if (auto settled = book_.settle_values(state); !settled) return settled;
  if (event.kind == EventKind::timer) {
    // The sender of a signal that is in the log was told that it counts. So the signal is handled
    // before the timer, even if its own event comes later.
    auto signal = awaited_signal(definition, state, event);
    if (!signal) return signal.error();
    if (*signal) return take(std::move(**signal));
  }
  auto judged = book_.with_judged_outputs(definition, state);
  if (!judged) return judged.error();
  auto done =
      acts_.perform(definition, *judged, core::plan(definition, *judged, event, encoding::judge()),
                    event.kind != EventKind::timer);
  // Also for the end of an earlier round: the runner that handled it may have died before this.
  if (done && event.kind == EventKind::ended) done = book_.settle_key(state);
  return done;
}

}  // namespace once::engine
