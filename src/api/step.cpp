// The public name of a step's body.
#include "once/step.h"

#include "exec/step_client.h"

namespace once::inline v1 {

StepExit run_step(const StepCommand& step) { return engine::StepClient(step).run(); }

}  // namespace once::inline v1
