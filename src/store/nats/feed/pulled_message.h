// One message of one of a queue's two consumers, its entries and its wakes, as the feed handles it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/nats/log/entry_codec.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

// The fields of a delivery's reply subject, on which it is acknowledged.
struct AckSubject {
  std::string stream{};
  std::uint64_t times{};     // how often it was delivered, including this time
  std::uint64_t sequence{};  // in its stream
  Time time{};
};
std::optional<AckSubject> ack_subject(std::string_view reply);
// The text of a NAK: the server delivers the message again after the delay.
std::string nak(Duration delay);

struct PulledMessage {
  std::string reply{};
  Sequence sequence{};           // of the entry
  std::optional<Entry> entry{};  // nullopt for a wake
  std::optional<core::Order> order{};
  bool wake = false;
  StoreTime after{};         // it must not be handed over before this time
  bool handed_over = false;  // it was handed over to a worker before
};

// Decodes a message. Returns nullopt if Once did not write the message.
std::optional<PulledMessage> pulled_from(const KnownQueue& queue, const Message& message,
                                         ZoneConnection& zone);

// The handle of a delivery is a list of reply subjects, one or two. A mark before a subject says
// that this delivery carries an order. On a stream of others, the handle begins with a note of the
// message.
struct Reply {
  std::string subject{};
  bool order = false;
};
std::vector<Reply> replies_of(std::string_view handle);
void add_reply(std::string& handle, const PulledMessage& message);

}  // namespace once::store::nats
