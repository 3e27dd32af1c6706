// The facts of a run, also before a runner has made its record.
#pragma once

#include <optional>
#include <string_view>

#include "flow/event_log.h"
#include "flow/run_store.h"

namespace once::engine {

// None: there is no such run, or it is forgotten.
Result<std::optional<KnownRun>> find_run(RunStore& book, EventLog& log, std::string_view run);

}  // namespace once::engine
