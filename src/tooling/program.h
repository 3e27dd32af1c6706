// Workers that run a program for each task, as `once work -- COMMAND` does.
// An application runs handlers (once/worker.h). This header is not installed, because a program
// needs an executable with a supervisor, which the command is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "once/worker.h"
#include "once/zone.h"

namespace once::inline v1 {

// Receives the output of one program run as the worker reads it. The worker calls the listener on
// the thread that runs the program. A call that blocks delays the program. Calls must not throw.
class ProgramListener {
 public:
  virtual ~ProgramListener() = default;
  virtual void output(std::string_view bytes) = 0;  // from standard output
  virtual void errors(std::string_view bytes) = 0;  // from standard error
  struct End {
    Outcome::Kind verdict{};
    std::string how{};  // "exit 3" or "killed by SIGKILL"; contains no program output
    Duration took{};
  };
  virtual void ended(const End& end) = 0;  // the last call
};

// Describes the program run that a new listener will receive.
struct ProgramRun {
  const Task& task;
  std::string_view queue{};
  int attempt{};
  bool probe = false;
};

// A program that the worker runs once per attempt. The program reads the body from standard input
// and finds `ONCE_...` variables in its environment. The result is the file $ONCE_RESULT, or else
// the program's standard output. The exit status is the verdict.
struct Program {
  std::vector<std::string> command{};
  // For queues with InDoubt::probe. The worker runs the probe with `/bin/sh -c` and the same
  // environment and input. Exit 0 means that the attempt happened; the probe writes its result.
  // Exit 1 means that the attempt did not happen. After any other exit, the task is held in doubt.
  std::string probe{};
  Duration grace{10'000};    // time between SIGTERM and SIGKILL
  std::string supervisor{};  // an executable that calls supervisor_main()
  std::string store{};       // $ONCE_STORE for the program; must not contain a secret
  // The worker calls this before each run, on many threads at the same time. The function may be
  // empty and may return null.
  std::function<std::unique_ptr<ProgramListener>(const ProgramRun&)> listener{};
  // Set this if the process only runs programs. If a supervisor is killed, the worker then adopts
  // and ends the supervisor's child processes. The option has no effect in process 1, or if this process
  // has other children.
  bool adopts_orphans = false;
};

// The main function of the supervisor, a small process between a worker and its program.
// The supervisor ends the program if the worker dies or is silent for half a lease. It then ends
// the program's whole process group, and processes that left the group.
// The executable in Program::supervisor must call supervisor_main() first in main() if argv[1] is
// "--supervisor". The executable passes its own arguments and returns the result.
int supervisor_main(int argc, char** argv);

// The same as Zone::worker(), but the worker runs a program for each task instead of a handler.
Result<Worker> program_worker(const Zone& zone, std::string_view queue, Program program,
                              WorkerOptions options = {});

}  // namespace once::inline v1
