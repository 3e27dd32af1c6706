// The public name of the guard's body.
#include "exec/program.h"
#include "once/worker.h"

namespace once::inline v1 {

int guard_main(int argc, char** argv) { return engine::run_guard(argc, argv); }

}  // namespace once::inline v1
