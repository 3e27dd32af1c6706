// A zone is one log with its ledger and queues. The URL selects the store:
//   `sqlite:PATH` or a plain path: one file. Any number of processes on this machine can share it.
//   `nats://HOST:PORT[,HOST:PORT...][/ZONE]`: a NATS server. `tls://` refuses to talk without TLS.
//   `memory:`: the memory of this process. The zone ends with the Zone object.
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "once/audit.h"
#include "once/consumer.h"
#include "once/doctor.h"
#include "once/flows.h"
#include "once/ledger.h"
#include "once/metrics.h"
#include "once/queues.h"
#include "once/tasks.h"
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

// How much a Zone object accepts from publish_async() before it refuses more.
struct AsyncLimits {
  std::size_t publishes = 8192;    // publishes without a result
  std::size_t bytes = 67'108'864;  // of their bodies; one larger body is still accepted
};

// Receives the result of one asynchronous publish.
using PublishCallback = std::function<void(Result<Receipt>)>;

struct OpenOptions {
  bool create = true;              // if false, a missing database is not_found
  std::shared_ptr<Clock> clock{};  // null means the machine's; shared with the caller
  NatsLogin nats{};                // for a store on a NATS server
  AsyncLimits async{};             // for publish_async()
  // If true, open() also accepts a zone whose settings could lose tasks. doctor() needs this.
  // No new work starts in such a zone.
  bool allow_unsafe = false;
  // A store with a connection reports events of the connection here, one line per call. A line
  // contains no credentials. The store may call on any thread. If empty, the store reports nothing.
  std::function<void(std::string_view)> log{};
};

// An open zone. Any thread may call. Workers and the objects that queues(), tasks(), flows() and
// ledger() return keep the store open. A forked child must not use the zone.
class Zone {
 public:
  static Result<Zone> open(std::string_view url, OpenOptions options = {});
  Zone(Zone&&) noexcept;
  Zone& operator=(Zone&&) noexcept;
  // Sends the asynchronous publishes that wait, and returns after the last result and callback.
  // If the store fails a whole batch meanwhile, the publishes behind that batch fail with
  // Code::store_unavailable and are not sent.
  ~Zone();

  std::string uuid() const;

  // A receipt means that the task is on disk. If an error has in_doubt set, the task may be on
  // disk. The caller should then publish again with the same id.
  Result<Receipt> publish(Task task);
  // Returns one result per task, in order. A bad task does not fail the others.
  std::vector<Result<Receipt>> publish_batch(std::vector<Task> tasks);

  // Publishes without waiting for the store. The future gets the same result as publish() returns.
  // The Zone publishes on one thread of its own. The thread takes the tasks that have gathered, in
  // the order of the calls, as one batch. The results arrive in the order of the calls. Within one
  // batch, a store may give the tasks another order in the log.
  // The future does not wait in its destructor. A program must look at each future, because a
  // publish can fail or be refused.
  //
  // If the limits of OpenOptions::async are reached, publish_async() refuses the task. The result
  // is then Code::overloaded, nothing was published, and a later call may succeed.
  std::future<Result<Receipt>> publish_async(Task task);
  // The same with a callback. An Error means that the task is refused and that `done` is never
  // called. Otherwise the Zone calls `done` exactly once, on the thread that publishes, one
  // callback at a time. A callback that blocks delays the publishes behind it. A callback must not
  // throw. Neither a callback nor anything that it owns may destroy the Zone: a callback must not hold
  // the last shared_ptr to it. A callback may call publish_async().
  Result<void> publish_async(Task task, PublishCallback done);

  // Returns the counts of publishes through this Zone object. Never waits.
  PublisherMetrics metrics() const;

  // Runs `handler` for the tasks of a queue. See worker.h.
  Result<Worker> worker(std::string_view queue, std::function<Outcome(Context&)> handler,
                        WorkerOptions options = {});
  // Offers the tasks of a queue to a server or event loop of your own. See consumer.h.
  Result<Consumer> consumer(std::string_view queue, ConsumerOptions options = {});
  // For a loop that gets its work from another system. The queue must have `ledger` set. See
  // ledger.h.
  Result<LedgerClient> ledger(std::string_view queue, LedgerOptions options = {});

  // The parts of a zone. See queues.h, tasks.h and flows.h.
  Queues queues() const;
  Tasks tasks() const;
  Flows flows() const;

  // Counts the tasks of every queue by state.
  Result<Status> status() const;
  // Reads the whole zone, one page at a time. The memory use does not grow with the log.
  Result<Audit> audit(const AuditOptions& options = {}) const;
  // Looks for conditions that could lose or repeat a task. doctor() only reads. Its cost is bounded
  // unless `deep` is set.
  Result<Diagnosis> doctor(const DoctorOptions& options = {}) const;

  // How long the zone keeps settled tasks. Workers apply the retention regularly.
  Result<Retention> retention() const;
  Result<void> set_retention(const Retention& ages);
  Result<Retired> retire();  // applies the retention now

 private:
  friend struct detail::Access;
  explicit Zone(std::shared_ptr<detail::ZoneState> state);
  std::shared_ptr<detail::ZoneState> state_;  // shared with the workers of this zone
};

// Returns the key of a task for a template such as `{order.id}:{$topic}`, in KeyFormat::escaped.
// The key is the same in every version of Once, so a caller may use it as an id.
// If a path is missing, the error names the path.
Result<std::string> key_from(std::string_view key_template, const Task& task);

}  // namespace once::inline v1
