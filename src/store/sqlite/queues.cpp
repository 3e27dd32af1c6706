// Queues: adding and removing them, and what is counted of them.
#include <algorithm>
#include <functional>
#include <map>

#include "codec/record_codec.h"
#include "core/names.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

constexpr std::int64_t kDeletedAtOnce = 5'000;
constexpr std::size_t kScannedTopics = 10'000;

// Which whole entries of the log a queue has, and how many of them would be unrouted without it.
struct Matches {
  std::int64_t found = 0;
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t only_here = 0;
};

// `delayed` is told of those with a not-before.
Matches count_matches(WriteTransaction& transaction, const Queue& queue,
                      const std::function<void(Sequence, StoreTime not_before)>& delayed) {
  Matches matches;
  if (queue.ledger) return matches;
  std::vector<const KnownQueue*> others;
  for (const KnownQueue& known : transaction.queues().all())
    if (known.definition.name != queue.name) others.push_back(&known);
  TopicFilter wanted(queue);
  Query query = transaction.db().query(
      "SELECT sequence, topic, appended_at + delay FROM log WHERE sequence >= ?1 AND stage = 0"
      " ORDER BY sequence");
  query.bind(queue.from.value_or(0));
  while (query.step()) {
    const std::string_view topic = query.bytes(1);
    if (!wanted.matches(topic)) continue;
    ++matches.found;
    matches.last = query.integer(0);
    if (matches.first == 0) matches.first = matches.last;
    if (!query.null(2)) delayed({query.number(0)}, store_time(query.integer(2)));
    if (!core::own_topic(topic) &&
        std::none_of(others.begin(), others.end(),
                     [&](const KnownQueue* other) { return other->has(topic, query.number(0)); }))
      ++matches.only_here;
  }
  return matches;
}

// Since when the oldest record is in a state, waiting or in doubt. One that an order has woken is in
// doubt no more. In a ledger-only queue records have no entry; what is no task has none either.
std::optional<StoreTime> oldest_record(Connection& db, const KnownQueue& queue, State state) {
  Query query = db.query(
      "SELECT min(stamp) FROM ledger g WHERE qid = ?1 AND state = ?2 AND state NOT IN (2, 5)"
      " AND (place > 0 OR EXISTS (SELECT 1 FROM keys k WHERE k.qid = ?1 AND k.kind = 0"
      "  AND k.key = g.key AND k.place = g.place))"
      " AND (state = 1 OR NOT EXISTS (SELECT 1 FROM pending p WHERE p.qid = ?1"
      "  AND p.wake IS NOT NULL AND p.sequence = (g.place - ?3) / 2))");
  if (!query.bind(queue.qid, number_of(state), first_place(queue.qid)).step() || query.null(0))
    return std::nullopt;
  return store_time(query.integer(0));
}

// The first entry behind the cursor that waits without a delay. The look is cut off after so many
// others: then it is not older than the last of them.
std::optional<StoreTime> oldest_fresh(Connection& db, const KnownQueue& queue, std::int64_t cursor,
                                      std::int64_t tail) {
  TopicFilter wanted(queue.definition);
  Query query = db.query(
      "SELECT stage_at, topic, stage = 0 AND delay IS NULL FROM log"
      " WHERE sequence > ?1 AND sequence <= ?2 ORDER BY sequence");
  query.bind(cursor, tail);
  for (std::size_t scanned = 1; query.step(); ++scanned) {
    const bool found = query.integer(2) != 0 && wanted.matches(query.bytes(1));
    if (found || scanned == kScannedTopics) return store_time(query.integer(0));
  }
  return std::nullopt;
}

// The oldest entry that waits, and since when it could have been run: behind the cursor, past its
// not-before, handed over and not recorded, recorded as waiting, or (given) woken by an order.
std::optional<StoreTime> oldest_waiting(ReadTransaction& transaction, const KnownQueue& queue,
                                        std::int64_t cursor, std::int64_t tail,
                                        std::optional<StoreTime> oldest) {
  Connection& db = transaction.db();
  const auto consider = [&](StoreTime time) { oldest = std::min(oldest.value_or(time), time); };
  if (const auto fresh = oldest_fresh(db, queue, cursor, tail)) consider(*fresh);
  {
    Query query = db.query(
        "SELECT due FROM pending WHERE qid = ?1 AND first = 1 AND due <= ?2 ORDER BY due LIMIT 1");
    if (query.bind(queue.qid, transaction.now()).step()) consider(store_time(query.integer(0)));
  }
  {
    Query query = db.query(
        "SELECT min(l.appended_at + ifnull(l.delay, 0)) FROM pending p JOIN log l"
        " ON l.sequence = p.sequence WHERE p.qid = ?1 AND p.first = 0"
        " AND NOT EXISTS (SELECT 1 FROM ledger g WHERE g.place BETWEEN ?2 + p.sequence * 2"
        "  AND ?2 + p.sequence * 2 + 1)");
    if (query.bind(queue.qid, first_place(queue.qid)).step() && !query.null(0))
      consider(store_time(query.integer(0)));
  }
  if (const auto recorded = oldest_record(db, queue, State::waiting)) consider(*recorded);
  return oldest;
}

std::int64_t count_scheduled(ReadTransaction& transaction, const KnownQueue& queue) {
  Query query = transaction.db().query(
      "SELECT count(*) FROM pending WHERE qid = ?1 AND first = 1 AND due > ?2");
  return query.bind(queue.qid, transaction.now()).step() ? query.integer(0) : 0;
}

// Entries whose record is settled and waits for a person, who has ordered them to be run again.
struct Woken {
  std::map<State, std::uint64_t> tasks{};  // by what the record says
  std::optional<StoreTime> oldest{};
};

Woken count_woken(Connection& db, const KnownQueue& queue) {
  Woken woken;
  Query query = db.query(
      "SELECT g.state, count(*), min(p.woken) FROM pending p INDEXED BY pending_wake"
      " JOIN ledger g ON g.place = (SELECT max(place) FROM ledger"
      "  WHERE place BETWEEN ?2 + p.sequence * 2 AND ?2 + p.sequence * 2 + 1)"
      " WHERE p.qid = ?1 AND p.wake IS NOT NULL AND g.state IN (4, 6) GROUP BY g.state");
  query.bind(queue.qid, first_place(queue.qid));
  while (query.step()) {
    woken.tasks[static_cast<State>(query.integer(0))] = query.number(1);
    const StoreTime since = store_time(query.integer(2));
    woken.oldest = std::min(woken.oldest.value_or(since), since);
  }
  return woken;
}

}  // namespace

Result<Queues::QueueAdded> SqliteStore::add_queue(const Queue& queue) {
  if (!queue.stream.empty()) return has_no_streams(queue);
  return database_->write([&](WriteTransaction& transaction) -> QueueAdded {
    if (const KnownQueue* known = transaction.queues().find(queue.name))
      return {.added = false, .existing = known->definition};
    if (transaction.zone.last_queue + 1 >= kMostQueues)
      throw Failure({.code = Code::failed,
                     .message = "this zone has had its " + std::to_string(kMostQueues) +
                                " queues: nothing was added; use a new zone"});
    const std::int64_t qid = ++transaction.zone.last_queue;
    const Matches matches =
        count_matches(transaction, queue, [&](Sequence sequence, StoreTime not_before) {
          insert_scheduled(transaction.db(), qid, sequence, not_before);
        });
    const auto from = static_cast<std::int64_t>(queue.from.value_or(0));
    const std::int64_t cursor =
        matches.found > 0 ? matches.first - 1 : std::max<std::int64_t>(from - 1, 0);
    const std::string definition = encoding::encode_queue(queue);
    transaction.db()
        .query(
            "INSERT INTO queue (qid, name, definition, cursor, tail, matched)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6)")
        .bind(qid, std::string_view(queue.name), std::string_view(definition), cursor, matches.last,
              matches.found)
        .run();
    ++transaction.zone.queue_version;
    transaction.zone.unrouted -= matches.only_here;
    return {.added = true, .existing = queue, .found = static_cast<std::uint64_t>(matches.found)};
  });
}

Result<bool> SqliteStore::set_queue(const Queue& queue, const Queue& expected) {
  return database_->write([&](WriteTransaction& transaction) {
    const KnownQueue& known = transaction.queues().get(queue.name);
    if (known.definition != expected) return false;
    const std::string definition = encoding::encode_queue(queue);
    transaction.db()
        .query("UPDATE queue SET definition = ?2 WHERE qid = ?1")
        .bind(known.qid, std::string_view(definition))
        .run();
    ++transaction.zone.queue_version;
    transaction.due_at(transaction.now());  // who waits must see it
    return true;
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
    transaction.zone.unrouted +=
        count_matches(transaction, queue.definition, [](Sequence, StoreTime) {}).only_here;
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
      " (SELECT place FROM keys WHERE qid = ?1 AND place < 0 ORDER BY kind, key LIMIT ?2)");
  clear(
      "DELETE FROM keys WHERE qid = ?1 AND (kind, key) IN"
      " (SELECT kind, key FROM keys WHERE qid = ?1 ORDER BY kind, key LIMIT ?2)");
  clear(
      "DELETE FROM pending WHERE qid = ?1 AND sequence IN"
      " (SELECT sequence FROM pending WHERE qid = ?1 LIMIT ?2)");
  clear(
      "DELETE FROM past WHERE qid = ?1 AND hour IN (SELECT hour FROM past WHERE qid = ?1 LIMIT "
      "?2)");
  if (deleted < kDeletedAtOnce) db.query("DELETE FROM removed WHERE qid = ?1").bind(qid).run();
  return false;
}

// The feed looks at every record again that owes a reply, so the index of `due` finds those records.
Result<bool> SqliteStore::all_settled(std::string_view name) {
  auto settled = Store::all_settled(name);
  if (!settled || !*settled) return settled;
  return database_->read([&](ReadTransaction& transaction) {
    Query query = transaction.db().query(
        "SELECT 1 FROM ledger WHERE qid = ?1 AND watched = 1 AND due IS NOT NULL AND owes = 1"
        " LIMIT 1");
    return !query.bind(transaction.queues().get(name).qid).step();
  });
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
      const std::int64_t scheduled = count_scheduled(transaction, queue);
      counts.tasks[State::scheduled] = static_cast<std::uint64_t>(scheduled);
      counts.tasks[State::waiting] += static_cast<std::uint64_t>(
          std::max<std::int64_t>(query.integer(2) - recorded - scheduled, 0));
    }
    const Woken woken = count_woken(db, queue);
    for (const auto& [state, tasks] : woken.tasks) {
      counts.tasks[state] -= std::min(counts.tasks[state], tasks);
      counts.tasks[State::waiting] += tasks;
    }
    for (const Member member : members_of(db, queue))
      if (!transaction.holders().gone(member)) ++counts.workers;
    if (counts.tasks[State::waiting] > 0)
      if (const auto oldest = oldest_waiting(transaction, queue, cursor, tail, woken.oldest))
        counts.oldest_waiting = transaction.now() - *oldest;
    if (counts.tasks[State::in_doubt] > 0)
      if (const auto oldest = oldest_record(db, queue, State::in_doubt))
        counts.oldest_in_doubt = transaction.now() - *oldest;
    return counts;
  });
}

Result<std::uint64_t> SqliteStore::unrouted() {
  return database_->read([](ReadTransaction& transaction) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(transaction.unrouted(), 0));
  });
}

}  // namespace once::store::sqlite
