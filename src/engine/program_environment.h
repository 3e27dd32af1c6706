// What a program is told about its task: the environment, and the files it names.
#pragma once

#include <string>
#include <vector>

#include "engine/assignment.h"
#include "engine/guard_protocol.h"

namespace once::engine {

// This process's environment, without what belongs to one task (of a worker that runs inside
// another one's program) and without the store's credentials. Not while others call setenv().
std::vector<std::string> inherited_environment();

// The line that `once log` prints of the task, with its line end.
std::string task_line(const Assignment& assignment);

// A private folder for one attempt, removed with all it holds by the destructor.
class AttemptFolder {
 public:
  // In $TMPDIR, else /tmp, with the task's line as a file in it.
  static Result<AttemptFolder> make(const Assignment& assignment);
  AttemptFolder(AttemptFolder&& other) noexcept;
  AttemptFolder& operator=(AttemptFolder&&) = delete;
  ~AttemptFolder();

  const std::string& path() const { return path_; }
  std::string task_file() const { return path_ + guard::kTaskFile; }
  std::string result_file() const {
    return path_ + guard::kResultFile;
  }  // made by the program, if at all
  std::string socket_file() const { return path_ + guard::kSocketFile; }  // if there are steps

 private:
  explicit AttemptFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved from
};

// `inherited` and the variables of this attempt.
std::vector<std::string> environment(const std::vector<std::string>& inherited,
                                     const Assignment& assignment, const Program& program,
                                     const AttemptFolder& folder);

}  // namespace once::engine
