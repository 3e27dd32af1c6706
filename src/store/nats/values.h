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

#include "codec/large_values.h"
#include "store/nats/jetstream_client.h"
#include "store/store.h"

namespace once::store::nats {

using encoding::MovedValue;
using encoding::PackedRecord;

// Moves the largest values out until the rest is no more than half of what the server takes. Logs
// stay: an older Once would take a log for a result.
PackedRecord pack(const Record& record, std::size_t max_payload);

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
