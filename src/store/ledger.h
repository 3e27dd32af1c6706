// The ledger of a zone: one record per queue and key. Every write names the revision that it replaces.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/decide.h"

namespace once::store {

using core::Record;
using core::Revision;
using core::Sequence;
using core::Stored;

// The error for a swap that would give an entry two records. Either the entry has the record of its
// key and would get an own record, or it has a settled own record and would get the record of its
// key. Nothing was written.
inline Error stands_elsewhere(Sequence sequence) {
  return {.code = Code::wrong_state,
          .message = "task #" + std::to_string(sequence.value) +
                     " has a record elsewhere by now: nothing was recorded; look again",
          .retryable = true};
}

// Where a record lives.
struct Address {
  enum class Kind {
    task,   // under the queue and the task's key; `sequence` names the entry.
            // In a ledger-only queue: under its key, without an entry (sequence zero);
            // such records are counted and listed like tasks.
    entry,  // an own record: under the queue and the entry's sequence
    lone,   // under the queue and a name, without a log entry (slots, elections)
  };
  Kind kind = Kind::task;
  std::string queue{};
  std::string key{};    // task: the key (the id, when the queue has no template); lone: the name
  Sequence sequence{};  // task, entry

  friend bool operator==(const Address&, const Address&) = default;
};

struct Swap {
  Address at{};
  Revision expected{};  // zero: there must be no record
  Record record{};
  // The handle of the delivery that this write answers; empty if there is none. The store answers
  // the delivery after the record is durable. If look_again(record) returns nullopt, the delivery
  // is finished. Otherwise the store hands the entry over again after that delay.
  std::string handle{};
};

struct SwapResult {
  bool written = false;
  std::optional<Stored> current{};  // written: the record with its revision and stamp;
                                    // refused: the record that is there, or nullopt
};

// The ledger keeps a record with all its results, however large these are. A swap does not write an
// unchanged large result again. If a record is removed, its large results are removed with it.
class Ledger {
 public:
  virtual ~Ledger() = default;
  virtual std::vector<Result<SwapResult>> swap(std::span<const Swap> items) = 0;
  virtual std::vector<Result<std::optional<Stored>>> get(std::span<const Address> items) = 0;
  // For the audit: records about entries that the log does not have. Reads some records after
  // `after`, which is empty or the `next` of the last page.
  struct Strays {
    std::vector<Address> records{};
    std::string next{};  // empty: the end
  };
  virtual Result<Strays> strays(std::string_view queue, const std::string& after) = 0;
};

}  // namespace once::store
