// Reads and writes rows of the tables `ledger` and `pending`, for ledger.cpp and feed.cpp.
//
// The key of a ledger row is its place, one number:
//
//   place = qid * 2^43 + sequence * 2 + own
//
// So claims and completions in sequence order touch neighbouring pages, and the key is a rowid, the
// fastest key of SQLite. Lone records have places below zero.
//
// An entry may have two records: the one of its key, and its own record. If both exist, the own
// record counts. The feed reads `due` of these rows. An entry without such a `due` has a row in
// `pending`. An entry with an order that no worker has applied has one too.
#pragma once

#include <optional>

#include "codec/large_values.h"
#include "store/sqlite/database.h"
#include "store/sqlite/row_batch.h"
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

// The columns of a ledger row without the encoded record.
struct LedgerRow {
  Place place{};
  State state{};
  std::optional<StoreTime> due{};
  Revision revision{};
  StoreTime stamp{};
  bool has_values = false;  // some of its values lie in the table `value`
  bool owes = false;        // its record owes a reply
};

struct EntryRows {
  std::optional<LedgerRow> task{};
  std::optional<LedgerRow> own{};

  // The row of the record that counts; null if there is none.
  const LedgerRow* counting() const { return own ? &*own : task ? &*task : nullptr; }
  // The row whose `due` the feed uses; null if there is none.
  const LedgerRow* with_due() const {
    if (own && own->due) return &*own;
    return task && task->due ? &*task : nullptr;
  }
};

EntryRows read_rows(Connection& db, const KnownQueue& queue, Sequence sequence);
enum class Values { read, leave };  // whether to read the values that are stored outside the record
Record read_record(Connection& db, Place place, Values values = Values::read);
Stored read_record(Connection& db, const LedgerRow& row, HolderCheck& holders,
                   Values values = Values::read);
// The same for listings and totals. A record that cannot be read sets `row.damaged`.
void show_record(Connection& db, const LedgerRow& from, HolderCheck& holders, Row& row,
                 Values values = Values::read);

// The place of an address in the ledger.
struct Spot {
  const Address& at;
  std::optional<Place> place{};  // nullopt if there is no row yet
  EntryRows rows{};              // the rows of the entry that has the place
  bool fresh = false;            // a claim of an entry after the queue's cursor

  const std::optional<LedgerRow>& current() const {
    return at.kind == Address::Kind::entry ? rows.own : rows.task;
  }
};
Spot find_spot(Connection& db, const KnownQueue& queue, const Address& at);
// The rows of entries of one queue, read by one scan and not entry by entry.
class RowsAhead {
 public:
  // Of the entries from `first` to `last`.
  RowsAhead(Connection& db, const KnownQueue& queue, Sequence first, Sequence last);
  // The rows of an entry, once: the caller writes them. nullopt if there are none, and the next time.
  std::optional<EntryRows> take(const KnownQueue& queue, Sequence sequence);

 private:
  std::vector<LedgerRow> rows_{};  // by place
  std::vector<bool> taken_{};
};
// For an entry that is known to have no row, in a queue whose key is the id.
Spot free_spot(const KnownQueue& queue, const Address& at);

// Puts the record into the batch, in place of the row of the spot. `packed` must stay valid until
// the batch is written. Throws if the address names no entry.
struct Put {
  Place place{};
  std::optional<StoreTime> due{};
  Revision revision{};
  StoreTime stamp{};
  bool holder_gone = false;
};
Put put(WriteTransaction& transaction, const KnownQueue& queue, const Spot& spot,
        const Record& record, const PackedRecord& packed, RowBatch& batch);
// Encodes a record for put(). Large values are stored outside the record, so a renewal does not
// write them again.
PackedRecord packed(const Record& record);

// False if the queue has no pending row. Most queues have none, and one query says so.
bool may_have_pending(WriteTransaction& transaction, const KnownQueue& queue);
std::optional<StoreTime> pending_due(WriteTransaction& transaction, const KnownQueue& queue,
                                     Sequence sequence);
// Makes an entry pending that was handed over before. Its order, if it has one, stays.
void set_pending(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 StoreTime due);
// Makes an entry pending that was never handed over. The feed hands it over at `due` or later.
void schedule(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
              StoreTime due);
void insert_scheduled(Connection& db, std::int64_t qid, Sequence sequence, StoreTime due);
void drop_pending(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence);
// Drops the pending row after the delivery with that handle (or empty) was answered. An order that
// the delivery did not carry stays.
void drop_answered(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                   const std::string& handle);

// The order that came with a wake and that no worker has applied yet.
std::optional<core::Order> read_order(WriteTransaction& transaction, const KnownQueue& queue,
                                      Sequence sequence);
// Stores the order with the entry, unless the entry has one. The feed hands the entry over at
// `due`.
void keep_order(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                const core::Order& order, StoreTime due);
// The delivery that is held until then carries the entry's order.
void carry_order(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 StoreTime until);
// The feed hands the delivery over again at `due`, with the order that it carried.
void carry_again(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 const std::string& handle, StoreTime due);

void set_due(WriteTransaction& transaction, const LedgerRow& row, std::optional<StoreTime> due);
// Makes `owes` what the record of the row says. A process of format 5 that has the file open writes
// records without this column.
void correct_owes(WriteTransaction& transaction, const LedgerRow& row, const Record& record);

// Sets `watched = 1` for all running claims of the queue, which puts them into the index of `due`.
void watch_claims(WriteTransaction& transaction, const KnownQueue& queue);

// A delivery's handle is the time until which no other worker gets the entry. A later delivery of
// the entry has another time.
std::string handle_of(StoreTime due);

// The time until which the feed may put the row off: `wanted`, or the end of a running lease if
// that is earlier.
StoreTime no_later_than_lease(WriteTransaction& transaction, const LedgerRow& row,
                              StoreTime wanted);

}  // namespace once::store::sqlite
