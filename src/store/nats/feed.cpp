// The feed: hands over what was pulled (pulling.cpp), claims it, and answers by +ACK and -NAK with a
// delay. A delay is exact and may be given again, so it is also how a lease is followed:
// a delivery comes again when its record says that it should be looked at.
//
// Acknowledgements are not fenced: whoever answers last decides when the entry comes again. That is
// only a matter of when; what is done with it, the ledger decides.
#include <algorithm>
#include <chrono>
#include <set>

#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

constexpr Duration kLongestWait{std::chrono::hours{24 * 365}};
constexpr Duration kHears{10'000};  // at the latest, of what is in its stream, a new consumer
constexpr Duration kCounts{2'000};  // the same, and has counted it
constexpr Duration kInsists{500};
constexpr Duration kStillKnown{100};  // what a queue is, since the server said so
constexpr Duration kNotNow{200};      // until one that may not be handed over again is offered

// A handle names what is to be answered: reply subjects, those of orders with a mark; before them,
// on a stream of others', the note of its message.
constexpr char kOrderMark = '!';

struct Reply {
  std::string subject{};
  bool order = false;
};

std::vector<Reply> replies_of(std::string_view handle) {
  std::vector<Reply> replies;
  while (!handle.empty()) {
    const std::size_t end = std::min(handle.find(' '), handle.size());
    std::string_view one = handle.substr(0, end);
    handle.remove_prefix(std::min(end + 1, handle.size()));
    const bool order = one.starts_with(kOrderMark);
    if (order) one.remove_prefix(1);
    if (one.starts_with("$JS.ACK.")) replies.push_back({std::string(one), order});
  }
  return replies;
}

bool is_open(const KnownQueue& queue) {
  return !queue.definition.paused && !queue.definition.ledger;
}

Address own_place(const KnownQueue& queue, const Entry& entry) {
  return {.kind = Address::Kind::entry, .queue = queue.definition.name, .sequence = entry.sequence};
}

}  // namespace

// --- Answering --------------------------------------------------------------------------------

std::vector<Outgoing> NatsStore::answers_to_send(std::vector<Answering> answers) {
  std::vector<Outgoing> messages;
  for (Answering& each : answers) {
    const std::string reply = each.parcel.reply;
    if (zone_->travel && each.again) {
      const StoreTime due = now() + std::max(*each.again, Duration{0});
      if (each.parcel.sequence)
        zone_->travel->keep(each.consumer, std::move(each.parcel), due);
      else
        zone_->travel->put_off(reply, due);
      continue;
    }
    if (zone_->travel) zone_->travel->forget(reply);
    messages.push_back({.subject = reply, .data = each.again ? nak(*each.again) : "+ACK"});
  }
  return messages;
}

// What is not heard comes again when the lease is over.
Result<void> NatsStore::answer(std::vector<Answering> answers) {
  const auto messages = answers_to_send(std::move(answers));
  for (const RequestMux::Answer& each : zone_->exchange->ask(messages, zone_->jet.patience()))
    if (!each.denied.empty()) return not_permitted(each.denied);
  return {};
}

// The record stands, so nobody waits to hear that the server has heard.
void NatsStore::answer_and_go_on(std::vector<Answering> answers) {
  zone_->exchange->tell(answers_to_send(std::move(answers)));
}

Result<void> NatsStore::settle(std::span<const Settlement> items) {
  std::vector<Answering> answers;
  for (const Settlement& item : items)
    for (Reply& reply : replies_of(item.handle))
      answers.push_back({.parcel = {.reply = std::move(reply.subject)}, .again = item.again});
  return answer(std::move(answers));
}

// Also by the handle of an earlier hand-over: nobody has written since, so the record decides.
void NatsStore::answer_swap(const KnownQueue& queue, const Swap& item, const Stored& stored,
                            std::vector<Answering>& answers) {
  const auto again = core::look_again(stored.record);
  const bool its_own =
      item.at.kind == Address::Kind::entry || stored.record.sequence == item.at.sequence;
  for (Reply& reply : replies_of(item.handle)) {
    if (reply.order && (its_own || !again))
      spend_order(queue, item.at.sequence, reply.subject, again);
    else
      answers.push_back({.parcel = {.reply = std::move(reply.subject)}, .again = again});
  }
}

void NatsStore::spend_order(const KnownQueue& queue, Sequence sequence, const std::string& reply,
                            std::optional<Duration> again) {
  const auto delivery = ack_subject(reply);
  if (!delivery) return;
  const std::string subject = zone_->subjects.wake(queue, sequence);
  const auto slot = zone_->jet.last(zone_->subjects.wake_stream(), subject);
  // When it cannot be read, the order comes again, and its nonce in the story says that it was
  // carried out.
  if (!slot) return;
  const bool another =
      *slot && (*slot)->sequence != delivery->sequence && (*slot)->header("Once-Order") != nullptr;
  if (zone_->travel) zone_->travel->forget(reply);
  if (another) return;
  if (again) {
    Outgoing look = wake_message(subject, {.sequence = sequence, .after = now() + *again},
                                 *slot ? (*slot)->sequence : 0);
    zone_->clock.stamp(look.headers);
    static_cast<void>(zone_->jet.publish(look));
  } else if (*slot) {
    static_cast<void>(zone_->jet.remove(zone_->subjects.wake_stream(), (*slot)->sequence));
    if (zone_->travel) zone_->travel->forget_wake(queue.consumer(), sequence);
  }
}

namespace {

// Whether the wakes' consumer has something to deliver.
bool has_heard(const JetStreamClient& jet, const std::string& stream, const std::string& consumer) {
  const auto info = jet.call("CONSUMER.INFO." + stream + "." + consumer, "");
  return info && number_of(info->json, "num_pending").value_or(0) > 0;
}

}  // namespace

// --- Handing over -----------------------------------------------------------------------------

// Only who waits listens: others need no permission to.
void NatsStore::hear_news() {
  std::call_once(hearing_, [this] {
    auto news =
        zone_->exchange->listen(zone_->subjects.news(), [zone = zone_.get()] { zone->ring(); });
    if (news) news_ = std::move(*news);
  });
}

Result<void> NatsStore::may_hand_over(const KnownQueue& queue, const Fetch& request) {
  if (auto may = zone_->watch.may_begin(); !may) return may;
  const std::lock_guard lock(zone_->mutex);
  const auto member = zone_->joined.find(request.member);
  if (member != zone_->joined.end() && member->second != queue.consumer())
    return no_queue(request.queue);
  return {};
}

// The pulls go out with the records, and what they bring is claimed when these are written: who
// could not record has no room for more.
Store::TurnResult NatsStore::turn(std::span<const Swap> items, const Fetch& request) {
  const auto last = remembered(request.queue);
  if (!last || !is_open(*last) || request.limit == 0) return {.swapped = swap(items)};
  const auto known_at = steady_clock::now();
  const std::uint64_t heard = zone_->news;
  Pulls pulls = begin_pulls(*last, request);
  TurnResult turned{.swapped = swap(items)};  // asks what the queue is now
  const bool recorded = std::all_of(turned.swapped.begin(), turned.swapped.end(),
                                    [](const auto& each) { return each && each->written; });
  const auto queue = remembered(request.queue);
  if (!recorded || request.stop.stop_requested() || !queue || !is_open(*queue) ||
      queue->consumer() != pulls.consumer || !may_hand_over(*queue, request)) {
    abandon(pulls);
    return turned;
  }
  auto parcels = gather(*queue, std::move(pulls), request);
  if (!parcels) {
    turned.delivered = parcels.error();
    return turned;
  }
  const bool known = zone_->news == heard && steady_clock::now() - known_at <= kStillKnown;
  turned.delivered = hand_over(*queue, request, std::move(*parcels),
                               known ? Definitions::known : Definitions::ask);
  return turned;
}

Result<std::vector<Delivery>> NatsStore::fetch(const Fetch& request) {
  const auto deadline = steady_clock::now() + std::min(request.wait, kLongestWait);
  if (request.wait > Duration{0}) hear_news();
  const auto bell = std::make_shared<Bell>();
  struct Registered {
    Zone& zone;
    std::list<std::shared_ptr<Bell>>::iterator place;
    Registered(Zone& given, const std::shared_ptr<Bell>& mine) : zone(given) {
      const std::lock_guard lock(zone.mutex);
      place = zone.waiting.insert(zone.waiting.end(), mine);
    }
    ~Registered() {
      const std::lock_guard lock(zone.mutex);
      zone.waiting.erase(place);
    }
    Registered(const Registered&) = delete;
    Registered& operator=(const Registered&) = delete;
  } const registered(*zone_, bell);

  struct UnderWay {
    NatsStore& store;
    std::unique_ptr<Pulls> pulls{};
    void abandon() {
      if (pulls) store.abandon(*pulls);
      pulls.reset();
    }
    explicit UnderWay(NatsStore& given) : store(given) {}
    ~UnderWay() { abandon(); }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;
  } under_way(*this);

  std::optional<KnownQueue> queue;
  std::uint64_t heard = 0;
  std::vector<PulledMessage> parcels;
  const auto give_back = [&](const std::string& consumer) {
    static_cast<void>(answer(given_back(consumer, std::exchange(parcels, {}))));
  };
  steady_clock::time_point known_at{};  // what the queue is
  while (true) {
    const std::uint64_t rings = bell->rings();
    const std::uint64_t news = zone_->news;
    // What a wait brought is handed over by what was known when it began, unless there is news; the
    // claim finds out whether that still holds.
    auto definitions = Definitions::ask;
    if (!queue || parcels.empty() || news != heard) {
      // The pulls go out with the question what the queue is now: that is one round trip.
      const auto last = remembered(request.queue);
      if (request.wait > Duration{0} && parcels.empty() && request.limit > 0 && last &&
          is_open(*last))
        under_way.pulls = std::make_unique<Pulls>(begin_pulls(*last, request));
      auto known = must_know(request.queue);
      if (!known) return known.error();
      queue = std::move(*known);
      heard = news;
      known_at = steady_clock::now();
      definitions = Definitions::known;
      if (under_way.pulls && under_way.pulls->consumer != queue->consumer()) under_way.abandon();
    }
    if (auto may = may_hand_over(*queue, request); !may) return may.error();
    const bool closed = !is_open(*queue);
    if (closed || request.stop.stop_requested()) {
      under_way.abandon();
      give_back(queue->consumer());
    }
    if (request.stop.stop_requested() || request.limit == 0) return std::vector<Delivery>{};
    if (!closed) {
      // Nor may it get an entry without the order that its wake is about to bring.
      if (request.wait <= Duration{0} && request.again > 0)
        while (steady_clock::now() < deadline + kCounts &&
               !has_heard(zone_->jet, zone_->subjects.wake_stream(), queue->consumer()) &&
               behind(*queue, true))
          bell->wait_until(bell->rings(), steady_clock::now() + kClockLook, request.stop);
      if (parcels.empty()) {
        if (!under_way.pulls)
          under_way.pulls = std::make_unique<Pulls>(begin_pulls(*queue, request));
        auto gathered =
            gather(*queue, std::move(*std::exchange(under_way.pulls, nullptr)), request);
        if (!gathered) return gathered.error();
        parcels = std::move(*gathered);
      }
      if (request.stop.stop_requested()) {
        give_back(queue->consumer());
        return std::vector<Delivery>{};
      }
      const bool some = !parcels.empty();
      if (zone_->news != heard || steady_clock::now() - known_at > kStillKnown)
        definitions = Definitions::ask;
      auto deliveries = hand_over(*queue, request, std::exchange(parcels, {}), definitions);
      if (!deliveries || !deliveries->empty()) return deliveries;
      if (some) continue;  // all put off: there may be more behind them
    }
    if (steady_clock::now() >= deadline) {
      const bool look_again =
          request.wait <= Duration{0} && !closed && steady_clock::now() < deadline + kHears &&
          (behind(*queue, false) || (request.again > 0 && behind(*queue, true)));
      if (!look_again) return std::vector<Delivery>{};
      if (steady_clock::now() < deadline + kCounts) continue;
      // Some consumer counts less than it has, and refuses who does not wait: a pull that waits at the
      // server gets it.
      auto insisted =
          wait_for_parcels(*queue, request, bell, rings, steady_clock::now() + kInsists);
      if (!insisted) return insisted.error();
      parcels = std::move(*insisted);
      continue;
    }
    if (closed) {
      bell->wait_until(rings, deadline, request.stop);
      continue;
    }
    auto waited = wait_for_parcels(*queue, request, bell, rings, deadline);
    if (!waited) return waited.error();
    parcels = std::move(*waited);
  }
}

Result<std::vector<Delivery>> NatsStore::hand_over(const KnownQueue& queue, const Fetch& request,
                                                   std::vector<PulledMessage> parcels,
                                                   Definitions definitions) {
  const StoreTime time = now();
  std::vector<Answering> put_off;
  std::vector<Delivery> deliveries;
  std::vector<bool> first_time;
  std::map<Sequence, std::size_t> places;
  std::size_t again = request.again;
  for (PulledMessage& parcel : parcels) {
    const auto later = [&](std::optional<Duration> wait) {
      put_off.push_back({.consumer = queue.consumer(), .parcel = std::move(parcel), .again = wait});
    };
    std::optional<Entry> entry = parcel.entry;
    if (parcel.wake) {
      auto read = entry_of(queue, parcel.sequence);
      if (read && !*read && queue.foreign()) read = left_of(queue, parcel.sequence);
      if (!read) return read.error();
      if (!*read) {  // forgotten since
        later(std::nullopt);
        continue;
      }
      entry = std::move(*read);
      if (entry->waits_at(time)) parcel.after = std::max(parcel.after, entry->not_before());
    }
    if (parcel.after > time) {
      later(parcel.after - time);
      continue;
    }
    const auto [place, is_new] = places.try_emplace(parcel.sequence, deliveries.size());
    if (is_new) {
      if (parcel.handed_over && again == 0) {
        places.erase(place);
        later(zone_->travel ? Duration{0} : kNotNow);
        continue;
      }
      if (parcel.handed_over) --again;
      deliveries.push_back({.entry = std::move(*entry)});
      first_time.push_back(!parcel.handed_over);
    }
    // One entry by two ways is handed over once, and answered on both.
    Delivery& delivery = deliveries[place->second];
    if (!delivery.handle.empty()) delivery.handle += ' ';
    if (parcel.order) {
      delivery.handle += kOrderMark;
      delivery.order = parcel.order;
    }
    delivery.handle += parcel.reply;
    if (queue.foreign())
      delivery.handle = handle_with_note(std::move(delivery.handle), delivery.entry);
    if (zone_->travel) {
      parcel.handed_over = true;
      parcel.after = {};
      zone_->travel->keep(queue.consumer(), std::move(parcel), time + queue.definition.lease);
    }
  }
  if (auto answered = answer(std::move(put_off)); !answered) return answered.error();
  if (request.claimer && !deliveries.empty())
    if (auto claimed = claim(queue, *request.claimer, first_time, deliveries, definitions);
        !claimed)
      return claimed.error();
  return deliveries;
}

// All claims in one burst. What is delivered for the first time has no record yet, most likely: it
// is claimed without looking, and the swap finds out. What comes again is looked at in both places
// where it may stand. What could not be looked at or written is left out, and comes again when its
// lease is over: it must not keep back what was claimed beside it.
Result<void> NatsStore::claim(const KnownQueue& queue, Claimer& claimer,
                              const std::vector<bool>& first_time,
                              std::vector<Delivery>& deliveries, Definitions definitions) {
  std::vector<std::optional<Address>> places;
  std::vector<Address> to_read;
  for (std::size_t i = 0; i < deliveries.size(); ++i) {
    places.push_back(claimer.address(deliveries[i].entry));
    if (!places[i] || first_time[i]) continue;
    to_read.push_back(*places[i]);
    to_read.push_back(own_place(queue, deliveries[i].entry));
  }
  auto read = get(to_read);
  const core::Now time{.store = now(), .wall = wall()};
  std::vector<Swap> swaps;
  std::vector<std::size_t> claimed;
  std::map<std::size_t, Error> failed;
  for (std::size_t i = 0; i + 1 < read.size(); i += 2) {
    if (!read[i] || !read[i + 1] || *read[i] || *read[i + 1]) continue;
    // Handed over before, and without a record: nobody claimed it, or the ledger was emptied.
    if (auto whole = zone_->watch.ledger_is_whole(); !whole) return whole.error();
    break;
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < deliveries.size(); ++i) {
    if (!places[i]) continue;
    Delivery& delivery = deliveries[i];
    if (!first_time[i]) {
      auto& found = read[next++];
      auto& own = read[next++];
      if (!found || !own) {
        failed.emplace(i, found ? own.error() : found.error());
        continue;
      }
      const bool by_itself = *own && core::settled((*own)->record.state);
      delivery.stored = std::move(by_itself ? *own : *found);
      if (by_itself) continue;
    }
    auto record = claimer.claim(delivery.entry, delivery.stored ? &*delivery.stored : nullptr,
                                delivery.order ? &*delivery.order : nullptr, time);
    if (!record) continue;
    swaps.push_back({.at = *places[i],
                     .expected = delivery.stored ? delivery.stored->revision : Revision{},
                     .record = std::move(*record),
                     .handle = delivery.handle});
    // The server's own redelivery is just right for a lease of the queue's length.
    if (!zone_->travel && !delivery.order &&
        core::look_again(swaps.back().record) == queue.definition.lease)
      swaps.back().handle = queue.foreign() ? handle_with_note({}, delivery.entry) : std::string();
    claimed.push_back(i);
  }
  auto swapped = swap(swaps, definitions);
  std::vector<std::size_t> elsewhere;
  std::vector<Address> own_places;
  for (std::size_t k = 0; k < swapped.size(); ++k) {
    Delivery& delivery = deliveries[claimed[k]];
    if (swapped[k]) {
      delivery.claimed = swapped[k]->written;
      delivery.stored = std::move(swapped[k]->current);
    } else if (swapped[k].error().code == Code::wrong_state) {
      elsewhere.push_back(claimed[k]);
      own_places.push_back(own_place(queue, delivery.entry));
    } else if (swapped[k].error().in_doubt) {
      delivery.unanswered = true;
      delivery.stored = Stored{.record = std::move(swaps[k].record)};
    } else {
      failed.emplace(claimed[k], swapped[k].error());
    }
  }
  auto own = get(own_places);
  for (std::size_t k = 0; k < own.size(); ++k) {
    if (own[k])
      deliveries[elsewhere[k]].stored = std::move(*own[k]);
    else
      failed.emplace(elsewhere[k], own[k].error());
  }
  if (failed.empty()) return {};
  std::vector<Delivery> well;
  for (std::size_t i = 0; i < deliveries.size(); ++i)
    if (!failed.contains(i)) well.push_back(std::move(deliveries[i]));
  deliveries = std::move(well);
  const Error& first = failed.begin()->second;
  if (deliveries.empty() && first.retryable) return first;  // else it is damaged: it waits, as said
  return {};
}

}  // namespace once::store::nats
