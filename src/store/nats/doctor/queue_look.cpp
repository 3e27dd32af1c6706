#include "store/nats/doctor/queue_look.h"

#include "core/words.h"

namespace once::store::nats {
namespace {

using core::counted;
using encoding::Json;

// Of a stream of others' each page of rows costs a whole read.
constexpr std::uint64_t kReadable = 4'000;

}  // namespace

Result<void> QueueLook::at_stream() {
  if (!queue_.foreign()) return {};
  const std::string& stream = queue_.definition.stream;
  auto info = look_.client().stream_info(stream);
  if (!info) return look_.unseen("stream " + stream, info.error());
  if (!*info) return gone("stream_gone");
  if (text_of(**info, "created") != queue_.stream_made) return gone("stream_gone/replaced");
  stream_ = std::move(**info);
  look_.learn(*stream_);
  look_.add(check_foreign_stream(queue_.definition, *stream_));
  glance.readable = number_of(*stream_->member("state"), "messages").value_or(0) <= kReadable;
  look_.checked("stream " + stream + " of queue " + queue_.definition.name + ": its settings");
  return at_other_consumers();
}

Result<void> QueueLook::at_other_consumers() {
  const std::string& stream = queue_.definition.stream;
  const auto list = look_.client().call("CONSUMER.LIST." + stream, "");
  if (!list) return look_.unseen("the consumers of stream " + stream, list.error());
  const Json* consumers = list->json.member("consumers");
  if (!consumers) return {};
  for (const Json& each : consumers->items())
    if (text_of(each, "name") != queue_.consumer())
      look_.add(check_other_consumer(queue_.definition, each));
  if (number_of(list->json, "total").value_or(0) > consumers->items().size())
    look_.checked("stream " + stream + ": its first " +
                  counted(consumers->items().size(), "consumer"));
  return {};
}

void QueueLook::consumer_missing(const Plan& plan) {
  look_.find(queue_.foreign() ? "consumer_missing/foreign" : "consumer_missing", Severity::warning,
             "queue " + queue_.definition.name,
             {{"queue", queue_.definition.name}, {"stream", plan.name}});
}

Result<void> QueueLook::at_consumer(const Plan& plan, bool source) {
  const auto info = look_.client().call("CONSUMER.INFO." + plan.name + "." + queue_.consumer(), "");
  if (!info) return look_.unseen("a consumer of queue " + queue_.definition.name, info.error());
  if (info->error == kNoConsumer) consumer_missing(plan);
  if (info->error != 0) return {};
  look_.add(check_own_consumer(queue_.definition, plan, info->json));
  if (!source) return {};
  glance.waiting = number_of(info->json, "num_pending").value_or(0);
  if (const Json* floor = info->json.member("ack_floor"); floor && !countable_)
    glance.open_after = {number_of(*floor, "stream_seq").value_or(0)};
  return {};
}

Result<void> QueueLook::at_consumers(std::span<const Plan> plans) {
  if (queue_.foreign() && !stream_) return {};  // they are gone with the stream
  for (const Plan& plan : plans)
    if (auto done = at_consumer(plan, &plan == &plans.back()); !done) return done;
  return {};
}

std::uint64_t QueueLook::last_of_stream() const {
  const Json* state = stream_ ? stream_->member("state") : nullptr;
  // With a narrower filter, what is gone may never have been the queue's.
  return state && queue_.definition.topic == ">" ? number_of(*state, "last_seq").value_or(0) : 0;
}

// What is settled while this reads may be missed once, so a second look confirms it.
Result<void> QueueLook::at_dropped(
    bool deep, const std::function<Result<core::Sequences>(std::uint64_t last)>& dropped) {
  const std::uint64_t last = last_of_stream();
  if (last == 0) return {};
  const std::string& stream = queue_.definition.stream;
  if (!deep && !(glance.readable && countable_)) {
    look_.checked("stream " + stream +
                  ": not whether it dropped messages, which a deep look tells");
    return {};
  }
  auto found = dropped(last);
  if (found && !found->empty()) found = dropped(last);
  if (!found) return found.error();
  look_.add(check_dropped(queue_.definition, *found));
  look_.checked("stream " + stream + ": whether the queue was handed all of it");
  return {};
}

Result<void> QueueLook::gone(std::string_view key) {
  glance.readable = false;
  look_.find(key, Severity::hazard,
             "stream " + queue_.definition.stream + " of queue " + queue_.definition.name,
             {{"queue", queue_.definition.name}, {"stream", queue_.definition.stream}});
  return {};
}

}  // namespace once::store::nats
