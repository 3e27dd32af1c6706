// The implementation of `once step`. A program that a Worker runs uses it for a durable step.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {

struct StepCommand {
  std::string name{};                  // UTF-8, 1 to 128 bytes, no control characters
  std::vector<std::string> command{};  // run without a shell
  // The policy for a step that is cut off: retry, hold or probe. If nullopt, the queue's policy
  // applies.
  std::optional<InDoubt> in_doubt{};
  // A command for `/bin/sh -c`. A nonempty probe implies the policy `probe`.
  // Exit 0 means that the step happened; the output is its result. Exit 1 means that the step did
  // not happen. Any other exit leaves the step in doubt.
  std::string probe{};
};

struct StepExit {
  int status = 0;      // for exit(): the command's status, or 125, 126 or 127 from Once
  std::string said{};  // a message for standard error; may be empty
};

// Runs the command once for the current task. $ONCE_SOCKET names the worker that runs the task.
// If the command exits 0, the worker stores its standard output as the result of the step.
// A later attempt writes the stored result to standard output and does not run the command.
//
// The command inherits standard input, standard error and the environment.
// $ONCE_IDEMPOTENCY_KEY is the step's own key. $ONCE_STEP_NAME is the step's name.
// run_step() passes the output of the command on as it arrives.
// run_step() forwards SIGINT, SIGTERM, SIGHUP and SIGQUIT to the command.
// The command dies with this process.
//
// The output may exceed the queue's max_result. The worker then does not store the output.
// The step is not run again, the task is held in doubt, and the status is 125.
//
// These exits are no verdict and leave the step in doubt: 74, 129 to 192, and death by a signal.
// The status for death by a signal is 128 plus the signal number.
// After any other nonzero exit, a later attempt runs the command again.
//   125: the step could not be run or could not be recorded. `said` says which.
//   126: the command is not executable.
//   127: the command was not found.
//
// The calling process must have no other threads, because run_step() blocks signals.
// Call run_step() last, just before the process exits.
StepExit run_step(const StepCommand& step);

}  // namespace once::inline v1
