// Parses /proc/PID/stat: `PID (NAME) STATE PARENT GROUP SESSION ...`, where NAME may hold anything,
// parentheses too, so that the fields are counted from the last one.
#include "exec/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "store/file_descriptor.h"

namespace once::engine {

std::vector<Process> processes() {
  std::vector<Process> found;
  DIR* const directory = ::opendir("/proc");
  if (directory == nullptr) return found;
  while (const dirent* entry = ::readdir(directory)) {
    char* end = nullptr;
    const long pid = std::strtol(entry->d_name, &end, 10);
    if (pid <= 0 || *end != '\0') continue;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    const store::FileDescriptor file(::open(path, O_RDONLY | O_CLOEXEC));
    if (!file) continue;
    char text[512];
    const ssize_t size = ::read(file.get(), text, sizeof text - 1);
    if (size <= 0) continue;
    text[size] = '\0';
    const char* const name_begin = std::strchr(text, '(');
    const char* const name_end = std::strrchr(text, ')');
    if (name_begin == nullptr || name_end == nullptr) continue;
    Process process;
    process.name.assign(name_begin + 1, name_end);
    process.pid = static_cast<pid_t>(pid);
    if (std::sscanf(name_end + 1, " %c %d %d %d", &process.state, &process.parent, &process.group,
                    &process.session) == 4)
      found.push_back(std::move(process));
  }
  ::closedir(directory);
  return found;
}

std::vector<Process> descendants(const std::vector<Process>& all, pid_t ancestor) {
  std::vector<Process> found;
  const auto add_children_of = [&](pid_t parent) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [&](const Process& process) { return process.parent == parent; });
  };
  add_children_of(ancestor);
  for (std::size_t next = 0; next < found.size(); ++next) add_children_of(found[next].pid);
  return found;
}

std::string environment_of(pid_t pid) {
  const store::FileDescriptor file(
      ::open(("/proc/" + std::to_string(pid) + "/environ").c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char bytes[16 << 10];
  ssize_t size = 0;
  while (file && (size = ::read(file.get(), bytes, sizeof bytes)) > 0)
    text.append(bytes, static_cast<std::size_t>(size));
  return text;
}

void kill_process(pid_t pid, const std::function<bool()>& still) {
  const store::FileDescriptor handle(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!handle && errno != ENOSYS) return;  // it has ended
  if (!still()) return;
  if (handle)
    ::syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0);
  else
    ::kill(pid, SIGKILL);
}

}  // namespace once::engine
