#include "flow/event_handler.h"

#include "flow/definition/event.h"
#include "flow/definition/input.h"
#include "flow/find_run.h"

namespace once::engine {
namespace {

using Kind = core::FlowEvent::Kind;

constexpr int kTries = 64;  // to write over what was read

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
  for (int tries = 0; tries < kTries; ++tries) {
    if (!known) {
      auto found = find(event);
      if (!found) return found.error();
      if (!*found) return end_forgotten(event);
      known = std::move(*found);
    }
    core::RunState& state = known->state;
    auto definition = book_.definition(event.workflow, state.version);
    if (!definition) return definition.error();
    // Anybody may send any signal: only those that are waited for are kept.
    if (event.kind == Kind::signal && !core::awaits(**definition, event.signal)) return {};
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
    } else if (recalled) {  // what is recalled may be behind, and nothing has shown that it is not
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
  if (event.kind != Kind::started) return find_run(book_, log_, event.run);
  auto known = book_.run(event.run);
  if (!known || *known) return known;
  KnownRun begun;
  core::fold(begun.state, event);
  return std::optional(std::move(begun));
}

// Who handled its end may have died over it. Where the log has lost the start, too, nobody knows the key
// by the run; the starter finds it by the key.
Result<void> EventHandler::end_forgotten(const core::FlowEvent& event) {
  if (event.kind != Kind::ended) return {};
  auto started = log_.find(event.run + ".started");
  if (!started) return started.error();
  if (!*started) return {};
  core::RunState state;
  core::fold(state, **started);
  return book_.settle_key(state);
}

Result<void> EventHandler::place_value(const core::FlowDefinition& definition,
                                       core::FlowEvent& event) {
  if (event.kind == Kind::ended) {  // it was put away where it stays
    event.value_place.reset();
    return {};
  }
  if (event.kind != Kind::step || event.outcome != core::StepOutcome::completed) return {};
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

Result<void> EventHandler::act(const core::FlowDefinition& definition, const core::RunState& state,
                               const core::FlowEvent& event) {
  if (event.kind == Kind::retried)
    if (auto settled = book_.settle_key(state); !settled) return settled;
  // What was put away ages from the end on, or from when it came after that. By the facts as they are
  // kept: filled in, they do not tell any more which output lies elsewhere.
  if ((event.kind == Kind::ended || event.elsewhere) && core::over_for_good(state))
    if (auto settled = book_.settle_values(state); !settled) return settled;
  auto judged = book_.with_judged_outputs(definition, state);
  if (!judged) return judged.error();
  auto done =
      acts_.perform(definition, *judged, core::plan(definition, *judged, event, encoding::judge()),
                    event.kind != Kind::timer);
  // Also an end that a later round has overtaken: who handled it may have died over it.
  if (done && event.kind == Kind::ended) done = book_.settle_key(state);
  return done;
}

}  // namespace once::engine
