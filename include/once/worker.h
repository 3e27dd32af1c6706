// Running tasks: what a handler is told (Context), what it says (Outcome), and the Worker that
// claims, runs and records.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {

// What a handler says of its attempt. A handler that throws has failed.
class Outcome {
 public:
  enum class Kind { completed, failed, dead, unknown };

  static Outcome completed(Body result = {});
  // Did not finish; tried again after the queue's backoff, or after `retry_in`.
  static Outcome failed(std::string why, std::optional<Duration> retry_in = {});
  // Never try again.
  static Outcome dead(std::string why);
  // It may have happened: in doubt, the queue's policy decides.
  static Outcome unknown(std::string why);

  Kind kind() const { return kind_; }
  const Body& result() const { return result_; }
  const std::string& why() const { return why_; }
  std::optional<Duration> retry_in() const { return retry_in_; }

 private:
  Kind kind_ = Kind::completed;
  Body result_{};
  std::string why_{};
  std::optional<Duration> retry_in_{};
};

// Valid during the handler's call, for its thread.
class Context {
 public:
  const Task& task() const;
  std::string_view queue() const;
  std::string_view key() const;
  std::uint64_t sequence() const;
  std::uint64_t token() const;  // grows with every claim in the zone: give it to the outside system
  int attempt() const;          // 1 for the first claim
  bool in_doubt() const;        // an earlier attempt ended without a verdict
  // The same for every attempt of this task (and step): hex SHA-256 of zone, queue, key and step.
  std::string idempotency_key(std::string_view step = {}) const;
  // Asked to stop when the lease is lost, the queue's timeout has passed or the worker is ended.
  std::stop_token stop() const;

  struct Impl;
  explicit Context(const Impl& impl) : impl_(impl) {}

 private:
  const Impl& impl_;
};

struct WorkerOptions {
  int concurrency = 1;
  std::string name{};  // empty: host and process id
  // Told once when the store stops answering, which the worker waits out, and with none when it
  // answers again. Called on a thread of the worker's; must not throw.
  std::function<void(const std::optional<Error>&)> on_store{};
  // Told the id of a task that another worker took over before this one could record it: whatever
  // the handler says of it is not written. Called as on_store is.
  std::function<void(std::string_view id)> on_fenced{};
};

// A program run per task: body on standard input, `ONCE_...` in its environment, the result from
// the file $ONCE_RESULT or its standard output, the verdict from its exit status.
struct Program {
  std::vector<std::string> command{};
  Duration grace{10'000};  // between SIGTERM and SIGKILL
  std::string guard{};     // executable that calls guard_main(); see there
  std::string store{};     // $ONCE_STORE for the program; holds no secret
};

// The body of the small process between a worker and its program. It ends the program's whole
// process group (and what escaped from it) when the worker dies or falls silent for a lease. An
// executable named in Program::guard calls this first thing in main() with its own arguments when
// argv[1] is "--guard", and returns what it returns.
int guard_main(int argc, char** argv);

// Claims, runs, records. One thread drives it; handlers run on threads of its own. The destructor
// drains: running handlers finish and are recorded. Keeps its zone open.
class Worker {
 public:
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  ~Worker();

  // Blocks. A requested stop drains: nothing new is claimed, running tasks finish.
  Result<void> run(std::stop_token stop);
  // Returns when every task of the queue is settled, including later retries and tasks that other
  // workers run now.
  Result<void> run_until_empty(std::stop_token stop = {});
  // Claims and runs at most one task on this thread; false: nothing was claimable. Never waits, so
  // a virtual clock works.
  Result<bool> run_one();
  // Ends running handlers: their stop tokens fire, programs get SIGTERM, and their leases are given
  // back as interrupted (in doubt, not counted as an attempt). From any thread.
  void interrupt();

  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace once::inline v1
