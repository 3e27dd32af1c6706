#include "store/nats/feed/wakes.h"

namespace once::store::nats {
namespace {

constexpr int kWakeRounds = 16;

Error body_is_gone(const KnownQueue& queue, Sequence sequence) {
  return {
      .code = Code::wrong_state,
      .message = "message " + std::to_string(sequence.value) + " is gone from the stream " +
                 queue.definition.stream +
                 " and was not kept: it cannot be run again; drop it, and have it published anew "
                 "under another key"};
}

}  // namespace

Result<std::map<Sequence, WakeNote>> Wakes::of(const KnownQueue& queue,
                                               std::map<Sequence, StoreTime>* since) const {
  std::map<Sequence, WakeNote> notes;
  if (queue.definition.ledger) return notes;
  const auto messages = zone_.client.all(zone_.subjects.wake_stream(), zone_.subjects.wakes(queue));
  if (!messages) return messages.error();
  for (const StreamMessage& each : *messages) {
    auto note = wake_from(each);
    if (!note) return note.error();
    if (since) (*since)[note->sequence] = zone_.clock.stamp_of(each);
    notes[note->sequence] = std::move(*note);
  }
  return notes;
}

Result<void> Wakes::wake(std::string_view name, std::span<const Wake> items) {
  const auto queue = registry_.must_know(name);
  if (!queue) return queue.error();
  if (queue->definition.ledger) return {};
  for (const Wake& item : items) {
    if (!item.sequence) continue;
    const auto entry = entries_.read(*queue, item.sequence);
    if (!entry) return entry.error();
    if (!*entry && queue->foreign() && item.order) return body_is_gone(*queue, item.sequence);
    const bool its = queue->foreign() || (*entry && queue->has((*entry)->topic, item.sequence));
    if (!its) continue;
    if (auto written = write(*queue, item); !written) return written;
  }
  return {};
}

Result<void> Wakes::write(const KnownQueue& queue, const Wake& item) {
  const std::string subject = zone_.subjects.wake(queue, item.sequence);
  for (int round = 0; round < kWakeRounds; ++round) {
    const auto current = zone_.client.last(zone_.subjects.wake_stream(), subject);
    if (!current) return current.error();
    if (*current && (*current)->header("Once-Order")) return {};
    Outgoing message = wake_message(subject, {.sequence = item.sequence, .order = item.order},
                                    *current ? (*current)->sequence : 0);
    zone_.clock.stamp(message.headers);
    const PublishResult written = zone_.client.publish(message);
    if (written.kind == PublishResult::Kind::stored) return {};
    if (written.kind != PublishResult::Kind::refused) return failure_of(written);
  }
  return failure_of(
      {.kind = PublishResult::Kind::failed, .text = "the task is woken by others all the time"});
}

}  // namespace once::store::nats
