// For the audit: what the log has and lacks, records that it knows nothing of, and the totals of what
// retention took, which go into the same transaction as what they count.
#include <algorithm>
#include <charconv>

#include "codec/past_codec.h"
#include "store/sqlite/failure.h"
#include "store/sqlite/log_rows.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

constexpr std::int64_t kScannedHours = 10'000;  // records per read transaction

core::Past past_from(std::string_view bytes) {
  auto past = encoding::decode_past(bytes);
  if (!past) throw Failure(past.error());
  return std::move(*past);
}

// The ranges that retention took and that reach into [first, last].
core::Sequences gone_between(Connection& db, std::uint64_t first, std::uint64_t last) {
  core::Sequences gone;
  const auto add = [&](Query& query) {
    while (query.step())
      if (query.number(1) >= first) gone.add(query.number(0), query.number(1));
  };
  Query before =
      db.query("SELECT first, last FROM gone WHERE first <= ?1 ORDER BY first DESC LIMIT 1");
  add(before.bind(first));
  Query inside = db.query("SELECT first, last FROM gone WHERE first > ?1 AND first <= ?2");
  add(inside.bind(first, last));
  return gone;
}

// Ranges that touch are one, so that what goes in order stays one row.
void add_gone(Connection& db, std::uint64_t first, std::uint64_t last) {
  const core::Sequences around = gone_between(db, first - 1, last + 1);
  for (const auto& [from, to] : around.ranges()) {
    first = std::min(first, from);
    last = std::max(last, to);
  }
  db.query("DELETE FROM gone WHERE first BETWEEN ?1 AND ?2").bind(first, last).run();
  db.query("INSERT INTO gone (first, last) VALUES (?1, ?2)").bind(first, last).run();
}

}  // namespace

void PastBook::take_records(const KnownQueue& queue, const Row& row, StoreTime now) {
  core::account(accounted(row, now), hours_[{queue.qid, core::hour_of(published(row))}]);
}

void PastBook::take_id(const QueueSet& queues, const Entry& entry) {
  gone_.add(entry.sequence.value);
  if (entry.duplicates == 0) return;
  for (const KnownQueue& queue : queues.all())
    if (queue.has(entry.topic, entry.sequence.value))
      hours_[{queue.qid, core::hour_of(entry.published_at)}].duplicates_at_append +=
          entry.duplicates;
}

void PastBook::save(Connection& db) {
  for (const auto& [key, totals] : hours_) {
    const auto& [qid, hour] = key;
    core::Past past;
    {
      Query query = db.query("SELECT totals FROM past WHERE qid = ?1 AND hour = ?2");
      if (query.bind(qid, hour).step()) past = past_from(query.bytes(0));
    }
    past.hours[hour].add(totals);
    const std::string bytes = encoding::encode(past);
    db.query("INSERT OR REPLACE INTO past (qid, hour, totals) VALUES (?1, ?2, ?3)")
        .bind(qid, hour, Blob{bytes})
        .run();
  }
  for (const auto& [first, last] : gone_.ranges()) add_gone(db, first, last);
}

Result<Log::Inventory> SqliteStore::inventory(Sequence after, std::size_t limit) {
  return database_->read([&](ReadTransaction& transaction) {
    Connection& db = transaction.db();
    Inventory page{.last = {load_zone(db).last_sequence}};
    core::Sequences accounted_for;
    {
      Query query = db.query("SELECT " ONCE_LEAN_COLUMNS
                             ", stage FROM log WHERE sequence > ?1 ORDER BY sequence LIMIT ?2");
      query.bind(after, static_cast<std::uint64_t>(limit));
      while (query.step()) {
        page.entries.push_back(entry_from(query));
        if (static_cast<core::Stage>(query.integer(kEntryColumns)) == core::Stage::whole)
          page.entries.back().body = Body();
        accounted_for.add(page.entries.back().sequence.value);
      }
    }
    if (page.entries.size() == limit) page.next = page.entries.back().sequence;
    const Sequence to = page.next ? page.next : page.last;
    accounted_for.add(gone_between(db, after.value + 1, to.value));
    page.missing = accounted_for.missing(after.value, to.value);
    return page;
  });
}

Result<Ledger::Strays> SqliteStore::strays(std::string_view name, const std::string& after) {
  return database_->read([&](ReadTransaction& transaction) {
    const KnownQueue& queue = transaction.queues().get(name);
    Place last = first_place(queue.qid);
    std::from_chars(after.data(), after.data() + after.size(), last);
    Strays page;
    Query query = transaction.db().query(
        "SELECT g.place, g.key, l.sequence IS NULL FROM (SELECT place, key FROM ledger"
        "  WHERE place > ?1 AND place < ?2 ORDER BY place LIMIT ?3) g"
        " LEFT JOIN log l ON l.sequence = (g.place & ?4) / 2 ORDER BY g.place");
    query.bind(last, first_place(queue.qid + 1), kScannedHours, first_place(1) - 1);
    std::int64_t scanned = 0;
    for (; query.step(); ++scanned) {
      last = query.integer(0);
      if (query.integer(2) == 0) continue;
      page.records.push_back({.kind = last % 2 == 0 ? Address::Kind::task : Address::Kind::entry,
                              .queue = queue.definition.name,
                              .key = std::string(query.bytes(1)),
                              .sequence = sequence_at(last)});
    }
    if (scanned == kScannedHours) page.next = std::to_string(last);
    return page;
  });
}

Result<core::Past> SqliteStore::past(std::string_view name) {
  return database_->read([&](ReadTransaction& transaction) {
    core::Past all;
    Query query = transaction.db().query("SELECT totals FROM past WHERE qid = ?1");
    query.bind(transaction.queues().get(name).qid);
    while (query.step()) {
      const core::Past one = past_from(query.bytes(0));
      for (const auto& [hour, totals] : one.hours) all.hours[hour].add(totals);
      all.damaged = all.damaged || one.damaged;
    }
    return all;
  });
}

}  // namespace once::store::sqlite
