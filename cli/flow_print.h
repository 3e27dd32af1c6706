// Runs of workflows, as `flow show`, `flow runs`, `flow start --wait` and `inspect` print them.
#pragma once

#include <string>
#include <string_view>

#include "cli/session.h"
#include "once/flows.h"

namespace once::cli {

// For people, with --json as one object.
void print_run(Session& session, const RunView& run);
std::string run_text(const RunView& run, const Style& style);
std::string run_json(const RunView& run);

// How a step is shown wherever it is: one mark, one word, in the colour of a task's state.
struct StepLook {
  std::string_view
      mark;  // ✓ completed ✗ failed ▶ active ⏸ active, and waits ○ pending – skipped · unreached
  std::string_view word;  // of an active step the state of its task, as far as it is known
  State colour;
};
StepLook look_of(const RunStep& step);
StepLook look_of(RunPhase phase);

}  // namespace once::cli
