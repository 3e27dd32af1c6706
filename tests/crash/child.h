// Real processes for crash tests: this executable started again in a role, with faults placed at
// the seam, so that it can be killed at an exact point of a task's life.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace once::crash {

// How a child works; every field is a word on its command line.
struct Role {
  std::string name{};      // see child.cpp
  std::string database{};  // a path, or what else names a store
  std::string queue = "q";
  std::string effects{};  // a file; each run of a handler appends a line "ID ATTEMPT"
  std::string faults{};   // a FaultPlan
  // Where the handler kills its own process: "before_effect" or "after_effect"; of a stepper
  // "before:STEP", "in:STEP" (before its effect), "done:STEP" (after it), "after:STEP" (recorded).
  std::string dies{};
  std::string policy{};  // steppers: of their steps
  std::string fails{};   // "yes": the first attempt of each task fails
  int concurrency = 1;
  int task_ms = 0;     // how long a handler takes
  int first = 0;       // publishers: ids from here
  int count = 0;       // publishers: this many
  std::string task{};  // persons: its id
  int result = 0;      // workers: bytes of each result
};

class Child {
 public:
  explicit Child(const Role& role);
  ~Child();  // kills it
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&& other) noexcept;

  pid_t pid() const { return pid_; }
  void kill();   // SIGKILL, and waits for it
  int wait();    // the exit status; 128 + signal when it was killed
  bool ended();  // has it ended by itself?

 private:
  pid_t pid_ = -1;
  int status_ = -1;
};

// What a child does, when this process is one: called by main().
int run_role(const std::vector<std::string>& words);

// The steps of a stepper, each of which appends "STEP ATTEMPT" to the effects.
inline constexpr const char* kSteps[] = {"write", "push", "deploy"};

// What a worker's handler returns: no two pieces of it are the same.
std::string large_result(int bytes);

// ID (or STEP) -> how often its handler had its effect.
std::map<std::string, int> effects_in(const std::string& file);

}  // namespace once::crash
