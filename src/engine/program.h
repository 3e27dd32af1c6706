// Programs as handlers: one process group per attempt under a guard.
//
//   worker --posix_spawn--> guard (subreaper) --fork/exec--> program (own group, PDEATHSIG)
//
// The guard ends the group, and every descendant that left it, when the worker's end of their
// channel closes (the worker died, kill -9 included), when the worker asks for it (SIGTERM, SIGKILL
// after the grace), when the worker was silent for a lease, and when the program has exited (what
// it left behind must not run beside a successor). Then it waits for the handler's next attempt.
#pragma once

#include "engine/assignment.h"

namespace once::engine {

// Finds the command as execvp would; the error says what is wrong. Nothing is run.
Result<std::string> resolve_command(const std::string& command);

// A handler that runs the program per task; checks the command and the guard first.
Result<Handler> program_handler(Program program);

// See once::guard_main in once/worker.h.
int run_guard(int argc, char** argv);

}  // namespace once::engine
