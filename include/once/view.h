// What people see of a zone: the values behind `once status`, `list`, `inspect`, `log` and
// `retention`. Read-only copies, true at one moment.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {

// Who does something to a task, and why. It becomes part of the task's story.
struct By {
  std::string who{};  // empty: this user on this host
  std::string why{};
};

// Where a task stands in one queue. A task that no queue matches is unrouted.
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
  std::map<State, std::uint64_t> tasks{};  // every state is present
  std::uint64_t workers{};                 // alive now
  std::optional<Duration> oldest_waiting{};
  std::optional<Duration> oldest_in_doubt{};
};

struct Status {
  std::vector<QueueStatus> queues{};  // without the ledgers in which workflows keep their runs
  std::uint64_t unrouted{};
};

struct ListFilter {
  std::string queue{};           // empty: every queue but the ledgers of workflows
  std::optional<State> state{};  // none: every state
  std::string topic{};           // filter; empty: every topic
  std::optional<Time> since{};   // in this state since then or later
  std::optional<Time> until{};   // in this state since then or earlier
  std::string error{};           // part of its error or reason; empty: any
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
  std::string
      outcome{};  // running completed failed dead lost timed_out unknown interrupted released
  bool in_doubt{};
  std::string error{};
  std::string log{};  // the last 16 KiB that its program wrote to stderr
};

struct StepView {
  std::string step{};
  std::string state{};   // running done failed in_doubt again (to be run again, a person said)
  std::string policy{};  // when it is cut off: retry hold probe
  int runs{};            // how often it was begun
  int attempt{};         // that began or finished it last
  Time started_at{};
  std::optional<Time> ended_at{};
  std::optional<Body> result{};  // done
  bool result_cut{};             // the result is not whole: an older Once kept its first MiB only
  int failed{};                  // the attempt of its last try that failed; zero: none did
  std::string error{};           // of that try
};

// What a person, a probe or the policy did to the task.
struct DeedView {
  std::string what{};  // retried completed dropped cancelled cancel_asked happened did_not_happen
                       // held step_completed; retry_asked and step_completion_asked wait for a
                       // worker
  Time at{};
  std::string by{};
  std::string why{};
  std::string step{};
};

struct QueueView {
  std::string queue{};
  std::string key{};
  State state{};
  std::string reason{};  // why dead, in doubt, cancelled or duplicate
  std::vector<AttemptView> attempts{};
  std::vector<StepView> steps{};
  std::vector<DeedView> story{};
  std::uint64_t deeds_dropped{};     // older ones the record no longer holds
  std::uint64_t attempts_dropped{};  // older ones the record no longer holds
  std::optional<Body> result{};
  bool result_cut{};  // the result is not whole: an older Once kept its first MiB only
  std::string error{};
  std::string next{};  // one line for a person: what happens next
};

struct LogEntry {
  std::uint64_t sequence{};
  std::string id{};
  std::string topic{};
  std::optional<Body> body{};  // none: retired
  std::map<std::string, std::string> headers{};
  Time published_at{};
  std::string digest{};
  std::optional<Time> not_before{};
  std::optional<Time> expires{};
};

struct TaskView {
  LogEntry entry{};
  std::uint64_t duplicates{};  // publishes answered with this entry
  std::vector<QueueView> queues{};
};

// How long things are kept after the task is settled in every queue, each counted from the one
// before. Unrouted, unsettled, dead and doubtful tasks do not age.
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
