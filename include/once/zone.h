// A zone is one log with its ledger and queues. The URL selects the store:
//   `sqlite:PATH` or a plain path: one file. Any number of processes on this machine can share it.
//   `nats://HOST:PORT[,HOST:PORT...][/ZONE]`: a NATS server. `tls://` refuses to talk without TLS.
//   `memory:`: the memory of this process. The zone ends with the Zone object.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "once/audit.h"
#include "once/doctor.h"
#include "once/flows.h"
#include "once/guard.h"
#include "once/metrics.h"
#include "once/view.h"
#include "once/worker.h"

namespace once::inline v1 {

// The source of a zone's time. Tests pass a testing::VirtualClock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() = 0;
};

// The login for a NATS server. Set at most one of user, token, creds and nkey. A URL contains no
// login. Once never writes the login to errors or to the store. A worker does not pass the login to
// the programs that it runs.
struct NatsLogin {
  std::string user{};
  std::string password{};
  std::string token{};
  std::string creds{};  // a file with a user's JWT and seed; read at each reconnect
  std::string nkey{};   // a file with a user's seed; read at each reconnect
  // Each of these fields requires TLS, as a tls:// URL does. The server's certificate must match
  // its host.
  std::string tls_ca{};    // a file with trusted certificates; empty means the system's
  std::string tls_cert{};  // a file with the client's certificate
  std::string tls_key{};   // a file with the key of tls_cert
  // The prefix of every subject that Once subscribes to. If empty, the prefix is `_INBOX_once.` and
  // the user's name. With creds or nkey, the public key replaces the name. Without any of these,
  // `any` replaces the name.
  std::string inbox{};
};

struct OpenOptions {
  bool create = true;              // if false, a missing database is not_found
  std::shared_ptr<Clock> clock{};  // null means the machine's; shared with the caller
  NatsLogin nats{};                // for a store on a NATS server
  // If true, open() also accepts a zone whose settings could lose tasks. doctor() needs this.
  // No new work starts in such a zone.
  bool as_it_is = false;
  // A store with a connection reports events of the connection here, one line per call. A line
  // contains no credentials. The store may call on any thread. If empty, the store reports nothing.
  std::function<void(std::string_view)> log{};
};

// Any thread may call. Workers keep their zone open. A forked child must not use the zone.
class Zone {
 public:
  static Result<Zone> open(std::string_view url, OpenOptions options = {});
  Zone(Zone&&) noexcept;
  Zone& operator=(Zone&&) noexcept;
  ~Zone();

  std::string uuid() const;

  // Adds the queue and returns how many tasks in the log match it. If the queue exists with the
  // same definition, add() changes nothing and returns 0. Returns queue_mismatch if the queue
  // exists with another definition.
  Result<std::uint64_t> add(const Queue& queue);
  Result<std::vector<Queue>> queues() const;
  // Changes the attempt settings of a queue, or pauses or resumes it. Returns the new definition.
  // change() calls `edit` with the current definition. If others change the queue at the same time,
  // change() calls `edit` again. Name, topic, key, key_format, from, stream and ledger are fixed.
  // Workers apply the new definition from their next claim.
  Result<Queue> change(std::string_view queue, const std::function<void(Queue&)>& edit);
  // Removes a queue and its ledger records. If the queue has unsettled, dead or in-doubt tasks,
  // remove_queue() fails unless `force` is true. The tasks stay in the log. A queue that is added
  // later runs them again.
  Result<void> remove_queue(std::string_view name, bool force = false);

  // A receipt means that the task is on disk. If an error has in_doubt set, the task may be on
  // disk. The caller should then publish again with the same id.
  Result<Receipt> publish(Task task);
  // Returns one result per task, in order. A bad task does not fail the others.
  std::vector<Result<Receipt>> publish_batch(std::vector<Task> tasks);
  // Returns the counts of publishes through this Zone object. Never waits.
  PublisherMetrics metrics() const;

  // Blocks until the task is settled in the queue. The task is then completed, dead or cancelled.
  // Returns Code::timed_out if `limit` expires first.
  Result<Outcome> wait(std::string_view id, std::string_view queue, Duration limit);

  // The next five calls change a task for a person. Each call adds `by` to the task's story. If the
  // task's state does not allow the call, the call changes nothing and returns Code::wrong_state.
  // In a queue with `ledger`, the id is the key. In a queue with `stream`, the id is
  // STREAM:SEQUENCE or the key.
  //
  // Runs a dead or in-doubt task again, with a full set of attempts.
  Result<void> retry(std::string_view id, std::string_view queue, const By& by);
  // Resolves an in-doubt task as "it happened" with the given result.
  Result<void> complete(std::string_view id, std::string_view queue, Body result, const By& by);
  // Resolves an in-doubt step as "it happened" with the given result. The task then continues after
  // that step.
  Result<void> complete_step(std::string_view id, std::string_view queue, std::string_view step,
                             Body result, const By& by);
  // Gives up a dead or in-doubt task. The task becomes cancelled.
  Result<void> drop(std::string_view id, std::string_view queue, const By& by);
  // Cancels an unsettled or in-doubt task. If the task is running, cancel() asks its handler to
  // stop and returns State::running. The task becomes cancelled unless the handler completes it.
  Result<State> cancel(std::string_view id, std::string_view queue, const By& by);

  // For loops that get their work from another system. The queue must have `ledger` set. See
  // guard.h.
  Result<Guard> guard(std::string_view queue, GuardOptions options = {});

  Result<Worker> worker(std::string_view queue, std::function<Outcome(Context&)> handler,
                        WorkerOptions options = {});
  Result<Worker> worker(std::string_view queue, Program program, WorkerOptions options = {});

  // Workflows; see flows.h.
  Flows flows() const;

  Result<Status> status() const;
  // Lists tasks. `after` continues a listing after this item of an earlier page.
  Result<std::vector<ListItem>> list(const ListFilter& filter,
                                     const ListItem* after = nullptr) const;
  Result<TaskView> inspect(std::string_view id) const;
  // Returns at most `limit` entries after a sequence, in order. If `topic` is empty, every topic
  // matches.
  Result<std::vector<LogEntry>> log(std::uint64_t after, std::size_t limit,
                                    std::string_view topic = {}) const;
  // Reads the whole zone, one page at a time. The memory use does not grow with the log.
  Result<Audit> audit(const AuditOptions& options = {}) const;
  Result<Retention> retention() const;
  Result<void> set_retention(const Retention& ages);
  // Looks for conditions that could lose or repeat a task. doctor() only reads. Its cost is bounded
  // unless `deep` is set.
  Result<Diagnosis> doctor(const DoctorOptions& options = {}) const;
  Result<Retired> retire();  // applies the retention now; workers also apply it regularly

  struct Impl;
  explicit Zone(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;  // shared with the workers of this zone
};

// Returns the key of a task for a template such as `{order.id}:{$topic}`, in KeyFormat::escaped.
// The key is the same in every version of Once, so a caller may use it as an id.
// If a path is missing, the error names the path.
Result<std::string> key_from(std::string_view key_template, const Task& task);

}  // namespace once::inline v1
