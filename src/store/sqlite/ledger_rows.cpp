#include "store/sqlite/ledger_rows.h"

#include <algorithm>
#include <set>

#include "codec/record_codec.h"
#include "codec/stored_body.h"
#include "store/sqlite/failure.h"

namespace once::store::sqlite {
namespace {

using encoding::hold_in_use;
using encoding::in_use;
using encoding::MovedValue;
using encoding::put_value;
using encoding::text_of;

constexpr int kKindTask = 0;
constexpr int kKindLone = 1;
constexpr std::size_t kInside = 8 << 10;  // bytes of a value that stays in its record

std::optional<Place> keyed_place(Connection& db, const KnownQueue& queue, int kind,
                                 std::string_view key) {
  Query query = db.query("SELECT place FROM keys WHERE qid = ?1 AND kind = ?2 AND key = ?3");
  if (!query.bind(queue.qid, kind, key).step()) return std::nullopt;
  return query.integer(0);
}

std::optional<Sequence> sequence_of(Connection& db, std::string_view id) {
  Query query = db.query("SELECT sequence FROM ids WHERE id = ?1");
  if (!query.bind(id).step()) return std::nullopt;
  return Sequence{query.number(0)};
}

bool own_place(Place place) { return place > 0 && place % 2 == 1; }

// Calls `use` with each row, in the order of their places.
template <class Use>
void each_row_between(Connection& db, Place first, Place last, Use use) {
  Query query = db.query(
      "SELECT place, state, due, revision, stamp, own_size IS NOT NULL, owes FROM ledger"
      " WHERE place BETWEEN ?1 AND ?2");
  query.bind(first, last);
  while (query.step()) {
    LedgerRow read{.place = query.integer(0),
                   .state = static_cast<State>(query.integer(1)),
                   .revision = {query.number(3)},
                   .stamp = store_time(query.integer(4)),
                   .has_values = query.integer(5) != 0,
                   .owes = query.integer(6) != 0};
    if (!query.null(2)) read.due = store_time(query.integer(2));
    use(read);
  }
}

// Both rows of an entry, or the one row of a lone record.
EntryRows rows_between(Connection& db, Place first, Place last) {
  EntryRows found;
  each_row_between(db, first, last, [&](const LedgerRow& row) {
    (own_place(row.place) ? found.own : found.task) = row;
  });
  return found;
}

void count(WriteTransaction& transaction, const KnownQueue& queue, const LedgerRow* before,
           State after) {
  QueueDelta& delta = transaction.delta(queue);
  delta.changed = true;
  if (before) --delta.states[static_cast<std::size_t>(before->state)];
  ++delta.states[static_cast<std::size_t>(after)];
}

// Where a record goes that has no place yet.
Place new_place(WriteTransaction& transaction, const KnownQueue& queue, const Address& at,
                const Record& record) {
  if (at.kind == Address::Kind::lone || queue.ledger_only()) return -++transaction.zone.last_lone;
  const Sequence sequence = record.sequence ? record.sequence : at.sequence;
  if (!sequence)
    throw Failure(
        {.code = Code::not_found,
         .message = "there is no task '" + at.key + "' in the log: nothing was recorded"});
  return place_of(queue.qid, sequence);
}

// Makes the values of a record those that it refers to. One that is there is not written again.
void write_values(Connection& db, Place place, const Record& record,
                  const std::vector<MovedValue>& moved) {
  std::set<std::string> there;
  {
    Query query = db.query("SELECT digest FROM value WHERE place = ?1");
    query.bind(place);
    while (query.step()) there.emplace(query.bytes(0));
  }
  std::set<std::string> wanted;
  for (const MovedValue& value : moved) {
    const std::string digest(blob(value.digest).bytes);
    if (!wanted.insert(digest).second || there.contains(digest)) continue;
    db.query("INSERT INTO value (place, digest, bytes) VALUES (?1, ?2, ?3)")
        .bind(place, Blob{digest}, Blob{text_of(record, value)})
        .run();
  }
  for (const std::string& digest : there)
    if (!wanted.contains(digest))
      db.query("DELETE FROM value WHERE place = ?1 AND digest = ?2")
          .bind(place, Blob{digest})
          .run();
  hold_in_use(record, moved);
}

// The rows of the entry that has the place. If the place is new, its entry may have rows already.
EntryRows rows_of_place(Connection& db, const KnownQueue& queue, const Spot& spot, Place place) {
  if (spot.place || place < 0) return spot.rows;
  const EntryRows rows = read_rows(db, queue, sequence_at(place));
  if (rows.task)
    throw Failure({.code = Code::invalid_input,
                   .message = "task #" + std::to_string(sequence_at(place).value) +
                              " has another key: nothing was recorded under '" + spot.at.key +
                              "'"});
  return rows;
}

// An entry has one record: the one of its key, or its own record.
void check_only_record(const Spot& spot, const EntryRows& rows, Place place) {
  if (place < 0 || spot.current()) return;
  const bool own = spot.at.kind == Address::Kind::entry;
  if (own && rows.task) throw Failure(stands_elsewhere(sequence_at(place)));
  if (!own && rows.own && core::settled(rows.own->state))
    throw Failure(stands_elsewhere(sequence_at(place)));
}

Revision next_revision(WriteTransaction& transaction, const Spot& spot) {
  const Revision revision{++transaction.zone.last_revision};
  // Revisions have no index; a counter that was set back shows at the latest here.
  if (spot.current() && spot.current()->revision >= revision)
    check_counters(transaction.zone, {.revision = spot.current()->revision.value + 1},
                   transaction.db().path());
  return revision;
}

void insert_row(WriteTransaction& transaction, const KnownQueue& queue, const Spot& spot,
                LedgerColumns columns, RowBatch& batch) {
  const bool lone = spot.at.kind == Address::Kind::lone;
  if (lone || (spot.at.kind == Address::Kind::task && !queue.by_id())) columns.key = spot.at.key;
  if (columns.key)
    transaction.db()
        .query("INSERT INTO keys (qid, kind, key, place) VALUES (?1, ?2, ?3, ?4)")
        .bind(queue.qid, lone ? kKindLone : kKindTask, *columns.key, columns.place)
        .run();
  columns.watched = !spot.fresh || columns.state != State::running;
  if (!columns.watched) {
    auto& lapse = transaction.delta(queue).lapse;
    const std::int64_t due = columns.due->time_since_epoch().count();
    lapse = std::min(lapse.value_or(due), due);
  }
  batch.insert(std::move(columns));
}

void read_values(Connection& db, Place place, Record& record,
                 const std::vector<MovedValue>& moved) {
  for (const MovedValue& value : moved) {
    if (auto held = in_use(value)) {
      put_value(record, value, std::move(*held));
      continue;
    }
    Query query = db.query("SELECT bytes FROM value WHERE place = ?1 AND digest = ?2");
    const bool found = query.bind(place, blob(value.digest)).step();
    std::string text(found ? query.bytes(0) : std::string_view());
    Body body = value.json ? StoredBody::json(std::move(text)) : Body::bytes(std::move(text));
    if (!found || StoredBody::digest(body) != value.digest)
      throw Failure(unusable(std::string("a large result ") +
                             (found ? "is not what was written" : "is missing") +
                             ": its record stands as it is, nothing was changed and nothing is run "
                             "again because of it; restore a backup"));
    put_value(record, value, std::move(body));
  }
  hold_in_use(record, moved);
}

}  // namespace

EntryRows read_rows(Connection& db, const KnownQueue& queue, Sequence sequence) {
  const Place first = place_of(queue.qid, sequence);
  return rows_between(db, first, first + 1);
}

PackedRecord packed(const Record& record) {
  return encoding::pack(record, {.value = kInside, .logs = true});
}

Record read_record(Connection& db, Place place, Values values) {
  Query query = db.query("SELECT record, own_size FROM ledger WHERE place = ?1");
  query.bind(place).step();
  std::vector<MovedValue> moved;
  std::optional<std::size_t> own_size;
  if (!query.null(1)) own_size = query.number(1);
  auto record = encoding::unpack(query.bytes(0), own_size, moved);
  if (!record) throw Failure(record.error());
  if (values == Values::read) read_values(db, place, *record, moved);
  return std::move(*record);
}

Stored read_record(Connection& db, const LedgerRow& row, HolderCheck& holders, Values values) {
  Stored stored{
      .record = read_record(db, row.place, values), .revision = row.revision, .stamp = row.stamp};
  stored.holder_gone = holders.gone(stored.record, stored.stamp);
  return stored;
}

void show_record(Connection& db, const LedgerRow& from, HolderCheck& holders, Row& row,
                 Values values) {
  try {
    row.stored = read_record(db, from, holders, values);
    row.contradicts = core::contradiction(
        row.stored->record,
        {.state = from.state, .member = row.stored->record.member, .revision = from.revision});
  } catch (const Failure& failure) {
    if (failure.error().code != Code::store_unusable) throw;
    row.stored =
        Stored{.record = {.state = from.state}, .revision = from.revision, .stamp = from.stamp};
    row.damaged = true;
  }
}

Spot find_spot(Connection& db, const KnownQueue& queue, const Address& at) {
  Spot spot{.at = at};
  switch (at.kind) {
    case Address::Kind::lone: spot.place = keyed_place(db, queue, kKindLone, at.key); break;
    case Address::Kind::entry: spot.place = place_of(queue.qid, at.sequence, true); break;
    case Address::Kind::task:
      if (!queue.by_id())
        spot.place = keyed_place(db, queue, kKindTask, at.key);
      else if (at.sequence)
        spot.place = place_of(queue.qid, at.sequence);
      else if (const auto sequence = sequence_of(db, at.key))
        spot.place = place_of(queue.qid, *sequence);
      break;
  }
  if (!spot.place) return spot;
  spot.rows = *spot.place < 0 ? rows_between(db, *spot.place, *spot.place)
                              : read_rows(db, queue, sequence_at(*spot.place));
  return spot;
}

Spot free_spot(const KnownQueue& queue, const Address& at) {
  return {.at = at, .place = place_of(queue.qid, at.sequence)};
}

RowsAhead::RowsAhead(Connection& db, const KnownQueue& queue, Sequence first, Sequence last) {
  each_row_between(db, place_of(queue.qid, first), place_of(queue.qid, last, true),
                   [&](const LedgerRow& row) { rows_.push_back(row); });
  taken_.resize(rows_.size());
}

std::optional<EntryRows> RowsAhead::take(const KnownQueue& queue, Sequence sequence) {
  const Place last = place_of(queue.qid, sequence, true);
  auto row =
      std::lower_bound(rows_.begin(), rows_.end(), place_of(queue.qid, sequence),
                       [](const LedgerRow& each, Place place) { return each.place < place; });
  std::optional<EntryRows> found;
  for (; row != rows_.end() && row->place <= last; ++row) {
    auto taken = taken_[static_cast<std::size_t>(row - rows_.begin())];
    if (taken) return std::nullopt;
    taken = true;
    if (!found) found.emplace();
    (own_place(row->place) ? found->own : found->task) = *row;
  }
  return found;
}

Put put(WriteTransaction& transaction, const KnownQueue& queue, const Spot& spot,
        const Record& record, const PackedRecord& packed, RowBatch& batch) {
  const Place place = spot.place ? *spot.place : new_place(transaction, queue, spot.at, record);
  const EntryRows rows = rows_of_place(transaction.db(), queue, spot, place);
  check_only_record(spot, rows, place);

  const StoreTime now = transaction.now();
  const bool gone = transaction.holders().gone(record, now);
  std::optional<StoreTime> due;
  if (const auto again = core::look_again(record); again && place > 0)
    due = gone ? now : now + *again;
  if (record.state == State::running && place > 0) {
    auto& longest = transaction.delta(queue).longest_lease;
    longest = std::max<std::int64_t>(longest, record.lease.count());
  }
  std::optional<std::int64_t> own_size;
  if (!packed.moved.empty()) own_size = static_cast<std::int64_t>(packed.record_size);
  const Revision revision = next_revision(transaction, spot);
  LedgerColumns columns{.place = place,
                        .qid = queue.qid,
                        .state = record.state,
                        .due = due,
                        .revision = revision,
                        .stamp = now,
                        .member = record.member,
                        .record = packed.data,
                        .own_size = own_size,
                        .owes = record.reply_due};
  if (own_size || (spot.current() && spot.current()->has_values))
    write_values(transaction.db(), place, record, packed.moved);
  if (spot.current())
    batch.update(std::move(columns));
  else
    insert_row(transaction, queue, spot, std::move(columns), batch);
  if (due) transaction.due_at(*due);
  // If the entry has an own record, that one counts, and the record of its key does not.
  if (spot.at.kind == Address::Kind::entry || (spot.at.kind == Address::Kind::task && !rows.own))
    count(transaction, queue, rows.counting(), record.state);
  return {.place = place, .due = due, .revision = revision, .stamp = now, .holder_gone = gone};
}

bool may_have_pending(WriteTransaction& transaction, const KnownQueue& queue) {
  auto& known = transaction.delta(queue).has_pending;
  if (!known) {
    Query query = transaction.db().query("SELECT 1 FROM pending WHERE qid = ?1 LIMIT 1");
    known = query.bind(queue.qid).step();
  }
  return *known;
}

std::optional<StoreTime> pending_due(WriteTransaction& transaction, const KnownQueue& queue,
                                     Sequence sequence) {
  if (!may_have_pending(transaction, queue)) return std::nullopt;
  Query query = transaction.db().query("SELECT due FROM pending WHERE qid = ?1 AND sequence = ?2");
  if (!query.bind(queue.qid, sequence).step()) return std::nullopt;
  return store_time(query.integer(0));
}

void set_pending(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 StoreTime due) {
  transaction.db()
      .query(
          "INSERT INTO pending (qid, sequence, due, first) VALUES (?1, ?2, ?3, 0)"
          " ON CONFLICT (qid, sequence) DO UPDATE SET due = excluded.due, first = 0")
      .bind(queue.qid, sequence, due)
      .run();
  transaction.delta(queue).has_pending = true;
  transaction.due_at(due);
}

void schedule(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
              StoreTime due) {
  insert_scheduled(transaction.db(), queue.qid, sequence, due);
  transaction.delta(queue).has_pending = true;
  transaction.due_at(due);
}

void insert_scheduled(Connection& db, std::int64_t qid, Sequence sequence, StoreTime due) {
  db.query(
        "INSERT INTO pending (qid, sequence, due, first) VALUES (?1, ?2, ?3, 1)"
        " ON CONFLICT (qid, sequence) DO NOTHING")
      .bind(qid, sequence, due)
      .run();
}

void drop_pending(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence) {
  if (!may_have_pending(transaction, queue)) return;
  transaction.db()
      .query("DELETE FROM pending WHERE qid = ?1 AND sequence = ?2")
      .bind(queue.qid, sequence)
      .run();
}

void drop_answered(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                   const std::string& handle) {
  if (!may_have_pending(transaction, queue)) return;
  Connection& db = transaction.db();
  db.query(
        "DELETE FROM pending WHERE qid = ?1 AND sequence = ?2"
        " AND (wake IS NULL OR CAST(handed AS TEXT) = ?3)")
      .bind(queue.qid, sequence, std::string_view(handle))
      .run();
  if (db.changes() > 0) return;
  db.query("UPDATE pending SET first = 0 WHERE qid = ?1 AND sequence = ?2 AND first = 1")
      .bind(queue.qid, sequence)
      .run();
}

std::optional<core::Order> read_order(WriteTransaction& transaction, const KnownQueue& queue,
                                      Sequence sequence) {
  if (!may_have_pending(transaction, queue)) return std::nullopt;
  Query query = transaction.db().query(
      "SELECT wake FROM pending WHERE qid = ?1 AND sequence = ?2 AND wake IS NOT NULL");
  if (!query.bind(queue.qid, sequence).step()) return std::nullopt;
  auto order = encoding::decode_order(query.bytes(0));
  if (!order) throw Failure(order.error());
  return std::move(*order);
}

void keep_order(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                const core::Order& order, StoreTime due) {
  const std::string bytes = encoding::encode(order);
  transaction.db()
      .query(
          "INSERT INTO pending (qid, sequence, due, first, wake, woken)"
          " VALUES (?1, ?2, ?3, ?3 > ?4, ?5, ?4) ON CONFLICT (qid, sequence) DO UPDATE"
          " SET due = CASE first WHEN 1 THEN due ELSE excluded.due END,"
          " wake = ifnull(wake, excluded.wake), woken = ifnull(woken, excluded.woken)")
      .bind(queue.qid, sequence, due, transaction.now(), Blob{bytes})
      .run();
  transaction.delta(queue).has_pending = true;
  transaction.due_at(due);
}

void carry_order(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 StoreTime until) {
  transaction.db()
      .query("UPDATE pending SET handed = ?3 WHERE qid = ?1 AND sequence = ?2")
      .bind(queue.qid, sequence, until)
      .run();
}

void carry_again(WriteTransaction& transaction, const KnownQueue& queue, Sequence sequence,
                 const std::string& handle, StoreTime due) {
  if (!may_have_pending(transaction, queue)) return;
  transaction.db()
      .query(
          "UPDATE pending SET due = ?4 WHERE qid = ?1 AND sequence = ?2"
          " AND CAST(handed AS TEXT) = ?3")
      .bind(queue.qid, sequence, std::string_view(handle), due)
      .run();
}

void set_due(WriteTransaction& transaction, const LedgerRow& row, std::optional<StoreTime> due) {
  transaction.db()
      .query("UPDATE ledger SET due = ?2, watched = 1 WHERE place = ?1")
      .bind(row.place, due)
      .run();
  if (due) transaction.due_at(*due);
}

void correct_owes(WriteTransaction& transaction, const LedgerRow& row, const Record& record) {
  if (row.owes == record.reply_due) return;
  transaction.db()
      .query("UPDATE ledger SET owes = ?2 WHERE place = ?1")
      .bind(row.place, record.reply_due ? 1 : 0)
      .run();
}

std::string handle_of(StoreTime due) { return std::to_string(due.time_since_epoch().count()); }

StoreTime no_later_than_lease(WriteTransaction& transaction, const LedgerRow& row,
                              StoreTime wanted) {
  if (row.state != State::running) return wanted;
  const Stored stored = read_record(transaction.db(), row, transaction.holders());
  if (stored.holder_gone) return wanted;
  const StoreTime lease_ends = stored.stamp + stored.record.lease;
  return lease_ends > transaction.now() ? std::min(wanted, lease_ends) : wanted;
}

}  // namespace once::store::sqlite
