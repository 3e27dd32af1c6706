// Workflows and their runs as JSON. The commands print these objects with --json, and the HTTP server
// sends them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "once/flows.h"

namespace once::cli {

inline constexpr std::string_view kEventsQueue = "once-flow";  // of the events of runs
inline constexpr std::string_view kRunsQueue = "once-runs";    // what an audit calls runs

std::string flow_added_json(const FlowAdded& added);
std::string flow_info_json(const FlowInfo& flow);
std::string run_started_json(const Started& started);
std::string run_json(const RunView& run);
std::string run_json(const RunInfo& run);
std::string event_json(const RunEvent& event);

std::string signal_json(std::string_view run, std::string_view name, std::string_view id,
                        const SignalResult& sent);
std::string approved_json(std::string_view run, std::string_view step, const Approved& verdict);
// What a cancel does to a run that was in this phase: cancelled, closed or asked.
std::string_view cancel_outcome(RunPhase before);
std::string run_cancelled_json(std::string_view run, RunPhase before);
// `round` is the round that begins.
std::string run_retried_json(std::string_view run, std::uint32_t round,
                             const std::vector<std::string>& steps);

}  // namespace once::cli
