// Forgetting: what the core allows, entry by entry. Looked for without the write lock, and decided
// again with it.
#include "store/sqlite/log_rows.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

// Of the records of a ledger-only queue, in one transaction.
constexpr std::int64_t kLedgerOnlyAtOnce = 2'000;

struct Aged {
  Sequence sequence{};
  core::Stage stage{};
  StoreTime since{};
  std::string topic{};
};

Aged aged_from(const Query& query) {
  return {.sequence = {query.number(0)},
          .stage = static_cast<core::Stage>(query.integer(1)),
          .since = StoreTime{Duration{query.integer(2)}},
          .topic = std::string(query.bytes(3))};
}

core::Forget decide(Connection& db, const QueueSet& queues, const Retention& ages, StoreTime now,
                    const Aged& entry) {
  std::vector<core::Standing> standings;
  for (const KnownQueue& queue : queues.all()) {
    if (!queue.has(entry.topic, entry.sequence.value)) continue;
    Query query = db.query(
        "SELECT state, stamp, owes FROM ledger WHERE place BETWEEN ?1 AND ?1 + 1"
        " ORDER BY place DESC LIMIT 1");
    if (query.bind(place_of(queue.qid, entry.sequence)).step())
      standings.push_back({.state = static_cast<State>(query.integer(0)),
                           .since = StoreTime{Duration{query.integer(1)}},
                           .owes = query.integer(2) != 0});
    else if (entry.stage == core::Stage::whole)
      standings.push_back({.state = State::waiting, .since = entry.since});
    // else the record has been dropped, or the queue came too late to have one
  }
  return core::may_forget(entry.stage, entry.since, standings, ages, now);
}

Entry read_entry(Connection& db, Sequence sequence) {
  Query query = db.query("SELECT " ONCE_LEAN_COLUMNS " FROM log WHERE sequence = ?1");
  return query.bind(sequence).step() ? entry_from(query) : Entry{};
}

void retire_body(WriteTransaction& transaction, const Aged& entry) {
  transaction.db()
      .query("UPDATE log SET body = NULL, stage = 1, stage_at = ?2 WHERE sequence = ?1")
      .bind(entry.sequence, transaction.now())
      .run();
}

// The entry is no more the queue's; only the totals of the past keep it.
void leave_queue(WriteTransaction& transaction, PastBook& past, const KnownQueue& queue,
                 const Aged& entry) {
  Connection& db = transaction.db();
  const EntryRows rows = read_rows(db, queue, entry.sequence);
  if (!rows.counting()) return;
  const State state = rows.counting()->state;
  QueueDelta& delta = transaction.delta(queue);
  delta.changed = true;
  --delta.matched;
  --delta.states[static_cast<std::size_t>(state)];
  Row row{.entry = read_entry(db, entry.sequence)};
  show_record(db, *rows.counting(), transaction.holders(), row, Values::leave);
  past.take_records(queue, row, transaction.now());
}

void drop_records(WriteTransaction& transaction, PastBook& past, const Aged& entry) {
  Connection& db = transaction.db();
  for (const KnownQueue& queue : transaction.queues().all()) {
    leave_queue(transaction, past, queue, entry);
    if (!queue.by_id())
      db.query(
            "DELETE FROM keys WHERE qid = ?1 AND kind = 0 AND key ="
            " (SELECT key FROM ledger WHERE place = ?2)")
          .bind(queue.qid, place_of(queue.qid, entry.sequence))
          .run();
    db.query("DELETE FROM ledger WHERE place BETWEEN ?1 AND ?1 + 1")
        .bind(place_of(queue.qid, entry.sequence))
        .run();
    drop_pending(transaction, queue, entry.sequence);
  }
  db.query("UPDATE log SET stage = 2, stage_at = ?2 WHERE sequence = ?1")
      .bind(entry.sequence, transaction.now())
      .run();
}

// Records of a ledger-only queue that may be forgotten, among the next so many made after the one
// at `from` (zero: of all). Answers how far it came; zero: that was all.
Place ripe_ledger_only(ReadTransaction& transaction, const KnownQueue& queue, const Retention& ages,
                       Place from, std::vector<Place>& ripe) {
  Query query = transaction.db().query(
      "SELECT place, state, stamp, qid = ?1 FROM ledger WHERE place < ?2 ORDER BY place DESC"
      " LIMIT ?3");
  query.bind(queue.qid, from, kLedgerOnlyAtOnce);
  std::int64_t looked = 0;
  for (; query.step(); ++looked) {
    from = query.integer(0);
    const core::Standing standing{.state = static_cast<State>(query.integer(1)),
                                  .since = store_time(query.integer(2))};
    if (query.integer(3) != 0 && core::may_forget_ledger_only(standing, ages, transaction.now()))
      ripe.push_back(from);
  }
  return looked < kLedgerOnlyAtOnce ? 0 : from;
}

void forget_ledger_only(WriteTransaction& transaction, PastBook& past, const KnownQueue& queue,
                        const Retention& ages, Place place, Retired& retired) {
  Connection& db = transaction.db();
  LedgerRow lone{.place = place};
  std::string key;
  {
    // The names of lone records are no such keys.
    Query query = db.query(
        "SELECT g.state, g.stamp, g.key FROM ledger g JOIN keys k ON k.qid = ?1 AND k.kind = 0"
        " AND k.key = g.key AND k.place = g.place WHERE g.place = ?2");
    if (!query.bind(queue.qid, place).step()) return;
    lone.state = static_cast<State>(query.integer(0));
    lone.stamp = store_time(query.integer(1));
    key = query.bytes(2);
  }
  if (!core::may_forget_ledger_only({.state = lone.state, .since = lone.stamp}, ages,
                                    transaction.now()))
    return;
  Row row;
  show_record(db, lone, transaction.holders(), row, Values::leave);
  past.take_records(queue, row, transaction.now());
  db.query("DELETE FROM keys WHERE qid = ?1 AND kind = 0 AND key = ?2")
      .bind(queue.qid, std::string_view(key))
      .run();
  db.query("DELETE FROM ledger WHERE place = ?1").bind(place).run();
  QueueDelta& delta = transaction.delta(queue);
  delta.changed = true;
  --delta.states[static_cast<std::size_t>(lone.state)];
  ++retired.records;
}

void forget_id(WriteTransaction& transaction, PastBook& past, const Aged& entry) {
  Connection& db = transaction.db();
  past.take_id(transaction.queues(), read_entry(db, entry.sequence));
  db.query("DELETE FROM ids WHERE id = (SELECT id FROM log WHERE sequence = ?1)")
      .bind(entry.sequence)
      .run();
  db.query("DELETE FROM log WHERE sequence = ?1").bind(entry.sequence).run();
}

void retire_one(WriteTransaction& transaction, PastBook& past, const Retention& ages,
                Sequence sequence, Retired& retired) {
  Aged entry;
  {
    Query query = transaction.db().query(
        "SELECT sequence, stage, stage_at, topic FROM log WHERE sequence = ?1");
    if (!query.bind(sequence).step()) return;
    entry = aged_from(query);
  }
  switch (decide(transaction.db(), transaction.queues(), ages, transaction.now(), entry)) {
    case core::Forget::nothing: return;
    case core::Forget::body:
      retire_body(transaction, entry);
      ++retired.bodies;
      return;
    case core::Forget::records:
      drop_records(transaction, past, entry);
      ++retired.records;
      return;
    case core::Forget::id:
      forget_id(transaction, past, entry);
      ++retired.ids;
      return;
  }
}

}  // namespace

Result<Retention> SqliteStore::retention() {
  return database_->read(
      [](ReadTransaction& transaction) { return load_retention(transaction.db()); });
}

Result<void> SqliteStore::set_retention(const Retention& ages) {
  return database_->write(
      [&](WriteTransaction& transaction) { save_retention(transaction.db(), ages); });
}

Result<Retired> SqliteStore::retire_ledgers() {
  Retired retired;
  const auto alone = database_->read([](ReadTransaction& transaction) {
    std::vector<std::string> names;
    for (const KnownQueue& queue : transaction.queues().all())
      if (queue.ledger_only()) names.push_back(queue.definition.name);
    return names;
  });
  if (!alone) return alone.error();
  for (const std::string& name : *alone) {
    Place from = 0;
    do {
      std::vector<Place> ripe;
      const auto next = database_->read([&](ReadTransaction& transaction) {
        const KnownQueue* queue = transaction.queues().find(name);
        if (!queue) return Place{0};
        return ripe_ledger_only(transaction, *queue, load_retention(transaction.db()), from, ripe);
      });
      if (!next) return next.error();
      from = *next;
      if (ripe.empty()) continue;
      const auto forgotten = database_->write([&](WriteTransaction& transaction) {
        const KnownQueue* queue = transaction.queues().find(name);
        if (!queue || !queue->ledger_only()) return;
        const Retention ages = load_retention(transaction.db());
        PastBook past;
        for (const Place place : ripe)
          forget_ledger_only(transaction, past, *queue, ages, place, retired);
        past.save(transaction.db());
      });
      if (!forgotten) return forgotten.error();
    } while (from != 0);
  }
  return retired;
}

Result<Meta::RetirePage> SqliteStore::retire(Sequence after, std::size_t limit) {
  struct Looked {
    std::vector<Sequence> ripe{};
    Sequence next{};
    bool queue_removed = false;
  };
  const auto looked = database_->read([&](ReadTransaction& transaction) {
    Connection& db = transaction.db();
    const Retention ages = load_retention(db);
    Looked found;
    {
      Query query = db.query("SELECT 1 FROM removed LIMIT 1");
      found.queue_removed = query.step();
    }
    Query query = db.query(
        "SELECT sequence, stage, stage_at, topic FROM log WHERE sequence > ?1 ORDER BY sequence");
    query.bind(after);
    for (std::size_t count = 0; count < limit; ++count) {
      if (!query.step()) {
        found.next = {};
        return found;
      }
      const Aged entry = aged_from(query);
      found.next = entry.sequence;
      if (core::old_enough(entry.stage, entry.since, ages, transaction.now()) &&
          decide(db, transaction.queues(), ages, transaction.now(), entry) != core::Forget::nothing)
        found.ripe.push_back(entry.sequence);
    }
    if (!query.step()) found.next = {};
    return found;
  });
  if (!looked) return looked.error();
  RetirePage page{.next = looked->next};
  if (!after) {
    const auto forgotten = retire_ledgers();
    if (!forgotten) return forgotten.error();
    page.retired = *forgotten;
    const auto expired = key_values_.remove_expired();
    if (!expired) return expired.error();
    page.retired.records += *expired;
  }
  if (looked->ripe.empty() && !looked->queue_removed) return page;
  const auto written = database_->write([&](WriteTransaction& transaction) {
    const Retention ages = load_retention(transaction.db());
    PastBook past;
    for (const Sequence sequence : looked->ripe)
      retire_one(transaction, past, ages, sequence, page.retired);
    past.save(transaction.db());
    if (looked->queue_removed) clear_removed(transaction);
  });
  if (!written) return written.error();
  return page;
}

}  // namespace once::store::sqlite
