#include "store/nats/ledger/record_places.h"

#include "codec/key_template.h"

namespace once::store::nats {

Result<bool> RecordPlaces::has_entry(const KnownQueue& queue, const Swap& item) const {
  if (item.at.kind != Address::Kind::task || queue.definition.ledger) return true;
  if (item.expected || item.record.sequence || item.at.sequence) return true;
  if (!queue.definition.key.empty()) return false;
  const auto entry = log_.find(item.at.key);
  if (!entry) return entry.error();
  return entry->has_value();
}

Result<std::string> RecordPlaces::other_place(const KnownQueue& queue, const Swap& item) const {
  using Kind = Address::Kind;
  if (item.expected || item.at.kind == Kind::lone || queue.definition.ledger) return std::string{};
  Address other{.queue = item.at.queue, .sequence = item.record.sequence};
  if (item.at.kind == Kind::task) {
    if (queue.definition.key.empty() || !other.sequence) return std::string{};
    other.kind = Kind::entry;
    return zone_.subjects.record(queue, other);
  }
  const auto entry = entries_.read(queue, item.at.sequence);
  if (!entry) return entry.error();
  if (!*entry || !(*entry)->body) return std::string{};
  const auto keys = encoding::KeyTemplate::of(queue.definition);
  if (!keys) return keys.error();
  const Entry& task = **entry;
  auto key = keys->key(task.id, task.topic, *task.body, task.headers);
  if (!key) return std::string{};  // without a key no worker can have claimed it
  other.key = std::move(*key);
  return zone_.subjects.record(queue, other);
}

Result<bool> RecordPlaces::stands(const Swap& item,
                                  const Result<std::optional<StreamMessage>>& found) const {
  if (!found) return found.error();
  if (!*found) return false;
  const auto stored = stored_from(**found, zone_.clock);
  if (!stored) return stored.error();
  return item.at.kind == Address::Kind::entry ? stored->record.sequence == item.at.sequence
                                              : core::settled(stored->record.state);
}

std::vector<Result<bool>> RecordPlaces::stand_elsewhere(std::span<const RecordWrite> writes) const {
  std::vector<std::string> subjects;
  for (const RecordWrite& each : writes)
    if (!each.other.empty()) subjects.push_back(each.other);
  // A key that has no record may be new, or the ledger was emptied: its seal is read in the same burst.
  if (!subjects.empty()) subjects.push_back(zone_.subjects.ledger_seal() + uuid_);
  const auto messages = zone_.client.last(zone_.subjects.ledger_stream(), subjects);
  Result<void> whole;
  if (!messages.empty() && messages.back() && !*messages.back()) whole = watch_.ledger_is_whole();
  std::vector<Result<bool>> answers;
  std::size_t next = 0;
  for (const RecordWrite& each : writes)
    answers.push_back(each.other.empty() ? false
                      : whole            ? stands(*each.item, messages[next++])
                                         : whole.error());
  return answers;
}

}  // namespace once::store::nats
