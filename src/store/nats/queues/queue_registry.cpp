#include "store/nats/queues/queue_registry.h"

#include "codec/record_codec.h"
#include "store/nats/keys/flow_move.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kQueuesAtOnce = 1000;  // definitions that are read at once

Result<KnownQueue> queue_from(const StreamMessage& message) {
  auto definition = encoding::decode_queue(message.data);
  if (!definition) return definition.error();
  const std::string* generation = message.header("Once-Generation");
  if (!generation)
    return Error{.code = Code::store_unusable,
                 .message = "the definition at " + message.subject + " was not written by once"};
  const std::string* made = message.header("Once-Stream-Made");
  const std::string* whole = message.header("Once-Stream-Whole");
  return KnownQueue{.definition = std::move(*definition),
                    .generation = *generation,
                    .revision = message.sequence,
                    .stream_made = made ? *made : std::string(),
                    .stream_whole = whole ? std::strtoull(whole->c_str(), nullptr, 10) : 0};
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

Result<std::optional<KnownQueue>> known_from(const Result<std::optional<StreamMessage>>& message) {
  if (!message) return message.error();
  if (!*message || was_moved(**message)) return std::optional<KnownQueue>{};
  auto queue = queue_from(**message);
  if (!queue) return queue.error();
  return std::optional<KnownQueue>(std::move(*queue));
}

Result<std::optional<KnownQueue>> QueueRegistry::known(std::string_view name) {
  auto queue =
      known_from(zone_.client.last(zone_.subjects.meta_stream(), zone_.subjects.queue(name)));
  if (queue) remember(name, *queue);
  return queue;
}

void QueueRegistry::remember(std::string_view name, const std::optional<KnownQueue>& queue) {
  const std::lock_guard lock(mutex_);
  if (queue)
    queues_.insert_or_assign(std::string(name), *queue);
  else if (const auto found = queues_.find(name); found != queues_.end())
    queues_.erase(found);
}

std::optional<KnownQueue> QueueRegistry::remembered(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(name);
  return found == queues_.end() ? std::nullopt : std::optional(found->second);
}

Result<KnownQueue> QueueRegistry::recall(std::string_view name) {
  if (auto known = remembered(name)) return std::move(*known);
  return must_know(name);
}

Result<KnownQueue> QueueRegistry::must_know(std::string_view name) {
  auto queue = known(name);
  if (!queue) return queue.error();
  if (!*queue) {
    if (auto same = watch_.has_its_uuid(); !same) return same.error();
    return no_queue(name);
  }
  return std::move(**queue);
}

RequestMux::PendingQuestion QueueRegistry::begin_hint() const {
  return zone_.client.begin_page(zone_.subjects.meta_stream(), zone_.subjects.meta("queue.*"), 1,
                                 kQueuesAtOnce);
}

Result<std::vector<KnownQueue>> QueueRegistry::end_hint(RequestMux::PendingQuestion asked) const {
  std::vector<StreamMessage> messages;
  auto more = zone_.client.end_page(std::move(asked), messages);
  while (more && *more)
    more = zone_.client.page(zone_.subjects.meta_stream(), zone_.subjects.meta("queue.*"),
                             messages.back().sequence + 1, kQueuesAtOnce, messages);
  if (!more) return more.error();
  std::map<std::string, KnownQueue> queues;  // one that is changed meanwhile may be there twice
  for (const StreamMessage& each : messages) {
    if (was_moved(each)) continue;
    auto queue = queue_from(each);
    if (!queue) return queue.error();
    std::string name = queue->definition.name;
    queues[std::move(name)] = std::move(*queue);
  }
  std::vector<KnownQueue> all;
  for (auto& [name, queue] : queues) all.push_back(std::move(queue));
  return all;
}

Result<std::vector<KnownQueue>> QueueRegistry::all() {
  const std::string stream = zone_.subjects.meta_stream();
  const auto info = zone_.client.stream_info(
      stream, "{\"subjects_filter\":" + json_string(zone_.subjects.meta("queue.*")) + "}");
  if (!info) return info.error();
  const encoding::Json* state = *info ? (*info)->member("state") : nullptr;
  const encoding::Json* named = state ? state->member("subjects") : nullptr;
  std::vector<std::string> subjects;
  if (named)
    for (const auto& [subject, count] : named->members()) subjects.push_back(subject);
  std::vector<KnownQueue> queues;
  for (const auto& message : zone_.client.last(stream, subjects)) {
    auto queue = known_from(message);
    if (!queue) return queue.error();
    if (*queue) queues.push_back(std::move(**queue));
  }
  return queues;
}

PublishResult QueueRegistry::write(const KnownQueue& queue) const {
  return zone_.client.publish(definition_message(zone_.subjects, queue));
}

Result<bool> QueueRegistry::remove(const KnownQueue& queue) {
  auto removed = zone_.client.remove(zone_.subjects.meta_stream(), queue.revision);
  if (removed && *removed) remember(queue.definition.name, std::nullopt);
  return removed;
}

}  // namespace once::store::nats
