// Queues: adding and removing them, and what is counted of them.
#include <algorithm>
#include <unordered_map>

#include "core/names.h"
#include "encoding/record_codec.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

constexpr std::int64_t kDeletedAtOnce = 5'000;
constexpr std::size_t kScanned = 10'000;

// Which whole entries of the log a queue has, and how many of them no other queue has.
struct Matches {
  std::int64_t found = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t only_here = 0;
};

Matches count_matches(WriteTransaction& transaction, const Queue& queue) {
  std::vector<const KnownQueue*> others;
  for (const KnownQueue& known : transaction.queues().all())
    if (known.definition.name != queue.name) others.push_back(&known);
  const auto has = [](const Queue& definition, std::string_view topic, std::uint64_t sequence) {
    return sequence >= definition.from.value_or(0) && core::matches(definition.topic, topic);
  };
  Matches matches;
  TopicFilter wanted(queue.topic);
  Query query = transaction.db().query(
      "SELECT sequence, topic FROM log WHERE sequence >= ?1 AND stage = 0 ORDER BY sequence");
  query.bind(queue.from.value_or(0));
  while (query.step()) {
    const std::string_view topic = query.bytes(1);
    if (!wanted.matches(topic)) continue;
    ++matches.found;
    matches.last = query.integer(0);
    if (matches.first == 0) matches.first = matches.last;
    if (std::none_of(others.begin(), others.end(), [&](const KnownQueue* other) {
          return has(other->definition, topic, query.number(0));
        }))
      ++matches.only_here;
  }
  return matches;
}

// The oldest entry that waits: behind the cursor, or handed over and not recorded.
std::optional<StoreTime> oldest_waiting(ReadTransaction& transaction, const KnownQueue& queue,
                                        std::int64_t cursor, std::int64_t tail) {
  Connection& db = transaction.db();
  std::optional<StoreTime> oldest;
  const auto consider = [&](StoreTime time) { oldest = std::min(oldest.value_or(time), time); };
  if (tail > cursor) {
    // The look is cut off after so many of other topics: what waits is not older than the last.
    TopicFilter wanted(queue.definition.topic);
    Query query = db.query(
        "SELECT stage_at, topic FROM log WHERE sequence > ?1 AND stage = 0 ORDER BY sequence");
    query.bind(cursor);
    std::optional<StoreTime> seen;
    for (std::size_t scanned = 0; scanned < kScanned && query.step(); ++scanned) {
      seen = store_time(query.integer(0));
      if (wanted.matches(query.bytes(1))) break;
    }
    if (seen) consider(*seen);
  }
  {
    Query query = db.query(
        "SELECT l.stage_at FROM pending p JOIN log l ON l.sequence = p.sequence WHERE p.qid = ?1"
        " AND NOT EXISTS (SELECT 1 FROM ledger g WHERE g.place BETWEEN ?2 + p.sequence * 2"
        "  AND ?2 + p.sequence * 2 + 1) ORDER BY p.sequence LIMIT 1");
    if (query.bind(queue.qid, first_place(queue.qid)).step())
      consider(store_time(query.integer(0)));
  }
  {
    Query query = db.query(
        "SELECT min(stamp) FROM ledger WHERE qid = ?1 AND state = 1 AND state NOT IN (2, 5)"
        " AND place > 0");
    if (query.bind(queue.qid).step() && !query.null(0)) consider(store_time(query.integer(0)));
  }
  return oldest;
}

}  // namespace

Result<Meta::QueueAdded> SqliteStore::add_queue(const Queue& queue) {
  return database_->write([&](WriteTransaction& transaction) -> QueueAdded {
    if (const KnownQueue* known = transaction.queues().find(queue.name))
      return {.added = false, .existing = known->definition};
    if (transaction.zone.last_queue + 1 >= kMostQueues)
      throw Failure({.code = Code::failed,
                     .message = "this zone has had its " + std::to_string(kMostQueues) +
                                " queues: nothing was added; use a new zone"});
    const Matches matches = count_matches(transaction, queue);
    const auto from = static_cast<std::int64_t>(queue.from.value_or(0));
    const std::int64_t cursor =
        matches.found > 0 ? matches.first - 1 : std::max<std::int64_t>(from - 1, 0);
    const std::string definition = encoding::encode_queue(queue);
    transaction.db()
        .query(
            "INSERT INTO queue (qid, name, definition, cursor, tail, matched)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .bind(++transaction.zone.last_queue, std::string_view(queue.name),
              std::string_view(definition), cursor, matches.last, matches.found)
        .run();
    ++transaction.zone.queue_version;
    transaction.zone.unrouted -= matches.only_here;
    return {.added = true, .existing = queue, .found = static_cast<std::uint64_t>(matches.found)};
  });
}

Result<std::vector<Queue>> SqliteStore::queues() {
  return database_->read([&](ReadTransaction& transaction) {
    std::vector<Queue> all;
    for (const KnownQueue& queue : transaction.queues().all()) all.push_back(queue.definition);
    return all;
  });
}

Result<void> SqliteStore::remove_queue(std::string_view name) {
  auto removed = database_->write([&](WriteTransaction& transaction) {
    const KnownQueue& queue = transaction.queues().get(name);
    transaction.zone.unrouted += count_matches(transaction, queue.definition).only_here;
    ++transaction.zone.queue_version;
    Connection& db = transaction.db();
    db.query("DELETE FROM queue WHERE qid = ?1").bind(queue.qid).run();
    // A worker that is alive keeps its row, and takes it away itself: without one it would count as
    // gone in a queue that is made anew under this name.
    clear_gone(transaction, queue);
    db.query("INSERT INTO removed (qid) VALUES (?1)").bind(queue.qid).run();
    transaction.due_at(transaction.now());  // who waits for its tasks must be told
  });
  // The queue is gone. Its rows go a page at a time, so that others can write in between; what is
  // left when this is interrupted goes with the next retention.
  while (removed) {
    auto cleared =
        database_->write([&](WriteTransaction& transaction) { return clear_removed(transaction); });
    if (!cleared || *cleared) break;
  }
  return removed;
}

bool clear_removed(WriteTransaction& transaction) {
  Connection& db = transaction.db();
  std::int64_t qid = 0;
  {
    Query query = db.query("SELECT qid FROM removed LIMIT 1");
    if (!query.step()) return true;
    qid = query.integer(0);
  }
  std::int64_t deleted = 0;
  const auto clear = [&](const char* sql) {
    if (deleted >= kDeletedAtOnce) return;
    db.query(sql).bind(qid, kDeletedAtOnce - deleted).run();
    deleted += db.changes();
  };
  const auto clear_places = [&](const char* sql) {
    if (deleted >= kDeletedAtOnce) return;
    db.query(sql).bind(qid, kDeletedAtOnce - deleted, first_place(qid), first_place(qid + 1)).run();
    deleted += db.changes();
  };
  clear_places(
      "DELETE FROM ledger WHERE place IN (SELECT place FROM ledger WHERE place > ?3 AND place < ?4"
      " AND qid = ?1 LIMIT ?2)");
  clear(
      "DELETE FROM ledger WHERE place IN"
      " (SELECT place FROM keys WHERE qid = ?1 AND kind = 1 LIMIT ?2)");
  clear(
      "DELETE FROM keys WHERE qid = ?1 AND (kind, key) IN"
      " (SELECT kind, key FROM keys WHERE qid = ?1 LIMIT ?2)");
  clear(
      "DELETE FROM pending WHERE qid = ?1 AND sequence IN"
      " (SELECT sequence FROM pending WHERE qid = ?1 LIMIT ?2)");
  if (deleted < kDeletedAtOnce) db.query("DELETE FROM removed WHERE qid = ?1").bind(qid).run();
  return false;
}

Result<Counts> SqliteStore::counts(std::string_view name) {
  return database_->read([&](ReadTransaction& transaction) {
    const KnownQueue& queue = transaction.queues().get(name);
    Connection& db = transaction.db();
    Counts counts;
    std::int64_t cursor = 0;
    std::int64_t tail = 0;
    {
      Query query = db.query(
          "SELECT cursor, tail, matched, waiting, running, retrying, in_doubt, completed, dead,"
          " cancelled, duplicate FROM queue WHERE qid = ?1");
      query.bind(queue.qid).step();
      cursor = query.integer(0);
      tail = query.integer(1);
      std::int64_t recorded = 0;
      for (std::size_t state = 1; state < kStates; ++state) {
        const std::int64_t rows = query.integer(static_cast<int>(state) + 2);
        recorded += rows;
        counts.tasks[static_cast<State>(state)] =
            static_cast<std::uint64_t>(std::max<std::int64_t>(rows, 0));
      }
      counts.tasks[State::scheduled] = 0;
      counts.tasks[State::waiting] +=
          static_cast<std::uint64_t>(std::max<std::int64_t>(query.integer(2) - recorded, 0));
    }
    for (const Member member : members_of(db, queue))
      if (!transaction.holders().gone(member)) ++counts.workers;
    if (counts.tasks[State::waiting] > 0)
      if (const auto oldest = oldest_waiting(transaction, queue, cursor, tail))
        counts.oldest_waiting = transaction.now() - *oldest;
    if (counts.tasks[State::in_doubt] > 0) {
      Query query = db.query(
          "SELECT min(stamp) FROM ledger WHERE qid = ?1 AND state = 4 AND state NOT IN (2, 5)"
          " AND place > 0");
      if (query.bind(queue.qid).step() && !query.null(0))
        counts.oldest_in_doubt = transaction.now() - store_time(query.integer(0));
    }
    return counts;
  });
}

Result<std::uint64_t> SqliteStore::unrouted() {
  return database_->read([](ReadTransaction& transaction) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(transaction.unrouted(), 0));
  });
}

}  // namespace once::store::sqlite
