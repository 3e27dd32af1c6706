// Looking again: wakes, which make a queue look at an entry once more, and what the sweeper has to find
// because nobody would deliver it again.
#include <algorithm>

#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

Error body_is_gone(const KnownQueue& queue, Sequence sequence) {
  return {
      .code = Code::wrong_state,
      .message = "message " + std::to_string(sequence.value) + " is gone from the stream " +
                 queue.definition.stream +
                 " and was not kept: it cannot be run again; drop it, and have it published anew "
                 "under another key"};
}

}  // namespace

Result<std::map<Sequence, WakeNote>> NatsStore::wakes_of(const KnownQueue& queue,
                                                         std::map<Sequence, StoreTime>* since) {
  std::map<Sequence, WakeNote> notes;
  if (queue.definition.ledger) return notes;
  const auto kept = zone_->jet.all(zone_->subjects.wake_stream(), zone_->subjects.wakes(queue));
  if (!kept) return kept.error();
  for (const StreamMessage& each : *kept) {
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
  const auto wanted = encoding::parse_json(consumers_of(queue).back().config);
  const auto position = [&](const char* which) {
    const encoding::Json* place = info->json.member(which);
    return place ? number_of(*place, "stream_seq").value_or(0) : 0;
  };
  return ConsumerState{
      .delivered = position("delivered"),
      .floor = position("ack_floor"),
      .unanswered = number_of(info->json, "num_ack_pending").value_or(0),
      .pending = number_of(info->json, "num_pending").value_or(0),
      .as_made = wanted && info->error == 0 && !difference(*wanted, info->json.member("config"))};
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
  const auto [delivered, floor, unanswered, undelivered, as_made] = *state;

  const auto wakes = wakes_of(*queue);
  if (!wakes) return wakes.error();
  const auto shared = tally_of(*queue);
  const std::lock_guard lock(shared->mutex);
  QueueCounts& tally = shared->tally;
  // A record that was removed leaves no message behind: who begins at the start reads everything anew.
  // What nobody was handed yet is not looked at.
  if (!after) tally = {};
  if (auto done = catch_up(*queue, tally, delivered); !done) return done.error();

  const StoreTime time = now();
  struct Candidate {
    Sequence sequence{};
    bool waits = false;    // for its time, a retry or a lease
    bool overdue = false;  // whoever was handed it has had a lease's time
    bool recorded = false;
  };
  std::vector<Candidate> candidates;
  std::uint64_t waiting = 0;
  page.settled = std::max(after, Sequence{tally.log_seen});
  bool all_settled = true;
  for (auto each = tally.open().upper_bound(after); each != tally.open().end(); ++each) {
    const auto& [sequence, open] = *each;
    if (!open.owes && (!open.whole || core::settled(open.state))) continue;
    if (all_settled) page.settled = {sequence.value - 1};
    all_settled = false;
    if (sequence.value > delivered || wakes->contains(sequence)) continue;
    const bool waits = time < open.due;
    if (waits) ++waiting;
    candidates.push_back(
        {sequence, waits, time >= open.due + queue->definition.lease, open.recorded});
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
    if (!certain) page.perhaps.push_back(each.sequence);
    // An answer needs a record. A consumer that somebody changed may count answers that nobody gave.
    const bool answered = unanswered == 0 || each.sequence.value <= floor;
    if (!each.recorded && answered && as_made) page.unrecorded.push_back(each.sequence);
  }
  // The records may be missing because somebody emptied the ledger.
  if (!page.sequences.empty())
    if (auto whole = zone_->watch.ledger_is_whole(); !whole) return whole.error();
  return page;
}

}  // namespace once::store::nats
