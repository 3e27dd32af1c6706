// How a step or a run is shown wherever it is: one mark, one word, in the colour of a task's state.
//   ✓ completed  ✗ failed  ▶ active  ⏸ active, and waits  ○ pending  – skipped  · unreached
#pragma once

#include <string_view>

#include "once/flows.h"

namespace once::cli {

struct StepLook {
  std::string_view mark;
  std::string_view word;  // of an active step the state of its task, as far as it is known
  State colour;
  friend bool operator==(const StepLook&, const StepLook&) = default;
};
StepLook look_of(const RunStep& step);
StepLook look_of(RunPhase phase);

// The library says why a step waits. The command adds what to start.
std::string why_of(const RunStep& step);

}  // namespace once::cli
