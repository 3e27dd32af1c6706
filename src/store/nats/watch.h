// Looks whether the zone is still the one that was opened: whenever the connection comes back, before
// anything else is sent over it; when something was missing; and every so often. What it finds is
// told to whoever asks next, and is taken back when it was put right.
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
  Watch(RequestMux& exchange, Duration patience, const Subjects& subjects)
      : exchange_(exchange),
        jet_(exchange, patience, RequestMux::Use::examining),
        subjects_(subjects) {}
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // From now on. `found` is called, on a thread of its own, when there is something new to tell.
  void begin(Identity known, Duration every, std::function<void()> found);
  // A worker is here. Workers move the zone's marks now and then, and when they end.
  void note_worker();
  // Refuses new work, an append or a claim, in a zone that would lose it. What was begun goes on
  // being recorded, as long as it is the same zone.
  Result<void> may_begin() const;
  // Asks the server now whether the ledger lost its records. A task must not run because its record
  // is missing, unless this says that records do not go missing.
  Result<void> ledger_is_whole();
  // What was lost, as far as the last look found it.
  std::optional<Error> lost() const;

 private:
  void run(const std::stop_token& stop);
  Result<std::optional<Trouble>> look(std::uint64_t connection, const std::stop_token& stop);
  void leave();
  void pause(Duration time, const std::stop_token& stop);

  RequestMux& exchange_;
  const JetStreamClient jet_;
  const Subjects& subjects_;
  Identity known_;
  Duration every_{};
  std::function<void()> found_;
  std::atomic<bool> worked_ = false;

  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  bool asked_ = false;  // somebody missed something, or the connection came back
  std::optional<Trouble> trouble_;
  std::string uuid_;
  bool sealed_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace once::store::nats
