// One event of a run, handled: folded into the run's facts, which are written over those that were
// read; then what it is to cause is done. Killed anywhere, the event comes again and the same is done
// again.
#pragma once

#include "flow/action_executor.h"
#include "work/task_attempt.h"

namespace once::engine {

class EventHandler {
 public:
  EventHandler(store::Store& store, Scheduler& scheduler, RunStore& book, EventLog& log)
      : store_(store), book_(book), log_(log), acts_(store, scheduler, book, log) {}

  // A handler of the queue of events. Any thread.
  Report handle(const TaskAttempt& assignment);

 private:
  Result<void> take(core::FlowEvent event);
  // What the run is known to be; none: it is forgotten.
  Result<std::optional<KnownRun>> find(const core::FlowEvent& event);
  // An event of a run that is forgotten: its key ages, however it came to that.
  Result<void> end_forgotten(const core::FlowEvent& event);
  // A large output is fetched from where it is, and put where it stays as long as the run.
  Result<void> place_value(const core::FlowDefinition& definition, core::FlowEvent& event);
  Result<void> act(const core::FlowDefinition& definition, const core::RunState& state,
                   const core::FlowEvent& event);

  store::Store& store_;
  RunStore& book_;
  EventLog& log_;
  ActionExecutor acts_;
};

}  // namespace once::engine
