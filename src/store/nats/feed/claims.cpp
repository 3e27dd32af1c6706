#include "store/nats/feed/claims.h"

#include "store/nats/foreign/foreign_codec.h"

namespace once::store::nats {
namespace {

Address own_place(const KnownQueue& queue, const Entry& entry) {
  return {.kind = Address::Kind::entry, .queue = queue.definition.name, .sequence = entry.sequence};
}

}  // namespace

// The steps are in the order of run().
class Claims::Call {
 public:
  Call(Claims& claims, const KnownQueue& queue, Claimer& claimer, Deliveries deliveries)
      : claims_(claims), queue_(queue), claimer_(claimer), deliveries_(std::move(deliveries)) {}

  Result<std::vector<Delivery>> run(Definitions definitions) {
    if (auto read = read_records(); !read) return read.error();
    ask_claimer();
    write(definitions);
    read_elsewhere();
    return what_went_well();
  }

 private:
  Result<void> read_records();
  void ask_claimer();
  void ask_claimer(std::size_t i, core::Now now);
  void write(Definitions definitions);
  void read_elsewhere();
  Result<std::vector<Delivery>> what_went_well();

  Claims& claims_;
  const KnownQueue& queue_;
  Claimer& claimer_;
  Deliveries deliveries_;
  std::vector<std::optional<Address>> places_;
  std::vector<Result<std::optional<Stored>>> read_;  // two for each redelivery
  std::vector<Swap> swaps_;
  std::vector<std::size_t> claimed_;    // the deliveries of the swaps
  std::vector<std::size_t> elsewhere_;  // deliveries whose own record was in the way
  std::map<std::size_t, Error> failed_;
};

Result<void> Claims::Call::read_records() {
  std::vector<Address> to_read;
  for (std::size_t i = 0; i < deliveries_.all.size(); ++i) {
    const Entry& entry = deliveries_.all[i].entry;
    places_.push_back(claimer_.address(entry));
    if (!places_[i] || deliveries_.first_time[i]) continue;
    to_read.push_back(*places_[i]);
    to_read.push_back(own_place(queue_, entry));
  }
  read_ = claims_.ledger_.get(to_read);
  for (std::size_t i = 0; i + 1 < read_.size(); i += 2) {
    if (!read_[i] || !read_[i + 1] || *read_[i] || *read_[i + 1]) continue;
    // A redelivery without a record: no worker claimed it, or the ledger was emptied.
    return claims_.watch_.ledger_is_whole();
  }
  return {};
}

void Claims::Call::ask_claimer() {
  const core::Now now{.store = claims_.zone_.now(), .wall = claims_.zone_.clock.wall()};
  std::size_t next = 0;
  for (std::size_t i = 0; i < deliveries_.all.size(); ++i) {
    if (!places_[i]) continue;
    if (!deliveries_.first_time[i]) {
      auto& found = read_[next++];
      auto& own = read_[next++];
      if (!found || !own) {
        failed_.emplace(i, found ? own.error() : found.error());
        continue;
      }
      const bool by_itself = *own && core::settled((*own)->record.state);
      deliveries_.all[i].stored = std::move(by_itself ? *own : *found);
      if (by_itself) continue;
    }
    ask_claimer(i, now);
  }
}

void Claims::Call::ask_claimer(std::size_t i, core::Now now) {
  const Delivery& delivery = deliveries_.all[i];
  auto record = claimer_.claim(delivery.entry, delivery.stored ? &*delivery.stored : nullptr,
                               delivery.order ? &*delivery.order : nullptr, now);
  if (!record) return;
  swaps_.push_back({.at = *places_[i],
                    .expected = delivery.stored ? delivery.stored->revision : Revision{},
                    .record = std::move(*record),
                    .handle = delivery.handle});
  // The ack_wait of the consumer is the queue's lease. So a claim with that lease needs no NAK: the
  // server delivers the entry again at the right time.
  if (claims_.redelivery_.follows_lease() && !delivery.order &&
      core::look_again(swaps_.back().record) == queue_.definition.lease)
    swaps_.back().handle = queue_.foreign() ? handle_with_note({}, delivery.entry) : std::string();
  claimed_.push_back(i);
}

void Claims::Call::write(Definitions definitions) {
  auto swapped = claims_.ledger_.swap(swaps_, definitions);
  for (std::size_t k = 0; k < swapped.size(); ++k) {
    Delivery& delivery = deliveries_.all[claimed_[k]];
    if (swapped[k]) {
      delivery.claimed = swapped[k]->written;
      delivery.stored = std::move(swapped[k]->current);
    } else if (swapped[k].error().code == Code::wrong_state) {
      elsewhere_.push_back(claimed_[k]);
    } else if (swapped[k].error().in_doubt) {
      delivery.unanswered = true;
      delivery.stored = Stored{.record = std::move(swaps_[k].record)};
    } else {
      failed_.emplace(claimed_[k], swapped[k].error());
    }
  }
}

void Claims::Call::read_elsewhere() {
  std::vector<Address> places;
  for (const std::size_t i : elsewhere_)
    places.push_back(own_place(queue_, deliveries_.all[i].entry));
  auto own = claims_.ledger_.get(places);
  for (std::size_t k = 0; k < own.size(); ++k) {
    if (own[k])
      deliveries_.all[elsewhere_[k]].stored = std::move(*own[k]);
    else
      failed_.emplace(elsewhere_[k], own[k].error());
  }
}

Result<std::vector<Delivery>> Claims::Call::what_went_well() {
  if (failed_.empty()) return std::move(deliveries_.all);
  std::vector<Delivery> well;
  for (std::size_t i = 0; i < deliveries_.all.size(); ++i)
    if (!failed_.contains(i)) well.push_back(std::move(deliveries_.all[i]));
  const Error& first = failed_.begin()->second;
  if (well.empty() && first.retryable) return first;  // else it is damaged, and is left out
  return well;
}

Result<std::vector<Delivery>> Claims::claim(const KnownQueue& queue, Claimer& claimer,
                                            Deliveries deliveries, Definitions definitions) {
  return Call(*this, queue, claimer, std::move(deliveries)).run(definitions);
}

}  // namespace once::store::nats
