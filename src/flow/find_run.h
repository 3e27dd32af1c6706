// The facts of a run, even before its value is written.
#pragma once

#include <optional>
#include <string_view>

#include "flow/event_log.h"
#include "flow/run_store.h"

namespace once::engine {

// Returns nullopt if there is no such run, or if it has expired.
Result<std::optional<KnownRun>> find_run(RunStore& run_store, EventLog& log, std::string_view run);

}  // namespace once::engine
