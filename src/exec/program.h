// Programs as handlers: one process group per attempt under a supervisor.
//
//   worker --posix_spawn--> supervisor (subreaper) --fork/exec--> program (own group, PDEATHSIG)
//
// The supervisor ends the group, and every descendant that left it, when the worker's end of their
// channel closes (the worker died, kill -9 included), when the worker asks for it (SIGTERM, SIGKILL
// after the grace), when the worker was silent for half a lease, and when the program has exited (what
// it left behind must not run beside a successor). Then it waits for the handler's next attempt.
#pragma once

#include "tooling/program.h"
#include "work/task_attempt.h"

namespace once::engine {

// Finds the command as execvp would. Nothing is run.
struct FoundCommand {
  std::string path{};  // may be there with an error too; empty: nothing of that name is in PATH
  int error = 0;       // errno that executing it would meet, as far as that can be known
};
FoundCommand find_command(const std::string& command);
// The same; the error says what is wrong.
Result<std::string> resolve_command(const std::string& command);

// A handler that runs the program per task; checks the command and the supervisor first.
Result<Handler> program_handler(Program program);

// A handler that asks the program's probe, run by the shell with the environment and input of the
// program: completed(result) it happened, failed it did not, unknown everything else, a probe that
// cannot be started included. It has supervisors of its own, started when it is first asked.
Result<Handler> program_probe(const Program& program);

// See once::supervisor_main in tooling/program.h.
int run_supervisor(int argc, char** argv);

}  // namespace once::engine
