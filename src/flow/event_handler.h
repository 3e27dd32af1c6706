// The handler of the queue `once-flow`. Handles one event of a run:
//
//   take   reads the run's value, folds the event into its facts (core::fold), and replaces the
//          value by compare-and-swap
//   act    asks core::plan for the actions that the event causes
//          and lets ActionExecutor (action_executor.h) perform them
//
// If the runner dies anywhere, the event is delivered again, and all of this happens again.
#pragma once

#include "flow/action_executor.h"
#include "work/task_attempt.h"

namespace once::engine {

class EventHandler {
 public:
  EventHandler(store::Store& store, Scheduler& scheduler, RunStore& book, EventLog& log)
      : store_(store), book_(book), log_(log), acts_(store, scheduler, book, log) {}

  // Any thread may call it.
  Report handle(const TaskAttempt& assignment);

 private:
  Result<void> take(core::FlowEvent event);
  // The run's value, or the facts of `started` if a runner has not written the value yet. nullopt
  // if the run has expired.
  Result<std::optional<KnownRun>> find(const core::FlowEvent& event);
  // Handles an event of a run that has expired. For the run's end, settles the key.
  Result<void> end_forgotten(const core::FlowEvent& event);
  // Reads a large output from the record of the step's task. Stores it as a value of its own, which
  // lives as long as the run.
  Result<void> place_value(const core::FlowDefinition& definition, core::FlowEvent& event);
  // The signal that the timer's step waits for, if it is in the log and not yet among the facts.
  Result<std::optional<core::FlowEvent>> awaited_signal(const core::FlowDefinition& definition,
                                                        const core::RunState& state,
                                                        const core::FlowEvent& timer);
  Result<void> act(const core::FlowDefinition& definition, const core::RunState& state,
                   const core::FlowEvent& event);

  store::Store& store_;
  RunStore& book_;
  EventLog& log_;
  ActionExecutor acts_;
};

}  // namespace once::engine
