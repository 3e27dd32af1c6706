// Queues: definitions in the meta bucket, written by compare-and-swap, and two consumers each.
#include <algorithm>
#include <random>

#include "codec/record_codec.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

constexpr int kNoConsumer = 10014;
constexpr int kNoStream = 10059;
constexpr std::size_t kAtOnce = 1000;  // definitions that are read at once
constexpr int kRounds = 16;            // lost races before a caller is told to come again

Error raced() {
  return {.code = Code::store_unavailable,
          .message =
              "the queue's definition changed too often to be written; the same call again "
              "is safe",
          .retryable = true};
}

std::string random_generation() {
  std::random_device device;
  std::string text;
  for (int i = 0; i < 12; ++i) text += "0123456789abcdefghijklmnopqrstuv"[device() % 32];
  return text;
}

Result<KnownQueue> queue_from(const StreamMessage& kept) {
  auto definition = encoding::decode_queue(kept.data);
  if (!definition) return definition.error();
  const std::string* generation = kept.header("Once-Generation");
  if (!generation)
    return Error{.code = Code::store_unusable,
                 .message = "the definition at " + kept.subject + " was not written by once"};
  const std::string* made = kept.header("Once-Stream-Made");
  const std::string* whole = kept.header("Once-Stream-Whole");
  return KnownQueue{.definition = std::move(*definition),
                    .generation = *generation,
                    .revision = kept.sequence,
                    .stream_made = made ? *made : std::string(),
                    .stream_whole = whole ? std::strtoull(whole->c_str(), nullptr, 10) : 0};
}

std::uint64_t whole_from(const encoding::Json& state) {
  const bool gaps = number_of(state, "num_deleted").value_or(0) > 0;
  const std::uint64_t first = number_of(state, "first_seq").value_or(0);
  return gaps ? number_of(state, "last_seq").value_or(0) + 1 : std::max<std::uint64_t>(first, 1);
}

// Written over the revision that the queue was read at.
Outgoing definition_message(const Subjects& subjects, const KnownQueue& queue) {
  Outgoing message{.subject = subjects.queue(queue.definition.name),
                   .data = encoding::encode_queue(queue.definition),
                   .headers = expecting(queue.revision)};
  message.headers.emplace_back("Once-Generation", queue.generation);
  if (queue.foreign()) message.headers.emplace_back("Once-Stream-Made", queue.stream_made);
  if (queue.stream_whole > 0)
    message.headers.emplace_back("Once-Stream-Whole", std::to_string(queue.stream_whole));
  return message;
}

}  // namespace

Error no_queue(std::string_view name) {
  return {.code = Code::not_found,
          .message = "there is no queue " + std::string(name) + "; nothing was done: add it first"};
}

Result<std::optional<KnownQueue>> known_from(const Result<std::optional<StreamMessage>>& kept) {
  if (!kept) return kept.error();
  if (!*kept) return std::optional<KnownQueue>{};
  auto queue = queue_from(**kept);
  if (!queue) return queue.error();
  return std::optional<KnownQueue>(std::move(*queue));
}

Result<std::optional<KnownQueue>> NatsStore::known(std::string_view name) {
  auto queue =
      known_from(zone_->jet.last(zone_->subjects.meta_stream(), zone_->subjects.queue(name)));
  if (queue) remember(name, *queue);
  return queue;
}

void NatsStore::remember(std::string_view name, const std::optional<KnownQueue>& queue) {
  const std::lock_guard lock(zone_->mutex);
  if (queue)
    zone_->queues.insert_or_assign(std::string(name), *queue);
  else if (const auto found = zone_->queues.find(name); found != zone_->queues.end())
    zone_->queues.erase(found);
}

std::optional<KnownQueue> NatsStore::remembered(std::string_view name) {
  const std::lock_guard lock(zone_->mutex);
  const auto found = zone_->queues.find(name);
  return found == zone_->queues.end() ? std::nullopt : std::optional(found->second);
}

Result<KnownQueue> NatsStore::recall(std::string_view name) {
  if (auto known = remembered(name)) return std::move(*known);
  return must_know(name);
}

Result<KnownQueue> NatsStore::must_know(std::string_view name) {
  auto queue = known(name);
  if (!queue) return queue.error();
  if (!*queue) return no_queue(name);
  return std::move(**queue);
}

RequestMux::Asked NatsStore::begin_all_known() {
  return zone_->jet.begin_page(zone_->subjects.meta_stream(), zone_->subjects.meta("queue.*"), 1,
                               kAtOnce);
}

Result<std::vector<KnownQueue>> NatsStore::end_all_known(RequestMux::Asked asked) {
  std::vector<StreamMessage> kept;
  auto more = zone_->jet.end_page(std::move(asked), kept);
  while (more && *more)
    more = zone_->jet.page(zone_->subjects.meta_stream(), zone_->subjects.meta("queue.*"),
                           kept.back().sequence + 1, kAtOnce, kept);
  if (!more) return more.error();
  std::map<std::string, KnownQueue> queues;  // one that is changed meanwhile may be there twice
  for (const StreamMessage& each : kept) {
    auto queue = queue_from(each);
    if (!queue) return queue.error();
    std::string name = queue->definition.name;
    queues[std::move(name)] = std::move(*queue);
  }
  std::vector<KnownQueue> all;
  for (auto& [name, queue] : queues) all.push_back(std::move(queue));
  return all;
}

Result<std::vector<KnownQueue>> NatsStore::the_one(const std::string& name) {
  auto queue = known(name);
  if (!queue) return queue.error();
  std::vector<KnownQueue> all;
  if (*queue) all.push_back(std::move(**queue));
  return all;
}

Result<std::vector<KnownQueue>> NatsStore::all_known_to_the_leader() {
  const std::string stream = zone_->subjects.meta_stream();
  const auto info = zone_->jet.stream_info(
      stream, "{\"subjects_filter\":" + quoted(zone_->subjects.meta("queue.*")) + "}");
  if (!info) return info.error();
  const encoding::Json* state = *info ? (*info)->member("state") : nullptr;
  const encoding::Json* named = state ? state->member("subjects") : nullptr;
  std::vector<std::string> subjects;
  if (named)
    for (const auto& [subject, count] : named->members()) subjects.push_back(subject);
  std::vector<KnownQueue> all;
  for (const auto& kept : zone_->jet.last(stream, subjects)) {
    auto queue = known_from(kept);
    if (!queue) return queue.error();
    if (*queue) all.push_back(std::move(**queue));
  }
  return all;
}

// Deliveries are endless and not backed off: attempts, retries and dead letters are the ledger's.
std::vector<Plan> NatsStore::consumers_of(const KnownQueue& queue) const {
  const Subjects& subjects = zone_->subjects;
  const Duration wait =
      zone_->travel ? Duration{std::chrono::hours{24 * 7}} : queue.definition.lease;
  const std::string common =
      "{\"durable_name\":" + quoted(queue.consumer()) +
      ",\"ack_policy\":\"explicit\",\"ack_wait\":" + std::to_string(wait.count()) +
      "000000,\"max_deliver\":-1,\"max_ack_pending\":-1,\"max_waiting\":4096,";
  const std::string begin = queue.definition.from && *queue.definition.from > 0
                                ? "\"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":" +
                                      std::to_string(*queue.definition.from)
                                : std::string("\"deliver_policy\":\"all\"");
  return {{subjects.wake_stream(), common + "\"deliver_policy\":\"all\",\"filter_subject\":" +
                                       quoted(subjects.wakes(queue)) + "}"},
          {subjects.source_stream(queue),
           common + begin + ",\"filter_subject\":" + quoted(subjects.source_filter(queue)) + "}"}};
}

// Answers how many tasks wait for it.
Result<std::uint64_t> NatsStore::ensure_consumers(const KnownQueue& queue) {
  std::uint64_t waiting = 0;
  if (queue.definition.ledger) return waiting;
  if (queue.foreign()) {
    if (auto same = check_stream(queue); !same) return same.error();
    if (auto copies = ensure_copy_stream(zone_->jet, zone_->subjects); !copies)
      return copies.error();
  }
  for (const Plan& plan : consumers_of(queue)) {
    const auto made = zone_->jet.make_consumer(plan.name, queue.consumer(), plan.config);
    if (!made) return made.error();
    waiting = number_of(made->json, "num_pending").value_or(0);
  }
  return waiting;
}

// Only what is not as it should be is made: that may need a right which others have not. A leader that
// is away looks to a pull like a consumer that is not there, so it is asked which it is. New ones
// deliver everything again, and the ledger decides.
Result<void> NatsStore::restore_consumers(const KnownQueue& queue) {
  if (queue.definition.ledger) return {};
  for (const Plan& plan : consumers_of(queue)) {
    const auto info = zone_->jet.call("CONSUMER.INFO." + plan.name + "." + queue.consumer(), "");
    if (!info) return info.error();
    const bool missing = info->error == kNoConsumer || info->error == kNoStream;
    if (!missing && info->error != 0) return refused("looking at " + queue.consumer(), *info);
    const auto wanted = encoding::parse_json(plan.config);
    if (!missing && wanted && !difference(*wanted, info->json.member("config"))) continue;
    const auto made = ensure_consumers(queue);
    if (!made) return made.error();
    return {};
  }
  return {};
}

Result<NatsStore::QueueAdded> NatsStore::add_queue(const Queue& queue) {
  KnownQueue wanted{.definition = queue, .generation = random_generation()};
  if (wanted.foreign()) {
    const auto source = source_of(queue);
    if (!source) return source.error();
    wanted.stream_made = text_of(*source, "created");
    if (const encoding::Json* state = source->member("state"))
      wanted.stream_whole = whole_from(*state);
  }
  for (int round = 0; round < kRounds; ++round) {
    auto there = known(queue.name);
    if (!there) return there.error();
    if (*there && (*there)->generation != wanted.generation) {
      if (auto restored = restore_consumers(**there); !restored) return restored.error();
      return QueueAdded{.existing = std::move((*there)->definition)};
    }
    if (!*there) {
      const Published written = zone_->jet.publish(definition_message(zone_->subjects, wanted));
      if (written.kind == Published::Kind::failed) return failure_of(written);
      if (written.kind != Published::Kind::stored) continue;  // lost, or unknown: look
    }
    auto found = ensure_consumers(wanted);
    // What the server will never have so is not left half made.
    if (!found && !found.error().retryable)
      if (auto undone = undo_add(wanted); !undone) return undone.error();
    if (!found) return found.error();
    return QueueAdded{.added = true, .existing = queue, .found = *found};
  }
  return raced();
}

Result<void> NatsStore::undo_add(const KnownQueue& queue) {
  const auto there = known(queue.definition.name);
  if (!there) return there.error();
  if (*there && (*there)->generation == queue.generation) {
    const auto removed = zone_->jet.remove(zone_->subjects.meta_stream(), (*there)->revision);
    if (!removed) return removed.error();
    remember(queue.definition.name, std::nullopt);
  }
  return clear(queue);
}

// The definition comes first, then the consumers. A change that was cut off between the two is finished
// by the next call and by the next worker that starts.
Result<bool> NatsStore::set_queue(const Queue& queue, const Queue& expected) {
  for (int round = 0; round < kRounds; ++round) {
    auto there = must_know(queue.name);
    if (!there) return there.error();
    if (there->definition != expected) return false;
    if (queue != expected) {
      there->definition = queue;
      const Published written = zone_->jet.publish(definition_message(zone_->subjects, *there));
      if (written.kind == Published::Kind::failed || written.kind == Published::Kind::unknown)
        return failure_of(written);
      if (written.kind != Published::Kind::stored) continue;
    }
    const auto has_source = queue.stream.empty() ? Result<bool>(true) : has_its_stream(*there);
    if (has_source && !*has_source) return true;  // so there are no consumers
    const auto restored = has_source ? restore_consumers(*there) : has_source.error();
    // Most changes are not about the consumers.
    if (restored || (queue != expected && queue.lease == expected.lease)) return true;
    Error error = restored.error();
    error.message = "the definition of queue '" + queue.name +
                    "' is stored, but its consumers are not all as it says: " + error.message +
                    ". The same command again finishes this, and so does a worker that starts";
    return error;
  }
  return raced();
}

Result<std::vector<Queue>> NatsStore::queues() {
  auto all = all_known_to_the_leader();
  if (!all) return all.error();
  std::vector<Queue> definitions;
  for (KnownQueue& queue : *all) definitions.push_back(std::move(queue.definition));
  return definitions;
}

// The definition goes first: with it the queue is gone. What is left then belongs to nobody.
Result<void> NatsStore::remove_queue(std::string_view name) {
  const Subjects& subjects = zone_->subjects;
  for (int round = 0; round < kRounds; ++round) {
    const auto there = must_know(name);
    if (!there) return there.error();
    const auto removed = zone_->jet.remove(subjects.meta_stream(), there->revision);
    if (!removed) return removed.error();
    if (!*removed) continue;
    remember(name, std::nullopt);
    if (auto cleared = clear(*there); !cleared) return cleared.error();
    // A deletion is not told by the server itself.
    zone_->exchange->tell("once-news." + subjects.zone + ".removed");
    return {};
  }
  return raced();
}

Result<void> NatsStore::clear(const KnownQueue& queue) {
  const Subjects& subjects = zone_->subjects;
  for (const std::string& stream : {subjects.source_stream(queue), subjects.wake_stream()})
    if (auto gone = zone_->jet.call("CONSUMER.DELETE." + stream + "." + queue.consumer(), "");
        !gone)
      return gone.error();
  for (const auto& [stream, filter] :
       {std::pair{subjects.ledger_stream(), subjects.records(queue)},
        std::pair{subjects.blob_stream(), subjects.chunks(queue)},
        std::pair{subjects.wake_stream(), subjects.wakes(queue)},
        std::pair{subjects.meta_stream(), subjects.past_root(queue) + "*"},
        std::pair{subjects.meta_stream(), subjects.worker_root(queue) + "*"}})
    if (auto cleared = zone_->jet.purge(stream, filter); !cleared) return cleared.error();
  if (!queue.foreign()) return {};
  return zone_->jet.purge(subjects.copy_stream(), subjects.copy_root(queue) + ">");
}

}  // namespace once::store::nats
