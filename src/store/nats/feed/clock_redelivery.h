// Redelivery by a given Clock (OpenOptions::clock). A server redelivers in real time, so a clock that
// moves by hours needs another alarm. The consumers get an ack_wait of days. Whatever the store hands
// over or puts off is listed here with the time at which the server would deliver it again. The listed
// messages are pending at the server, and are answered there.
//
// There is one list per clock. All stores in the process under that clock share it, as they would share
// the server.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "store/nats/feed/redelivery.h"

namespace once::store::nats {

class ClockRedelivery final : public Redelivery {
 public:
  static std::shared_ptr<Redelivery> under(const std::shared_ptr<Clock>& clock);

  Duration ack_wait(const Queue&) const override { return std::chrono::hours{24 * 7}; }
  bool follows_lease() const override { return false; }
  Duration when_not_wanted() const override { return {}; }
  std::optional<Duration> look_every() const override { return Duration{5}; }

  void handed_over(const std::string& consumer, const PulledMessage& message, const Entry& entry,
                   StoreTime due) override;
  bool put_off(const std::string& consumer, PulledMessage& message, Duration again,
               ZoneClock& clock) override;
  void answered(const std::string& reply) override;
  void wake_removed(const std::string& consumer, Sequence sequence) override;
  std::vector<PulledMessage> take_due(const std::string& consumer, ZoneClock& clock,
                                      std::size_t limit, std::size_t again) override;
  bool is_due(const std::string& consumer, ZoneClock& clock) const override;

 private:
  struct Item {
    std::string consumer{};
    PulledMessage message{};
    StoreTime due{};
  };
  void keep(const std::string& consumer, PulledMessage message, StoreTime due);

  mutable std::mutex mutex_;
  std::map<std::string, Item> items_;  // by reply
};

}  // namespace once::store::nats
