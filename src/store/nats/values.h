// The large values of a record (its result, the results of its steps). A record must fit into one
// message, because one compare-and-swap decides; what makes it too large lies beside it, in chunks
// that are named by their content and written before the record that refers to them. Writing them
// again changes nothing. They go with the record.
//
//   ONCE_<zone>_BLOB   once-blob.<zone>.<queue>.<generation>.<k|e|l>.<key>.<SHA-256>.<chunk size>.<i>
#pragma once

#include <map>
#include <mutex>
#include <set>

#include "store/nats/jet.h"
#include "store/store.h"

namespace once::store::nats {

// Where a value is that a record's message does not hold itself.
struct MovedValue {
  std::optional<std::size_t> step{};  // whose result it is; none: the task's
  Digest digest{};                    // SHA-256 of its text
  std::uint64_t size{};
  std::uint64_t chunk_size{};  // of every chunk but the last
  bool json = false;

  std::uint64_t chunks() const { return (size + chunk_size - 1) / chunk_size; }
  std::string name() const;  // the subject tokens of its content
};

struct PackedRecord {
  std::string data{};
  std::size_t record_size{};  // of the record in it; what follows says where its values are
  std::vector<MovedValue> moved{};
};
// Moves the largest values out until the rest is no more than half of what the server takes.
PackedRecord pack(const Record& record, std::size_t max_payload);

// What pack() made: the record without the values that were moved, and where these are.
Result<Record> unpack(std::string_view data, std::optional<std::size_t> record_size,
                      std::vector<MovedValue>& moved);

const Body& value_of(const Record& record, const MovedValue& moved);
void put_value(Record& record, const MovedValue& moved, Body value);

// Which values are known to be stored because a revision that we wrote or read refers to them. A swap
// on that revision need not send them again: if it succeeds, the record was there until then, and its
// values with it.
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

}  // namespace once::store::nats
