// The records of an entry in one queue: their two subjects, and which record counts.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/nats/log/entry_codec.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

// Where the records of an entry may lie.
struct RecordSubjects {
  std::string key{};  // empty if the entry has none
  std::string by_key{};
  std::string by_itself{};
};
Result<std::vector<RecordSubjects>> record_subjects(const Subjects& subjects,
                                                    const KnownQueue& queue,
                                                    std::span<const LogEntry> entries);

using MessagesBySubject = std::map<std::string, StreamMessage>;
// Null if there is none.
const StreamMessage* message_at(const MessagesBySubject& messages, const std::string& subject);

// The records of one entry.
struct Standings {
  std::optional<Stored> key{};  // under its key, and about it
  std::optional<Stored> own{};
  std::optional<Error> failed{};

  // Reads both records. Null means that there is no record.
  void read(const StreamMessage* by_key, const StreamMessage* by_itself, Sequence sequence,
            const ZoneClock& clock);
  // The record that counts: the own record, else the one of the key. Null if there is none.
  const Stored* standing() const { return own ? &*own : key ? &*key : nullptr; }
};

}  // namespace once::store::nats
