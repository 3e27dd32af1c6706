// Runs of workflows that nothing will move any more: no event or timer waits to be handled, no task of
// an active step is open, and nobody is asked for anything.
#pragma once

#include "api/zone_state.h"

namespace once::inline v1 {

// Adds to the diagnosis which runs failed; reads a bounded number of runs.
Result<void> look_for_failed_runs(const detail::ZoneState& zone, Diagnosis& diagnosis);
// Adds to the diagnosis what it finds; reads every open event and every run that goes on.
Result<void> look_for_stuck_runs(const detail::ZoneState& zone, Diagnosis& diagnosis);

}  // namespace once::inline v1
