// Running tasks. A Worker claims a task, runs its handler and records the outcome.
// The handler receives a Context and returns an Outcome.
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

// The verdict of a handler on its attempt. If a handler throws, the attempt failed.
class Outcome {
 public:
  enum class Kind { completed, failed, dead, unknown };

  static Outcome completed(Body result = {});
  // The attempt failed. The task is retried after `retry_in`, or else after the queue's backoff.
  static Outcome failed(std::string why, std::optional<Duration> retry_in = {});
  // The task failed permanently. It becomes a dead letter and is not retried.
  static Outcome dead(std::string why);
  // The effect may have happened. The attempt is in doubt, and the queue's policy decides.
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

// Converts the result of a step to bytes for the store and back. Specialise it for your own types.
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
struct Access;
struct AttemptState;
struct PullState;
struct WorkerState;
struct ZoneState;
template <class T>
using NotVoid = std::conditional_t<std::is_void_v<T>, bool, T>;
}  // namespace detail

// Context::step() throws AttemptOver if the attempt must end. Another worker has then claimed the
// task, or the task is cancelled or held. AttemptOver is not a std::exception, so that a handler's
// own catch clauses let it pass. If a handler catches AttemptOver, its outcome is not recorded.
struct AttemptOver {
  std::string why{};
};

// A Context is valid only during the handler's call. Only the handler's thread may use it.
class Context {
 public:
  const Task& task() const;
  std::string_view queue() const;
  std::string_view key() const;
  std::uint64_t sequence() const;
  std::uint64_t token() const;  // fencing token for outside systems; grows with every claim
  int attempt() const;          // the first claim is 1
  bool in_doubt() const;        // true if an earlier attempt ended without a verdict
  // Returns the same key for every attempt of this task, or of this step of the task.
  // The key is the hex SHA-256 of zone, queue, key and step. If the task is a step of a workflow,
  // the key is RUN.STEP.
  std::string idempotency_key(std::string_view step = {}) const;
  // The worker requests a stop if the lease is lost, the task is cancelled or the timeout expired.
  // The worker also requests a stop when the worker is interrupted. Stop callbacks run on a thread
  // of the worker or inside step().
  std::stop_token stop() const;

  // Runs `f` once for this task and stores its return value. A later attempt gets the stored value
  // and does not run `f`. Each name may be used once per attempt.
  //
  // The worker records the start of a step before `f` runs. A step that is cut off is therefore
  // known to be in doubt. `policy` then decides: retry or hold. If `policy` is nullopt, the queue's
  // policy applies, and InDoubt::steps means hold.
  //
  // If `f` throws a std::exception, the step did not happen. The next attempt runs `f` again.
  // If the result exceeds the queue's max_result, the step happened and is not run again. The task
  // is then held in doubt.
  //
  // Throws AttemptOver if the attempt must end. Throws Failure if the start cannot be recorded.
  template <class F>
  auto step(std::string_view name, F&& f, std::optional<InDoubt> policy = {}) const
      -> std::invoke_result_t<F&> {
    using T = std::invoke_result_t<F&>;
    StepGate begun = gate(name, policy, false);
    if (begun.ask) hold_step(name, "the step was cut off, and there is no probe to ask");
    return finish_step<T>(name, f, std::move(begun));
  }
  // The same as above, but a step that was cut off calls `probe`. If the probe returns a value, the
  // step happened with that result. If the probe returns nullopt, the step did not happen.
  // For a step without a result, the probe returns true or false instead. If the probe throws, the
  // task is held in doubt.
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

 private:
  friend struct detail::Access;
  explicit Context(const detail::AttemptState& state) : state_(state) {}

  struct StepGate {
    bool ask = false;                         // the step was cut off; call the probe
    std::optional<std::string> remembered{};  // the stored result; set if the step is done
  };
  // `asked` is true if the probe reported that the step did not happen.
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

  const detail::AttemptState& state_;
};

struct WorkerOptions {
  int concurrency = 1;
  std::string name{};  // empty means host and process id
  // For queues with InDoubt::probe. The probe asks the outside system whether an attempt without a
  // verdict happened. completed(result) means that it happened. failed() means that it did not
  // happen, and the worker runs the task. For any other outcome, or if the probe throws, the task
  // is held in doubt. If `probe` is empty, the task is held in doubt too.
  std::function<Outcome(const Context&)> probe{};
  // The worker calls this once with an Error when the store stops replying. The worker then waits
  // for the store. The worker calls this with nullopt when the store replies again.
  // The call runs on a thread of the worker and must not throw.
  std::function<void(const std::optional<Error>&)> on_store{};
  // The worker calls this with the id of a task whose outcome it could not record. Another worker
  // had claimed the task, or the task was already settled. The rules of on_store apply.
  std::function<void(std::string_view id)> on_fenced{};
};

// Claims tasks, runs their handlers and records the outcomes. Only one thread may drive a worker.
// Handlers run on the worker's own threads. The destructor waits until running handlers finish and
// their outcomes are recorded. A worker keeps its zone open.
class Worker {
 public:
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  ~Worker();

  // Blocks until a stop is requested. The worker then claims no new tasks, and running tasks
  // finish.
  Result<void> run(std::stop_token stop);
  // Returns when every task of the queue is settled. This includes later retries and tasks that
  // other workers run now.
  Result<void> run_until_empty(std::stop_token stop = {});
  // Claims and runs at most one task on this thread. Returns false if no task was claimable.
  // run_one() never waits, so that tests can use a virtual clock.
  Result<bool> run_one();
  // Ends running handlers. The worker requests a stop of each handler and sends SIGTERM to each
  // program. The worker releases their leases and records the attempts as interrupted. These
  // attempts are in doubt and do not count. Any thread may call.
  void interrupt();
  // Returns the counts since the worker was created. Any thread may call. Never waits.
  WorkerMetrics metrics() const;

 private:
  friend struct detail::Access;
  explicit Worker(std::unique_ptr<detail::WorkerState> state);
  std::unique_ptr<detail::WorkerState> state_;
};

}  // namespace once::inline v1
