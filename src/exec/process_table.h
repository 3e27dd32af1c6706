// The processes of this machine, as /proc shows them.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace once::engine {

struct Process {
  pid_t pid{};
  char state{};  // 'Z': has ended and was not waited for; 'T': suspended
  pid_t parent{};
  pid_t group{};
  pid_t session{};
  std::string name{};
};

// Reads every /proc/PID/stat: for the rare moment, not for a hot path. Not a snapshot: a process
// that is born meanwhile may be missing. Empty without /proc.
std::vector<Process> processes();

// The descendants of `ancestor` in `all`, without itself.
std::vector<Process> descendants(const std::vector<Process>& all, pid_t ancestor);

// The environment that the process was started with; each variable ends with a NUL. Empty if it may
// not be read.
std::string environment_of(pid_t pid);

// SIGKILL, if `still` holds once no other process can get this process id any more.
void kill_process(pid_t pid, const std::function<bool()>& still);

}  // namespace once::engine
