// Performs the actions that core::plan() returns for an event. Each action can be performed twice,
// by this runner or another: appends have fixed ids, an order has a fixed nonce, and a cancelled
// task stays cancelled. The order is:
//
//   1. the start limits (start_limits.h); a start that they refuse becomes a later event that tries
//      again
//   2. all appends of all events in one store call: tasks of steps, timers, ends of steps and runs
//   3. orders and cancellations
//   4. after the end of the run: its place among max_runs becomes free
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "flow/event_log.h"
#include "flow/run_store.h"
#include "flow/start_limits.h"

namespace once::engine {

// The largest output that is kept in the run's value. A larger output is a value of its own.
std::size_t most_kept(const core::FlowDefinition& definition);

class ActionExecutor {
 public:
  ActionExecutor(store::Store& store, Scheduler& scheduler, RunStore& run_store, EventLog& log)
      : store_(store),
        scheduler_(scheduler),
        run_store_(run_store),
        log_(log),
        start_limits_(store, scheduler, run_store) {}

  // The actions that one event causes.
  struct Caused {
    const core::FlowDefinition& definition;
    core::RunState state{};
    std::vector<core::FlowAction> actions{};
    // Whether starts must pass the start limits. The event of a timer is not gated, because its
    // step started long ago.
    bool gated = true;
  };
  // Returns one answer per event. If a step could not start yet, the answer is an error, and the
  // worker retries the event later. Any thread may call it.
  std::vector<Result<void>> perform(std::vector<Caused> events);

 private:
  class Appends;
  using Queues = std::vector<Queue>;

  Result<std::vector<core::FlowAction>> pass_gates(const core::FlowDefinition& definition,
                                                   const core::RunState& state,
                                                   std::vector<core::FlowAction> actions,
                                                   Appends& appends);
  // Removes the starts of steps whose queue does not exist yet from the list.
  Result<void> hold_back(const core::FlowDefinition& definition,
                         std::vector<core::FlowAction>& actions, Appends& appends);
  Result<void> append(const core::FlowDefinition& definition, const core::RunState& state,
                      const core::FlowAction& action, Appends& appends);
  Result<void> end_run(const core::FlowDefinition& definition, const core::RunState& state,
                       const core::EndRun& end, Appends& appends);
  // Limits and appends of one event, before anything is sent.
  Result<Appends> prepare(Caused& event);
  Result<void> send(const core::RunState& state, Appends appends);
  Result<void> sent(const core::RunState& state, const Appends& appends,
                    std::span<const Result<store::AppendResult>> answers);
  Result<void> refuse(const core::FlowStep& step, const core::RunState& state,
                      const std::string& why, Appends& appends);
  Result<void> follow_up(const core::FlowDefinition& definition, const core::RunState& state,
                         const core::FlowAction& action);
  Result<void> finish(const core::FlowDefinition& definition, const core::RunState& state);
  Result<void> retry(const core::FlowDefinition& definition, const core::RunState& state,
                     const core::RetryTask& action);
  Result<void> call_off_timer(const core::FlowEvent& timer, const core::RunState& state);
  // If the log has a task of that id, cancels it.
  Result<void> call_off(const std::string& id, const core::RunState& state);
  Result<void> call_off(const store::Entry& entry, const Queue& queue, const std::string& why);
  enum class Look { remembered, anew };
  Result<Queues> queues(Look look = Look::remembered);  // `remembered`: up to a second old
  Result<Queues> queues_for(const core::FlowStep& step);

  store::Store& store_;
  Scheduler& scheduler_;
  RunStore& run_store_;
  EventLog& log_;
  StartLimits start_limits_;
  std::mutex mutex_;
  Queues queues_;         // under mutex_
  Moment queues_read_{};  // under mutex_
};

}  // namespace once::engine
