#include "api/active_steps.h"

#include <algorithm>

#include "core/names.h"
#include "work/task_row.h"

namespace once::inline v1 {
namespace {

using EventKind = core::FlowEvent::Kind;

Time due_at(const store::Entry& entry) { return entry.published_at + entry.delay; }

std::string rate_text(const RateLimit& rate) {
  return "rate " + std::to_string(rate.limit) + " per " + duration_text(rate.per);
}

}  // namespace

Result<void> ActiveSteps::add_to(std::vector<RunStep>& steps, const core::RunStanding& standing,
                                 bool held) {
  auto queues = store_.queues();
  if (!queues) return queues.error();
  queues_ = std::move(*queues);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const core::FlowStep& step = definition_.steps[i];
    RunStep& view = steps[i];
    if (view.status == StepStatus::pending) continue;
    const bool task = step.kind == core::FlowStep::Kind::task;
    if (held && view.status == StepStatus::active)
      view.why = "max_runs " + std::to_string(definition_.max_runs) +
                 ": waits until another run has ended";
    else if (auto looked =
                 task ? look_at_task(step, view) : look_at_wait(step, standing.steps[i].n, view);
             !looked)
      return looked;
  }
  return {};
}

// --- Tasks ------------------------------------------------------------------------------------

Result<void> ActiveSteps::look_at_task(const core::FlowStep& step, RunStep& view) {
  auto entry = store_.find(core::step_id(state_.run, step.id));
  if (!entry) return entry.error();
  const bool active = view.status == StepStatus::active;
  if (!*entry) return active ? look_at_start(step, view) : Result<void>{};
  auto found = engine::step_row(store_, **entry, queues_);
  if (!found) return found.error();
  if (*found) {
    if (auto looked = look_at_row((*found)->row, *(*found)->queue, view); !looked) return looked;
    return active && core::over(*view.task_state) ? look_at_start(step, view) : Result<void>{};
  }
  view.task_state = State::waiting;
  if (active) view.why = "the queue that was to run its task is gone";
  return {};
}

Result<void> ActiveSteps::look_at_row(const store::Row& row, const Queue& queue, RunStep& view) {
  const core::StoreTime now = store_.now();
  view.queue = queue.name;
  view.task_state = store::state_of(row, now);
  if (row.stored) view.attempts = static_cast<int>(row.stored->record.claims);
  if (view.status != StepStatus::active) return {};
  if (row.stored) {
    const core::Record& record = row.stored->record;
    view.why = core::last_error(record);
    if (view.why.empty()) view.why = record.reason;
    if (view.task_state == State::retrying) view.until = record.since + record.delay;
  }
  const bool due =
      view.task_state == State::retrying && row.stored->stamp + row.stored->record.delay <= now;
  if (view.task_state != State::waiting && !due) return {};
  auto waits = waits_for_a_worker(queue);
  if (!waits) return waits.error();
  view.why = due && !view.why.empty() ? view.why + "; " + *waits : *waits;
  return {};
}

Result<void> ActiveSteps::look_at_start(const core::FlowStep& step, RunStep& view) {
  view.why = "is about to start";
  if (view.task_state) {
    view.why = "its task is " + std::string(to_string(*view.task_state)) +
               "; a runner has yet to take note of it";
  } else if (const auto queue = engine::queue_of(step, queues_); !queue) {
    view.why = queue.error().message;
    return {};
  }
  auto refused = refusal(step);
  if (!refused) return refused.error();
  if (*refused) {
    view.why = rate_text(*step.rate);
    view.until = due_at(**refused);
    if ((*refused)->waits_at(store_.now())) return {};
  }
  return needs_a_runner(view);
}

ActiveSteps::Found ActiveSteps::refusal(const core::FlowStep& step) {
  if (!step.rate) return std::optional<store::Entry>{};
  const auto tried = state_.rate_retries.find(step.id);
  const std::uint32_t n = tried == state_.rate_retries.end() ? 0 : tried->second.n;
  return find(EventKind::rate_retry, n + 1, step);
}

Result<std::string> ActiveSteps::waits_for_a_worker(const Queue& queue) {
  const std::string what = "waits for a worker of queue " + queue.name;
  if (queue.paused) return what + ", which is paused";
  const auto there = workers(queue.name);
  if (!there) return there.error();
  return *there == 0 ? what + ", which has none" : what;
}

// --- Waits and runners ------------------------------------------------------------------------

Result<void> ActiveSteps::look_at_wait(const core::FlowStep& step, std::uint32_t n, RunStep& view) {
  const bool sleeps = step.kind == core::FlowStep::Kind::sleep;
  if (view.status != StepStatus::active || (!sleeps && step.timeout <= Duration{0})) return {};
  auto timer = find(EventKind::timer, n, step);
  if (!timer) return timer.error();
  if (*timer) view.until = due_at(**timer);
  if (*timer ? (*timer)->waits_at(store_.now()) : !sleeps) return {};
  if (!*timer) view.why = "is about to start";
  return needs_a_runner(view);
}

Result<void> ActiveSteps::needs_a_runner(RunStep& view) {
  const Queue* const events = queue(core::kFlowQueue);
  if (events == nullptr) return {};
  const auto there = workers(events->name);
  if (!there) return there.error();
  if (events->paused)
    view.why += ": queue " + events->name + " is paused";
  else if (*there == 0)
    view.why += ": no runner is at work";
  view.needs_runner = !events->paused && *there == 0;
  return {};
}

// --- What is asked of the store ---------------------------------------------------------------

const Queue* ActiveSteps::queue(std::string_view name) const {
  const auto found = std::find_if(queues_.begin(), queues_.end(),
                                  [&](const Queue& queue) { return queue.name == name; });
  return found == queues_.end() ? nullptr : &*found;
}

Result<std::uint64_t> ActiveSteps::workers(const std::string& queue) {
  if (const auto known = workers_.find(queue); known != workers_.end()) return known->second;
  auto there = store_.workers(queue);
  if (there) workers_.emplace(queue, *there);
  return there;
}

ActiveSteps::Found ActiveSteps::find(EventKind kind, std::uint32_t n, const core::FlowStep& step) {
  return store_.find(core::event_id(core::event_in(state_, kind, n, step.id)));
}

}  // namespace once::inline v1
