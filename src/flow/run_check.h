// Compares a run with the values that it needs: its start key, its definition and its large
// outputs. An audit calls it, because no runner reads these values before it needs them.
#pragma once

#include <string>
#include <vector>

#include "flow/run_store.h"

namespace once::engine {

struct RunFault {
  std::string what{};  // for a person
  std::string harm{};
};

// Returns what is wrong with a run that goes on. A run that has ended needs no values any more. The
// run may change meanwhile, so a fault is reported only if a second look shows it too.
Result<std::vector<RunFault>> check_run(RunStore& run_store, const core::RunState& state);

}  // namespace once::engine
