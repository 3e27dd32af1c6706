// One message of one of a queue's two consumers, as the feed handles it, and the list of parcels
// that a virtual clock needs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "once/zone.h"
#include "store/nats/entry_codec.h"

namespace once::store::nats {

// What the subject says that a delivery is answered on.
struct AckSubject {
  std::string stream{};
  std::uint64_t times{};     // how often it was delivered, this time included
  std::uint64_t sequence{};  // in its stream
  Time time{};
};
std::optional<AckSubject> ack_subject(std::string_view reply);
// The answer that has it delivered again after so long.
std::string nak(Duration delay);

inline constexpr Duration kClockLook{5};  // a given clock may be moved without a word to us

struct PulledMessage {
  std::string reply{};
  std::uint64_t times{};
  Sequence sequence{};           // of the entry
  std::optional<Entry> entry{};  // of the log's; a wake has none
  std::optional<core::Order> order{};
  bool wake = false;
  StoreTime after{};         // not to be handed over before
  bool handed_over = false;  // to somebody, before
};

// Virtual time. A server redelivers in real time, so a test that moves a clock by hours needs
// another alarm: with a Clock, consumers get an ack_wait of days, and what the store hands over or
// puts off is kept here with the time at which the server would deliver it again. Nothing else of
// the feed changes: what is here is pending at the server, and answered there.
//
// One list per clock, shared by the stores under it, as the server would be.
class TimeTravel {
 public:
  static std::shared_ptr<TimeTravel> under(const std::shared_ptr<Clock>& clock);

  void keep(const std::string& consumer, PulledMessage parcel, StoreTime due);
  // As above for what is kept already; false: it is not.
  bool put_off(const std::string& reply, StoreTime due);
  void forget(const std::string& reply);
  // Of a wake that was taken back.
  void forget_wake(const std::string& consumer, Sequence sequence);
  // Takes what is due out, at most `limit` entries, of which `again` were handed over before.
  std::vector<PulledMessage> take(const std::string& consumer, StoreTime now, std::size_t limit,
                                  std::size_t again);
  bool due(const std::string& consumer, StoreTime now) const;

 private:
  struct Item {
    std::string consumer{};
    PulledMessage parcel{};
    StoreTime due{};
  };
  mutable std::mutex mutex_;
  std::map<std::string, Item> items_;  // by reply
};

}  // namespace once::store::nats
