// The values behind `once status`, `list`, `inspect`, `log` and `retention`.
// Each value is a read-only copy that describes the zone at one moment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {

// The person who changes a task, and the reason. Once adds both to the task's story.
struct By {
  std::string who{};  // empty means this user on this host
  std::string why{};
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

struct AttemptView {
  int attempt{};
  std::string worker{};
  std::uint64_t token{};
  Time started_at{};
  std::optional<Time> ended_at{};
  // One of: running completed failed dead lost timed_out unknown interrupted released.
  std::string outcome{};
  bool in_doubt{};
  std::string error{};
  std::string log{};  // the last 16 KiB of its program's stderr
};

struct StepView {
  std::string step{};
  std::string state{};   // running done failed in_doubt again (a person asked to rerun it)
  std::string policy{};  // policy if the step is cut off: retry hold probe
  int runs{};            // how often the step started
  int attempt{};         // the last attempt that started or finished it
  Time started_at{};
  std::optional<Time> ended_at{};
  std::optional<Body> result{};  // set if the step is done
  bool result_cut{};             // an older Once kept only the first MiB of the result
  int failed{};                  // the last attempt in which the step failed, or zero
  std::string error{};           // the error of attempt `failed`
};

// A change that a person, a probe or the policy made to the task.
struct DeedView {
  // One of: retried completed dropped cancelled cancel_asked happened did_not_happen held
  // step_completed retry_asked step_completion_asked. A worker must still apply the last two.
  std::string what{};
  Time at{};
  std::string by{};
  std::string why{};
  std::string step{};
};

struct QueueView {
  std::string queue{};
  std::string key{};
  State state{};
  std::string reason{};  // why the task is dead, in doubt, cancelled or duplicate
  std::vector<AttemptView> attempts{};
  std::vector<StepView> steps{};
  std::vector<DeedView> story{};
  std::uint64_t deeds_dropped{};     // older deeds that the record no longer contains
  std::uint64_t attempts_dropped{};  // older attempts that the record no longer contains
  std::optional<Body> result{};
  bool result_cut{};  // an older Once kept only the first MiB of the result
  std::string error{};
  std::string next{};  // one line for people about what happens next
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
