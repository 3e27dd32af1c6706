// The handler of the queue `once-flow`. handle() takes a batch of events and makes few store calls:
//
//   find_runs   reads the values of the runs that this process does not remember
//   fold        adds the events to the facts of their runs (core::fold)
//   write       replaces each changed value by compare-and-swap
//   act         asks core::plan for the actions of each event; ActionExecutor performs them
//
// The batch leaves out an event that needs store calls of its own: a timer, a retry, a large
// output, or an event of a run that another runner has written. handle_alone() handles it.
//
// If the runner dies anywhere, the events are delivered again, and all of this happens again.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "flow/action_executor.h"
#include "work/task_attempt.h"

namespace once::engine {

class EventHandler {
 public:
  EventHandler(store::Store& store, Scheduler& scheduler, RunStore& run_store, EventLog& log)
      : store_(store),
        scheduler_(scheduler),
        run_store_(run_store),
        log_(log),
        executor_(store, scheduler, run_store, log) {}

  // Returns one report per event. Any thread may call it.
  std::vector<Report> handle(std::span<const TaskAttempt> events);

 private:
  // An event and the result of handling it. `done` is nullopt while the event is not handled.
  struct Handled {
    core::FlowEvent event{};
    std::optional<Result<void>> done{};
  };
  class Batch;

  Result<void> try_alone(const TaskAttempt& attempt, core::FlowEvent event,
                         std::optional<Error>& away);
  // Handles one event without the others of its batch.
  Result<void> handle_alone(core::FlowEvent event);
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
  struct Folded {
    const core::FlowDefinition& definition;
    const core::RunState& state;  // with the event
    const core::FlowEvent& event;
  };
  // Does what the facts ask for. Returns one answer per event.
  std::vector<Result<void>> act(std::span<const Folded> events);
  // The part of act() before the plan. Returns false if nothing is left to do.
  Result<bool> before_plan(const Folded& folded);
  void settle_ended_keys(std::span<const Folded> events, std::span<Result<void>> answers);

  store::Store& store_;
  Scheduler& scheduler_;
  RunStore& run_store_;
  EventLog& log_;
  ActionExecutor executor_;
};

}  // namespace once::engine
