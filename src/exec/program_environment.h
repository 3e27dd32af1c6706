// What a program is told about its task: the environment, and the files it names.
#pragma once

#include <string>
#include <vector>

#include "exec/supervisor_protocol.h"
#include "store/file_descriptor.h"
#include "tooling/program.h"
#include "work/task_attempt.h"

namespace once::engine {

// This process's environment, without what belongs to one task (of a worker that runs inside
// another one's program) and without the store's credentials. Not while others call setenv().
std::vector<std::string> inherited_environment();

// The line that `once log` prints of the task, with its line end.
std::string task_line(const TaskAttempt& task_attempt);

// A private folder for one attempt, removed with all it holds by the destructor. A locked file in
// it says that it has an owner. The worker and the supervisor hold the lock.
class AttemptFolder {
 public:
  // In $TMPDIR, else /tmp, with the task's line as a file in it.
  static Result<AttemptFolder> make(const TaskAttempt& task_attempt);
  // Removes the folders of this user there that no living process owns. A worker that was killed
  // together with its supervisor leaves one.
  static void clear_abandoned();
  AttemptFolder(AttemptFolder&& other) noexcept;
  AttemptFolder& operator=(AttemptFolder&&) = delete;
  ~AttemptFolder();

  const std::string& path() const { return path_; }
  int lock() const { return lock_.get(); }  // the lock file, locked where the file system can
  std::string task_file() const { return path_ + supervisor::kTaskFile; }
  std::string result_file() const {
    return path_ + supervisor::kResultFile;
  }  // made by the program, if at all
  std::string socket_file() const { return path_ + supervisor::kSocketFile; }  // if there are steps

 private:
  AttemptFolder(std::string path, store::FileDescriptor lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;  // empty: moved from
  store::FileDescriptor lock_;
};

// `inherited` and the variables of this attempt.
std::vector<std::string> environment(const std::vector<std::string>& inherited,
                                     const TaskAttempt& task_attempt, const Program& program,
                                     const AttemptFolder& folder);

}  // namespace once::engine
