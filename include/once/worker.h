// Running tasks: what a handler is told (Context), what it says (Outcome), and the Worker that
// claims, runs and records.
#pragma once

#include <charconv>
#include <concepts>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "once/metrics.h"
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

// How the result of a step is remembered. Specialise it for types of your own.
template <class T>
struct Codec;

template <>
struct Codec<std::string> {
  static std::string encode(const std::string& value) { return value; }
  static std::string decode(std::string_view bytes) { return std::string(bytes); }
};

template <class T>
requires std::is_arithmetic_v<T>
struct Codec<T> {
  static std::string encode(T value) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, +value).ptr;
    return std::string(text, end);
  }
  static T decode(std::string_view bytes) {
    if constexpr (std::is_same_v<T, bool>) {
      if (bytes == "true" || bytes == "1") return true;
      if (bytes == "false" || bytes == "0") return false;
    } else {
      T value{};
      const char* const end = bytes.data() + bytes.size();
      const auto read = std::from_chars(bytes.data(), end, value);
      if (read.ec == std::errc{} && read.ptr == end) return value;
    }
    throw std::invalid_argument("the remembered result of a step is no such value: '" +
                                std::string(bytes) + "'");
  }
};

namespace detail {
template <class T>
using NotVoid = std::conditional_t<std::is_void_v<T>, bool, T>;
}  // namespace detail

// Thrown by Context::step() when the attempt is over for the outside: the task was taken over,
// cancelled or is held. No std::exception, so that a handler's catch for its own failures lets it
// pass; when it is caught all the same, what the handler says afterwards is not recorded.
struct AttemptOver {
  std::string why{};
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
  // The same for every attempt of this task (and step): hex SHA-256 of zone, queue, key and step; of a
  // task that is a workflow's step, RUN.STEP.
  std::string idempotency_key(std::string_view step = {}) const;
  // Asked to stop when the lease is lost, the task is cancelled, the queue's timeout has passed or the
  // worker is ended. Callbacks run on a thread of the worker's, or inside step().
  std::stop_token stop() const;

  // Runs `f` once for this task and remembers what it returns: any later attempt gets that instead.
  // That it begins is recorded before it runs, so that a step which is cut off is known to be in
  // doubt, and its policy decides: retry, hold, or the queue's (where `steps` means hold). When `f`
  // throws a std::exception, nothing happened, and the next attempt runs it again. A name can be used once per
  // attempt. If the result is above the queue's max_result, the step has happened and is not run again:
  // the task is held in doubt. Throws AttemptOver, or Failure when the intent could not be recorded.
  template <class F>
  auto step(std::string_view name, F&& f, std::optional<InDoubt> policy = {}) const
      -> std::invoke_result_t<F&> {
    using T = std::invoke_result_t<F&>;
    StepGate begun = gate(name, policy, false);
    if (begun.ask) hold_step(name, "the step was cut off, and there is no probe to ask");
    return finish_step<T>(name, f, std::move(begun));
  }
  // The same; a step that was cut off asks `probe`: its value, or true for a step without one, says
  // that it happened; none or false that it did not; when it throws, nobody knows and the task is
  // held.
  template <class F, class P>
  requires std::invocable<P&>
  auto step(std::string_view name, F&& f, P&& probe) const -> std::invoke_result_t<F&> {
    using T = std::invoke_result_t<F&>;
    using Answer = std::conditional_t<std::is_void_v<T>, bool, std::optional<detail::NotVoid<T>>>;
    static_assert(std::is_same_v<std::invoke_result_t<P&>, Answer>,
                  "the probe of a step answers std::optional of what the step returns, or bool for "
                  "a step that returns nothing");
    StepGate begun = gate(name, InDoubt::probe, false);
    if (begun.ask) begun = ask<T>(name, probe);
    return finish_step<T>(name, f, std::move(begun));
  }

  struct Impl;
  explicit Context(const Impl& impl) : impl_(impl) {}

 private:
  struct StepGate {
    bool ask = false;                         // cut off: ask the probe
    std::optional<std::string> remembered{};  // done before
  };
  // `asked`: the probe says that it did not happen.
  StepGate gate(std::string_view name, std::optional<InDoubt> policy, bool asked) const;
  void end_step(std::string_view name, std::string result) const;
  void fail_step(std::string_view name, std::string_view why) const;
  [[noreturn]] void hold_step(std::string_view name, std::string why) const;

  template <class T, class P>
  StepGate ask(std::string_view name, P& probe) const {
    std::optional<std::string> found;
    try {
      if constexpr (std::is_void_v<T>) {
        if (probe()) found.emplace();
      } else if (std::optional<T> happened = probe()) {
        found = Codec<T>::encode(*happened);
      }
    } catch (const AttemptOver&) {
      throw;
    } catch (const std::exception& thrown) {
      hold_step(name, thrown.what());
    } catch (...) {
      hold_step(name, "the probe threw something that is no std::exception");
    }
    if (!found) return gate(name, InDoubt::probe, true);
    end_step(name, *found);
    return {.remembered = std::move(found)};
  }

  template <class T, class F>
  T finish_step(std::string_view name, F& f, StepGate begun) const {
    if constexpr (std::is_void_v<T>) {
      if (begun.remembered) return;
      run_step(name, f);
      end_step(name, {});
    } else {
      if (begun.remembered) return Codec<T>::decode(*begun.remembered);
      T value = run_step(name, f);
      end_step(name, Codec<T>::encode(value));
      return value;
    }
  }

  template <class F>
  auto run_step(std::string_view name, F& f) const {
    try {
      return f();
    } catch (const std::exception& error) {
      fail_step(name, error.what());
      throw;
    }
  }

  const Impl& impl_;
};

struct WorkerOptions {
  int concurrency = 1;
  std::string name{};  // empty: host and process id
  // For queues with InDoubt::probe: asks the outside world whether an attempt that ended without a
  // verdict happened. completed(result): it did; failed: it did not, run it; anything else, or when
  // it throws: nobody knows, the task is held. Without a probe it is held too.
  std::function<Outcome(const Context&)> probe{};
  // Told once when the store stops answering, which the worker waits out, and with none when it
  // answers again. Called on a thread of the worker's; must not throw.
  std::function<void(const std::optional<Error>&)> on_store{};
  // Told the id of a task whose attempt could not be recorded because it was not this worker's any
  // more: another took it over, or it was settled meanwhile. Called as on_store is.
  std::function<void(std::string_view id)> on_fenced{};
};

// Hears what one run of a program writes, as it is read, on the thread that runs it: a call that
// blocks holds the program up. Must not throw.
class ProgramListener {
 public:
  virtual ~ProgramListener() = default;
  virtual void output(std::string_view bytes) = 0;  // of its standard output
  virtual void errors(std::string_view bytes) = 0;  // of its standard error
  struct End {
    Outcome::Kind verdict{};
    std::string how{};  // "exit 3", "killed by SIGKILL"; nothing of what the program wrote
    Duration took{};
  };
  virtual void ended(const End& end) = 0;  // the last call
};

// What a listener is told of the run that it will hear.
struct ProgramRun {
  const Task& task;
  std::string_view queue{};
  int attempt{};
  bool probe = false;
};

// A program run per task: body on standard input, `ONCE_...` in its environment, the result from
// the file $ONCE_RESULT or its standard output, the verdict from its exit status.
struct Program {
  std::vector<std::string> command{};
  // For queues with InDoubt::probe: run by `/bin/sh -c` with the same environment and input. Exit 0:
  // it happened, with the result it writes; 1: it did not; any other: nobody knows.
  std::string probe{};
  Duration grace{10'000};  // between SIGTERM and SIGKILL
  std::string guard{};     // executable that calls guard_main(); see there
  std::string store{};     // $ONCE_STORE for the program; holds no secret
  // Asked before each run; may be empty, and may return null. Called on many threads at once.
  std::function<std::unique_ptr<ProgramListener>(const ProgramRun&)> listener{};
  // This process runs programs and nothing else. When a guard is killed, the worker adopts and ends
  // what the guard had below it. No effect if this process has children of its own, or is process 1.
  bool adopts_orphans = false;
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
  // What it has done since it was made. From any thread; waits for nobody.
  WorkerMetrics metrics() const;

  struct Impl;
  explicit Worker(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace once::inline v1
