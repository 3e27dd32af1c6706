// One attempt, as the worker hands it to a handler, and what the handler reports.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "core/record.h"
#include "once/worker.h"

namespace once::engine {

// The durable steps of one attempt. Each call blocks until the store has answered. Any thread, one
// at a time per name.
class Steps {
 public:
  virtual ~Steps() = default;

  struct Begun {
    enum class Kind {
      run,         // its intent is recorded: run it, then end() or fail() it
      remembered,  // done before, with `result`
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
  // `policy`: none takes the queue's. `asked`: the step's probe said that it did not happen.
  virtual Begun begin(std::string_view name, std::optional<InDoubt> policy, bool asked) = 0;
  // It happened, with this result. `oversize`: see core::Complete. An error: it could not be recorded
  // or its result is too large, and it is in doubt; the attempt is over.
  virtual Result<void> end(std::string_view name, Body result, std::uint64_t oversize = 0) = 0;
  // It ended, and its word is that nothing happened: a later attempt runs it again.
  virtual Result<void> fail(std::string_view name, std::string_view why) = 0;
  // Nobody knows: the task is held for a person, and the attempt is over.
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
  std::optional<Time> deadline{};  // by the queue's timeout, wall time
  Duration lease{};
  std::uint64_t max_result = core::kMaxResult;  // of the task and of each of its steps
  int inheritable_fd = -1;                      // the worker's presence; programs inherit it
  std::stop_token stop{};
  Steps* steps = nullptr;  // null in a probe
  std::string_view run{};  // of a workflow, whose step the task is; empty: of none
  std::string_view step{};
};

// The same for every attempt of the task (and step): hex SHA-256 of zone, queue, key and step. A task
// that is a workflow's step has the name of that: RUN.STEP.
std::string idempotency_key(const TaskAttempt& assignment, std::string_view step = {});

struct Report {
  Outcome outcome;
  std::uint64_t oversize{};  // see core::Complete
  std::string log{};         // the end of what a program wrote to stderr, see core::kLogKept
  // Set when the handler could not even begin (the program cannot be executed): the claim is given
  // back as never started and the worker stops with this.
  std::optional<Error> never_started{};
};

// Throws nothing but what a handler of the user's throws.
using Handler = std::function<Report(const TaskAttempt&)>;

}  // namespace once::engine
