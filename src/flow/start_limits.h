// What holds a step's start back although its turn has come: the workflow's max_runs, and the step's
// rate. Who has been let in is noted, so that asking again is free, and a runner that dies after it was
// let in takes no second place: at worst a place stays empty.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "flow/rules/facts.h"
#include "flow/run_store.h"

namespace once::engine {

class StartLimits {
 public:
  StartLimits(store::Store& store, Scheduler& scheduler, RunStore& book)
      : store_(store), scheduler_(scheduler), book_(book) {}

  // None: the run may start its steps; else it is to ask again after so long.
  Result<std::optional<Duration>> admit(const core::FlowDefinition& definition,
                                        const core::RunState& run);
  // Whether it has been let in, or needs not be.
  Result<bool> admitted(const core::FlowDefinition& definition, std::string_view run);
  // The run is over: its place is free.
  Result<void> leave(const core::FlowDefinition& definition, const std::string& run);

  // None: the step may start now; else it is to ask again after so long. `who`: the run, and which
  // start of the step it is. `sent_away`: it was told so before.
  Result<std::optional<Duration>> pass_rate(const core::FlowDefinition& definition,
                                            const core::FlowStep& step, const std::string& who,
                                            bool sent_away);

 private:
  Result<void> drop_ended(const core::FlowDefinition& definition, std::vector<std::string>& runs);
  Result<bool> write_runs(const core::FlowDefinition& definition,
                          const std::vector<std::string>& active, core::Revision expected);

  store::Store& store_;
  Scheduler& scheduler_;
  RunStore& book_;
  std::mutex mutex_;
  std::map<std::string, Moment> dropped_at_;  // under mutex_; by workflow
};

}  // namespace once::engine
