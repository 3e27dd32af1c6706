// The zone's time is the server's. The stamp of a write is the time at which its leader stored it. now()
// is the time that the server told last, advanced by this machine's monotonic clock. It is taken low by up
// to a round trip, so that no lease seems to end early.
//
// With a given Clock the zone's time is that clock's instead. Every write then carries its stamp in a
// header. Nothing else is written differently.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "once/zone.h"
#include "store/nats/client/jetstream_client.h"
#include "store/store.h"

namespace once::store::nats {

class ZoneClock {
 public:
  // `ask` gets the server's time. It returns nullopt if the server does not answer.
  ZoneClock(std::shared_ptr<Clock> given, std::function<std::optional<Time>()> ask)
      : given_(std::move(given)), ask_(std::move(ask)) {}

  const std::shared_ptr<Clock>& given() const { return given_; }
  StoreTime now();  // never goes back
  Time wall() const;
  // Advances the time to `seen` if it is earlier.
  void at_least(StoreTime seen);

  void stamp(Headers& headers);  // before a write
  StoreTime stamp_of(const StreamMessage& message) const;

 private:
  const std::shared_ptr<Clock> given_;  // shared with the caller; null: the server's time
  const std::function<std::optional<Time>()> ask_;
  std::mutex mutex_;
  StoreTime last_{};
  StoreTime told_{};  // by the server, at told_at_ or a little before
  std::chrono::steady_clock::time_point told_at_{};
};

}  // namespace once::store::nats
