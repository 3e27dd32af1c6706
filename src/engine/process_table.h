// The processes of this machine, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <vector>

namespace once::engine {

struct Process {
  pid_t pid{};
  char state{};  // 'Z': has ended and was not waited for
  pid_t parent{};
  pid_t group{};
  pid_t session{};
};

// Reads every /proc/PID/stat: for the rare moment, not for a hot path. Not a snapshot: a process
// that is born meanwhile may be missing. Empty without /proc.
std::vector<Process> processes();

}  // namespace once::engine
