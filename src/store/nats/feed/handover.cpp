#include "store/nats/feed/handover.h"

#include <algorithm>
#include <map>

#include "store/nats/foreign/foreign_codec.h"

namespace once::store::nats {

class Handover::Call {
 public:
  Call(Handover& handover, const KnownQueue& queue, const Fetch& request)
      : handover_(handover), queue_(queue), time_(handover.zone_.now()), again_(request.again) {}

  Result<void> add(PulledMessage message);

  Deliveries deliveries{};
  std::vector<Answering> put_off{};

 private:
  void later(PulledMessage message, std::optional<Duration> again) {
    put_off.push_back(
        {.consumer = queue_.consumer(), .message = std::move(message), .again = again});
  }
  // Reads the entry, because a wake does not contain it. nullopt if retention removed the entry.
  Result<std::optional<Entry>> entry_of_wake(Sequence sequence) const;
  void add_to(Delivery& delivery, const PulledMessage& message);

  Handover& handover_;
  const KnownQueue& queue_;
  const StoreTime time_;
  std::size_t again_;
  std::map<Sequence, std::size_t> places_;  // of the deliveries
};

Result<std::optional<Entry>> Handover::Call::entry_of_wake(Sequence sequence) const {
  auto read = handover_.entries_.read(queue_, sequence);
  if (read && !*read && queue_.foreign()) return handover_.foreign_.rest_of(queue_, sequence);
  return read;
}

Result<void> Handover::Call::add(PulledMessage message) {
  if (message.wake) {
    auto entry = entry_of_wake(message.sequence);
    if (!entry) return entry.error();
    if (!*entry) {
      later(std::move(message), std::nullopt);
      return {};
    }
    if ((*entry)->waits_at(time_)) message.after = std::max(message.after, (*entry)->not_before());
    message.entry = std::move(*entry);
  }
  if (message.after > time_) {
    const Duration wait = message.after - time_;
    later(std::move(message), wait);
    return {};
  }
  const auto [place, is_new] = places_.try_emplace(message.sequence, deliveries.all.size());
  if (is_new && message.handed_over && again_ == 0) {
    places_.erase(place);
    later(std::move(message), handover_.redelivery_.when_not_wanted());
    return {};
  }
  if (is_new) {
    if (message.handed_over) --again_;
    deliveries.all.push_back({.entry = std::move(*message.entry)});
    deliveries.first_time.push_back(!message.handed_over);
  }
  add_to(deliveries.all[place->second], message);
  return {};
}

// An entry that both consumers delivered is one delivery. Its answer goes to both reply subjects.
void Handover::Call::add_to(Delivery& delivery, const PulledMessage& message) {
  add_reply(delivery.handle, message);
  if (message.order) delivery.order = message.order;
  if (queue_.foreign())
    delivery.handle = handle_with_note(std::move(delivery.handle), delivery.entry);
  handover_.redelivery_.handed_over(queue_.consumer(), message, delivery.entry,
                                    time_ + queue_.definition.lease);
}

Result<std::vector<Delivery>> Handover::hand_over(const KnownQueue& queue, const Fetch& request,
                                                  std::vector<PulledMessage> messages,
                                                  Definitions definitions) {
  Call call(*this, queue, request);
  for (PulledMessage& message : messages)
    if (auto added = call.add(std::move(message)); !added) return added.error();
  if (auto sent = acknowledgements_.send(std::move(call.put_off)); !sent) return sent.error();
  if (!request.claimer || call.deliveries.all.empty()) return std::move(call.deliveries.all);
  return claims_.claim(queue, *request.claimer, std::move(call.deliveries), definitions);
}

}  // namespace once::store::nats
