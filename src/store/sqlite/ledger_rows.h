// Rows of the ledger and of pending deliveries, as the ledger and the feed both need them.
//
// A row's place is one number, queue and sequence and which of the entry's two records it is:
//
//   place = qid * 2^43 + sequence * 2 + own
//
// so that claims and completions in sequence order touch neighbouring pages, by the fastest key
// SQLite has. Records without a log entry have places below zero.
//
// An entry's two records are the one of its key and its own; its own says how the entry stands when
// there are both. The feed goes by `due` of these rows; an entry without a row that says when to
// look again has a pending one, and so has one for which an order waits.
#pragma once

#include <optional>

#include "codec/large_values.h"
#include "store/sqlite/database.h"
#include "store/store.h"

namespace once::store::sqlite {

using encoding::PackedRecord;

using Place = std::int64_t;
inline constexpr int kSequenceBits = 43;
inline constexpr std::int64_t kMostQueues = std::int64_t{1} << (63 - kSequenceBits);

constexpr Place first_place(std::int64_t qid) { return qid << kSequenceBits; }
constexpr Place place_of(std::int64_t qid, Sequence sequence, bool own = false) {
  return first_place(qid) + static_cast<Place>(sequence.value) * 2 + (own ? 1 : 0);
}
constexpr Sequence sequence_at(Place place) {
  return {static_cast<std::uint64_t>(place & (first_place(1) - 1)) / 2};
}
inline StoreTime store_time(std::int64_t milliseconds) { return StoreTime{Duration{milliseconds}}; }

// All of a row but its record.
struct LedgerRow {
  Place place{};
  State state{};
  std::optional<StoreTime> due{};
  Revision revision{};
  StoreTime stamp{};
  bool has_values = false;  // some of its values lie in the table `value`
};

struct EntryRows {
  std::optional<LedgerRow> task{};
  std::optional<LedgerRow> own{};

  const LedgerRow* standing() const { return own ? &*own : task ? &*task : nullptr; }
  // The one by which the feed goes.
  const LedgerRow* watched() const {
    if (own && own->due) return &*own;
    return task && task->due ? &*task : nullptr;
  }
};

EntryRows read_rows(Connection& db, const KnownQueue& queue, Sequence sequence);
enum class Values { read, leave };  // the large values of a record that lie outside it
Stored read_record(Connection& db, const LedgerRow& row, HolderCheck& holders,
                   Values values = Values::read);
// The same for people and totals: into the row, which says when it is damaged.
void show_record(Connection& db, const LedgerRow& from, HolderCheck& holders, Row& row,
                 Values values = Values::read);

// Where an address leads.
struct Spot {
  const Address& at;
  std::optional<Place> place{};  // none: there is no row yet, and a new one takes what fits
  EntryRows rows{};              // of the entry that has the place
  bool fresh = false;            // a claim comes from behind the queue's cursor

  const std::optional<LedgerRow>& current() const {
    return at.kind == Address::Kind::entry ? rows.own : rows.task;
  }
};
Spot find_spot(Connection& db, const KnownQueue& queue, const Address& at);
// For an entry that is known to have no row, in a queue whose key is the id.
Spot free_spot(const KnownQueue& queue, const Address& at);

// Writes the record over what is there. Answers where, and what is stored now. Throws when the
// address names no entry.
struct Put {
  Place place{};
  std::optional<StoreTime> due{};
  Stored stored{};
};
Put put(WriteTransaction& transaction, const KnownQueue& queue, const Spot& spot, Record record,
        const PackedRecord& packed);
// As put() wants it: larger values lie outside the record, where a renewal does not write them again.
PackedRecord packed(const Record& record);

std::optional<StoreTime> pending_due(WriteTransaction& transaction, const KnownQueue& queue,
                                     Sequence sequence);
// It has been handed over, or is to be again. An order that is there stays.
void set_pending(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 StoreTime due);
// It has never been handed over, and is not to be before `due`.
void schedule(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
              StoreTime due);
void insert_scheduled(Connection& db, std::int64_t qid, Sequence sequence, StoreTime due);
void drop_pending(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence);
// After the delivery with that handle (empty: none) was answered: an order that it did not carry
// stays.
void drop_answered(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                   const std::string& handle);

// What came with a wake and waits to be carried out.
std::optional<core::Order> read_order(WriteTransaction& transaction, const KnownQueue& queue,
                                      Sequence sequence);
// Keeps the order with the entry, unless there is one, and has it handed over at `due`.
void keep_order(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                const core::Order& order, StoreTime due);
// The entry's order goes with the delivery that is nobody else's until then.
void carry_order(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 StoreTime until);
// The delivery that carried an order comes again then, and the order with it.
void carry_again(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 const std::string& handle, StoreTime due);

void set_due(WriteTransaction& transaction, const LedgerRow& row, std::optional<StoreTime> due);

// Has all running claims watched, by the index of `due`.
void watch_claims(WriteTransaction& transaction, const KnownQueue& queue);

// A delivery's handle: until when it is nobody else's. Handed over again, it has another.
std::string handle_of(StoreTime due);

// When the feed may put a look at the row off to: never past the end of a lease that runs.
StoreTime no_later_than_lease(WriteTransaction& transaction, const LedgerRow& row,
                              StoreTime wanted);

}  // namespace once::store::sqlite
