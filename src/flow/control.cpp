#include "flow/control.h"

#include <algorithm>

#include "codec/digest.h"
#include "core/names.h"
#include "core/utf8.h"
#include "core/words.h"
#include "flow/definition/event.h"
#include "flow/definition/input.h"
#include "flow/find_run.h"
#include "json/kept_json.h"
#include "json/object_text.h"
#include "work/task_row.h"

namespace once::engine {
namespace {

using core::quoted;
using EventKind = core::FlowEvent::Kind;

constexpr std::size_t kMostSignal = 64 << 10;  // a signal is part of the run's value

constexpr const char* kByHeader = "Once-By";
constexpr const char* kWhy = "Once-Why";

// "ann@host: why"
std::string said_by(const By& by) {
  const std::string said = by.why.empty() ? by.who : by.who + ": " + by.why;
  return core::excerpt(said, core::kErrorKept);
}

constexpr std::string_view kRejected = "rejected by ";
std::string rejection(const By& by) { return std::string(kRejected) + said_by(by); }
std::string rejecter(std::string_view error) {
  if (!error.starts_with(kRejected)) return {};
  error.remove_prefix(kRejected.size());
  return std::string(error.substr(0, error.find(": ")));
}

Error refused(Code code, std::string why) {
  return {.code = code, .message = std::move(why) + "; nothing was changed"};
}

std::string how_it_ended(const core::EndFact& end) {
  return end.outcome == core::RunOutcome::timed_out ? "ran out of time"
                                                    : "is " + std::string(to_string(end.outcome));
}

Error is_over(std::string_view run, const core::EndFact& end) {
  return refused(Code::wrong_state, "run " + quoted(run) + " " + how_it_ended(end));
}

template <class Of>
std::string list_of(const core::FlowDefinition& definition, Of of) {
  std::vector<std::string> names;
  for (const core::FlowStep& step : definition.steps)
    if (std::string name = of(step); !name.empty())
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(std::move(name));
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// The answer to a verdict if the step has one already: a duplicate, or a conflict.
Result<Approved> verdict_that_stands(const core::FlowEvent& first, bool yes) {
  const bool stands = first.outcome == core::StepOutcome::completed;
  const auto json = encoding::parse_json(first.value.empty() ? "null" : first.value);
  const encoding::Json* const approver = json ? json->member("by") : nullptr;
  const std::string who = approver ? approver->string() : rejecter(first.error);
  if (stands == yes && (stands || first.outcome == core::StepOutcome::failed))
    return Approved{.approved = stands,
                    .duplicate = true,
                    .by = who,
                    .sequence = first.sequence.value,
                    .at = first.at};
  auto conflict = std::make_shared<Conflict>();
  conflict->id = core::event_id(first);
  conflict->sequence = first.sequence.value;
  return Error{.code = Code::conflicting_duplicate,
               .message = "step " + quoted(first.step) + " of run " + quoted(first.run) +
                          " is decided (#" + std::to_string(first.sequence.value) + "): " +
                          (stands ? "approved by " + who : first.error) + "; nothing was changed",
               .conflict = std::move(conflict)};
}

Error other_signal(const core::FlowEvent& given, core::Sequence sequence) {
  auto conflict = std::make_shared<Conflict>();
  conflict->id = core::event_id(given);
  conflict->sequence = sequence.value;
  return {.code = Code::conflicting_duplicate,
          .message = "signal id " + quoted(given.signal_id) + " is known to run " +
                     quoted(given.run) + " with another body (#" + std::to_string(sequence.value) +
                     "); nothing was added",
          .conflict = std::move(conflict)};
}

// The answer to a signal if the log has a signal of that name already.
Result<SignalResult> told_first(core::FlowEvent mine, const core::FlowEvent& first,
                                std::string by) {
  SignalResult answer{.counts = mine.signal_id == first.signal_id,
                      .first = {.id = first.signal_id,
                                .sequence = first.sequence.value,
                                .at = first.at,
                                .by = std::move(by)}};
  if (!answer.counts) return answer;
  if (mine.value != first.value) return other_signal(mine, first.sequence);
  mine.by_name = first.by_name;
  const auto item = EventLog::entry_of(mine);
  const auto digest = encoding::content_digest(item.topic, item.body);
  if (!digest) return digest.error();
  answer.receipt = {.id = item.id,
                    .sequence = first.sequence.value,
                    .digest = encoding::text(*digest),
                    .duplicate = true};
  return answer;
}

Result<core::FlowEvent> signal_event(const core::RunState& state, std::string_view name,
                                     const Body& body, std::string_view id) {
  core::FlowEvent event = core::event_in(state, EventKind::signal, 0);
  event.signal = name;
  event.signal_id = id;
  event.by_name = true;
  event.value = "null";
  if (!body.text().empty()) {
    const auto json = body.is_json() ? encoding::parse_json(body.text()) : Error{};
    if (!json)
      return refused(Code::invalid_input, "the body of a signal must be JSON: " +
                                              (body.is_json() ? json.error().message : "bytes"));
    event.value = encoding::kept(*json);
  }
  if (event.value.size() > kMostSignal)
    return refused(Code::too_large, "the body of a signal is at most " +
                                        core::size_text(kMostSignal) + ", this is " +
                                        core::size_text(event.value.size()));
  return event;
}

std::string nobody_waits(const core::FlowEvent& signal, const std::string& why) {
  return "no step of run " + quoted(signal.run) + " waits for signal " + quoted(signal.signal) +
         " any more (" + why + ")";
}

}  // namespace

Result<FlowControl::Known> FlowControl::find(std::string_view run, Outputs outputs) {
  auto known = find_folded(run, outputs);
  if (!known) return known;
  core::RunState& state = known->run.state;
  if (!core::failed(state)) return known;
  const auto retried = log_.find(
      core::event_id(core::event_in(state, EventKind::retried, core::round_of(state) + 1)));
  if (!retried) return retried.error();
  if (*retried) core::fold(state, **retried);
  return known;
}

// The run with the facts that runners have folded. The log may have later events.
Result<FlowControl::Known> FlowControl::find_folded(std::string_view run, Outputs outputs) {
  if (const auto ok = core::check_id(run); !ok)
    return Error{.code = ok.error().code,
                 .message = "no run can be called so: " + ok.error().message};
  auto known = find_run(run_store_, log_, run);
  if (!known) return known.error();
  if (!*known) return no_run(run);
  Known found{.run = std::move(**known)};
  core::RunState& state = found.run.state;
  auto definition = run_store_.definition(state.workflow, state.version);
  if (!definition) return definition.error();
  found.definition = std::move(*definition);
  auto filled = outputs == Outputs::all
                    ? run_store_.whole(std::move(state))
                    : run_store_.with_judged_outputs(*found.definition, std::move(state));
  if (!filled) return filled.error();
  state = std::move(*filled);
  return found;
}

By FlowControl::said_in(const std::map<std::string, std::string>& headers) {
  const auto text = [&](const char* name) {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string() : found->second;
  };
  return {.who = text(kByHeader), .why = text(kWhy)};
}

Error FlowControl::no_run(std::string_view run) {
  return {.code = Code::not_found,
          .message = "there is no run " + quoted(run) + ", or it is over and forgotten",
          .reason = Reason::no_run,
          .facts = {{"run", std::string(run)}}};
}

// The facts outlive the log. Version 0.1 gave each signal an entry of its own. The first signal
// counts.
Result<std::optional<FlowControl::First>> FlowControl::first_signal(const core::RunState& state,
                                                                    const core::FlowEvent& mine) {
  std::optional<First> first;
  if (const auto fact = state.signals.find(mine.signal); fact != state.signals.end()) {
    first.emplace(First{.event = mine});
    first->event.signal_id = fact->second.id;
    first->event.by_name = fact->second.by_name;
    first->event.value = fact->second.value;
    first->event.sequence = fact->second.sequence;
    first->event.at = fact->second.at;
  }
  const auto entry = store_.find(core::event_id(mine));
  if (!entry) return entry.error();
  if (!*entry || (first && first->event.sequence < (*entry)->sequence)) return first;
  if ((*entry)->body) {
    auto event = encoding::decode_event((*entry)->id, (*entry)->topic, *(*entry)->body,
                                        (*entry)->sequence, (*entry)->published_at);
    if (!event) return event.error();
    first.emplace(First{.event = std::move(*event)});
  }
  if (first) first->by = said_in((*entry)->headers).who;
  return first;
}

Result<void> FlowControl::came_in_time(const core::RunState& state, core::Sequence sequence) {
  const auto end =
      log_.find(core::event_id(core::event_in(state, EventKind::ended, core::round_of(state))));
  if (!end) return end.error();
  if (!*end || (*end)->sequence > sequence) return {};
  return Error{.code = Code::wrong_state,
               .message = "run " + quoted(state.run) + " ended (" +
                          std::string(to_string((*end)->run_outcome)) + ", #" +
                          std::to_string((*end)->sequence.value) +
                          ") before this came: it is in the log as #" +
                          std::to_string(sequence.value) + ", and the run does not go on"};
}

// Runners may be behind the log. If a step still seems to wait, its end may be in the log already.
Result<std::string> FlowControl::why_too_late(const Known& known, std::string_view signal,
                                              std::optional<core::Sequence> before) {
  const core::RunState& state = known.run.state;
  const auto standing = core::stand(*known.definition, state, encoding::judge());
  std::string why;
  for (std::size_t i = 0; i < known.definition->steps.size(); ++i) {
    const core::FlowStep& step = known.definition->steps[i];
    if (step.kind != core::FlowStep::Kind::signal || step.signal != signal) continue;
    core::StepStanding its = standing.steps[i];
    if (its.status == StepStatus::pending) return std::string();
    if (its.status == StepStatus::active) {
      core::FlowEvent ends = core::event_in(state, EventKind::step, its.n);
      ends.step = step.id;
      const auto ended = log_.find(core::event_id(ends));
      if (!ended) return ended.error();
      if (!*ended || (before && (*ended)->sequence > *before)) return std::string();
      its.why = (*ended)->error;
    }
    why += (why.empty() ? "step " : "; step ") + quoted(step.id) + ": " +
           (its.why.empty() ? "it is over" : its.why);
  }
  return why;
}

Result<SignalResult> FlowControl::signal(std::string_view run, std::string_view name,
                                         const Body& body, std::string_view id, const By& by) {
  if (auto ok = core::check_id(id); !ok) return ok.error();
  auto known = find(run);
  if (!known) return known.error();
  const core::RunState& state = known->run.state;
  if (!core::awaits(*known->definition, name))
    return refused(Code::not_found,
                   "workflow " + quoted(state.workflow) + " waits for no signal " + quoted(name) +
                       "; it waits for: " +
                       list_of(*known->definition, [](const auto& step) { return step.signal; }));
  const auto event = signal_event(state, name, body, id);
  if (!event) return event.error();
  // A signal that is repeated after the run has ended is still a duplicate.
  auto first = first_signal(state, *event);
  if (!first) return first.error();
  const core::EndFact* const end = core::end_of(state);
  const bool mine = *first && (*first)->event.signal_id == id;
  if (end != nullptr && !mine) return is_over(run, *end);
  if (*first) return told_first(*event, (*first)->event, (*first)->by);
  const auto too_late = why_too_late(*known, name, {});
  if (!too_late) return too_late.error();
  if (!too_late->empty()) return refused(Code::wrong_state, nobody_waits(*event, *too_late));
  return append_signal(*known, *event, by);
}

Result<SignalResult> FlowControl::append_signal(const Known& known, const core::FlowEvent& event,
                                                const By& by) {
  const core::RunState& state = known.run.state;
  auto item = EventLog::entry_of(event);
  item.headers = {{kByHeader, by.who}};
  const auto appended = log_.append(std::move(item));
  if (!appended) return appended.error();
  if (appended->verdict != core::AppendVerdict::accepted) {
    const auto first = first_signal(state, event);
    if (!first) return first.error();
    if (*first) return told_first(event, (*first)->event, (*first)->by);
    return refused(Code::wrong_state, "run " + quoted(event.run) + " has had a signal " +
                                          quoted(event.signal) + ", which is forgotten by now");
  }
  if (auto ok = came_in_time(state, appended->sequence); !ok) return ok.error();
  const auto too_late = why_too_late(known, event.signal, appended->sequence);
  if (!too_late) return too_late.error();
  if (!too_late->empty())
    return Error{.code = Code::wrong_state,
                 .message = nobody_waits(event, *too_late) +
                            ": it came at the same moment, is in the log as #" +
                            std::to_string(appended->sequence.value) + ", and changes nothing"};
  return SignalResult{.counts = true,
                      .receipt = {.id = core::event_id(event),
                                  .sequence = appended->sequence.value,
                                  .digest = encoding::text(appended->digest)},
                      .first = {.id = event.signal_id,
                                .sequence = appended->sequence.value,
                                .at = store_.wall(),
                                .by = by.who}};
}

Result<Approved> FlowControl::approve(std::string_view run, std::string_view step, bool yes,
                                      const By& by) {
  auto known = find(run);
  if (!known) return known.error();
  const core::FlowDefinition& definition = *known->definition;
  const core::RunState& state = known->run.state;
  const auto index = core::index_of(definition, step);
  if (!index || definition.steps[*index].kind != core::FlowStep::Kind::approval)
    return refused(index ? Code::wrong_state : Code::not_found,
                   (index ? "step " + quoted(step) + " is no approval"
                          : "workflow " + quoted(state.workflow) + " has no step " + quoted(step)) +
                       "; approvals: " + list_of(definition, [](const core::FlowStep& each) {
                         return each.kind == core::FlowStep::Kind::approval ? each.id
                                                                            : std::string();
                       }));
  const core::StepStanding standing =
      core::stand(definition, state, encoding::judge()).steps[*index];
  const auto said = run_store_.with_outputs(state, {std::string(step)});
  if (!said) return said.error();
  core::FlowEvent event =
      core::event_in(state, EventKind::step, std::max<std::uint32_t>(standing.n, 1));
  event.step = step;
  if (const auto last = core::counted_fact(*said, step); last.fact != nullptr) {
    event.outcome = last.fact->outcome;
    event.value = last.fact->value;
    event.error = last.fact->error;
    event.sequence = last.fact->sequence;
    event.at = last.fact->at;
    return verdict_that_stands(event, yes);
  }
  if (standing.status != StepStatus::active)
    return refused(Code::wrong_state, "step " + quoted(step) + " of run " + quoted(run) +
                                          " does not wait for an approval: " +
                                          (standing.why.empty() ? "it is over" : standing.why));
  event.outcome = yes ? core::StepOutcome::completed : core::StepOutcome::failed;
  if (yes) {
    encoding::ObjectText value;
    value.boolean("approved", true);
    value.string("by", by.who);
    value.string("why", core::excerpt(by.why, core::kErrorKept));
    event.value = std::move(value).take();
  } else {
    event.error = rejection(by);
  }
  auto appended = log_.append(EventLog::entry_of(event));
  if (!appended) return appended.error();
  if (appended->verdict == core::AppendVerdict::accepted) {
    if (auto ok = came_in_time(state, appended->sequence); !ok) return ok.error();
    return Approved{.approved = yes,
                    .duplicate = false,
                    .by = by.who,
                    .sequence = appended->sequence.value,
                    .at = store_.wall()};
  }
  auto first = log_.find(core::event_id(event));
  if (!first) return first.error();
  if (!*first) return refused(Code::wrong_state, "step " + quoted(step) + " is decided");
  return verdict_that_stands(**first, yes);
}

// A failed run is closed by the end of the next round, although that round never began.
Result<void> FlowControl::cancel(std::string_view run, const By& by) {
  auto known = find(run);
  if (!known) return known.error();
  const core::RunState& state = known->run.state;
  std::uint32_t round = core::round_of(state);
  if (const core::EndFact* const end = core::end_of(state)) {
    if (end->outcome == core::RunOutcome::cancelled) return {};
    if (end->outcome == core::RunOutcome::completed) return is_over(run, *end);
    ++round;
  }
  core::FlowEvent event = core::event_in(state, EventKind::ended, round);
  event.run_outcome = core::RunOutcome::cancelled;
  event.error = "cancelled by " + said_by(by);
  auto appended = log_.append(EventLog::entry_of(event));
  if (!appended) return appended.error();
  if (appended->verdict != core::AppendVerdict::conflict) return {};
  auto there = log_.find(core::event_id(event));
  if (!there) return there.error();
  if (*there && (*there)->run_outcome == core::RunOutcome::cancelled) return {};
  return refused(Code::wrong_state, "run " + quoted(run) + " ended at the same moment");
}

// If this login may not read the queue's ledger, this check finds nothing. The runner then fails
// the step.
Result<void> FlowControl::can_run_again(const core::FlowDefinition& definition,
                                        const core::RunState& state,
                                        const std::map<std::string, std::uint32_t>& steps) {
  const auto queues = store_.queues();
  if (!queues) return {};
  for (const auto& [step, n] : steps) {
    const auto index = core::index_of(definition, step);
    if (!index || definition.steps[*index].kind != core::FlowStep::Kind::task) continue;
    const auto task = failed_task(store_, core::step_id(state.run, step), n, *queues);
    if (!task || task->why_never.empty()) continue;
    return Error{.code = Code::wrong_state,
                 .message = "run " + quoted(state.run) + " cannot be retried: step " +
                            quoted(step) + " cannot run again: " + task->why_never +
                            "; nothing was changed. Close the run and start another",
                 .reason = Reason::step_cannot_repeat,
                 .facts = {{"run", state.run}, {"step", step}}};
  }
  return {};
}

// A retry that is repeated before a runner handles it makes the same event, so the log has it once.
Result<std::vector<std::string>> FlowControl::retry(std::string_view run, const By& by) {
  auto known = find_folded(run);
  if (!known) return known.error();
  const core::RunState& state = known->run.state;
  auto voided = core::retry_of(*known->definition, state, encoding::judge());
  if (!voided) return voided.error();
  if (auto ok = can_run_again(*known->definition, state, *voided); !ok) return ok.error();
  core::FlowEvent event = core::event_in(state, EventKind::retried, core::round_of(state) + 1);
  event.voided = std::move(*voided);
  store::Append item = EventLog::entry_of(event);
  item.headers = {{kByHeader, by.who}, {kWhy, by.why}};
  auto appended = log_.append(std::move(item));
  if (!appended) return appended.error();
  if (appended->verdict == core::AppendVerdict::conflict)
    return refused(Code::wrong_state, "run " + quoted(run) + " was retried at the same moment");
  std::vector<std::string> steps;
  for (const auto& [step, n] : event.voided) steps.push_back(step);
  return steps;
}

}  // namespace once::engine
