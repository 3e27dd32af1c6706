// The zone's time is the server's: the stamp of a write is the time that its leader stored it with,
// and now() is what the server last told, gone on by our own monotonic clock. It is taken low by up
// to a round trip, so that nobody's lease is seen to end early.
//
// With a Clock (tests), the zone's time is that clock's instead, and every write carries its stamp
// in a header: the one thing that is written differently.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "once/zone.h"
#include "store/nats/jetstream_client.h"
#include "store/store.h"

namespace once::store::nats {

class ZoneClock {
 public:
  // `ask` gets the server's time; none: it could not be had.
  ZoneClock(std::shared_ptr<Clock> given, std::function<std::optional<Time>()> ask)
      : given_(std::move(given)), ask_(std::move(ask)) {}

  const std::shared_ptr<Clock>& given() const { return given_; }
  StoreTime now();  // never goes back
  Time wall() const;
  // It is at least as late as this.
  void at_least(StoreTime seen);

  void stamp(Headers& headers);  // before a write
  StoreTime stamp_of(const StreamMessage& kept) const;

 private:
  const std::shared_ptr<Clock> given_;  // shared with whoever moves it; null: the server's time
  const std::function<std::optional<Time>()> ask_;
  std::mutex mutex_;
  StoreTime last_{};
  StoreTime told_{};  // by the server, at told_at_ or a little before
  std::chrono::steady_clock::time_point told_at_{};
};

}  // namespace once::store::nats
