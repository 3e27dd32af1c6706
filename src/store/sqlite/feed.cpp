// The feed and Store::commit(). The feed is derived from the other tables:
//
//   fresh entries        log entries after the queue's cursor
//   entries due again    ledger rows with `due`
//   other deliveries     rows of `pending`: entries that were handed over and have no record yet,
//                        entries with a future not-before, and entries with a person's order
#include <algorithm>
#include <deque>

#include "codec/record_codec.h"
#include "store/sqlite/failure.h"
#include "store/sqlite/log_rows.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kScannedForTasks = 8'192;  // log entries per transaction, matching or not
constexpr Duration kMembersLook{100};            // how soon a dead worker is noticed
constexpr Duration kClockLook{5};                // the owner of a given clock does not notify us
constexpr Duration kLongestWait{std::chrono::hours{24 * 365}};  // longer ones would overflow

// --- Looking, without the write lock --------------------------------------------------------

struct Outlook {
  bool ready = false;               // there seems to be an entry to hand over
  bool someone_gone = false;        // a worker that holds tasks is gone
  bool others_run = false;          // other workers hold tasks, and may die
  std::optional<StoreTime> next{};  // when the next entry is due
};

Outlook look(ReadTransaction& transaction, const Fetch& request) {
  const KnownQueue& queue = transaction.queues().get(request.queue);
  Connection& db = transaction.db();
  Outlook outlook;
  if (queue.definition.paused || queue.ledger_only()) return outlook;
  const auto consider = [&](Query& query) {
    if (!query.step()) return;
    const StoreTime due = store_time(query.integer(0));
    outlook.next = std::min(outlook.next.value_or(due), due);
  };
  bool running = false;
  {
    Query query = db.query("SELECT tail > cursor, running > 0, lapse FROM queue WHERE qid = ?1");
    if (query.bind(queue.qid).step()) {
      outlook.ready = query.integer(0) != 0;
      running = query.integer(1) != 0;
      if (running && request.again > 0 && !query.null(2))
        outlook.next = store_time(query.integer(2));
    }
  }
  {
    Query query =
        db.query("SELECT due FROM pending WHERE qid = ?1 AND first = 1 ORDER BY due LIMIT 1");
    consider(query.bind(queue.qid));
  }
  if (request.again > 0) {
    Query ledger = db.query(
        "SELECT due FROM ledger WHERE qid = ?1 AND watched = 1 AND due IS NOT NULL"
        " ORDER BY due LIMIT 1");
    consider(ledger.bind(queue.qid));
    Query pending =
        db.query("SELECT due FROM pending WHERE qid = ?1 AND first = 0 ORDER BY due LIMIT 1");
    consider(pending.bind(queue.qid));
  }
  if (outlook.next && *outlook.next <= transaction.now()) outlook.ready = true;
  if (running && request.again > 0) {
    for (const Member member : members_of(db, queue))
      (transaction.holders().gone(member) ? outlook.someone_gone : outlook.others_run) = true;
  }
  return outlook;
}

// --- Claims that are not watched yet --------------------------------------------------------

// Most claims are settled long before their leases end. An entry in the index of `due` for such a
// claim would cost as much as its row. So a fresh claim has `watched = 0` and is in no index. All
// such rows are after the queue's `swept`. sweep() scans them when the first of their leases ends
// (`lapse`), when a worker is gone, and when there are many. It sets `watched = 1` for the claims
// that still run. This sweep is not the sweep of the Housekeeper.

constexpr std::int64_t kUnwatched = 8'192;

void sweep(WriteTransaction& transaction, const KnownQueue& queue, std::int64_t from,
           std::int64_t to) {
  transaction.db()
      .query(
          "UPDATE ledger SET watched = 1 WHERE place > ?1 AND place <= ?2 AND watched = 0"
          " AND due IS NOT NULL")
      .bind(place_of(queue.qid, {static_cast<std::uint64_t>(from)}, true),
            place_of(queue.qid, {static_cast<std::uint64_t>(to)}, true))
      .run();
  QueueDelta& delta = transaction.delta(queue);
  delta.changed = true;
  delta.swept = to;
}

// Where the queue was at the beginning of the transaction.
struct Progress {
  std::int64_t cursor = 0;
  std::int64_t tail = 0;
  std::int64_t swept = 0;
  std::optional<StoreTime> lapse{};  // nullopt if all claims are watched
};

Progress read_progress(Connection& db, const KnownQueue& queue) {
  Query query = db.query("SELECT cursor, tail, swept, lapse FROM queue WHERE qid = ?1");
  if (!query.bind(queue.qid).step()) return {};
  Progress progress{
      .cursor = query.integer(0), .tail = query.integer(1), .swept = query.integer(2)};
  if (!query.null(3)) progress.lapse = store_time(query.integer(3));
  return progress;
}

void watch_old_claims(WriteTransaction& transaction, const KnownQueue& queue,
                      const Progress& progress) {
  if (!progress.lapse) return;
  if (*progress.lapse <= transaction.now())
    watch_claims(transaction, queue);
  else if (progress.cursor - progress.swept > 2 * kUnwatched)
    sweep(transaction, queue, progress.swept, progress.cursor - kUnwatched);
}

// --- Handing over, in one transaction -------------------------------------------------------

class HandOver {
 public:
  HandOver(WriteTransaction& transaction, const Fetch& request)
      : transaction_(transaction),
        request_(request),
        queue_(transaction.queues().get(request.queue)),
        now_(transaction.now()),
        pushed_(transaction.now() + queue_.definition.lease) {}

  std::vector<Delivery> run(bool someone_gone) {
    if (request_.stop.stop_requested()) return {};  // it came while this waited for the lock
    if (request_.member) check_member();
    if (queue_.definition.paused) return {};
    if (someone_gone) clear_gone(transaction_, queue_);
    const Progress progress = read_progress(transaction_.db(), queue_);
    watch_old_claims(transaction_, queue_, progress);
    deliveries_.reserve(std::min<std::size_t>(request_.limit, 1024));
    for (const Sequence sequence : due_again()) hand_over_known(sequence);
    for (const Sequence sequence : due_first()) hand_over_known(sequence);
    hand_over_fresh(progress);
    batch_.flush();
    return std::move(deliveries_);
  }

 private:
  void check_member() {
    Query query = transaction_.db().query("SELECT qid FROM member WHERE number = ?1");
    if (query.bind(request_.member).step() && query.integer(0) == queue_.qid) return;
    throw Failure({.code = Code::not_found,
                   .message = "queue '" + request_.queue +
                              "' was removed since this worker joined it: nothing was claimed; "
                              "start the worker again"});
  }

  // Entries that were handed over before and are due: ledger rows, then pending rows, oldest first.
  std::vector<Sequence> due_again() {
    std::vector<Sequence> sequences;
    const std::size_t most = std::min(request_.limit, request_.again);
    const auto collect = [&](const char* sql, bool places) {
      const std::size_t room = most - sequences.size();
      Query query = transaction_.db().query(sql);
      query.bind(queue_.qid, now_, static_cast<std::uint64_t>(room));
      while (query.step()) {
        const Sequence sequence =
            places ? sequence_at(query.integer(0)) : Sequence{query.number(0)};
        if (std::find(sequences.begin(), sequences.end(), sequence) == sequences.end())
          sequences.push_back(sequence);
      }
    };
    collect(
        "SELECT place FROM ledger WHERE qid = ?1 AND watched = 1 AND due <= ?2"
        " ORDER BY due, place LIMIT ?3",
        true);
    if (sequences.size() < most && may_have_pending(transaction_, queue_))
      collect(
          "SELECT sequence FROM pending WHERE qid = ?1 AND first = 0 AND due <= ?2"
          " ORDER BY due LIMIT ?3",
          false);
    return sequences;
  }

  // Entries with a not-before that has passed, and that were never handed over.
  std::vector<Sequence> due_first() {
    std::vector<Sequence> sequences;
    if (deliveries_.size() >= request_.limit || !may_have_pending(transaction_, queue_))
      return sequences;
    Query query = transaction_.db().query(
        "SELECT sequence FROM pending WHERE qid = ?1 AND first = 1 AND due <= ?2"
        " ORDER BY due, sequence LIMIT ?3");
    query.bind(queue_.qid, now_, static_cast<std::uint64_t>(request_.limit - deliveries_.size()));
    while (query.step()) sequences.push_back({query.number(0)});
    return sequences;
  }

  void hand_over_known(Sequence sequence) {
    bool known = false;
    unless_damaged(sequence, [&] {
      std::optional<Entry> entry;
      {
        Query query =
            transaction_.db().query("SELECT " ONCE_ENTRY_COLUMNS " FROM log WHERE sequence = ?1");
        known = query.bind(sequence).step();
        if (known) entry = entry_from(query);
      }
      if (entry) hand_over(std::move(*entry), {}, read_order(transaction_, queue_, sequence));
    });
    if (known) return;
    batch_.flush();
    // Retention has removed the entry from the log: there is nothing to hand over.
    const EntryRows rows = read_rows(transaction_.db(), queue_, sequence);
    for (const auto& row : {rows.task, rows.own})
      if (row && row->due) set_due(transaction_, *row, std::nullopt);
    drop_pending(transaction_, queue_, sequence);
  }

  void hand_over_fresh(const Progress& progress) {
    if (deliveries_.size() >= request_.limit) return;
    std::int64_t cursor = progress.cursor;
    const std::int64_t tail = progress.tail;
    if (cursor >= tail) return;
    if (!progress.lapse) transaction_.delta(queue_).swept = cursor;
    const bool without_rows = queue_.by_id() && no_rows_between(cursor, tail);
    const bool ordered = orders_after(cursor);
    TopicFilter wanted(queue_.definition);
    // Skips entries whose body was retired before this queue was added. Skips entries with a delay,
    // because they have pending rows.
    Query query = transaction_.db().query(
        "SELECT " ONCE_ENTRY_COLUMNS
        ", stage FROM log WHERE sequence > ?1 AND sequence <= ?2 ORDER BY sequence");
    query.bind(cursor, tail);
    std::size_t scanned = 0;
    while (deliveries_.size() < request_.limit && scanned < kScannedForTasks) {
      if (!query.step()) {
        cursor = tail;
        break;
      }
      ++scanned;
      cursor = query.integer(0);
      if (query.integer(kEntryColumns) != 0 || !query.null(kDelayColumn)) continue;
      if (!wanted.matches(query.bytes(2))) continue;
      const Sequence sequence{query.number(0)};
      if (ordered && pending_due(transaction_, queue_, sequence)) continue;
      unless_damaged(sequence, [&] {
        hand_over(entry_from(query), {.fresh = true, .without_rows = without_rows}, std::nullopt);
      });
    }
    QueueDelta& delta = transaction_.delta(queue_);
    delta.cursor = cursor;
    delta.changed = true;
  }

  // A person may give an order before the entry was handed over. Then the entry has a pending row.
  bool orders_after(std::int64_t cursor) {
    if (!may_have_pending(transaction_, queue_)) return false;
    Query query = transaction_.db().query(
        "SELECT 1 FROM pending INDEXED BY pending_wake WHERE qid = ?1 AND sequence > ?2"
        " AND wake IS NOT NULL LIMIT 1");
    return query.bind(queue_.qid, cursor).step();
  }

  // A record that cannot be read must not block the other entries. Its entry is put off for a
  // lease. A caller that reads the record gets the error.
  template <class HandOverOne>
  void unless_damaged(Sequence sequence, HandOverOne hand_over_one) {
    try {
      hand_over_one();
    } catch (const StatementFailure&) {
      throw;
    } catch (const Failure&) {
      put_off(sequence);
    }
  }

  void put_off(Sequence sequence) {
    batch_.flush();
    const EntryRows rows = read_rows(transaction_.db(), queue_, sequence);
    for (const auto& row : {rows.task, rows.own})
      if (row && row->due) set_due(transaction_, *row, pushed_);
    if (!rows.with_due() || pending_due(transaction_, queue_, sequence))
      set_pending(transaction_, queue_, sequence, pushed_);
  }

  // This is almost always true. Then the ledger is not queried for each entry.
  bool no_rows_between(std::int64_t cursor, std::int64_t tail) {
    Query query =
        transaction_.db().query("SELECT 1 FROM ledger WHERE place > ?1 AND place <= ?2 LIMIT 1");
    return !query
                .bind(place_of(queue_.qid, {static_cast<std::uint64_t>(cursor)}, true),
                      place_of(queue_.qid, {static_cast<std::uint64_t>(tail)}, true))
                .step();
  }

  struct Known {
    bool fresh = false;         // the entry is after the cursor
    bool without_rows = false;  // the entry has no row in the ledger
  };

  void hand_over(Entry&& entry, Known known, std::optional<core::Order> order) {
    Delivery delivery{.entry = std::move(entry), .order = std::move(order)};
    const Sequence sequence = delivery.entry.sequence;
    const auto at = request_.claimer ? request_.claimer->address(delivery.entry) : std::nullopt;
    if (!known.without_rows) batch_.flush();
    std::optional<EntryRows> rows;
    std::optional<Spot> spot;
    if (at) {
      spot.emplace(known.without_rows ? free_spot(queue_, *at)
                                      : find_spot(transaction_.db(), queue_, *at));
      spot->fresh = known.fresh && (!spot->place || sequence_at(*spot->place) == sequence);
      if (spot->place && sequence_at(*spot->place) == sequence) rows = spot->rows;
    }
    if (!rows) rows = read_rows(transaction_.db(), queue_, sequence);
    if (rows->own && core::settled(rows->own->state)) {
      delivery.stored = read_stored(*rows->own);
    } else if (spot) {
      if (const auto& current = spot->current()) delivery.stored = read_stored(*current);
      auto record =
          request_.claimer->claim(delivery.entry, delivery.stored ? &*delivery.stored : nullptr,
                                  delivery.order ? &*delivery.order : nullptr,
                                  {.store = now_, .wall = transaction_.wall()});
      if (record) {
        packed_.push_back(packed(*record));
        const Put written = put(transaction_, queue_, *spot, *record, packed_.back(), batch_);
        Stored& stored = delivery.stored.emplace();
        stored.record = std::move(*record);
        stored.revision = written.revision;
        stored.stamp = written.stamp;
        stored.holder_gone = written.holder_gone;
        delivery.claimed = true;
        if (sequence_at(written.place) == sequence) {
          drop_pending(transaction_, queue_, sequence);
          if (spot->rows.own && spot->rows.own->due)
            set_due(transaction_, *spot->rows.own, std::nullopt);
          delivery.handle = handle_of(written.due.value_or(now_));
          deliveries_.push_back(std::move(delivery));
          return;
        }
      }
    }
    const StoreTime until = keep_from_others(sequence, *rows, delivery.order.has_value());
    delivery.handle = handle_of(until);
    deliveries_.push_back(std::move(delivery));
  }

  Stored read_stored(const LedgerRow& row) {
    Stored stored = read_record(transaction_.db(), row, transaction_.holders());
    correct_owes(transaction_, row, stored.record);
    return stored;
  }

  // Makes the entry due only after a lease, so that no other worker gets it. Returns that time.
  StoreTime keep_from_others(Sequence sequence, const EntryRows& rows, bool ordered) {
    StoreTime until = pushed_;
    const LedgerRow* with_due = rows.with_due();
    if (with_due) {
      until = no_later_than_lease(transaction_, *with_due, pushed_);
      set_due(transaction_, *with_due, until);
    }
    if (with_due && !ordered)
      drop_pending(transaction_, queue_, sequence);
    else
      set_pending(transaction_, queue_, sequence, until);
    if (ordered) carry_order(transaction_, queue_, sequence, until);
    return until;
  }

  WriteTransaction& transaction_;
  const Fetch& request_;
  const KnownQueue& queue_;
  const StoreTime now_;
  const StoreTime pushed_;
  std::vector<Delivery> deliveries_{};
  std::deque<PackedRecord> packed_{};  // of the rows in batch_
  RowBatch batch_{transaction_.db()};
};

// --- Waking ---------------------------------------------------------------------------------

void wake_one(WriteTransaction& transaction, const KnownQueue& queue, const Wake& item) {
  std::optional<StoreTime> not_before;  // of an entry with a delay
  bool fresh = false;                   // the entry is after the cursor
  {
    Query query = transaction.db().query(
        "SELECT topic, appended_at + delay, sequence > (SELECT cursor FROM queue WHERE qid = ?1)"
        " FROM log WHERE sequence = ?2");
    if (!query.bind(queue.qid, item.sequence).step()) return;
    if (!queue.has(query.bytes(0), item.sequence.value)) return;
    if (!query.null(1)) not_before = store_time(query.integer(1));
    fresh = query.integer(2) != 0;
  }
  const StoreTime now = transaction.now();
  const EntryRows rows = read_rows(transaction.db(), queue, item.sequence);
  const LedgerRow* counting = rows.counting();
  // A wake does not start a task before its not-before.
  const StoreTime due = counting ? now : std::max(now, not_before.value_or(now));
  if (counting && !core::settled(counting->state)) set_due(transaction, *counting, now);
  if (item.order)
    keep_order(transaction, queue, item.sequence, *item.order, due);
  else if (due > now)
    schedule(transaction, queue, item.sequence, due);
  else if (fresh && !not_before)
    return;  // it is handed over anyway
  else if (!counting || core::settled(counting->state))
    set_pending(transaction, queue, item.sequence, now);
}

// --- Overlooked entries ---------------------------------------------------------------------

// The entries up to the cursor, with a row for each of their records. The inner limit keeps the read
// short.
constexpr const char* kScanForOverlooked =
    "SELECT l.sequence, l.topic, l.stage, p.due IS NOT NULL, g.place IS NOT NULL,"
    " g.due IS NOT NULL"
    "  AND (g.watched = 1 OR l.sequence > (SELECT swept FROM queue WHERE qid = ?1)),"
    " g.state, p.first = 1, g.owes = 1"
    " FROM (SELECT sequence, topic, stage FROM log WHERE sequence > ?2"
    "  AND sequence <= (SELECT cursor FROM queue WHERE qid = ?1) ORDER BY sequence LIMIT ?3) l"
    " LEFT JOIN pending p ON p.qid = ?1 AND p.sequence = l.sequence"
    " LEFT JOIN ledger g ON g.place BETWEEN ?4 + l.sequence * 2 AND ?4 + l.sequence * 2 + 1"
    " ORDER BY l.sequence, g.place";

struct ScannedEntry {
  Sequence sequence{};
  bool open = false;     // the entry belongs to the queue and is not finished
  bool watched = false;  // the feed will hand it over again
  bool scheduled = false;
};

// If an entry has two rows, the row of its own record comes last, and that record counts.
void add_row(ScannedEntry& entry, const Query& query, TopicFilter& wanted) {
  const bool has_record = query.integer(4) != 0;
  const bool due = query.integer(5) != 0;
  const bool owes = query.integer(8) != 0;
  const bool finished = has_record && !owes && core::settled(static_cast<State>(query.integer(6)));
  entry.scheduled = !has_record && query.integer(7) != 0;
  entry.watched = entry.watched || query.integer(3) != 0 || due;
  entry.open = query.integer(2) == 0 && !finished && wanted.matches(query.bytes(1));
}

// An entry is overlooked if it is not finished and the feed will not hand it over again.
class OverlookedScan {
 public:
  OverlookedScan(Sequence after, std::size_t limit) : limit_(limit), page_{.settled = after} {}

  // Returns false if the entry is overlooked and the page has no room for it.
  bool add(const ScannedEntry& entry) {
    // A task that is scheduled for next year must not make each sweep read all entries after it.
    all_settled_ = all_settled_ && (!entry.open || entry.scheduled);
    if (all_settled_) page_.settled = entry.sequence;
    if (!entry.open || entry.watched) return true;
    if (page_.sequences.size() == limit_) {
      page_.next = page_.sequences.back();
      return false;
    }
    page_.sequences.push_back(entry.sequence);
    return true;
  }
  void continue_after(Sequence sequence) { page_.next = sequence; }
  Feed::OverlookedPage result() { return std::move(page_); }

 private:
  const std::size_t limit_;
  bool all_settled_ = true;
  Feed::OverlookedPage page_;
};

}  // namespace

void watch_claims(WriteTransaction& transaction, const KnownQueue& queue) {
  std::int64_t swept = 0;
  std::int64_t cursor = 0;
  {
    // If `lapse` is null, the queue has no unwatched claim.
    Query query = transaction.db().query(
        "SELECT swept, cursor FROM queue WHERE qid = ?1 AND lapse IS NOT NULL");
    if (!query.bind(queue.qid).step()) return;
    swept = query.integer(0);
    cursor = query.integer(1);
  }
  QueueDelta& delta = transaction.delta(queue);
  sweep(transaction, queue, delta.swept.value_or(swept), cursor);
  delta.none_lapses = true;
}

Store::CommitResult SqliteStore::commit(std::span<const Swap> records, const Fetch& request) {
  if (records.empty()) return {.delivered = wait_for_deliveries(request)};
  const auto encoded = encode_all(records);
  CommitResult both;
  const auto committed = database_->write([&](WriteTransaction& transaction) {
    both.swapped = swap_all(transaction, records, encoded);
    both.delivered = HandOver(transaction, request).run(look_for_gone(transaction, request.queue));
  });
  if (committed) return both;
  const Error& error = committed.error();
  if (error.in_doubt || error.retryable)
    return {.swapped = std::vector<Result<SwapResult>>(records.size(), error), .delivered = error};
  // An error of the claims must not prevent the records from being written.
  return {.swapped = swap(records), .delivered = error};
}

// A worker that always commits with records never calls look(). This check replaces it.
bool SqliteStore::look_for_gone(WriteTransaction& transaction, const std::string& name) {
  const auto now = steady_clock::now();
  auto& looked = members_looked_[name];
  if (now < looked + kMembersLook) return false;
  looked = now;
  const auto members = members_of(transaction.db(), transaction.queues().get(name));
  return std::any_of(members.begin(), members.end(),
                     [&](core::Member member) { return transaction.holders().gone(member); });
}

Result<std::vector<Delivery>> SqliteStore::wait_for_deliveries(const Fetch& request) {
  const auto deadline = steady_clock::now() + std::min(request.wait, kLongestWait);
  Notifier& notifier = database_->notifier();
  while (true) {
    const std::uint64_t heard = request.wait > Duration{0} ? notifier.listen() : 0;
    auto outlook =
        database_->glance([&](ReadTransaction& transaction) { return look(transaction, request); });
    if (!outlook) return outlook.error();
    const bool ended = request.limit == 0 || request.stop.stop_requested();
    const bool claims = !ended && (outlook->ready || outlook->someone_gone);
    // The commit of a claim looks at the files, too.
    if (auto whole = claims ? Result<void>{} : database_->check_files(); !whole)
      return whole.error();
    if (ended) return std::vector<Delivery>{};
    if (claims) {
      auto handed = database_->write([&](WriteTransaction& transaction) {
        return HandOver(transaction, request).run(outlook->someone_gone);
      });
      if (!handed || !handed->empty()) return handed;
      // Another worker was faster, or the scan met only entries of other topics: look again.
      if (outlook->ready) continue;
    }
    const auto now = steady_clock::now();
    if (now >= deadline) return std::vector<Delivery>{};
    auto until = std::min(deadline, now + kLookAnyway);
    if (outlook->next) until = std::min(until, now + (*outlook->next - database_->clock().now()));
    if (outlook->others_run) until = std::min(until, now + kMembersLook);
    if (database_->clock().is_given()) until = std::min(until, now + kClockLook);
    notifier.wait(heard, until, request.stop);
  }
}

Result<void> SqliteStore::settle(std::span<const Settlement> items) {
  if (items.empty()) return {};
  return database_->write_shared([&](WriteTransaction& transaction) {
    for (const Settlement& item : items) {
      const KnownQueue* queue = transaction.queues().find(item.queue);
      if (!queue) continue;
      const EntryRows rows = read_rows(transaction.db(), *queue, item.sequence);
      const LedgerRow* with_due = rows.with_due();
      const auto due = with_due ? with_due->due : pending_due(transaction, *queue, item.sequence);
      // The entry was handed over again since. The worker that has it now will answer.
      if (!due || handle_of(*due) != item.handle) continue;
      const StoreTime now = transaction.now();
      if (with_due) {
        std::optional<StoreTime> again;
        if (item.again) again = no_later_than_lease(transaction, *with_due, now + *item.again);
        set_due(transaction, *with_due, again);
        if (again)
          carry_again(transaction, *queue, item.sequence, item.handle, *again);
        else
          drop_answered(transaction, *queue, item.sequence, item.handle);
      } else if (item.again) {
        set_pending(transaction, *queue, item.sequence, now + *item.again);
      } else {
        drop_answered(transaction, *queue, item.sequence, item.handle);
      }
    }
  });
}

Result<Feed::OverlookedPage> SqliteStore::overlooked(std::string_view name, Sequence after,
                                                     std::size_t limit) {
  return database_->read([&](ReadTransaction& transaction) {
    const KnownQueue& queue = transaction.queues().get(name);
    OverlookedScan page(after, limit);
    if (limit == 0) return page.result();
    TopicFilter wanted(queue.definition);
    const std::uint64_t before_first = queue.first() > 0 ? queue.first() - 1 : 0;
    Query query = transaction.db().query(kScanForOverlooked);
    query.bind(queue.qid, std::max(after.value, before_first),
               static_cast<std::uint64_t>(kScannedForTasks), first_place(queue.qid));
    std::size_t scanned = 0;
    std::optional<ScannedEntry> entry;
    while (query.step()) {
      const Sequence sequence{query.number(0)};
      if (!entry || entry->sequence != sequence) {
        if (entry && !page.add(*entry)) return page.result();
        ++scanned;
        entry = ScannedEntry{.sequence = sequence};
      }
      add_row(*entry, query, wanted);
    }
    if (entry && !page.add(*entry)) return page.result();
    if (scanned == kScannedForTasks) page.continue_after(entry->sequence);
    return page.result();
  });
}

Result<void> SqliteStore::wake(std::string_view name, std::span<const Wake> items) {
  return database_->write([&](WriteTransaction& transaction) {
    const KnownQueue& queue = transaction.queues().get(name);
    for (const Wake& item : items) wake_one(transaction, queue, item);
  });
}

}  // namespace once::store::sqlite
