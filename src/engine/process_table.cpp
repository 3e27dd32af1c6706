// Parses /proc/PID/stat: `PID (NAME) STATE PARENT GROUP SESSION ...`, where NAME may hold anything,
// parentheses too, so that the fields are counted from the last one.
#include "engine/process_table.h"

#include <dirent.h>
#include <fcntl.h>

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
    const char* const name_end = std::strrchr(text, ')');
    Process process;
    process.pid = static_cast<pid_t>(pid);
    if (name_end != nullptr && std::sscanf(name_end + 1, " %c %d %d %d", &process.state,
                                           &process.parent, &process.group, &process.session) == 4)
      found.push_back(process);
  }
  ::closedir(directory);
  return found;
}

}  // namespace once::engine
