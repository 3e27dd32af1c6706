// A durable step from inside a program that a Worker runs: the body of `once step`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {

struct StepCommand {
  std::string name{};                  // UTF-8, 1 to 128 bytes, no control characters
  std::vector<std::string> command{};  // run without a shell
  // What becomes of the step when it is cut off: retry, hold or probe; none: what the queue says.
  std::optional<InDoubt> in_doubt{};
  // For probe, which it implies: run by `/bin/sh -c`. Exit 0: it happened, with the output as its
  // result; 1: it did not; any other: nobody knows.
  std::string probe{};
};

struct StepExit {
  int status = 0;      // for exit(): the command's, or 125, 126, 127 for what is not the command's
  std::string said{};  // for a person, on standard error; empty: nothing
};

// Runs the command once for the task whose program this process belongs to ($ONCE_SOCKET), and
// remembers its standard output when it exits 0; on any later attempt writes that to standard output
// instead. The command inherits standard input, error and the environment, in which
// $ONCE_IDEMPOTENCY_KEY is the step's own and $ONCE_STEP_NAME its name; its output is passed on as it
// comes. If the output is above the queue's max_result, it is not remembered, the step is not run again,
// and the task is held in doubt (125). The command gets the SIGINT, SIGTERM, SIGHUP and SIGQUIT that
// come here, and dies with this process.
//
// Exit 74, 129 to 192 and death by a signal (128 + its number) are no verdict: the step is in doubt.
// After any other exit but 0 a later attempt runs it again. 125: the step could not be run or not be
// recorded, `said` says which; 126: the command is not executable; 127: there is none of that name.
//
// For a process without threads of its own, before it ends: signals are kept from them meanwhile.
StepExit run_step(const StepCommand& step);

}  // namespace once::inline v1
