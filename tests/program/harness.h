// What the tests of programs share: one attempt in this process, a worker in a process of its own
// that can be killed, and a look at what is alive.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "exec/program.h"
#include "support/eventually.h"
#include "support/temp_folder.h"

namespace once::testing {

using Command = std::vector<std::string>;

// This executable, which is its own supervisor; see main.cpp.
std::string self();

// `script` run by the shell, with the folder in which programs leave marks as $MARKS.
Command shell(const std::string& script);

struct Attempt {
  Task task{};
  std::uint64_t sequence = 1;
  std::uint64_t token = 1;
  std::uint32_t attempt = 1;
  bool in_doubt = false;
  std::optional<Time> deadline{};
  Duration lease{30'000};
  Duration grace{10'000};
  int inheritable_fd = -1;
  std::stop_token stop{};
  engine::Steps* steps = nullptr;
  std::uint64_t max_result = 1 << 20;
  std::string run{};  // of a workflow
  std::string step{};
};
engine::TaskAttempt task_attempt_of(const Attempt& attempt);  // refers to the attempt
std::string store_url();                                      // $ONCE_STORE of the programs
Result<engine::Handler> handler_of(const Command& command, Duration grace = Duration{10'000});
Result<engine::Handler> probe_of(const std::string& probe, Duration grace = Duration{10'000});
engine::Report run(const engine::Handler& handler, const Attempt& attempt = {});
engine::Report run(const Command& command, const Attempt& attempt = {});

// An attempt on a thread of its own.
class Running {
 public:
  Running(Command command, Attempt attempt);
  void stop() { stop_.request_stop(); }
  engine::Report report();  // waits for the end

 private:
  std::stop_source stop_{};
  std::optional<engine::Report> report_{};
  std::jthread thread_{};
};

bool alive(pid_t pid);  // a zombie is not
pid_t parent_of(pid_t pid);
std::string contents(const std::filesystem::path& file);  // empty: none
std::vector<int> open_descriptors(pid_t pid);

// Process ids that programs left with `echo $$ > $MARKS/NAME`. Exports MARKS.
class Marks {
 public:
  Marks();
  std::optional<pid_t> pid(const std::string& name) const;
  std::vector<pid_t> pids() const;                 // every mark that is a number
  pid_t await_pid(const std::string& name) const;  // zero: it never came
  bool await_count(std::size_t count) const;
  const std::filesystem::path& path() const { return folder_.path(); }

 private:
  TempFolder folder_{};
};

// A process that holds a flock on `marks`/lock and runs the command `count` times at once, each
// with the id task-N; what the handler reported goes to `marks`/report.N.
class WorkerProcess {
 public:
  WorkerProcess(const Marks& marks, int count, Duration lease, const Command& command);
  ~WorkerProcess();
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  void wait();  // for its end

 private:
  pid_t pid_ = -1;
};
int worker_main(int argc, char** argv);
bool lock_is_free(const Marks& marks);

}  // namespace once::testing
