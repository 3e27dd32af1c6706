// Runs of workflows, as `flow show`, `flow runs`, `flow events`, `flow start --wait` and `inspect`
// print them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/app/session.h"
#include "once/flows.h"
#include "shapes/flow_json.h"
#include "shapes/step_look.h"

namespace once::cli {

// For people, with --json as one object.
void print_run(Session& session, const RunView& run);
std::string run_text(const RunView& run, Time now, const Style& style);

// What a step waits for and until when, or why it failed or did not run; without `now` not how soon.
std::string why_text(const RunStep& step, std::optional<Time> now, const Style& style);

// That a run which is over is not completed.
Error end_of(const RunInfo& run);

// Runs in a list; ages are up to `now`.
std::string runs_text(const std::vector<RunInfo>& runs, Time now, const Style& style);

// What happened in a run, a line each below the heading, cut to `width` columns unless that is zero.
class EventLines {
 public:
  // The steps of `run` say how wide their column is.
  EventLines(const RunView& run, std::size_t width);
  std::string heading(const Style& style) const;
  std::string line(const RunEvent& event) const;

 private:
  std::size_t steps_ = 4;
  std::size_t width_;
};

std::string look_text(const StepLook& look, const Style& style);
bool over(RunPhase phase);

}  // namespace once::cli
