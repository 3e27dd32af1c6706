// The limits on the start of a step: the workflow's max_runs and the step's rate. A note names the
// runs and steps that were admitted. So asking again costs no second place. If a runner dies after
// it was admitted, at worst one place stays empty.
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
  StartLimits(store::Store& store, Scheduler& scheduler, RunStore& run_store)
      : store_(store), scheduler_(scheduler), run_store_(run_store) {}

  // Returns nullopt if the run may start its steps, else after how long it must ask again.
  Result<std::optional<Duration>> admit(const core::FlowDefinition& definition,
                                        const core::RunState& run);
  // Whether the run was admitted, or needs no admission.
  Result<bool> admitted(const core::FlowDefinition& definition, std::string_view run);
  // The run has ended: frees its place.
  Result<void> leave(const core::FlowDefinition& definition, const std::string& run);

  // Returns nullopt if the step may start now, else after how long it must ask again. `who` names
  // the run and the start of the step. `sent_away` means that this start was refused before.
  Result<std::optional<Duration>> pass_rate(const core::FlowDefinition& definition,
                                            const core::FlowStep& step, const std::string& who,
                                            bool sent_away);

 private:
  Result<void> drop_ended(const core::FlowDefinition& definition, std::vector<std::string>& runs);
  Result<bool> write_runs(const core::FlowDefinition& definition,
                          const std::vector<std::string>& active, core::Revision expected);

  store::Store& store_;
  Scheduler& scheduler_;
  RunStore& run_store_;
  std::mutex mutex_;
  std::map<std::string, Moment> dropped_at_;  // under mutex_; by workflow
};

}  // namespace once::engine
