// Checks whether the zone is still the one that was opened, on a thread of its own. It checks each
// new connection before anything else is sent over it (RequestMux::set_connection_check). It also
// checks when something is missing, and at intervals. If it finds trouble, later calls of the store
// return that as an error, until the zone is repaired.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "store/nats/streams.h"

namespace once::store::nats {

class Watch {
 public:
  Watch(RequestMux& mux, Duration patience, const Subjects& subjects)
      : mux_(mux), client_(mux, patience, RequestMux::Use::examining), subjects_(subjects) {}
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Starts the thread. `found` is called, mostly on that thread, when the finding changes.
  void begin(Identity known, Duration every, std::function<void()> found);
  // A worker has joined. Processes with workers move the zone's marks at intervals, and when they end.
  void note_worker();
  // Refuses new work, an append or a claim, in a zone that would lose it. Running tasks can still be
  // recorded as long as it is the same zone.
  Result<void> may_begin() const;
  // Asks the server now whether the ledger lost its records. A task must not run because its record
  // is missing, unless this says that records do not go missing.
  Result<void> ledger_is_whole();
  // Asks the server now whether the zone still has its UUID. If it has not, a queue that is missing was
  // lost and not removed.
  Result<void> has_its_uuid();
  // The sequence of a record or a task that this process wrote. A stream that ends before it has lost
  // it, though the marks are older.
  void note_record(std::uint64_t sequence) { raise(last_record_, sequence); }
  void note_task(std::uint64_t sequence) { raise(last_task_, sequence); }
  // The same of a value. From the first use of values on, their stream is watched, too.
  void note_value(std::uint64_t sequence) { raise(last_value_, sequence); }
  void watch_values(std::string created, std::uint64_t last);
  std::uint64_t last_value() const { return last_value_; }
  // Refuses the use of values whose stream lost some, as of the last look.
  Result<void> values_are_whole() const;
  // What the zone has lost, as of the last look.
  std::optional<Error> lost() const;

 private:
  void run(const std::stop_token& stop);
  Result<std::optional<Trouble>> look(std::uint64_t connection, const std::stop_token& stop);
  void leave();
  void know_own_writes();
  void pause(Duration time, const std::stop_token& stop);
  static void raise(std::atomic<std::uint64_t>& highest, std::uint64_t sequence) {
    for (std::uint64_t seen = highest; seen < sequence;)
      if (highest.compare_exchange_weak(seen, sequence)) return;
  }

  RequestMux& mux_;
  const JetStreamClient client_;
  const Subjects& subjects_;
  Identity known_;
  Duration every_{};
  std::function<void()> found_;
  std::atomic<bool> worked_ = false;
  std::atomic<std::uint64_t> last_record_ = 0;
  std::atomic<std::uint64_t> last_task_ = 0;
  std::atomic<std::uint64_t> last_value_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool asked_ = false;  // a caller missed something, or the connection is back
  std::optional<Trouble> trouble_;
  std::string uuid_;
  std::string values_created_;
  bool sealed_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace once::store::nats
