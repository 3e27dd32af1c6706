// The feed: pulls on the queue's two consumers into our own inbox, and answers by +ACK and
// -NAK with a delay. A delay is exact and may be given again, so it is also how a lease is followed:
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
constexpr Duration kPullExpires{10'000};   // of one that does
constexpr Duration kPullAnswered{13'000};  // at the latest, unless its node is gone
constexpr Duration kAfterRefusal{50};      // the server could not take a pull just now
constexpr Duration kClockLook{5};          // a given clock may be moved without a word to us
constexpr Duration kHears{10'000};  // at the latest, of what is in its stream, a new consumer
constexpr Duration kNotNow{200};    // until one that may not be handed over again is offered
constexpr std::size_t kMostAtOnce = 1000;

std::string pull_subject(const Subjects& subjects, const KnownQueue& queue, bool wakes) {
  return "$JS.API.CONSUMER.MSG.NEXT." +
         (wakes ? subjects.wake_stream() : subjects.source_stream(queue)) + "." + queue.consumer();
}

std::string nak(Duration delay) {
  if (delay <= Duration{0}) return "-NAK";
  return "-NAK {\"delay\":" + std::to_string(delay.count()) + "000000}";
}

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

Error body_is_gone(const KnownQueue& queue, Sequence sequence) {
  return {
      .code = Code::wrong_state,
      .message = "message " + std::to_string(sequence.value) + " is gone from the stream " +
                 queue.definition.stream +
                 " and was not kept: it cannot be run again; drop it, and have it published anew "
                 "under another key"};
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
  for (const Exchange::Answer& each : zone_->exchange->ask(messages, zone_->jet.patience()))
    if (!each.denied.empty()) return not_permitted(each.denied);
  return {};
}

// The record stands, so nobody waits to hear that the server has heard.
void NatsStore::answer_and_go_on(std::vector<Answering> answers) {
  for (const Outgoing& each : answers_to_send(std::move(answers)))
    zone_->exchange->tell(each.subject, each.data);
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

// --- Pulling ----------------------------------------------------------------------------------

std::optional<Parcel> NatsStore::parcel_from(const KnownQueue& queue, const Message& message) {
  const auto delivery = ack_subject(message.reply());
  if (!delivery) return std::nullopt;
  Kept kept = kept_from(message);
  kept.sequence = delivery->sequence;
  kept.time = delivery->time;
  Parcel parcel{.reply = std::string(message.reply()),
                .times = delivery->times,
                .handed_over = delivery->times > 1};
  if (delivery->stream == zone_->subjects.wake_stream()) {
    auto note = wake_from(kept);
    if (!note) return std::nullopt;
    parcel.wake = true;
    parcel.handed_over = true;
    parcel.sequence = note->sequence;
    parcel.order = std::move(note->order);
    parcel.after = note->after;
    return parcel;
  }
  if (queue.foreign()) {
    parcel.sequence = {kept.sequence};
    parcel.entry = foreign_entry(queue, kept, now());
    return parcel;
  }
  auto entry = log_entry_from(kept, zone_->clock);
  if (!entry) return std::nullopt;
  parcel.sequence = entry->entry.sequence;
  parcel.after = entry->entry.not_before();
  // The first delivery of a scheduled task was put off without a hand-over.
  if (entry->entry.delay > Duration{0} && delivery->times == 2) parcel.handed_over = false;
  parcel.entry = std::move(entry->entry);
  return parcel;
}

// Asks for what is there now.
NatsStore::Pulling NatsStore::begin_pull(const KnownQueue& queue, bool wakes, std::size_t limit) {
  Pulling pulling{.bell = std::make_shared<Bell>(), .limit = std::min(limit, kMostAtOnce)};
  if (pulling.limit > 0)
    pulling.slot = zone_->exchange->pull(
        {.subject = pull_subject(zone_->subjects, queue, wakes),
         .data = "{\"batch\":" + std::to_string(pulling.limit) + ",\"no_wait\":true}"},
        pulling.limit, pulling.bell);
  return pulling;
}

Result<std::vector<Parcel>> NatsStore::end_pull(const KnownQueue& queue, Pulling pulling) {
  std::vector<Parcel> parcels;
  if (pulling.limit == 0) return parcels;
  if (!pulling.slot)
    return Error{.code = Code::store_unavailable,
                 .message = "the NATS server cannot be reached; nothing was fetched",
                 .retryable = true};
  const auto deadline = steady_clock::now() + zone_->jet.patience();
  std::vector<Message> messages;
  while (true) {
    const std::uint64_t seen = pulling.bell->rings();
    if (zone_->exchange->take(*pulling.slot, messages) || steady_clock::now() >= deadline) break;
    pulling.bell->wait_until(seen, deadline, {});
  }
  zone_->exchange->attend(*pulling.slot, nullptr);
  zone_->exchange->take(*pulling.slot, messages);
  for (const Message& message : messages)
    if (auto parcel = parcel_from(queue, message)) parcels.push_back(std::move(*parcel));
  if (const std::string denied = zone_->exchange->denied(*pulling.slot); !denied.empty())
    return not_permitted(denied);
  if (zone_->exchange->status_of(*pulling.slot) == 503)
    if (auto restored = restore_consumers(queue); !restored) return restored.error();
  return parcels;
}

NatsStore::Pulls NatsStore::begin_pulls(const KnownQueue& queue, const Fetch& request) {
  return {.consumer = queue.consumer(),
          .wakes = begin_pull(queue, true, std::min(request.limit, request.again)),
          .fresh = begin_pull(queue, false, request.limit)};
}

// What they bring is given back.
void NatsStore::abandon(Pulls& pulls) {
  std::vector<Message> messages;
  for (const auto& slot : {pulls.wakes.slot, pulls.fresh.slot}) {
    if (!slot) continue;
    zone_->exchange->attend(*slot, nullptr);
    zone_->exchange->take(*slot, messages);
  }
  for (const Message& message : messages)
    zone_->exchange->tell(std::string(message.reply()), nak(Duration{0}));
}

// A consumer hears of a message a moment after its publisher does. Who does not wait would miss what
// was there before it asked.
bool NatsStore::behind(const KnownQueue& queue, bool wakes) {
  const Subjects& subjects = zone_->subjects;
  const std::string stream = wakes ? subjects.wake_stream() : subjects.source_stream(queue);
  const auto info = zone_->jet.call("CONSUMER.INFO." + stream + "." + queue.consumer(), "");
  if (!info || info->error != 0) return false;
  const encoding::Json* delivered = info->json.member("delivered");
  const std::uint64_t last = delivered ? number_of(*delivered, "stream_seq").value_or(0) : 0;
  const auto next = zone_->jet.call(
      "STREAM.MSG.GET." + stream,
      "{\"seq\":" + std::to_string(last + 1) + ",\"next_by_subj\":" +
          quoted(wakes ? subjects.wakes(queue) : subjects.source_filter(queue)) + "}");
  return next && next->error == 0;
}

// Both pulls are under way at once, so there may be more than is wanted: the rest is given back.
Result<std::vector<Parcel>> NatsStore::gather(const KnownQueue& queue, Pulls pulls,
                                              const Fetch& request) {
  auto parcels = end_pull(queue, std::move(pulls.wakes));
  auto fresh = end_pull(queue, std::move(pulls.fresh));
  // What is in hand comes again when its lease is over.
  if (!parcels) return parcels;
  if (!fresh) return fresh;
  if (zone_->travel && parcels->size() < request.limit) {
    auto due = zone_->travel->take(queue.consumer(), now(), request.limit - parcels->size(),
                                   request.again - std::min(request.again, parcels->size()));
    std::move(due.begin(), due.end(), std::back_inserter(*parcels));
  }
  std::set<Sequence> entries;
  for (const Parcel& parcel : *parcels) entries.insert(parcel.sequence);
  std::vector<Answering> surplus;
  for (Parcel& parcel : *fresh) {
    if (entries.size() < request.limit || entries.contains(parcel.sequence)) {
      entries.insert(parcel.sequence);
      parcels->push_back(std::move(parcel));
    } else {
      surplus.push_back(
          {.consumer = queue.consumer(), .parcel = std::move(parcel), .again = Duration{0}});
    }
  }
  if (auto given = answer(std::move(surplus)); !given) return given.error();
  return parcels;
}

// Pulls that wait at the server are kept for the next who waits: while nobody does, what they get is
// given back.
Result<std::vector<Parcel>> NatsStore::wait_for_parcels(const KnownQueue& queue,
                                                        const Fetch& request,
                                                        const std::shared_ptr<Bell>& bell,
                                                        std::uint64_t rings,
                                                        steady_clock::time_point deadline) {
  Exchange& exchange = *zone_->exchange;
  struct Waiting {
    std::string subject{};
    std::shared_ptr<Slot> slot{};
  };
  std::vector<Waiting> pulls;
  std::vector<Message> messages;
  for (const bool wakes : {true, false}) {
    if (wakes && request.again == 0) continue;
    Waiting pull{.subject = pull_subject(zone_->subjects, queue, wakes)};
    {
      const std::lock_guard lock(zone_->mutex);
      auto& idle = zone_->idle_pulls[pull.subject];
      if (!idle.empty()) {
        pull.slot = std::move(idle.back());
        idle.pop_back();
      }
    }
    if (pull.slot && pull.slot->sent_at + kPullAnswered < steady_clock::now()) {
      exchange.give_up(*pull.slot);
      pull.slot.reset();
    }
    if (pull.slot) {
      exchange.attend(*pull.slot, bell);
      if (exchange.take(*pull.slot, messages)) pull.slot.reset();
    }
    if (!pull.slot)
      pull.slot = exchange.pull(
          {.subject = pull.subject,
           .data = "{\"batch\":1,\"expires\":" + std::to_string(kPullExpires.count()) + "000000}"},
          1, bell);
    if (pull.slot) pulls.push_back(std::move(pull));
  }

  bool refused = pulls.empty();
  while (messages.empty()) {
    bool ended = refused;
    for (Waiting& pull : pulls)
      if (exchange.take(*pull.slot, messages)) {
        ended = true;
        const int status = exchange.status_of(*pull.slot);
        refused = refused || (status != 0 && status != 408);
      }
    if (!messages.empty() || ended || steady_clock::now() >= deadline ||
        request.stop.stop_requested() ||
        (zone_->travel && zone_->travel->due(queue.consumer(), now())))
      break;
    const std::uint64_t seen = bell->rings();
    if (seen != rings && messages.empty()) break;
    auto until = deadline;
    // The node that holds a pull may have died with it: no last word comes then.
    for (const Waiting& pull : pulls) until = std::min(until, pull.slot->sent_at + kPullAnswered);
    if (zone_->travel) until = std::min(until, steady_clock::now() + kClockLook);
    bell->wait_until(rings, until, request.stop);
    if (steady_clock::now() >= until && until < deadline && !zone_->travel) break;
  }
  for (Waiting& pull : pulls) {
    exchange.attend(*pull.slot, nullptr);
    if (exchange.take(*pull.slot, messages)) continue;
    const std::lock_guard lock(zone_->mutex);
    zone_->idle_pulls[pull.subject].push_back(std::move(pull.slot));
  }
  if (refused && messages.empty())
    bell->wait_until(bell->rings(), std::min(deadline, steady_clock::now() + kAfterRefusal),
                     request.stop);
  std::vector<Parcel> parcels;
  for (const Message& message : messages)
    if (auto parcel = parcel_from(queue, message)) parcels.push_back(std::move(*parcel));
  return parcels;
}

namespace {

// Whether the wakes' consumer has something to deliver.
bool has_heard(const Jet& jet, const std::string& stream, const std::string& consumer) {
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
  std::vector<Parcel> parcels;
  const auto give_back = [&](const std::string& consumer) {
    std::vector<Answering> answers;
    for (Parcel& parcel : parcels)
      answers.push_back({.consumer = consumer, .parcel = std::move(parcel), .again = Duration{0}});
    parcels.clear();
    static_cast<void>(answer(std::move(answers)));
  };
  while (true) {
    const std::uint64_t rings = bell->rings();
    const std::uint64_t news = zone_->news;
    // What a wait brought is handed over by what was known when it began, unless there is news.
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
      if (under_way.pulls && under_way.pulls->consumer != queue->consumer()) under_way.abandon();
    }
    if (auto may = zone_->watch.may_begin(); !may) return may.error();
    {
      const std::lock_guard lock(zone_->mutex);
      const auto member = zone_->joined.find(request.member);
      if (member != zone_->joined.end() && member->second != queue->consumer())
        return no_queue(request.queue);
    }
    const bool closed = !is_open(*queue);
    if (closed || request.stop.stop_requested()) {
      under_way.abandon();
      give_back(queue->consumer());
    }
    if (request.stop.stop_requested() || request.limit == 0) return std::vector<Delivery>{};
    if (!closed) {
      // Nor may it get an entry without the order that its wake is about to bring.
      if (request.wait <= Duration{0} && request.again > 0)
        while (steady_clock::now() < deadline + kHears &&
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
      auto deliveries = hand_over(*queue, request, std::exchange(parcels, {}));
      if (!deliveries || !deliveries->empty()) return deliveries;
      if (some) continue;  // all put off: there may be more behind them
    }
    if (steady_clock::now() >= deadline) {
      const bool look_again =
          request.wait <= Duration{0} && !closed && steady_clock::now() < deadline + kHears &&
          (behind(*queue, false) || (request.again > 0 && behind(*queue, true)));
      if (look_again) continue;
      return std::vector<Delivery>{};
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
                                                   std::vector<Parcel> parcels) {
  const StoreTime time = now();
  std::vector<Answering> put_off;
  std::vector<Delivery> deliveries;
  std::vector<bool> first_time;
  std::map<Sequence, std::size_t> places;
  std::size_t again = request.again;
  for (Parcel& parcel : parcels) {
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
      parcel.after = std::max(parcel.after, entry->not_before());
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
    if (auto claimed = claim(queue, *request.claimer, first_time, deliveries); !claimed)
      return claimed.error();
  return deliveries;
}

// All claims in one burst. What is delivered for the first time has no record yet, most likely: it
// is claimed without looking, and the swap finds out. What comes again is looked at in both places
// where it may stand. What could not be looked at or written is left out, and comes again when its
// lease is over: it must not keep back what was claimed beside it.
Result<void> NatsStore::claim(const KnownQueue& queue, Claimer& claimer,
                              const std::vector<bool>& first_time,
                              std::vector<Delivery>& deliveries) {
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
  auto swapped = swap(swaps);
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

// --- Looking again ----------------------------------------------------------------------------

Result<std::map<Sequence, WakeNote>> NatsStore::wakes_of(const KnownQueue& queue,
                                                         std::map<Sequence, StoreTime>* since) {
  std::map<Sequence, WakeNote> notes;
  if (queue.definition.ledger) return notes;
  const auto kept = zone_->jet.all(zone_->subjects.wake_stream(), zone_->subjects.wakes(queue));
  if (!kept) return kept.error();
  for (const Kept& each : *kept) {
    auto note = wake_from(each);
    if (!note) return note.error();
    if (since) (*since)[note->sequence] = zone_->clock.stamp_of(each);
    notes[note->sequence] = std::move(*note);
  }
  return notes;
}

// One slot per entry: an order stands until it is carried out, and takes the place of a mere look.
Result<void> NatsStore::wake(std::string_view name, std::span<const Wake> items) {
  constexpr int kRounds = 16;
  const auto queue = must_know(name);
  if (!queue) return queue.error();
  if (queue->definition.ledger) return {};
  for (const Wake& item : items) {
    if (!item.sequence) continue;
    const auto entry = entry_of(*queue, item.sequence);
    if (!entry) return entry.error();
    if (!*entry && queue->foreign() && item.order) return body_is_gone(*queue, item.sequence);
    const bool its = queue->foreign() || (*entry && queue->has((*entry)->topic, item.sequence));
    if (!its) continue;
    const std::string subject = zone_->subjects.wake(*queue, item.sequence);
    Published written{.kind = Published::Kind::refused};
    bool ordered = false;
    for (int round = 0; round < kRounds && written.kind == Published::Kind::refused; ++round) {
      const auto slot = zone_->jet.last(zone_->subjects.wake_stream(), subject);
      if (!slot) return slot.error();
      ordered = *slot && (*slot)->header("Once-Order");
      if (ordered) break;
      Outgoing message = wake_message(subject, {.sequence = item.sequence, .order = item.order},
                                      *slot ? (*slot)->sequence : 0);
      zone_->clock.stamp(message.headers);
      written = zone_->jet.publish(message);
    }
    if (!ordered && written.kind != Published::Kind::stored)
      return failure_of(written.kind == Published::Kind::refused
                            ? Published{.kind = Published::Kind::failed,
                                        .text = "the task is woken by others all the time"}
                            : written);
  }
  return {};
}

Result<NatsStore::ConsumerState> NatsStore::consumer_state(const KnownQueue& queue) {
  const auto info = zone_->jet.call(
      "CONSUMER.INFO." + zone_->subjects.source_stream(queue) + "." + queue.consumer(), "");
  if (!info) return info.error();
  const auto position = [&](const char* which) {
    const encoding::Json* place = info->json.member(which);
    return place ? number_of(*place, "stream_seq").value_or(0) : 0;
  };
  return ConsumerState{.delivered = position("delivered"),
                       .floor = position("ack_floor"),
                       .unanswered = number_of(info->json, "num_ack_pending").value_or(0)};
}

// The server tells how many deliveries are unanswered and up to where all are answered, not which
// ones are. Overlooked for certain is what is below that floor; everything when none is unanswered;
// and what is due when no more are unanswered than those that are to wait. Otherwise it goes by what
// is overdue. To wake too many does no harm: the ledger decides. What is scheduled is not passed: it is
// pending at the server like everything else, and might be overlooked too.
Result<NatsStore::Overlooked> NatsStore::overlooked(std::string_view name, Sequence after,
                                                    std::size_t limit) {
  const auto queue = must_know(name);
  if (!queue) return queue.error();
  Overlooked page{.settled = after};
  if (queue->definition.ledger) return page;
  if (queue->foreign()) return foreign_overlooked(*queue, after, limit);
  const auto state = consumer_state(*queue);
  if (!state) return state.error();
  const auto [delivered, floor, unanswered] = *state;

  const auto wakes = wakes_of(*queue);
  if (!wakes) return wakes.error();
  const auto shared = tally_of(*queue);
  const std::lock_guard lock(shared->mutex);
  const Tally& tally = shared->tally;
  if (auto done = bring_up_to_date(*queue, shared->tally); !done) return done.error();

  const StoreTime time = now();
  struct Candidate {
    Sequence sequence{};
    bool waits = false;    // for its time, a retry or a lease
    bool overdue = false;  // whoever was handed it has had a lease's time
  };
  std::vector<Candidate> candidates;
  std::uint64_t waiting = 0;
  page.settled = std::max(after, Sequence{tally.log_seen});
  bool all_settled = true;
  for (auto each = tally.open().upper_bound(after); each != tally.open().end(); ++each) {
    const auto& [sequence, open] = *each;
    if (!open.whole || core::settled(open.state)) continue;
    if (all_settled) page.settled = {sequence.value - 1};
    all_settled = false;
    if (sequence.value > delivered || wakes->contains(sequence)) continue;
    const bool waits = time < open.due;
    if (waits) ++waiting;
    candidates.push_back({sequence, waits, time >= open.due + queue->definition.lease});
  }
  for (const Candidate& each : candidates) {
    const bool certain =
        unanswered == 0 || each.sequence.value <= floor || (unanswered == waiting && !each.waits);
    if (!certain && !each.overdue) continue;
    if (page.sequences.size() == limit) {
      page.next = limit > 0 ? page.sequences.back() : after;
      break;
    }
    page.sequences.push_back(each.sequence);
  }
  return page;
}

}  // namespace once::store::nats
