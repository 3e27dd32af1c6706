// A process of the demo's that cannot outlive it: it dies with this object, and when the demo itself
// is killed with -9.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/demo/setting.h"
#include "once/result.h"

namespace once::cli::demo {

class Child {
 public:
  Child() = default;  // none
  // Runs this executable with the arguments. `in` and `out` are descriptors; -1: nothing to read, and
  // nobody who reads. To be called on the thread that lives longest: the process dies with it.
  static Result<Child> start(const Setting& setting, std::vector<std::string> arguments,
                             int in = -1, int out = -1);
  Child(Child&& other) noexcept;
  Child& operator=(Child&& other) noexcept;
  ~Child();

  bool running();                         // looks whether it has ended
  int status() const { return status_; }  // of waitpid, when it has ended
  void signal(int number) const;

 private:
  pid_t pid_ = 0;
  int status_ = 0;
};

// The first thing that such a process does: `once --demo-child PARENT ARGUMENT...`.
int child_main(int argc, char** argv);

}  // namespace once::cli::demo
