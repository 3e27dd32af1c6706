// The values that status(), list(), inspect(), log() and retention() return.
// Each value is a read-only copy that describes the zone at one moment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {

// The person who changes a task, and the reason. Once adds both to the task's story.
struct By {
  std::string who{};  // empty means this user on this host
  std::string why{};
};

// Makes a person's act safe to repeat, and keeps it from a task that has changed meanwhile.
struct ActOptions {
  // The same act on the same task with the same key is done once. A repeat succeeds and changes
  // nothing. If empty, every call is an act of its own.
  std::string idempotency_key{};
  // QueueView::claims as the person saw it. If the task was claimed since, the act is refused with
  // wrong_state. nullopt allows any.
  std::optional<std::uint32_t> claims{};
};

// The state of a task in one queue. A task that no queue matches is unrouted and has no state.
enum class State {
  scheduled,
  waiting,
  running,
  retrying,
  in_doubt,
  completed,
  dead,
  cancelled,
  duplicate,
};
std::string_view to_string(State state);
std::optional<State> state_from(std::string_view name);

struct QueueStatus {
  Queue queue{};
  std::map<State, std::uint64_t> tasks{};  // contains every state
  std::uint64_t workers{};                 // workers that are alive now
  std::optional<Duration> oldest_waiting{};
  std::optional<Duration> oldest_in_doubt{};
};

struct Status {
  std::vector<QueueStatus> queues{};  // without the internal ledgers of workflows
  std::uint64_t unrouted{};
};

struct ListFilter {
  std::string queue{};           // empty means every queue except the ledgers of workflows
  std::optional<State> state{};  // nullopt means every state
  std::string topic{};           // a topic filter; empty means every topic
  std::optional<Time> since{};   // entered its state at this time or later
  std::optional<Time> until{};   // entered its state at this time or earlier
  std::string error{};           // part of its error or reason; empty means any
  std::size_t limit = 100;
};

struct ListItem {
  std::string id{};
  std::string queue{};
  std::string key{};
  std::uint64_t sequence{};
  std::string topic{};
  State state{};
  int attempts{};
  std::string error{};
  Time since{};
};

// How an attempt ended. The effect of a lost, timed-out, unknown or interrupted attempt may have
// happened. The ledger stores these numbers, so a number never changes its meaning.
enum class AttemptOutcome : std::uint8_t {
  running = 0,
  completed = 1,
  failed = 2,       // the handler reported that the work was not done
  dead = 3,         // the handler reported that the work can never be done
  lost = 4,         // the worker died, or its lease expired and another worker claimed the task
  timed_out = 5,    // the queue's timeout ended the attempt
  unknown = 6,      // the handler could not tell, or a signal killed the program
  interrupted = 7,  // the worker was stopped; the attempt does not count
  released = 8,     // claimed but never started; the attempt does not count
};
std::string_view to_string(AttemptOutcome outcome);

struct AttemptView {
  int attempt{};
  std::string worker{};
  std::uint64_t token{};
  Time started_at{};
  std::optional<Time> ended_at{};
  AttemptOutcome outcome{};
  bool in_doubt{};
  std::string error{};
  std::string log{};  // the last 16 KiB of its program's stderr
};

struct StepView {
  enum class State {
    running,
    done,
    failed,    // the next attempt runs the step again
    in_doubt,  // the step was cut off
    again,     // a person asked to run the step again
  };
  std::string step{};
  State state{};
  InDoubt policy{};  // what Once does if the step is cut off: retry, hold or probe
  int runs{};        // how often the step started
  int attempt{};     // the last attempt that started or finished it
  Time started_at{};
  std::optional<Time> ended_at{};
  std::optional<Body> result{};  // set if the step is done
  bool result_cut{};             // an older Once kept only the first MiB of the result
  int failed{};                  // the last attempt in which the step failed, or zero
  std::string error{};           // the error of attempt `failed`
};

std::string_view to_string(StepView::State state);

// A change that a person, a probe or the policy made to the task.
struct ActionView {
  // The ledger stores the first nine numbers, so a number never changes its meaning.
  enum class Kind : std::uint8_t {
    retried = 0,
    completed = 1,
    dropped = 2,
    cancelled = 3,
    cancel_asked = 4,    // the task was running; its handler was asked to stop
    happened = 5,        // a probe found that the effect happened
    did_not_happen = 6,  // a probe found that the effect did not happen
    held = 7,
    step_completed = 8,
    retry_asked,            // a worker must still apply it
    step_completion_asked,  // a worker must still apply it
  };
  Kind kind{};
  Time at{};
  std::string by{};
  std::string why{};
  std::string step{};
};

std::string_view to_string(ActionView::Kind kind);

// What happens next to a task in one queue.
struct NextView {
  enum class Kind {
    starts,         // its start is scheduled; `in` says when
    waits,          // for a worker
    obeys,          // waits for a worker that does what the person `by` asked for
    offered,        // to the worker `by`, which has not started it; the offer ends after `in`
    runs,           // its lease ends after `in` unless the worker renews it
    stops,          // its handler was asked to stop; the task is cancelled after the attempt
    lease_expired,  // the next worker takes the task over
    worker_gone,    // the next worker takes the task over
    retries,        // the next attempt is due after `in`
    retry_due,      // the next worker tries the task again
    held,           // until a person decides
    held_by_step,   // until a person decides about `step`, which was cut off
    completed,      // nothing happens
    dead,           // nothing happens until a person retries the task
    dead_step,      // nothing happens; a retry of the failed run `run` retries the task
    dead_for_good,  // nothing happens; the id or the key of the task belongs to another task
    cancelled,      // nothing happens
    duplicate,      // nothing happens; another task has the same key
  };
  Kind kind{};
  Duration in{};
  std::string by{};
  std::string step{};
  std::string run{};
};

struct QueueView {
  std::string queue{};
  std::string key{};
  State state{};
  std::string reason{};    // why the task is dead, in doubt, cancelled or duplicate
  std::uint32_t claims{};  // how often the task was claimed; see ActOptions
  std::vector<AttemptView> attempts{};
  std::vector<StepView> steps{};
  std::vector<ActionView> story{};   // in order of time
  std::uint64_t actions_dropped{};   // older actions that the record no longer contains
  std::uint64_t attempts_dropped{};  // older attempts that the record no longer contains
  std::optional<Body> result{};
  bool result_cut{};  // an older Once kept only the first MiB of the result
  std::string error{};
  NextView next{};
};

struct LogEntry {
  std::uint64_t sequence{};
  std::string id{};
  std::string topic{};
  std::optional<Body> body{};  // nullopt if the body is retired
  std::map<std::string, std::string> headers{};
  Time published_at{};
  std::string digest{};
  std::optional<Time> not_before{};
  std::optional<Time> expires{};
};

struct TaskView {
  LogEntry entry{};
  std::uint64_t duplicates{};  // later publishes that returned this entry
  std::vector<QueueView> queues{};
};

// How long a zone keeps a task after the task is settled in every queue. The zone deletes the body
// first, then the records, then the id. Each period starts when the previous period ends.
// Unrouted, unsettled, dead and in-doubt tasks do not age.
struct Retention {
  Duration bodies{std::chrono::hours{24 * 7}};
  Duration records{std::chrono::hours{24 * 30}};
  Duration ids{std::chrono::hours{24 * 30}};

  friend bool operator==(const Retention&, const Retention&) = default;
};

struct Retired {
  std::uint64_t bodies{};
  std::uint64_t records{};
  std::uint64_t ids{};
};

}  // namespace once::inline v1
