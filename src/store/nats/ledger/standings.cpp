#include "store/nats/ledger/standings.h"

#include "codec/key_template.h"

namespace once::store::nats {

Result<std::vector<RecordSubjects>> record_subjects(const Subjects& subjects,
                                                    const KnownQueue& queue,
                                                    std::span<const LogEntry> entries) {
  const auto keys = encoding::KeyTemplate::of(queue.definition);
  if (!keys) return keys.error();
  std::vector<RecordSubjects> all;
  all.reserve(entries.size());
  for (const LogEntry& each : entries) {
    const Entry& entry = each.entry;
    Address at{.queue = queue.definition.name, .sequence = entry.sequence};
    RecordSubjects places;
    if (queue.definition.key.empty()) {
      places.key = entry.id;
    } else if (entry.body) {
      if (auto key = keys->key(entry.id, entry.topic, *entry.body, entry.headers))
        places.key = std::move(*key);
    } else if (const auto known = each.keys.find(queue.generation); known != each.keys.end()) {
      places.key = known->second;
    }
    at.key = places.key;
    if (!places.key.empty()) places.by_key = subjects.record(queue, at);
    at.kind = Address::Kind::entry;
    places.by_itself = subjects.record(queue, at);
    all.push_back(std::move(places));
  }
  return all;
}

const StreamMessage* message_at(const MessagesBySubject& messages, const std::string& subject) {
  const auto found = messages.find(subject);
  return found == messages.end() ? nullptr : &found->second;
}

void Standings::read(const StreamMessage* by_key, const StreamMessage* by_itself, Sequence sequence,
                     const ZoneClock& clock) {
  const auto take = [&](const StreamMessage* message, bool its_own) {
    if (!message || failed) return;
    auto stored = stored_from(*message, clock);
    if (!stored) {
      failed = stored.error();
      return;
    }
    if (!its_own && stored->record.sequence != sequence) return;
    (its_own ? own : key) = std::move(*stored);
  };
  take(by_key, false);
  take(by_itself, true);
}

}  // namespace once::store::nats
