// Pulls on a queue's two consumers, its entries and its wakes, into our own inbox. What is there now is
// asked for by both at once; who waits leaves a pull at the server.
#include <algorithm>
#include <chrono>
#include <set>

#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;

constexpr Duration kPullExpires{10'000};   // of one that waits at the server
constexpr Duration kPullAnswered{13'000};  // at the latest, unless its node is gone
constexpr Duration kAfterRefusal{50};      // the server could not take a pull just now
constexpr std::size_t kMostAtOnce = 1000;
// A server cuts a client off that lets 64 MiB wait (max_pending), and all of it comes again a lease later.
// A pull's own max_bytes does not help: a cluster refuses it with 409 whatever the size. So it goes by
// the size of what came lately.
constexpr std::size_t kMostBytesAtOnce = 16 << 20;

std::string pull_subject(const Subjects& subjects, const KnownQueue& queue, bool wakes) {
  return "$JS.API.CONSUMER.MSG.NEXT." +
         (wakes ? subjects.wake_stream() : subjects.source_stream(queue)) + "." + queue.consumer();
}

}  // namespace

std::optional<PulledMessage> NatsStore::parcel_from(const KnownQueue& queue,
                                                    const Message& message) {
  const auto delivery = ack_subject(message.reply());
  if (!delivery) return std::nullopt;
  StreamMessage kept = kept_from(message);
  kept.sequence = delivery->sequence;
  kept.time = delivery->time;
  PulledMessage parcel{.reply = std::string(message.reply()),
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
  if (entry->entry.waits_at(now())) parcel.after = entry->entry.not_before();
  // The first delivery of a scheduled task was put off without a hand-over.
  if (entry->entry.delay > Duration{0} && delivery->times == 2) parcel.handed_over = false;
  parcel.entry = std::move(entry->entry);
  return parcel;
}

// Asks for what is there now.
NatsStore::Pulling NatsStore::begin_pull(const KnownQueue& queue, bool wakes, std::size_t limit) {
  const std::size_t room = std::max<std::size_t>(kMostBytesAtOnce / zone_->task_size, 1);
  Pulling pulling{.bell = std::make_shared<Bell>(),
                  .limit = std::min({limit, kMostAtOnce, room}),
                  .wakes = wakes};
  if (pulling.limit > 0)
    pulling.slot = zone_->exchange->pull(
        {.subject = pull_subject(zone_->subjects, queue, wakes),
         .data = "{\"batch\":" + std::to_string(pulling.limit) + ",\"no_wait\":true}"},
        pulling.limit, pulling.bell);
  return pulling;
}

Result<std::vector<PulledMessage>> NatsStore::end_pull(const KnownQueue& queue, Pulling pulling) {
  std::vector<PulledMessage> parcels;
  if (pulling.limit == 0) return parcels;
  if (!pulling.slot)
    return Error{.code = Code::store_unavailable,
                 .message = "the NATS server at " + zone_->exchange->where() +
                            " cannot be reached; nothing was fetched",
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
  std::size_t largest = std::max<std::size_t>(zone_->task_size / 2, 1);
  for (const Message& message : messages) {
    largest = std::max(largest, message.data().size());
    if (auto parcel = parcel_from(queue, message)) parcels.push_back(std::move(*parcel));
  }
  if (!pulling.wakes && !messages.empty()) zone_->task_size = largest;
  if (const std::string denied = zone_->exchange->denied(*pulling.slot); !denied.empty())
    return not_permitted(denied);
  if (zone_->exchange->status_of(*pulling.slot) == 503) {
    if (auto restored = restore_consumers(queue); !restored) return restored.error();
    // A new consumer delivers everything as if for the first time: only the ledger knows better.
    if (auto whole = zone_->watch.ledger_is_whole(); !whole) return whole.error();
  }
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

std::vector<NatsStore::Answering> NatsStore::given_back(const std::string& consumer,
                                                        std::vector<PulledMessage> parcels) {
  std::vector<Answering> answers;
  for (PulledMessage& parcel : parcels)
    answers.push_back({.consumer = consumer, .parcel = std::move(parcel), .again = Duration{0}});
  return answers;
}

// Both pulls are under way at once, so there may be more than is wanted: the rest is given back.
Result<std::vector<PulledMessage>> NatsStore::gather(const KnownQueue& queue, Pulls pulls,
                                                     const Fetch& request) {
  auto parcels = end_pull(queue, std::move(pulls.wakes));
  auto fresh = end_pull(queue, std::move(pulls.fresh));
  for (auto* well : {fresh ? nullptr : &parcels, parcels ? nullptr : &fresh}) {
    // What the other one brought is given back.
    if (well && *well) answer_and_go_on(given_back(queue.consumer(), std::move(**well)));
  }
  if (!parcels) return parcels;
  if (!fresh) return fresh;
  if (zone_->travel && parcels->size() < request.limit) {
    auto due = zone_->travel->take(queue.consumer(), now(), request.limit - parcels->size(),
                                   request.again - std::min(request.again, parcels->size()));
    std::move(due.begin(), due.end(), std::back_inserter(*parcels));
  }
  std::set<Sequence> entries;
  for (const PulledMessage& parcel : *parcels) entries.insert(parcel.sequence);
  std::vector<Answering> surplus;
  for (PulledMessage& parcel : *fresh) {
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
Result<std::vector<PulledMessage>> NatsStore::wait_for_parcels(const KnownQueue& queue,
                                                               const Fetch& request,
                                                               const std::shared_ptr<Bell>& bell,
                                                               std::uint64_t rings,
                                                               steady_clock::time_point deadline) {
  RequestMux& exchange = *zone_->exchange;
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
  std::vector<PulledMessage> parcels;
  for (const Message& message : messages)
    if (auto parcel = parcel_from(queue, message)) parcels.push_back(std::move(*parcel));
  return parcels;
}

}  // namespace once::store::nats
