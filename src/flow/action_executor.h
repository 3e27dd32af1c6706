// Does what an event of a run is to cause. Each act can be done twice, by this runner or another:
// appends are under fixed ids, an order has a fixed nonce, a task that is cancelled stays so. In this
// order: gates (a start that one refuses becomes an event that tries again), appends as one batch,
// orders and cancellations, and last what is to be free once the run is over.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "flow/event_log.h"
#include "flow/run_store.h"
#include "flow/start_limits.h"

namespace once::engine {

// Bytes of an output that are kept with the facts; a larger one lies elsewhere.
std::size_t most_kept(const core::FlowDefinition& definition);

class ActionExecutor {
 public:
  ActionExecutor(store::Store& store, Scheduler& scheduler, RunStore& book, EventLog& log)
      : store_(store),
        scheduler_(scheduler),
        book_(book),
        log_(log),
        gates_(store, scheduler, book) {}

  // `gated`: what starts passes the gates; what a timer ends began long ago. Any thread.
  Result<void> perform(const core::FlowDefinition& definition, const core::RunState& state,
                       std::vector<core::FlowAction> actions, bool gated);

 private:
  class Batch;
  using Queues = std::vector<Queue>;

  Result<std::vector<core::FlowAction>> pass_gates(const core::FlowDefinition& definition,
                                                   const core::RunState& state,
                                                   std::vector<core::FlowAction> actions,
                                                   Batch& batch);
  // Steps without a queue leave the list.
  Result<void> hold_back(const core::FlowDefinition& definition,
                         std::vector<core::FlowAction>& actions, Batch& batch);
  Result<void> append(const core::FlowDefinition& definition, const core::RunState& state,
                      const core::FlowAction& action, Batch& batch);
  Result<void> end_run(const core::FlowDefinition& definition, const core::RunState& state,
                       const core::EndRun& end, Batch& batch);
  Result<void> send(const core::RunState& state, Batch batch);
  Result<void> refuse(const core::FlowStep& step, const core::RunState& state,
                      const std::string& why, Batch& batch);
  Result<void> follow_up(const core::FlowDefinition& definition, const core::RunState& state,
                         const core::FlowAction& action);
  Result<void> finish(const core::FlowDefinition& definition, const core::RunState& state);
  Result<void> retry(const core::FlowDefinition& definition, const core::RunState& state,
                     const core::RetryTask& action);
  Result<void> call_off_timer(const core::FlowEvent& timer, const core::RunState& state);
  // Where the log has an entry of that id, it is not to be run (any more).
  Result<void> call_off(const std::string& id, const core::RunState& state);
  Result<void> call_off(const store::Entry& entry, const Queue& queue, const std::string& why);
  enum class Look { remembered, anew };
  Result<Queues> queues(Look look = Look::remembered);  // as of a moment ago
  Result<Queues> queues_for(const core::FlowStep& step);

  store::Store& store_;
  Scheduler& scheduler_;
  RunStore& book_;
  EventLog& log_;
  StartLimits gates_;
  std::mutex mutex_;
  Queues queues_;         // under mutex_
  Moment queues_read_{};  // under mutex_
};

}  // namespace once::engine
