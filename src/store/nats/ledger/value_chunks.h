// Stores the large values of a record (its result, the results of its steps). A record must fit
// into one message, because one compare-and-swap decides. Values that make it too large are stored
// in chunks, which are named by their content. The chunks are written before the record that refers
// to them. Writing a chunk again changes nothing. Chunks are removed with their record.
//
//   ONCE_<zone>_BLOB   once-blob.<zone>.<queue>.<generation>.<k|e|l>.<key>.<SHA-256>.<chunk size>.<i>
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "codec/large_values.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

using encoding::MovedValue;
using encoding::PackedRecord;

// Moves the largest values out until the rest is no more than half of what the server takes. Logs
// stay: an older Once would take a log for a result.
PackedRecord pack(const Record& record, std::size_t max_payload);

// The values that are known to be stored, because a revision that this process wrote or read refers to
// them. A swap on that revision need not send them again. If the swap succeeds, the record was there
// until then, and its values with it.
class KnownValues {
 public:
  void learn(const std::string& record, Revision revision, const std::vector<MovedValue>& moved);
  bool knows(const std::string& record, Revision revision, const MovedValue& moved) const;

 private:
  struct Known {
    Revision revision{};
    std::set<std::string> names{};
  };
  mutable std::mutex mutex_;
  std::map<std::string, Known> records_;  // by subject
};

// Any thread may call it.
class ValueChunks {
 public:
  explicit ValueChunks(ZoneConnection& zone) : zone_(zone) {}

  // Stores the values that were moved out of a record which is about to be written over `expected`.
  // If this fails, no record refers to the chunks yet.
  Result<void> store(const std::string& record_subject, const Record& record, Revision expected,
                     const std::vector<MovedValue>& moved);
  // The record was written at that revision.
  void written(const std::string& record_subject, Revision revision,
               const std::vector<MovedValue>& moved) {
    known_.learn(record_subject, revision, moved);
  }
  // The record that was read, with its values. nullopt if it is gone meanwhile.
  Result<std::optional<Stored>> whole_record(StreamMessage message);
  // Puts the values into a record that a person reads. A damaged value is replaced by what is wrong.
  void show(const StreamMessage& message, Record& record) const;

 private:
  Result<void> send(std::vector<Outgoing> chunks) const;
  Result<Body> read(const std::string& record_subject, const MovedValue& value) const;
  // The values of a record; an error leaves some of them out.
  Result<void> fill(const std::string& record_subject, const std::vector<MovedValue>& moved,
                    Record& record) const;

  ZoneConnection& zone_;
  KnownValues known_;
};

}  // namespace once::store::nats
