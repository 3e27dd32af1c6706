#include "store/nats/foreign/foreign_retention.h"

namespace once::store::nats {

Result<std::uint64_t> ForeignRetention::remove_copies(const KnownQueue& queue, const Tasks& tasks,
                                                      const Retention& ages, StoreTime time) {
  const auto copies = foreign_.copies().all(queue);
  if (!copies) return copies.error();
  std::uint64_t removed = 0;
  for (const Sequence sequence : *copies) {
    const auto task = tasks.find(sequence);
    const Stored* stored = task == tasks.end() ? nullptr : task->second.standing();
    if (!stored) continue;
    const core::Standing standing{stored->record.state, stored->stamp};
    if (core::may_forget(core::Stage::whole, {}, std::span(&standing, 1), ages, time) !=
        core::Forget::body)
      continue;
    if (auto gone = foreign_.copies().remove(queue, sequence); !gone) return gone.error();
    ++removed;
  }
  return removed;
}

std::vector<RecordAt> ForeignRetention::records_of(const KnownQueue& queue, Sequence sequence,
                                                   const ForeignTask& task) const {
  std::vector<RecordAt> both;
  Address at{.queue = queue.definition.name, .key = task.key, .sequence = sequence};
  if (task.key_record)
    both.push_back({zone_.subjects.record(queue, at), task.key_record->revision});
  at.kind = Address::Kind::entry;
  if (task.own_record)
    both.push_back({zone_.subjects.record(queue, at), task.own_record->revision});
  return both;
}

Result<std::uint64_t> ForeignRetention::remove_records(const KnownQueue& queue, const Tasks& tasks,
                                                       const Retention& ages, StoreTime time) {
  std::vector<const ForeignTask*> old;
  std::vector<std::uint64_t> sequences;
  for (const auto& [sequence, task] : tasks) {
    const Stored* stored = task.standing();
    if (!stored ||
        !core::may_forget_outside({stored->record.state, stored->stamp}, task.gone, ages, time))
      continue;
    old.push_back(&task);
    sequences.push_back(sequence.value);
  }
  // Whether they are gone is asked again, of the leader: by this it is decided.
  const auto messages = zone_.client.get(queue.definition.stream, sequences);
  std::vector<std::vector<RecordAt>> records;
  Takings takings;
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (!messages[i]) return messages[i].error();
    if (*messages[i]) continue;
    past_.take_records(queue, sequences[i], {.entry = old[i]->entry, .stored = *old[i]->standing()},
                       takings);
    records.push_back(records_of(queue, {sequences[i]}, *old[i]));
  }
  if (auto kept = past_.keep(takings); !kept) return kept.error();
  return count_removed(zone_, records);
}

Result<Retired> ForeignRetention::retire(const KnownQueue& queue, const Retention& ages) {
  // Of a stream that is not the one, nothing tells which of its messages are gone.
  if (const auto same = foreign_.check_the_same(queue); !same)
    return same.error().retryable ? Result<Retired>(same.error()) : Retired{};
  const auto tasks = foreign_.tasks(queue);
  if (!tasks) return tasks.error();
  const StoreTime time = zone_.now();
  const auto bodies = remove_copies(queue, *tasks, ages, time);
  if (!bodies) return bodies.error();
  const auto records = remove_records(queue, *tasks, ages, time);
  if (!records) return records.error();
  return Retired{.bodies = *bodies, .records = *records};
}

}  // namespace once::store::nats
