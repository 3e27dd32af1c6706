// A zone: one log with its ledger and queues. `sqlite:PATH` (or a plain path) is one file that any
// number of processes on this machine share; `nats://HOST:PORT[,HOST:PORT...][/ZONE]` (`tls://` when
// nothing may be said without TLS) is on a NATS server; `memory:` lives and dies with the object.
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

// Where a zone's time comes from. Tests pass a testing::VirtualClock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time now() = 0;
};

// How to log in to a NATS server: at most one of user, token, creds and nkey. A URL holds no login.
// None of it is in errors or in the store, and programs that a worker runs are not told it.
struct NatsLogin {
  std::string user{};
  std::string password{};
  std::string token{};
  std::string creds{};  // a file with a user's JWT and seed; read again at each reconnect
  std::string nkey{};   // a file with a user's seed; read again at each reconnect
  // Any of these asks for TLS, as a tls:// URL does. The server's certificate must be for its host.
  std::string tls_ca{};    // a file with the certificates to trust; empty: the system's
  std::string tls_cert{};  // a file with a certificate of one's own ...
  std::string tls_key{};   // ... and the file with its key
  // What the subjects that are subscribed to begin with. Empty: _INBOX_once. and the user's name,
  // the public key of creds or nkey, or `any`.
  std::string inbox{};
};

struct OpenOptions {
  bool create = true;              // false: a missing database is not_found
  std::shared_ptr<Clock> clock{};  // none: the machine's; shared with the caller that moves it
  NatsLogin nats{};                // for a store on a NATS server
  // Opens also a zone whose settings could lose tasks, for doctor(). Nothing new is begun in it.
  bool as_it_is = false;
  // What a store that can be away tells about its connection: one line each, without credentials, on
  // any thread. None: silent.
  std::function<void(std::string_view)> log{};
};

// Any thread may call; workers keep it open. Do not use it in a forked child.
class Zone {
 public:
  static Result<Zone> open(std::string_view url, OpenOptions options = {});
  Zone(Zone&&) noexcept;
  Zone& operator=(Zone&&) noexcept;
  ~Zone();

  std::string uuid() const;

  // Adds the queue and answers how many tasks of the log it found. The same definition again is
  // fine (and finds none); another one is refused as queue_mismatch.
  Result<std::uint64_t> add(const Queue& queue);
  Result<std::vector<Queue>> queues() const;
  // Changes what the queue says about attempts, pauses or resumes it, and answers the definition
  // that stands now. `edit` is called with what it is; more than once when others change it at the
  // same time. Name, topic, key, from, stream and ledger are fixed. Workers follow with their next claims.
  Result<Queue> change(std::string_view queue, const std::function<void(Queue&)>& edit);
  // Unsettled, dead and doubtful tasks refuse the removal unless forced. Tasks stay in the log; what
  // the queue knows of them is forgotten, and a queue that is added later runs them anew.
  Result<void> remove_queue(std::string_view name, bool force = false);

  // A receipt means that the task is on disk. An error with in_doubt means that it may be: publish
  // again with the same id.
  Result<Receipt> publish(Task task);
  // One answer per task, in order; a bad task does not fail the others.
  std::vector<Result<Receipt>> publish_batch(std::vector<Task> tasks);
  // What became of the tasks that were published here, through this zone; waits for nobody.
  PublisherMetrics metrics() const;

  // Blocks until the task is settled in the queue: completed, failed for good (dead, cancelled), or
  // Code::timed_out.
  Result<Outcome> wait(std::string_view id, std::string_view queue, Duration limit);

  // What people may do to a task; each says who and why in its story. In a queue that is a ledger
  // alone the id is the key; in one on a stream of others' it is STREAM:SEQUENCE or the key. A task that is not where this can be done is Code::wrong_state.
  // Dead or in doubt: run it again, with all its attempts before it.
  Result<void> retry(std::string_view id, std::string_view queue, const By& by);
  // In doubt: it happened, with this result.
  Result<void> complete(std::string_view id, std::string_view queue, Body result, const By& by);
  // In doubt because of this step: the step happened, with this result; the task goes on after it.
  Result<void> complete_step(std::string_view id, std::string_view queue, std::string_view step,
                             Body result, const By& by);
  // Dead or in doubt: leave it. It becomes cancelled.
  Result<void> drop(std::string_view id, std::string_view queue, const By& by);
  // Not settled yet, or in doubt. One that runs is asked to end: then State::running is the answer,
  // and it becomes cancelled unless it completes all the same.
  Result<State> cancel(std::string_view id, std::string_view queue, const By& by);

  // For loops that get their work elsewhere, on a queue that is a ledger alone; see guard.h.
  Result<Guard> guard(std::string_view queue, GuardOptions options = {});

  Result<Worker> worker(std::string_view queue, std::function<Outcome(Context&)> handler,
                        WorkerOptions options = {});
  Result<Worker> worker(std::string_view queue, Program program, WorkerOptions options = {});

  // Workflows; see flows.h.
  Flows flows() const;

  Result<Status> status() const;
  // `after`: go on behind this item of an earlier answer.
  Result<std::vector<ListItem>> list(const ListFilter& filter,
                                     const ListItem* after = nullptr) const;
  Result<TaskView> inspect(std::string_view id) const;
  // Entries after a sequence, in order, at most `limit`; an empty filter matches every topic.
  Result<std::vector<LogEntry>> log(std::uint64_t after, std::size_t limit,
                                    std::string_view topic = {}) const;
  // Reads everything, a page at a time: memory does not grow with the log.
  Result<Audit> audit(const AuditOptions& options = {}) const;
  Result<Retention> retention() const;
  Result<void> set_retention(const Retention& ages);
  // Looks for what could lose or repeat a task. Reads only; the cost is bounded unless it is deep.
  Result<Diagnosis> doctor(const DoctorOptions& options = {}) const;
  Result<Retired> retire();  // applies the retention now; workers do it by themselves

  struct Impl;
  explicit Zone(std::shared_ptr<Impl> impl);

 private:
  std::shared_ptr<Impl> impl_;  // shared with the workers made from it
};

// The key that a template such as `{order.id}:{$topic}` gives for a task, in KeyFormat::escaped. An id
// that is made by it stays the same in every version of Once. A missing path is an error that names it.
Result<std::string> key_from(std::string_view key_template, const Task& task);

}  // namespace once::inline v1
