// Ensures that an entry has one record: the record of its key, or its own record. These are two
// subjects, and no compare-and-swap covers both. A writer that creates a record looks at the other
// place before its write and again after it. If two writers create both at the same time, at least
// one sees the other's record and removes its own. Both may do so; then both try again.
//
// One case remains. A writer dies, or loses the server, between its write and its second look. At
// the same moment another writer does the same in the other place. Then the entry has two records.
// The claim under the key runs or expires, and from then on the own record counts. The key stays
// taken until retention. No task runs twice because of this.
//
// In a queue that is keyed by the id, only the writer of an own record looks. There the engine
// writes an own record only for an entry without a body, and no worker can claim such an entry.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "store/nats/log/entry_reader.h"
#include "store/nats/watch.h"

namespace once::store::nats {

// A record to write.
struct RecordWrite {
  const Swap* item{};  // the caller owns it
  std::size_t index{};
  std::string other{};  // see other_place()
  std::vector<MovedValue> moved{};
  Revision revision{};  // after the write
};

class RecordPlaces {
 public:
  RecordPlaces(ZoneConnection& zone, const TaskLog& log, const EntryReader& entries, Watch& watch,
               const std::string& uuid)
      : zone_(zone), log_(log), entries_(entries), watch_(watch), uuid_(uuid) {}

  // Whether the entry of the record exists. The record of a task must name an entry.
  Result<bool> has_entry(const KnownQueue& queue, const Swap& item) const;
  // The other subject that may have a record of the entry. Empty if there is none, or if the swap
  // creates no record.
  Result<std::string> other_place(const KnownQueue& queue, const Swap& item) const;
  // Returns for each write whether its entry has a record at the other place.
  std::vector<Result<bool>> stand_elsewhere(std::span<const RecordWrite> writes) const;

 private:
  Result<bool> stands(const Swap& item, const Result<std::optional<StreamMessage>>& found) const;

  ZoneConnection& zone_;
  const TaskLog& log_;
  const EntryReader& entries_;
  Watch& watch_;
  const std::string& uuid_;
};

}  // namespace once::store::nats
