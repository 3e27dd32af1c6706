// What holds a step's start back although its turn has come: the workflow's max_runs, and the step's
// rate. Both are kept in records of their own, which name who has been let in, so that asking again is
// free, and a runner that dies after it was let in takes no second place.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/flow.h"
#include "engine/flow_book.h"

namespace once::engine {

class FlowGates {
 public:
  FlowGates(store::Store& store, Scheduler& scheduler, FlowBook& book)
      : store_(store), scheduler_(scheduler), book_(book) {}

  // None: the run may start its steps; else ask again after so long.
  Result<std::optional<Duration>> admit(const core::FlowDefinition& definition,
                                        const core::RunState& run);
  // None: the step may start now.
  Result<std::optional<Duration>> pass_rate(const core::FlowDefinition& definition,
                                            const core::FlowStep& step, std::string_view run);
  // The run is over: its place is free.
  Result<void> leave(const core::FlowDefinition& definition, std::string_view run);

 private:
  store::Store& store_;
  Scheduler& scheduler_;
  FlowBook& book_;
};

}  // namespace once::engine
