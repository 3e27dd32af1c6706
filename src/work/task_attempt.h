// The interface between the worker and a handler: the attempt, its steps, and the handler's report.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core/record.h"
#include "once/worker.h"

namespace once::engine {

// The durable steps of one attempt. Each call blocks until the store has answered. Any thread may
// call, but one thread at a time per step name.
class Steps {
 public:
  virtual ~Steps() = default;

  struct BeginResult {
    enum class Kind {
      run,         // its intent is recorded: run the step, then call end() or fail()
      remembered,  // an earlier attempt recorded `result`: do not run the step
      ask,         // cut off in an earlier attempt: ask its probe, then begin() with `asked`, end()
                   // or hold()
      over,        // fenced, held, cancelled or stopped: `error` says so; the attempt's outcome is
                   // not recorded any more
      refused,     // nothing was recorded: `error` says why (used twice, too many, store away)
    };
    Kind kind = Kind::run;
    Body result{};
    bool result_cut = false;  // see core::Record
    std::optional<Error> error{};
  };
  // Without `policy`, the queue's policy applies. `asked` means that the step's probe said that the
  // step did not happen.
  virtual BeginResult begin(std::string_view name, std::optional<InDoubt> policy, bool asked) = 0;
  // Records that the step happened, with this result. `oversize`: see core::Complete. An error
  // means that the step could not be recorded, or that its result is too large. Then the step is in
  // doubt, and the attempt is over.
  virtual Result<void> end(std::string_view name, Body result, std::uint64_t oversize = 0) = 0;
  // Records that the step ended without an effect. A later attempt runs it again.
  virtual Result<void> fail(std::string_view name, std::string_view why) = 0;
  // Records that it is unknown whether the step happened. The task is held for a person, and the
  // attempt is over.
  virtual Error hold(std::string_view name, std::string why) = 0;
};

struct TaskAttempt {
  const Task& task;
  core::Sequence sequence{};
  core::Digest digest{};
  Time published_at{};
  std::string_view zone{};
  std::string_view queue{};
  std::string_view key{};
  core::Token token{};
  std::uint32_t attempt{};
  bool in_doubt = false;
  std::optional<Time> deadline{};  // when the queue's timeout ends, in wall time
  Duration lease{};
  std::uint64_t max_result = core::kMaxResult;  // of the task and of each of its steps
  int inheritable_fd = -1;                      // the worker's lock; programs inherit it
  std::stop_token stop{};
  Steps* steps = nullptr;  // null in a probe
  std::string_view run{};  // the run whose step the task is; empty: no step
  std::string_view step{};
};

// The idempotency key, which is the same for every attempt of the task (and step). It is the hex
// SHA-256 of zone, queue, key and step. For the task of a workflow's step it is RUN.STEP.
std::string idempotency_key(const TaskAttempt& task_attempt, std::string_view step = {});

struct Report {
  Outcome outcome;
  std::uint64_t oversize{};  // see core::Complete
  std::string log{};         // the end of what a program wrote to stderr, see core::kLogKept
  // Set if the handler could not start, for example because its program cannot be executed. Then
  // the claim is given back as never started, and the worker stops with this error.
  std::optional<Error> never_started{};
};

// Throws only what the user's handler throws.
using Handler = std::function<Report(const TaskAttempt&)>;
// Handles several tasks together and returns one report per task, in order. The attempts have no
// steps.
using BatchHandler = std::function<std::vector<Report>(std::span<const TaskAttempt>)>;

}  // namespace once::engine
