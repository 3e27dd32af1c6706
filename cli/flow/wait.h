// Until a run has ended, or time is up: for `flow wait` and `flow start --wait`.
#pragma once

#include <optional>
#include <string>

#include "cli/app/session.h"
#include "once/flows.h"

namespace once::cli {

// Prints the run when it has ended, unless -q is given; `limit` none: however long that takes. The exit
// status says how it ended.
int wait_for_run(Session& session, const Zone& zone, const std::string& run,
                 std::optional<Duration> limit);

// What a person can do about a run that failed, to be added to a sentence; empty: nothing.
std::string way_on(const Flows& flows, const RunInfo& run);

}  // namespace once::cli
