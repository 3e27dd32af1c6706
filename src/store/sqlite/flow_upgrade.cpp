#include "store/sqlite/flow_upgrade.h"

#include "store/moved_flows.h"
#include "store/sqlite/ledger_rows.h"

namespace once::store::sqlite {
namespace {

constexpr int kOfTasks = 0;  // see the table `keys`
constexpr int kLone = 1;

// A queue under one of these names that is no ledger is somebody else's.
std::optional<std::int64_t> qid_of(Connection& db, std::string_view queue, bool ledger) {
  Query query = db.query("SELECT qid, definition FROM queue WHERE name = ?1");
  if (!query.bind(queue).step()) return std::nullopt;
  const bool is_ledger = query.bytes(1).find("\"ledger\":true") != std::string_view::npos;
  return is_ledger == ledger ? std::optional(query.integer(0)) : std::nullopt;
}

struct OldRecord {
  std::string key{};
  Place place{};
  StoreTime stamp{};
  Revision revision{};
};

std::vector<OldRecord> records_of(Connection& db, std::int64_t qid, int kind) {
  Query query = db.query(
      "SELECT k.key, g.place, g.stamp, g.revision FROM keys k JOIN ledger g ON g.place = k.place"
      " WHERE k.qid = ?1 AND k.kind = ?2");
  query.bind(qid, kind);
  std::vector<OldRecord> records;
  while (query.step())
    records.push_back({.key = std::string(query.bytes(0)),
                       .place = query.integer(1),
                       .stamp = store_time(query.integer(2)),
                       .revision = {query.number(3)}});
  return records;
}

void move(Connection& db, std::string_view queue, const OldRecord& old, const Retention& ages) {
  const auto moved = moved_value(queue, old.key, read_record(db, old.place), old.stamp, ages);
  if (moved) {
    const std::string key = joined(moved->key);
    std::optional<StoreTime> expires;
    if (moved->lives) expires = old.stamp + *moved->lives;
    db.query("INSERT INTO kv (key, revision, stamp, expires, value) VALUES (?1, ?2, ?3, ?4, ?5)")
        .bind(std::string_view(key), old.revision, old.stamp, expires, Blob{moved->bytes})
        .run();
  }
  db.query("DELETE FROM ledger WHERE place = ?1").bind(old.place).run();
}

}  // namespace

void move_flow_records(Connection& db) {
  const Retention ages = load_retention(db);
  for (const std::string_view queue : kMovedQueues) {
    const auto qid = qid_of(db, queue, true);
    if (!qid) continue;
    for (const OldRecord& old : records_of(db, *qid, kOfTasks)) move(db, queue, old, ages);
    for (const char* table : {"keys", "past", "queue"})
      db.script(std::string("DELETE FROM ") + table + " WHERE qid = " + std::to_string(*qid));
  }
  if (const auto qid = qid_of(db, core::kFlowQueue, false)) {
    for (const OldRecord& old : records_of(db, *qid, kLone)) {
      if (!is_flow_note(old.key)) continue;
      move(db, core::kFlowQueue, old, ages);
      db.query("DELETE FROM keys WHERE qid = ?1 AND kind = 1 AND key = ?2")
          .bind(*qid, std::string_view(old.key))
          .run();
    }
    // A worker of the older version that has the file open does not find the runs any more, and would
    // take events for those of forgotten runs. It has no such function, so it cannot claim any.
    db.script("CREATE TRIGGER old_runners BEFORE INSERT ON ledger WHEN NEW.qid = " +
              std::to_string(*qid) + " BEGIN SELECT once_keeps_values(); END");
  }
  db.script("UPDATE zone SET queue_version = queue_version + 1");
}

}  // namespace once::store::sqlite
