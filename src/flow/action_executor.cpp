#include "flow/action_executor.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "codec/digest.h"
#include "codec/step_headers.h"
#include "codec/stored_body.h"
#include "core/names.h"
#include "flow/definition/input.h"
#include "work/task_row.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;

constexpr auto kQueuesFor = 1s;
constexpr int kActionTries = 64;
const std::string kRunnerName = "workflow";

std::optional<core::TaskPolicy> policy_of(const core::FlowStep& step) {
  if (!step.retry && step.timeout <= Duration{0}) return std::nullopt;
  core::TaskPolicy policy{.timeout = step.timeout};
  if (step.retry) {
    policy.attempts = static_cast<std::uint32_t>(step.retry->attempts);
    policy.backoff = core::waits_of(*step.retry);
    policy.jitter_permille = static_cast<std::uint32_t>(std::lround(step.retry->jitter * 1000));
  }
  return policy;
}

Error held(const core::FlowStep& step, const Error& why) {
  return {.code = why.code, .message = "step '" + step.id + "' waits: " + why.message};
}

// Makes the task of a step. Code::invalid_input means that the step can never have a task. If the
// step was called off, its task must not start, so it needs no queue.
Result<store::Append> task_of(const core::FlowDefinition& definition, const core::FlowStep& step,
                              const core::RunState& state, const std::vector<Queue>& queues,
                              bool called_off) {
  auto input = encoding::task_input(step, state, encoding::unreached_in(definition, state));
  if (!input) return input.error();
  if (input->size() > core::kMaxBody)
    return Error{.code = Code::invalid_input, .message = "its input is larger than a task may be"};
  auto queue = queue_of(step, queues);
  if (!queue && !called_off) return queue.error();
  store::Append task{.id = core::step_id(state.run, step.id),
                     .topic = step.topic,
                     .body = StoredBody::json(std::move(*input)),
                     .headers = encoding::step_headers(
                         {.run = state.run,
                          .step = step.id,
                          .reply = core::event_topic(state.workflow, core::FlowEvent::Kind::step),
                          .queue = queue ? *queue : step.queue,
                          .policy = policy_of(step)})};
  // A slow runner may append this task later. Then the log has the id already, with an expired
  // task.
  if (called_off) task.lives = Duration{0};
  return task;
}

core::FlowEvent no_task(const core::FlowStep& step, const core::RunState& state, std::string why) {
  core::FlowEvent event = core::event_in(state, core::FlowEvent::Kind::step, 0, step.id);
  event.outcome = core::StepOutcome::failed;
  event.error = std::move(why);
  return event;
}

// Every runner makes the same nonce, so there is one order per round and step.
core::Nonce nonce_of(const core::RunState& state, const core::RetryTask& retry,
                     const core::FlowStep& step) {
  return encoding::nonce_of(
      encoding::sha256(state.run + ".retried." + std::to_string(retry.round) + "." + step.id));
}

// A step start that must pass the start limits. nullopt for other actions.
struct Start {
  std::size_t step{};
  bool task = false;
  std::uint32_t round{};  // the round that retries it; zero for the first start
};
std::optional<Start> start_in(const core::FlowAction& action) {
  if (const auto* task = std::get_if<core::StartTask>(&action))
    return Start{.step = task->step, .task = true};
  if (const auto* task = std::get_if<core::RetryTask>(&action))
    return Start{.step = task->step, .task = true, .round = task->round};
  if (const auto* wait = std::get_if<core::StartWait>(&action)) return Start{.step = wait->step};
  if (const auto* end = std::get_if<core::EndStep>(&action)) return Start{.step = end->step};
  return std::nullopt;
}

std::uint32_t rate_retries_of(const core::RunState& state, const core::FlowStep& step) {
  const auto tried = state.rate_retries.find(step.id);
  return tried == state.rate_retries.end() ? 0 : tried->second.n;
}

// The steps whose outputs the actions read.
std::set<std::string> needed_by(const core::FlowDefinition& definition,
                                const std::vector<core::FlowAction>& actions) {
  std::set<std::string> steps;
  for (const core::FlowAction& action : actions) {
    if (const auto* start = std::get_if<core::StartTask>(&action))
      encoding::add_steps_of(definition.steps[start->step].input, steps);
    else if (const auto* off = std::get_if<core::CallOff>(&action))
      encoding::add_steps_of(definition.steps[off->step].input, steps);
    else if (std::holds_alternative<core::EndRun>(action))
      encoding::add_steps_of(definition.output, steps);
  }
  return steps;
}

}  // namespace

// Keeps the run's value small enough for every store.
std::size_t most_kept(const core::FlowDefinition& definition) {
  constexpr std::size_t kEach = 4 << 10;
  constexpr std::size_t kTogether = 256 << 10;
  return std::min(kEach, kTogether / std::max<std::size_t>(definition.steps.size(), 1));
}

// The appends for one event.
class ActionExecutor::Appends {
 public:
  struct Item {
    const core::FlowStep* step{};          // the step whose task it is; null for an event
    std::optional<core::FlowEvent> end{};  // the end of a completed run
  };

  void event(const core::FlowEvent& event, Duration delay = {}) {
    items.push_back(EventLog::entry_of(event, delay));
    meant.push_back({});
    if (event.kind == core::FlowEvent::Kind::ended &&
        event.run_outcome == core::RunOutcome::completed)
      meant.back().end = event;
  }
  void task(store::Append item, const core::FlowStep& step) {
    items.push_back(std::move(item));
    meant.push_back({.step = &step});
  }

  std::vector<store::Append> items{};
  std::vector<Item> meant{};         // one per element of `items`
  std::optional<Error> held_back{};  // why a step could not start yet
};

std::vector<Result<void>> ActionExecutor::perform(std::vector<Caused> events) {
  std::vector<Result<void>> done(events.size());
  std::vector<std::optional<Appends>> prepared(events.size());
  std::vector<store::Append> items;
  for (std::size_t i = 0; i < events.size(); ++i) {
    auto appends = prepare(events[i]);
    if (!appends) {
      done[i] = appends.error();
      continue;
    }
    std::move(appends->items.begin(), appends->items.end(), std::back_inserter(items));
    prepared[i] = std::move(*appends);
  }
  std::vector<Result<store::AppendResult>> answers;
  if (!items.empty()) answers = log_.append(std::move(items), EventLog::Again::same);
  std::span<const Result<store::AppendResult>> rest(answers);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!prepared[i]) continue;
    const auto& [definition, state, actions, gated] = events[i];
    const std::size_t count = prepared[i]->meant.size();
    done[i] = sent(state, *prepared[i], rest.first(count));
    rest = rest.subspan(count);
    for (std::size_t at = 0; at < actions.size() && done[i]; ++at)
      done[i] = follow_up(definition, state, actions[at]);
    if (done[i] && prepared[i]->held_back) done[i] = *prepared[i]->held_back;
  }
  return done;
}

Result<ActionExecutor::Appends> ActionExecutor::prepare(Caused& event) {
  auto filled =
      run_store_.with_outputs(std::move(event.state), needed_by(event.definition, event.actions));
  if (!filled) return filled.error();
  event.state = std::move(*filled);
  Appends appends;
  if (event.gated) {
    auto passed = pass_gates(event.definition, event.state, std::move(event.actions), appends);
    if (!passed) return passed.error();
    event.actions = std::move(*passed);
  }
  for (const core::FlowAction& action : event.actions)
    if (auto done = append(event.definition, event.state, action, appends); !done)
      return done.error();
  return appends;
}

Result<void> ActionExecutor::follow_up(const core::FlowDefinition& definition,
                                       const core::RunState& state,
                                       const core::FlowAction& action) {
  if (const auto* again = std::get_if<core::RetryTask>(&action))
    return retry(definition, state, *again);
  if (const auto* off = std::get_if<core::CallOff>(&action))
    return call_off(core::step_id(state.run, definition.steps[off->step].id), state);
  if (const auto* timer = std::get_if<core::CallOffTimer>(&action))
    return call_off_timer(core::event_of(definition, state, *timer), state);
  if (std::holds_alternative<core::Finish>(action)) return finish(definition, state);
  return {};
}

// Removes the starts that the limits refuse from the list. Adds the event that will try them again.
Result<std::vector<core::FlowAction>> ActionExecutor::pass_gates(
    const core::FlowDefinition& definition, const core::RunState& state,
    std::vector<core::FlowAction> actions, Appends& appends) {
  using Kind = core::FlowEvent::Kind;
  if (auto begun = hold_back(definition, actions, appends); !begun) return begun.error();
  if (definition.max_runs > 0 &&
      std::any_of(actions.begin(), actions.end(),
                  [](const auto& action) { return start_in(action).has_value(); })) {
    auto wait = start_limits_.admit(definition, state);
    if (!wait) return wait.error();
    if (*wait) {
      appends.event(core::event_in(state, Kind::admit, state.admits.n + 1), **wait);
      std::erase_if(actions, [](const auto& action) { return start_in(action).has_value(); });
    }
  }
  std::vector<core::FlowAction> passed;
  for (core::FlowAction& action : actions) {
    const auto start = start_in(action);
    if (start && start->task && definition.steps[start->step].rate) {
      const core::FlowStep& step = definition.steps[start->step];
      const std::uint32_t n = rate_retries_of(state, step);
      const std::string who =
          start->round > 0 ? state.run + '.' + std::to_string(start->round) : state.run;
      auto wait = start_limits_.pass_rate(definition, step, who, n > 0);
      if (!wait) return wait.error();
      if (*wait) {
        appends.event(core::event_in(state, Kind::rate_retry, n + 1, step.id), **wait);
        continue;
      }
    }
    passed.push_back(std::move(action));
  }
  return passed;
}

// A step that cannot start yet must not use a permit of its rate.
Result<void> ActionExecutor::hold_back(const core::FlowDefinition& definition,
                                       std::vector<core::FlowAction>& actions, Appends& appends) {
  std::vector<core::FlowAction> rest;
  for (core::FlowAction& action : actions) {
    if (const auto* start = std::get_if<core::StartTask>(&action)) {
      const core::FlowStep& step = definition.steps[start->step];
      auto known = queues_for(step);
      if (!known) return known.error();
      if (auto queue = queue_of(step, *known); !queue) {
        appends.held_back = held(step, queue.error());
        continue;
      }
    }
    rest.push_back(std::move(action));
  }
  actions = std::move(rest);
  return {};
}

Result<void> ActionExecutor::append(const core::FlowDefinition& definition,
                                    const core::RunState& state, const core::FlowAction& action,
                                    Appends& appends) {
  const auto task = [&](std::size_t index, bool called_off) -> Result<void> {
    const core::FlowStep& step = definition.steps[index];
    auto known = queues_for(step);
    if (!known) return known.error();
    auto item = task_of(definition, step, state, *known, called_off);
    if (item)
      appends.task(std::move(*item), step);
    else if (item.error().code != Code::invalid_input)
      appends.held_back = held(step, item.error());
    else if (!called_off)
      return refuse(step, state, item.error().message, appends);
    return {};
  };
  if (const auto* start = std::get_if<core::StartTask>(&action)) return task(start->step, false);
  if (const auto* off = std::get_if<core::CallOff>(&action)) return task(off->step, true);
  if (const auto* wait = std::get_if<core::StartWait>(&action))
    appends.event(core::event_of(definition, state, *wait), wait->after);
  else if (const auto* end = std::get_if<core::EndStep>(&action))
    appends.event(core::event_of(definition, state, *end));
  else if (const auto* timer = std::get_if<core::ArmRunTimer>(&action))
    appends.event(core::event_of(state, *timer), timer->after);
  else if (const auto* over = std::get_if<core::EndRun>(&action))
    return end_run(definition, state, *over, appends);
  return {};
}

// Makes the end of the run. A large output is stored as a value, and the event names its place.
Result<void> ActionExecutor::end_run(const core::FlowDefinition& definition,
                                     const core::RunState& state, const core::EndRun& end,
                                     Appends& appends) {
  core::FlowEvent event = core::event_of(state, end);
  if (end.outcome == core::RunOutcome::completed) {
    auto output =
        encoding::run_output(definition, state, encoding::unreached_in(definition, state));
    if (!output) {
      event.run_outcome = core::RunOutcome::failed;
      event.error = "the run's output cannot be made: " + output.error().message;
    } else if (output->size() <= most_kept(definition)) {
      event.value = std::move(*output);
    } else {
      const std::string key = RunStore::output_key(state.run, end.round);
      if (auto kept = run_store_.put_value(key, std::move(*output)); !kept) return kept;
      event.value_place = {
          .queue = std::string(core::kValuesLedger), .key = key, .sequence = state.started};
    }
  }
  appends.event(event);
  return {};
}

// The first entry under an id counts. So a conflict of two ends means that another writer was
// faster. A step fails if the log refuses its task for good, or if its task's id has other content.
// A run fails if the log refuses its end for good.
Result<void> ActionExecutor::send(const core::RunState& state, Appends appends) {
  if (appends.items.empty()) return {};
  const auto answers = log_.append(std::move(appends.items), EventLog::Again::same);
  return sent(state, appends, answers);
}

Result<void> ActionExecutor::sent(const core::RunState& state, const Appends& appends,
                                  std::span<const Result<store::AppendResult>> answers) {
  Appends ends;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Appends::Item& meant = appends.meant[i];
    const bool taken = answers[i] && answers[i]->verdict == core::AppendVerdict::conflict;
    const bool never = !answers[i] && (answers[i].error().code == Code::too_large ||
                                       answers[i].error().code == Code::invalid_input);
    if (!answers[i] && (!never || (meant.step == nullptr && !meant.end))) return answers[i].error();
    // Another end was first. The output that was stored for this end is not used and ages.
    if (meant.end && taken && meant.end->value_place)
      if (auto settled = run_store_.settle_value(meant.end->value_place->key); !settled)
        return settled;
    if (meant.end && never) {
      core::FlowEvent failed = *meant.end;
      failed.run_outcome = core::RunOutcome::failed;
      failed.value.clear();
      failed.value_place.reset();
      failed.error = "the run's output cannot be kept: " + answers[i].error().message;
      ends.event(failed);
    } else if (meant.step != nullptr && (taken || never)) {
      const std::string why = never ? answers[i].error().message
                                    : "the id '" + core::step_id(state.run, meant.step->id) +
                                          "' was published by somebody else, with other content";
      if (auto refused = refuse(*meant.step, state, why, ends); !refused) return refused;
    }
  }
  return send(state, std::move(ends));
}

// Ends a step that can have no task, unless it has one. Another runner may have appended the task,
// because the step's input or the queues have changed since.
Result<void> ActionExecutor::refuse(const core::FlowStep& step, const core::RunState& state,
                                    const std::string& why, Appends& appends) {
  const auto entry = store_.find(core::step_id(state.run, step.id));
  if (!entry) return entry.error();
  if (!*entry || !encoding::is_task_of((*entry)->headers, state.run, step.id))
    appends.event(no_task(step, state, why));
  return {};
}

// Orders a dead task to run again. If the task is cancelled, completed or expired, it never replies
// again, and the step fails. If its queue is missing, the event is retried until the queue is back.
Result<void> ActionExecutor::retry(const core::FlowDefinition& definition,
                                   const core::RunState& state, const core::RetryTask& action) {
  const core::FlowStep& step = definition.steps[action.step];
  const std::string id = core::step_id(state.run, step.id);
  const auto known = queues();
  if (!known) return known.error();
  const auto task = failed_task(store_, id, action.n, *known);
  if (!task) return task.error();
  if (!task->why_never.empty()) {
    core::FlowEvent event = no_task(step, state, "it cannot run again: " + task->why_never);
    event.n = action.n + 1;
    Appends appends;
    appends.event(event);
    return send(state, std::move(appends));
  }
  if (!task->found)
    return Error{.code = Code::store_unavailable,
                 .message = "no queue has task '" + id + "', which is to run again",
                 .retryable = true};
  const core::Record& record = task->found->row.stored->record;
  if (record.state != State::dead) return {};  // the task runs, or has just ended otherwise
  const Queue& queue = *task->found->queue;
  const store::Wake wake{.sequence = task->found->row.entry.sequence,
                         .order = core::Order{.kind = core::Order::Kind::retry,
                                              .nonce = nonce_of(state, action, step),
                                              .claims = record.claims,
                                              .at = store_.wall(),
                                              .by = kRunnerName,
                                              .why = "run " + state.run + " was retried"}};
  if (auto woken = store_.wake(queue.name, std::span(&wake, 1)); !woken) return woken;
  auto row = row_at(store_, wake.sequence, queue);
  if (!row) return row.error();
  if (*row && has_order(**row, wake.order->nonce, store_.now())) return {};
  // An order for an earlier try blocks this one until a worker has received it.
  return Error{.code = Code::store_unavailable,
               .message = "step '" + step.id + "' has another order, which is carried out first",
               .retryable = true};
}

Result<void> ActionExecutor::call_off_timer(const core::FlowEvent& timer,
                                            const core::RunState& state) {
  const std::string id = core::event_id(timer);
  const auto entry = store_.find(id);
  if (!entry) return entry.error();
  if (!*entry) {
    // A slow runner may append this timer later. Then the log has the id already, with an expired
    // one.
    store::Append item = EventLog::entry_of(timer);
    item.lives = Duration{0};
    const auto appended = log_.append(std::move(item), EventLog::Again::same);
    if (!appended) return appended.error();
  }
  return call_off(id, state);
}

Result<void> ActionExecutor::call_off(const std::string& id, const core::RunState& state) {
  const core::EndFact* const end = core::end_of(state);
  const std::string why =
      end == nullptr ? "nothing waits for it any more" : "run " + state.run + " is over";
  auto entry = store_.find(id);
  if (!entry) return entry.error();
  if (!*entry) return {};
  const auto& headers = (*entry)->headers;  // a timer has none
  bool found = false;
  for (const Look look : {Look::remembered, Look::anew}) {
    auto known = queues(look);
    if (!known) return known.error();
    for (const Queue& queue : *known) {
      if (!headers.empty() && !encoding::read_step(headers, queue.name)) continue;
      found = true;
      if (auto done = call_off(**entry, queue, why); !done) return done;
    }
    if (found) break;
  }
  return {};
}

// If a worker or a person changes the record between the read and the write, it is read again.
Result<void> ActionExecutor::call_off(const store::Entry& entry, const Queue& queue,
                                      const std::string& why) {
  for (int tries = 0; tries < kActionTries; ++tries) {
    auto row = row_of(store_, entry, queue);
    if (!row) return row.error();
    if (!*row) return {};
    const bool dead = (*row)->stored && (*row)->stored->record.state == State::dead;
    if ((*row)->stored && !dead && core::over((*row)->stored->record.state)) return {};
    auto written = dead && !(*row)->order
                       ? drop(store_, scheduler_, queue, **row, kRunnerName, why)
                       : cancel(store_, scheduler_, queue, **row, kRunnerName, why);
    if (written && written->decision.verdict != core::Verdict::wrong_state) return {};
    if (!written && (written.error().code != Code::wrong_state || !written.error().retryable))
      return written.error();
  }
  return Error{.code = Code::store_unavailable,
               .message = "others keep changing '" + entry.id + "', which is to be called off",
               .retryable = true};
}

// Cancels the events that would try a refused start again. If the run may be retried, the event
// that waits for max_runs stays.
Result<void> ActionExecutor::finish(const core::FlowDefinition& definition,
                                    const core::RunState& state) {
  using Kind = core::FlowEvent::Kind;
  for (const core::FlowStep& step : definition.steps) {
    if (!step.rate || core::last_fact(state, step.id).fact != nullptr) continue;
    const core::FlowEvent next =
        core::event_in(state, Kind::rate_retry, rate_retries_of(state, step) + 1, step.id);
    if (auto done = call_off(core::event_id(next), state); !done) return done;
  }
  if (definition.max_runs > 0 && core::called_off(state))
    if (auto done =
            call_off(core::event_id(core::event_in(state, Kind::admit, state.admits.n + 1)), state);
        !done)
      return done;
  return start_limits_.leave(definition, state.run);
}

// Reads the queues again if no remembered queue takes the step's topic.
Result<ActionExecutor::Queues> ActionExecutor::queues_for(const core::FlowStep& step) {
  auto known = queues();
  return known && !queue_of(step, *known) ? queues(Look::anew) : std::move(known);
}

Result<ActionExecutor::Queues> ActionExecutor::queues(Look look) {
  const Moment now = scheduler_.now();
  if (look == Look::remembered) {
    const std::lock_guard lock(mutex_);
    if (queues_read_ != Moment{} && now - queues_read_ < kQueuesFor) return queues_;
  }
  auto read = store_.queues();
  if (!read) return read.error();
  const std::lock_guard lock(mutex_);
  queues_ = *read;
  queues_read_ = now;
  return std::move(*read);
}

}  // namespace once::engine
