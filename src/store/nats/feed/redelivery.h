// Brings an unanswered or postponed delivery again. Normally the server does that, so this class
// does nothing. Under a given Clock, ClockRedelivery does it.
#pragma once

#include "store/nats/feed/pulled_message.h"

namespace once::store::nats {

class Redelivery {
 public:
  virtual ~Redelivery() = default;

  // How long the server waits for the answer of a delivery.
  virtual Duration ack_wait(const Queue& queue) const { return queue.lease; }
  // Whether the server delivers an unanswered delivery again after the queue's lease.
  virtual bool follows_lease() const { return true; }
  // How long an entry stays away that may not be handed over again just now.
  virtual Duration when_not_wanted() const { return Duration{200}; }
  // How long a waiting fetch may sleep before it looks at take_due() again. nullopt means for ever.
  virtual std::optional<Duration> look_every() const { return std::nullopt; }

  // The delivery was handed over. It is due again at that time unless it is answered.
  virtual void handed_over(const std::string&, const PulledMessage&, const Entry&, StoreTime) {}
  // True if this object brings the message again after that long, so that the server is not asked to.
  virtual bool put_off(const std::string&, PulledMessage&, Duration, ZoneClock&) { return false; }
  // The delivery was answered.
  virtual void answered(const std::string&) {}
  // The wake of that entry was taken back.
  virtual void wake_removed(const std::string&, Sequence) {}

  // Takes out what is due: at most `limit` entries, of which `again` were handed over before.
  virtual std::vector<PulledMessage> take_due(const std::string&, ZoneClock&, std::size_t,
                                              std::size_t) {
    return {};
  }
  virtual bool is_due(const std::string&, ZoneClock&) const { return false; }
};

}  // namespace once::store::nats
