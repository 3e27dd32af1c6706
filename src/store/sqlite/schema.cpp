#include "store/sqlite/schema.h"

#include <sys/random.h>

#include <array>

#include "store/sqlite/failure.h"
#include "store/sqlite/flow_upgrade.h"
#include "store/uuid.h"

namespace once::store::sqlite {
namespace {

constexpr std::int64_t kApplication = 0x4f6e6365;  // "Once"
constexpr std::int64_t kOldest = 2;                // that can be upgraded
constexpr std::int64_t kVersion = 6;

// log      the tasks in commit order; stage: see core::Stage, stage_at in store time. delay, lives:
//          see Append; NULL: none
// ids      id -> sequence
// queue    a queue, and what is counted of it. cursor: entries up to it have been handed over.
//          tail: the last entry that is the queue's. matched: how many are; those without a ledger
//          row are waiting. longest_lease: of all claims so far. Then the ledger rows by state.
//          swept, lapse: of claims that are not watched yet, see watch_claims() in feed.cpp
// ledger   records; place: see ledger_rows.h. due: when the feed looks at it again. watched: by the
//          index of `due`. key: of a queue with a key template, and the name of a lone record.
//          own_size: how many bytes of `record` are the record; the rest names its values in `value`
//          (see large_values.cpp); NULL: all. owes: 1 if the record owes a reply (reply_due)
// value    large results and logs, by the place of their record and the SHA-256 of their bytes; they
//          go with the record
// keys     key -> place. kind 0: of a queue with a key template, or of a ledger-only queue; kind 1:
//          the name of a lone record
// pending  handed over without a ledger row that says when to look again; or woken; or (first = 1)
//          never handed over and due at its not-before. wake: the order that came with a wake, at
//          `woken`; handed: until when the last delivery that carried it is nobody else's
// member   workers; file: where their presence is locked
// removed  queues whose rows are still to be deleted
// past     totals of what retention took, by the hour of publication
// gone     sequences whose ids retention took, as ranges
// kv       values under keys, see key_value.h. key: joined(). expires: in store time; NULL: never
constexpr const char* kTables = R"(
CREATE TABLE zone (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  uuid TEXT NOT NULL,
  last_sequence INTEGER NOT NULL DEFAULT 0,
  last_revision INTEGER NOT NULL DEFAULT 0,
  last_member INTEGER NOT NULL DEFAULT 0,
  last_queue INTEGER NOT NULL DEFAULT 0,
  last_lone INTEGER NOT NULL DEFAULT 0,
  queue_version INTEGER NOT NULL DEFAULT 0,
  unrouted INTEGER NOT NULL DEFAULT 0,
  boot_id TEXT NOT NULL,
  base INTEGER NOT NULL,
  boot_at INTEGER NOT NULL,
  last INTEGER NOT NULL,
  keep_bodies INTEGER NOT NULL,
  keep_records INTEGER NOT NULL,
  keep_ids INTEGER NOT NULL
) STRICT;
CREATE TABLE log (
  sequence INTEGER PRIMARY KEY,
  stage INTEGER NOT NULL,
  stage_at INTEGER NOT NULL,
  duplicates INTEGER NOT NULL,
  published_at INTEGER NOT NULL,
  topic TEXT NOT NULL,
  id TEXT NOT NULL,
  digest BLOB NOT NULL,
  nonce BLOB NOT NULL,
  appended_at INTEGER NOT NULL,
  delay INTEGER,
  lives INTEGER,
  headers BLOB,
  is_json INTEGER NOT NULL,
  body BLOB
) STRICT;
CREATE TABLE ids (
  id TEXT PRIMARY KEY,
  sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE queue (
  qid INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  definition TEXT NOT NULL,
  cursor INTEGER NOT NULL,
  tail INTEGER NOT NULL,
  matched INTEGER NOT NULL,
  longest_lease INTEGER NOT NULL DEFAULT 0,
  waiting INTEGER NOT NULL DEFAULT 0,
  running INTEGER NOT NULL DEFAULT 0,
  retrying INTEGER NOT NULL DEFAULT 0,
  in_doubt INTEGER NOT NULL DEFAULT 0,
  completed INTEGER NOT NULL DEFAULT 0,
  dead INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  duplicate INTEGER NOT NULL DEFAULT 0,
  swept INTEGER NOT NULL DEFAULT 0,
  lapse INTEGER
) STRICT;
CREATE TABLE ledger (
  place INTEGER PRIMARY KEY,
  qid INTEGER NOT NULL,
  state INTEGER NOT NULL,
  due INTEGER,
  revision INTEGER NOT NULL,
  stamp INTEGER NOT NULL,
  member INTEGER NOT NULL,
  key TEXT,
  record BLOB NOT NULL,
  watched INTEGER NOT NULL DEFAULT 1,
  own_size INTEGER,
  owes INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX ledger_due ON ledger (qid, due) WHERE watched = 1 AND due IS NOT NULL;
CREATE INDEX ledger_aside ON ledger (qid, state) WHERE state NOT IN (2, 5);
CREATE TABLE keys (
  qid INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  key TEXT NOT NULL,
  place INTEGER NOT NULL,
  PRIMARY KEY (qid, kind, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE pending (
  qid INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  due INTEGER NOT NULL,
  first INTEGER NOT NULL,
  wake BLOB,
  woken INTEGER,
  handed INTEGER,
  PRIMARY KEY (qid, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX pending_due ON pending (qid, first, due);
CREATE INDEX pending_wake ON pending (qid, sequence) WHERE wake IS NOT NULL;
CREATE TABLE member (
  number INTEGER PRIMARY KEY,
  qid INTEGER NOT NULL,
  name TEXT NOT NULL,
  pid INTEGER NOT NULL,
  file INTEGER NOT NULL,
  joined INTEGER NOT NULL
) STRICT;
CREATE INDEX member_queue ON member (qid);
CREATE TABLE removed (
  qid INTEGER PRIMARY KEY
) STRICT;
)";

constexpr const char* kTablesOfThePast = R"(
CREATE TABLE past (
  qid INTEGER NOT NULL,
  hour INTEGER NOT NULL,
  totals BLOB NOT NULL,
  PRIMARY KEY (qid, hour)
) STRICT, WITHOUT ROWID;
CREATE TABLE gone (
  first INTEGER PRIMARY KEY,
  last INTEGER NOT NULL
) STRICT;
)";

constexpr const char* kTableOfValues = R"(
CREATE TABLE value (
  place INTEGER NOT NULL,
  digest BLOB NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (place, digest)
) STRICT;
CREATE TRIGGER value_goes AFTER DELETE ON ledger WHEN OLD.own_size IS NOT NULL
BEGIN
  DELETE FROM value WHERE place = OLD.place;
END;
)";

// Version 5 kept workflows as records of four queues. A process of that version may have the file open:
// it must not add these queues again and begin runs that this version does not know.
constexpr const char* kTableOfKeys = R"(
CREATE TABLE kv (
  key TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  stamp INTEGER NOT NULL,
  expires INTEGER,
  value BLOB NOT NULL
) STRICT;
CREATE INDEX kv_lasting ON kv (key) WHERE expires IS NULL;
CREATE INDEX kv_expires ON kv (expires) WHERE expires IS NOT NULL;
CREATE TRIGGER queue_moved BEFORE INSERT ON queue
  WHEN NEW.name IN ('once-flows', 'once-runs', 'once-keys', 'once-values')
BEGIN
  SELECT RAISE(ABORT, 'workflows of this zone need a newer version of once');
END;
)";

// From version 2, which kept fewer totals and used them nowhere.
constexpr const char* kFrom2 = R"(
ALTER TABLE queue DROP COLUMN past_completed;
ALTER TABLE queue DROP COLUMN past_cancelled;
ALTER TABLE queue DROP COLUMN past_duplicate;
)";
// What is not there by now was forgotten: nothing was written down about it then.
constexpr const char* kGoneByNow = R"(
INSERT INTO gone SELECT before + 1, sequence - 1 FROM
  (SELECT sequence, lag(sequence, 1, 0) OVER (ORDER BY sequence) AS before FROM
    (SELECT sequence FROM log UNION ALL SELECT last_sequence + 1 FROM zone))
  WHERE sequence > before + 1;
)";

// From version 3, which watched every claim from its beginning.
constexpr const char* kFrom3 = R"(
ALTER TABLE ledger ADD COLUMN watched INTEGER NOT NULL DEFAULT 1;
ALTER TABLE queue ADD COLUMN swept INTEGER NOT NULL DEFAULT 0;
ALTER TABLE queue ADD COLUMN lapse INTEGER;
UPDATE queue SET swept = cursor;
DROP INDEX ledger_alone;
DROP INDEX ledger_due;
CREATE INDEX ledger_due ON ledger (qid, due) WHERE watched = 1 AND due IS NOT NULL;
)";

// From version 4, which kept every value in its record.
constexpr const char* kFrom4 = "ALTER TABLE ledger ADD COLUMN own_size INTEGER;";

// From version 5. There, a record that was over and that the feed looked at again owed a reply.
constexpr const char* kFrom5 = R"(
ALTER TABLE ledger ADD COLUMN owes INTEGER NOT NULL DEFAULT 0;
UPDATE ledger SET owes = 1
  WHERE watched = 1 AND due IS NOT NULL AND state IN (5, 6, 7, 8);
)";

std::string random_uuid() {
  std::array<std::uint8_t, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Failure({.code = Code::failed, .message = "the system gives no random bytes"});
  return uuid_from(bytes);
}

std::int64_t one_number(Connection& db, const char* sql) {
  Query query = db.query(sql);
  return query.step() ? query.integer(0) : 0;
}

}  // namespace

Content inspect(Connection& db) {
  const std::int64_t application = one_number(db, "PRAGMA application_id");
  const std::int64_t version = one_number(db, "PRAGMA user_version");
  if (application == 0 && version == 0 && one_number(db, "SELECT count(*) FROM sqlite_schema") == 0)
    return Content::nothing;
  if (application != kApplication)
    throw Failure(unusable(db.path() + " is a database of another program: nothing was changed; " +
                           "choose another path"));
  if (version > kVersion)
    throw Failure(unusable(db.path() + " was made by a newer version of Once (format " +
                           std::to_string(version) + ", this one knows " +
                           std::to_string(kVersion) + "): nothing was changed; use that version"));
  if (version < kOldest)
    throw Failure(unusable(db.path() + " has an unknown format (" + std::to_string(version) +
                           "): nothing was changed; restore a backup"));
  return version < kVersion ? Content::older_zone : Content::zone;
}

void upgrade_schema(Connection& db) {
  const std::int64_t version = one_number(db, "PRAGMA user_version");
  if (version < 3) db.script(std::string(kFrom2) + kTablesOfThePast + kGoneByNow);
  if (version < 4) db.script(kFrom3);
  if (version < 5) db.script(std::string(kFrom4) + kTableOfValues);
  db.script(std::string(kFrom5) + kTableOfKeys);
  move_flow_records(db);
  db.script("PRAGMA user_version=" + std::to_string(kVersion));
}

void create_schema(Connection& db, ZoneClock& clock) {
  db.script(std::string(kTables) + kTablesOfThePast + kTableOfValues + kTableOfKeys);
  db.script("PRAGMA application_id=" + std::to_string(kApplication) +
            "; PRAGMA user_version=" + std::to_string(kVersion));
  const std::string uuid = random_uuid();
  const Retention ages;
  BootTime time;
  clock.begin_boot(time);
  db.query(
        "INSERT INTO zone (one, uuid, boot_id, base, boot_at, last, keep_bodies, keep_records,"
        " keep_ids) VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")
      .bind(std::string_view(uuid), std::string_view(time.boot_id), time.base, time.boot_at,
            time.last, ages.bodies.count(), ages.records.count(), ages.ids.count())
      .run();
}

ZoneRow load_zone(Connection& db) {
  Query query = db.query(
      "SELECT last_sequence, last_revision, last_member, last_queue, last_lone, queue_version,"
      " unrouted, base, boot_at, last, boot_id FROM zone WHERE one = 1");
  if (!query.step())
    throw Failure(unusable(db.path() + " is damaged (it has no zone): restore a backup"));
  return {.last_sequence = query.number(0),
          .last_revision = query.number(1),
          .last_member = query.number(2),
          .last_queue = query.integer(3),
          .last_lone = query.integer(4),
          .queue_version = query.integer(5),
          .unrouted = query.integer(6),
          .time = {.boot_id = std::string(query.bytes(10)),
                   .base = query.integer(7),
                   .boot_at = query.integer(8),
                   .last = query.integer(9)}};
}

bool ZoneRow::only_progressed(const ZoneRow& before) const {
  return last_member == before.last_member && last_queue == before.last_queue &&
         last_lone == before.last_lone && queue_version == before.queue_version &&
         unrouted == before.unrouted && time.base == before.time.base &&
         time.boot_at == before.time.boot_at && time.boot_id == before.time.boot_id;
}

void save_zone(Connection& db, const ZoneRow& zone) {
  db.query(
        "UPDATE zone SET last_sequence = ?1, last_revision = ?2, last_member = ?3,"
        " last_queue = ?4, last_lone = ?5, queue_version = ?6, unrouted = ?7, base = ?8,"
        " boot_at = ?9, last = ?10, boot_id = ?11 WHERE one = 1")
      .bind(zone.last_sequence, zone.last_revision, zone.last_member, zone.last_queue,
            zone.last_lone, zone.queue_version, zone.unrouted, zone.time.base, zone.time.boot_at,
            zone.time.last, std::string_view(zone.time.boot_id))
      .run();
}

// Without the WHERE, SQLite would first collect the rows to change in a temporary table.
void save_progress(Connection& db, const ZoneRow& zone) {
  db.query("UPDATE zone SET last_sequence = ?1, last_revision = ?2, last = ?3 WHERE one = 1")
      .bind(zone.last_sequence, zone.last_revision, zone.time.last)
      .run();
}

std::string load_uuid(Connection& db) {
  Query query = db.query("SELECT uuid FROM zone");
  return query.step() ? std::string(query.bytes(0)) : std::string();
}

Retention load_retention(Connection& db) {
  Query query = db.query("SELECT keep_bodies, keep_records, keep_ids FROM zone");
  if (!query.step()) return {};
  return {.bodies = Duration{query.integer(0)},
          .records = Duration{query.integer(1)},
          .ids = Duration{query.integer(2)}};
}

void save_retention(Connection& db, const Retention& ages) {
  db.query("UPDATE zone SET keep_bodies = ?1, keep_records = ?2, keep_ids = ?3")
      .bind(ages.bodies.count(), ages.records.count(), ages.ids.count())
      .run();
}

}  // namespace once::store::sqlite
