// Compares the tables with each other: digests, indexes, columns beside records, counters, totals. Each
// page is one read transaction, so that what is compared is of one moment.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "codec/digest.h"
#include "codec/record_codec.h"
#include "codec/stored_body.h"
#include "core/names.h"
#include "store/sqlite/failure.h"
#include "store/sqlite/log_rows.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

constexpr std::int64_t kVerifiedAtOnce = 2'000;  // rows per read transaction
constexpr std::size_t kVerifyPageBytes = 8 << 20;
constexpr std::int64_t kQuicklyVerified = 10'000;      // of each queue that a quick look reads
constexpr Duration kDueSlack = std::chrono::hours(1);  // a lease may have been shortened meanwhile

// Where the verification has come to: the table, and the last row of it that was read.
struct VerifyMark {
  enum Part : std::size_t { zone, log, ids, gone, ledger, keys, values, pending, totals, end };
  std::size_t part = zone;
  std::int64_t first = 0;   // sequence, place or queue
  std::int64_t second = 0;  // kind or sequence
  std::string text{};       // id or key

  static VerifyMark from(const std::string& after) {
    VerifyMark mark;
    const char* at = after.data();
    const char* const last = at + after.size();
    const auto take = [&](auto& number) {
      at = std::from_chars(at, last, number).ptr;
      if (at != last) ++at;
    };
    take(mark.part);
    take(mark.first);
    take(mark.second);
    mark.text.assign(at, last);
    return mark;
  }
  std::string str() const {
    if (part >= end) return {};
    return std::to_string(part) + " " + std::to_string(first) + " " + std::to_string(second) + " " +
           text;
  }
};

std::string number(Sequence sequence) { return "#" + std::to_string(sequence.value); }

// What of a queue's row the rows of other tables are compared with.
struct QueueRow {
  const KnownQueue* queue{};
  std::int64_t cursor{};
  std::int64_t tail{};
  std::int64_t swept{};
  std::optional<std::int64_t> lapse{};
  Duration longest_lease{};
};

class Verification {
 public:
  Verification(ReadTransaction& transaction, VerifyMark mark)
      : db_(transaction.db()), holders_(transaction.holders()), mark_(std::move(mark)) {
    zone_ = load_zone(db_);
    for (const KnownQueue& queue : transaction.queues().all()) {
      Query query =
          db_.query("SELECT cursor, tail, swept, lapse, longest_lease FROM queue WHERE qid = ?1");
      if (!query.bind(queue.qid).step()) continue;
      queues_[queue.qid] = {.queue = &queue,
                            .cursor = query.integer(0),
                            .tail = query.integer(1),
                            .swept = query.integer(2),
                            .lapse = query.optional(3),
                            .longest_lease = Duration{query.integer(4)}};
    }
    Query query = db_.query("SELECT qid FROM removed");
    while (query.step()) removed_.insert(query.integer(0));
  }

  Store::VerifyPage run(Store::Depth depth) {
    bool part_ended = true;
    switch (mark_.part) {
      case VerifyMark::zone: look_at_zone(depth); break;
      case VerifyMark::log: part_ended = look_at_log(); break;
      case VerifyMark::ids: part_ended = look_at_ids(); break;
      case VerifyMark::gone: part_ended = look_at_gone(); break;
      case VerifyMark::ledger: part_ended = look_at_ledger(); break;
      case VerifyMark::keys: part_ended = look_at_keys(); break;
      case VerifyMark::values: look_at_values(); break;
      case VerifyMark::pending: part_ended = look_at_pending(); break;
      case VerifyMark::totals: part_ended = look_at_totals(); break;
      default: break;
    }
    page_.done = static_cast<double>(mark_.part) / static_cast<double>(VerifyMark::end);
    if (part_ended) {
      mark_ = {.part = mark_.part + 1};
      if (mark_.part == VerifyMark::ledger) mark_.first = INT64_MIN;
    }
    if (depth == Store::Depth::deep) page_.next = mark_.str();
    return std::move(page_);
  }

 private:
  void find(std::string what, std::string harm) {
    page_.damages.push_back({.what = std::move(what), .harm = std::move(harm)});
  }
  void find_in(std::int64_t qid, Sequence sequence, std::string_view task, std::string what,
               std::string harm) {
    const auto known = queues_.find(qid);
    page_.damages.push_back(
        {.queue = known == queues_.end() ? "" : known->second.queue->definition.name,
         .sequence = sequence,
         .task = std::string(task),
         .what = std::move(what),
         .harm = std::move(harm)});
  }

  // --- Counters and positions: cheap, at any size -------------------------------------------

  // SQLite's own check finds an index that lacks a row, and not one that is gone.
  void look_at_schema() {
    static constexpr std::string_view kSlow = "queries that need it become slow as the zone grows";
    std::map<std::string, std::string_view, std::less<>> missing{
        {"index ledger_due", kSlow},
        {"index ledger_aside", kSlow},
        {"index pending_due", kSlow},
        {"index pending_wake", kSlow},
        {"index member_queue", kSlow},
        {"index kv_lasting", kSlow},
        {"index kv_expires", kSlow},
        {"trigger value_goes", "large results stay in the file when their records are forgotten"},
        {"trigger queue_moved", "an older Once may keep workflows where this one does not look"}};
    Query query = db_.query(
        "SELECT type || ' ' || name FROM sqlite_schema WHERE type IN ('index', 'trigger')");
    while (query.step()) {
      const std::string name(query.bytes(0));
      // Only zones that were upgraded with workflows have this trigger; see flow_upgrade.cpp.
      if (name == "trigger old_runners") continue;
      if (missing.erase(name) == 0 && name.starts_with("trigger "))
        find("the database has a " + name + ", which Once did not make",
             "nobody checked what it does at each write");
    }
    for (const auto& [name, harm] : missing)
      find("the database's own " + name + " is gone", std::string(harm));
  }

  void look_at_zone(Store::Depth depth) {
    look_at_schema();
    const std::int64_t records = depth == Store::Depth::deep ? INT64_MAX : kQuicklyVerified;
    for (const SetBack& each : set_back(zone_, used_in(db_, records)))
      find(each.text(), each.harm + "; Once refuses to write until that is mended");
    for (const auto& [qid, row] : queues_) {
      const auto last = static_cast<std::int64_t>(zone_.last_sequence);
      const auto from = static_cast<std::int64_t>(row.queue->first());
      const auto tell = [&](std::string what, std::string harm) {
        find_in(qid, {}, {}, std::move(what), std::move(harm));
      };
      if (row.cursor > std::max(last, from - 1))
        tell("its cursor is at #" + std::to_string(row.cursor) + ", and the log ends at #" +
                 std::to_string(last),
             "tasks that are published next are passed over until a sweep finds them");
      if (row.swept > row.cursor)
        tell("its swept is at #" + std::to_string(row.swept) + ", beyond its cursor at #" +
                 std::to_string(row.cursor),
             "a claim whose worker died is not noticed until a sweep finds it");
      if (removed_.contains(qid))
        tell("it counts as removed",
             "the next retention deletes its records, and its tasks run again");
    }
  }

  // --- The log and its ids --------------------------------------------------------------------

  bool look_at_log() {
    Query query = db_.query(
        "SELECT l.sequence, l.stage, l.topic, l.id, l.digest, l.is_json, l.body, i.sequence,"
        " l.delay IS NOT NULL, l.headers, l.stage_at, l.appended_at FROM log l"
        " LEFT JOIN ids i ON i.id = l.id WHERE l.sequence > ?1 ORDER BY l.sequence LIMIT ?2");
    query.bind(mark_.first, kVerifiedAtOnce);
    std::int64_t scanned = 0;
    std::size_t bytes = 0;
    while (query.step()) {
      ++scanned;
      mark_.first = query.integer(0);
      bytes += query.bytes(6).size();
      look_at_entry(query);
      if (bytes >= kVerifyPageBytes) return false;
    }
    return scanned < kVerifiedAtOnce;
  }

  void look_at_entry(const Query& query) {
    const Sequence sequence{query.number(0)};
    const std::string id(query.bytes(3));
    const auto tell = [&](std::string what, std::string harm) {
      find_in(0, sequence, id, number(sequence) + ": " + std::move(what), std::move(harm));
    };
    const auto stage = static_cast<core::Stage>(query.integer(1));
    if (std::string wrong = core::contradiction(
            stage, !query.null(6), stage == core::Stage::records_dropped && has_records(sequence));
        !wrong.empty())
      tell(std::move(wrong), "the task cannot run, or is forgotten too early");
    if (query.null(7))
      tell("the index of ids does not have it",
           "a publish of the same id is accepted and runs a second time");
    else if (query.number(7) != sequence.value)
      tell("the index of ids leads to #" + std::to_string(query.integer(7)) + " instead",
           "a publish of the same id is compared with another task");
    look_at_times(query.integer(10), query.integer(11), tell);
    look_at_headers(query, tell);
    if (stage == core::Stage::whole && !query.null(6)) look_at_digest(query, tell);
    if (stage == core::Stage::whole && query.integer(8) != 0) look_at_schedule(query, sequence, id);
  }

  // The store's time never goes back, and a commit notes it.
  template <class Tell>
  void look_at_times(std::int64_t written, std::int64_t published, const Tell& tell) {
    if (written < published)
      tell("its time is before its publication", "it is forgotten too early");
    if (std::max(written, published) > zone_.time.last)
      tell("its time is ahead of the zone's",
           "it is kept for too long, and a claim that died is not noticed");
  }

  template <class Tell>
  static void look_at_headers(const Query& query, const Tell& tell) {
    if (query.null(9)) return;
    try {
      decode_headers(query.bytes(9));
    } catch (const Failure&) {
      tell("its headers cannot be read", "the task does not run until they are mended");
    }
  }

  template <class Tell>
  void look_at_digest(const Query& query, const Tell& tell) {
    std::string text(query.bytes(6));
    const Body body =
        query.integer(5) == 0 ? Body::bytes(std::move(text)) : StoredBody::json(std::move(text));
    const auto digest = encoding::content_digest(query.bytes(2), body);
    if (!digest)
      tell("its body is no JSON any more (" + digest.error().message + ")",
           "a handler gets what nobody published");
    else if (blob(*digest).bytes != query.bytes(4))
      tell("its topic and body do not match its digest",
           "a handler gets what nobody published, or a true repetition is refused as a conflict");
  }

  // One with a not-before is pending from the beginning; the cursor passes it.
  void look_at_schedule(const Query& query, Sequence sequence, const std::string& id) {
    for (const auto& [qid, row] : queues_) {
      if (!row.queue->has(query.bytes(2), sequence.value)) continue;
      if (row.cursor >= query.integer(0)) continue;  // the feed's own look finds those
      if (read_rows(db_, *row.queue, sequence).counting()) continue;
      Query pending = db_.query("SELECT 1 FROM pending WHERE qid = ?1 AND sequence = ?2");
      if (!pending.bind(qid, sequence).step())
        find_in(qid, sequence, id, number(sequence) + " has a not-before, and is not scheduled",
                "it does not run when its time comes, only after a sweep finds it");
    }
  }

  bool has_records(Sequence sequence) {
    return std::any_of(queues_.begin(), queues_.end(), [&](const auto& each) {
      return read_rows(db_, *each.second.queue, sequence).counting() != nullptr;
    });
  }

  bool look_at_ids() {
    Query query = db_.query(
        "SELECT i.id, i.sequence, l.id FROM ids i LEFT JOIN log l ON l.sequence = i.sequence"
        " WHERE i.id > ?1 ORDER BY i.id LIMIT ?2");
    const std::string after = mark_.text;
    query.bind(std::string_view(after), kVerifiedAtOnce);
    std::int64_t scanned = 0;
    for (; query.step(); ++scanned) {
      mark_.text = query.bytes(0);
      // Where the entry has another id, the log's own look tells it.
      if (!query.null(2)) continue;
      find_in(
          0, {query.number(1)}, mark_.text,
          "the index of ids leads to " + number({query.number(1)}) + ", which is not in the log",
          "a publish of the same id is refused though there is no such task");
    }
    return scanned < kVerifiedAtOnce;
  }

  bool look_at_gone() {
    Query query = db_.query(
        "SELECT g.first, g.last, (SELECT min(sequence) FROM log WHERE sequence BETWEEN g.first AND"
        " g.last) FROM gone g WHERE g.first > ?1 ORDER BY g.first LIMIT ?2");
    query.bind(mark_.first, kVerifiedAtOnce);
    std::int64_t scanned = 0;
    for (; query.step(); ++scanned) {
      mark_.first = query.integer(0);
      if (query.null(2)) continue;
      const Sequence sequence{query.number(2)};
      find_in(0, sequence, {}, number(sequence) + " is in the log, and counts as forgotten",
              "if it is lost, nobody misses it");
    }
    return scanned < kVerifiedAtOnce;
  }

  // --- The ledger and its keys ----------------------------------------------------------------

  struct RecordRow {
    Place place{};
    std::int64_t qid{};
    LedgerRow row{};
    Member member{};
    std::optional<std::string> key{};
    bool watched{};
    bool key_leads_here{};
    std::optional<Digest> digest{};              // of its entry
    std::optional<std::int64_t> published_at{};  // of its entry, in the store's time

    Sequence sequence() const { return place > 0 ? sequence_at(place) : Sequence{}; }
    std::string name() const {
      return place > 0 ? number(sequence()) : "'" + key.value_or("") + "'";
    }
  };

  bool look_at_ledger() {
    Query query = db_.query(
        "SELECT g.place, g.qid, g.state, g.due, g.revision, g.stamp, g.member, g.key, g.watched,"
        " EXISTS (SELECT 1 FROM keys k WHERE k.qid = g.qid AND k.kind IN (0, 1) AND k.key = g.key"
        "  AND k.place = g.place),"
        " (SELECT digest FROM log WHERE g.place > 0 AND sequence = (g.place & ?3) / 2), "
        "length(g.record),"
        " (SELECT appended_at FROM log WHERE g.place > 0 AND sequence = (g.place & ?3) / 2), g.owes"
        " FROM ledger g WHERE g.place > ?1 ORDER BY g.place LIMIT ?2");
    query.bind(mark_.first, kVerifiedAtOnce, first_place(1) - 1);
    std::int64_t scanned = 0;
    std::size_t bytes = 0;
    while (query.step()) {
      ++scanned;
      mark_.first = query.integer(0);
      bytes += query.number(11);
      look_at_record(record_row(query));
      if (bytes >= kVerifyPageBytes) return false;
    }
    return scanned < kVerifiedAtOnce;
  }

  static RecordRow record_row(const Query& query) {
    RecordRow row{.place = query.integer(0),
                  .qid = query.integer(1),
                  .row = {.place = query.integer(0),
                          .state = static_cast<State>(query.integer(2)),
                          .revision = {query.number(4)},
                          .stamp = store_time(query.integer(5)),
                          .owes = query.integer(13) != 0},
                  .member = {query.number(6)},
                  .watched = query.integer(8) != 0,
                  .key_leads_here = query.integer(9) != 0,
                  .published_at = query.optional(12)};
    if (!query.null(3)) row.row.due = store_time(query.integer(3));
    if (!query.null(7)) row.key = std::string(query.bytes(7));
    const std::string_view digest = query.bytes(10);
    if (digest.size() == sizeof(Digest::bytes)) {
      row.digest.emplace();
      std::copy(digest.begin(), digest.end(), row.digest->bytes.begin());
    }
    return row;
  }

  void look_at_record(const RecordRow& row) {
    if (removed_.contains(row.qid)) return;
    const auto tell = [&](std::string what, std::string harm) {
      find_in(row.qid, row.sequence(), row.key.value_or(""), row.name() + ": " + std::move(what),
              std::move(harm));
    };
    const auto queue = queues_.find(row.qid);
    if (queue == queues_.end() || (row.place > 0 && row.place >> kSequenceBits != row.qid)) {
      tell("its record is filed under queue number " + std::to_string(row.qid) +
               ", which is not the one of its place",
           "its queue does not find the record, and the task may run again");
      return;
    }
    look_at_key(row, *queue->second.queue, tell);
    look_at_watch(row, queue->second, tell);
    const std::int64_t stamp = row.row.stamp.time_since_epoch().count();
    look_at_times(stamp, row.published_at.value_or(stamp), tell);
    std::optional<Record> record;
    try {
      record = read_record(db_, row.row, holders_).record;
    } catch (const StatementFailure&) {
      throw;
    } catch (const Failure& failure) {
      tell("its record cannot be read: " + failure.error().message,
           "the task does not run until the record is mended");
      return;
    }
    const core::RecordNote noted{.state = row.row.state,
                                 .member = row.member,
                                 .sequence = row.sequence(),
                                 .revision = row.row.revision,
                                 .digest = row.digest ? &*row.digest : nullptr};
    if (std::string wrong = core::contradiction(*record, noted); !wrong.empty())
      tell(std::move(wrong), "the task may run again, or never");
    look_at_reply(row, *record, tell);
    if (row.row.due && !core::look_again(*record))
      tell("the feed looks at it again, though its record is done with",
           "a worker is handed a task for nothing");
    look_at_due(row, queue->second, *record, tell);
  }

  template <class Tell>
  void look_at_reply(const RecordRow& row, const Record& record, const Tell& tell) {
    if (row.row.owes == record.reply_due) return;
    if (record.reply_due)
      tell("its record owes a reply, and its row says that it does not",
           "its records may be forgotten before the waiting run has its reply");
    else
      tell("its row says that it owes a reply, and its record does not",
           "its records are not forgotten until a worker gets the task again");
  }

  // The feed hands a task over again when its record says so, or a lease after it handed it over last.
  template <class Tell>
  void look_at_due(const RecordRow& row, const QueueRow& queue, const Record& record,
                   const Tell& tell) {
    const auto again = core::look_again(record);
    if (!again || !row.row.due) return;
    const Duration lease = std::max(queue.longest_lease, queue.queue->definition.lease);
    const Duration longest = std::max(*again, lease) + kDueSlack;
    if (*row.row.due > store_time(zone_.time.last) + longest)
      tell("the feed looks at it later than its record says", "the task does not run until then");
  }

  template <class Tell>
  void look_at_key(const RecordRow& row, const KnownQueue& queue, const Tell& tell) {
    const bool needs_key = row.place < 0 || (!queue.by_id() && row.place % 2 == 0);
    if (needs_key && !row.key)
      tell("its record has no key", "a task of the same key runs a second time");
    else if (row.key && !row.key_leads_here)
      tell("the index of keys does not lead to the record of key '" + *row.key + "'",
           "a task of the same key runs a second time");
  }

  // A claim that is not in the index of `due` is found between the queue's swept and its cursor.
  template <class Tell>
  void look_at_watch(const RecordRow& row, const QueueRow& queue, const Tell& tell) {
    if (row.watched || !row.row.due) return;
    const auto sequence = static_cast<std::int64_t>(row.sequence().value);
    const std::int64_t due = row.row.due->time_since_epoch().count();
    if (sequence <= queue.swept || !queue.lapse || *queue.lapse > due)
      tell("nobody watches its claim",
           "if its worker dies, that is not noticed until a sweep finds it");
  }

  bool look_at_keys() {
    Query query = db_.query(
        "SELECT k.qid, k.kind, k.key, k.place, g.place IS NULL, g.qid = k.qid AND g.key = k.key"
        " FROM keys k LEFT JOIN ledger g ON g.place = k.place"
        " WHERE (k.qid, k.kind, k.key) > (?1, ?2, ?3) ORDER BY k.qid, k.kind, k.key LIMIT ?4");
    const std::string after = mark_.text;
    query.bind(mark_.first, mark_.second, std::string_view(after), kVerifiedAtOnce);
    std::int64_t scanned = 0;
    for (; query.step(); ++scanned) {
      mark_.first = query.integer(0);
      mark_.second = query.integer(1);
      mark_.text = query.bytes(2);
      if (removed_.contains(mark_.first)) continue;
      const char* harm = "a task of that key is taken for another one, or does not run";
      const auto tell = [&](const char* what) {
        find_in(mark_.first, {}, mark_.text, "the index of keys has '" + mark_.text + "', " + what,
                harm);
      };
      if (!queues_.contains(mark_.first))
        tell("which belongs to no queue");
      else if (query.integer(4) != 0)
        tell("which leads to no record");
      else if (query.integer(5) == 0)
        tell("which leads to the record of another key");
    }
    return scanned < kVerifiedAtOnce;
  }

  // --- Deliveries -----------------------------------------------------------------------------

  bool look_at_pending() {
    Query query = db_.query(
        "SELECT p.qid, p.sequence, p.first, p.due, l.topic, l.appended_at + l.delay, l.id,"
        " p.wake FROM pending p LEFT JOIN log l ON l.sequence = p.sequence"
        " WHERE (p.qid, p.sequence) > (?1, ?2) ORDER BY p.qid, p.sequence LIMIT ?3");
    query.bind(mark_.first, mark_.second, kVerifiedAtOnce);
    std::int64_t scanned = 0;
    for (; query.step(); ++scanned) {
      mark_.first = query.integer(0);
      mark_.second = query.integer(1);
      if (!removed_.contains(mark_.first)) look_at_delivery(query);
    }
    return scanned < kVerifiedAtOnce;
  }

  void look_at_delivery(const Query& query) {
    const Sequence sequence{query.number(1)};
    const auto tell = [&](std::string what, std::string harm) {
      find_in(mark_.first, sequence, query.bytes(6),
              "a delivery of " + number(sequence) + " is pending, " + std::move(what),
              std::move(harm));
    };
    const auto queue = queues_.find(mark_.first);
    const char* for_nothing = "none; it is deleted when its time comes";
    if (queue == queues_.end())
      tell("and belongs to no queue", for_nothing);
    else if (query.null(4))
      tell("and the log does not have that task", for_nothing);
    else if (!queue->second.queue->has(query.bytes(4), sequence.value))
      tell("and the task is not one of the queue's",
           "a task runs in a queue that does not take it");
    else if (query.integer(2) != 0 && query.optional(5) != query.optional(3))
      tell("and not at the task's not-before", "the task runs too early or too late");
    else if (!query.null(7) && !encoding::decode_order(query.bytes(7)))
      tell("and its order cannot be read", "what a person ordered is not done");
  }

  // --- Totals ---------------------------------------------------------------------------------

  // One queue at a time, and then what no queue has. What is compared must be of one moment, so this
  // is one long read; it keeps nobody from writing.
  bool look_at_totals() {
    const auto next = queues_.upper_bound(mark_.first);
    if (next == queues_.end()) {
      look_at_unrouted();
      return true;
    }
    mark_.first = next->first;
    look_at_states(next->first, next->second);
    if (!next->second.queue->ledger_only()) look_at_matches(next->first, next->second);
    return false;
  }

  void look_at_states(std::int64_t qid, const QueueRow& row) {
    std::array<std::int64_t, kStates> counted{};
    // An entry's own record is the one that counts.
    Query query = db_.query(
        "SELECT state, count(*) FROM ledger g WHERE place > ?1 AND place < ?2 AND (place % 2 = 1"
        " OR NOT EXISTS (SELECT 1 FROM ledger o WHERE o.place = g.place + 1)) GROUP BY state");
    Query alone = db_.query(
        "SELECT g.state, count(*) FROM keys k JOIN ledger g ON g.place = k.place WHERE k.qid = ?1"
        " AND k.kind = 0 GROUP BY g.state");
    Query& asked = row.queue->ledger_only() ? alone.bind(qid)
                                            : query.bind(first_place(qid), first_place(qid + 1));
    while (asked.step())
      if (const auto state = asked.number(0); state < kStates) counted[state] = asked.integer(1);
    Query noted = db_.query(
        "SELECT waiting, running, retrying, in_doubt, completed, dead, cancelled, duplicate"
        " FROM queue WHERE qid = ?1");
    if (!noted.bind(qid).step()) return;
    for (std::size_t state = 1; state < kStates; ++state)
      if (const std::int64_t says = noted.integer(static_cast<int>(state) - 1);
          says != counted[state])
        find_in(qid, {}, {},
                "its total of tasks that are " + std::string(to_string(static_cast<State>(state))) +
                    " is " + std::to_string(says) + ", and the ledger has " +
                    std::to_string(counted[state]),
                "the status and the metrics show wrong numbers; a worker that runs until empty may "
                "end too early or never");
  }

  void look_at_matches(std::int64_t qid, const QueueRow& row) {
    TopicFilter wanted(row.queue->definition);
    std::int64_t matched = 0;
    std::int64_t last = 0;
    Query query = db_.query(
        "SELECT l.sequence, l.topic, l.stage FROM log l WHERE l.sequence >= ?1"
        " AND (l.stage = 0 OR EXISTS (SELECT 1 FROM ledger g WHERE g.place"
        "  BETWEEN ?2 + l.sequence * 2 AND ?2 + l.sequence * 2 + 1)) ORDER BY l.sequence");
    query.bind(row.queue->first(), first_place(qid));
    while (query.step()) {
      if (!wanted.matches(query.bytes(1))) continue;
      ++matched;
      if (query.integer(2) == 0) last = query.integer(0);
    }
    Query noted = db_.query("SELECT matched FROM queue WHERE qid = ?1");
    if (noted.bind(qid).step() && noted.integer(0) != matched)
      find_in(qid, {}, {},
              "its total of tasks is " + std::to_string(noted.integer(0)) + ", and the log has " +
                  std::to_string(matched),
              "the status and the metrics show wrong numbers; a worker that runs until empty may "
              "end too early or never");
    if (last > row.tail)
      find_in(qid, {static_cast<std::uint64_t>(last)}, {},
              "its tail is at #" + std::to_string(row.tail) + ", and its last task is #" +
                  std::to_string(last),
              "the tasks behind it do not run until another one is published");
  }

  // The index of the table tells it: no value is read.
  void look_at_values() {
    Query query = db_.query(
        "SELECT DISTINCT place FROM value WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE "
        "ledger.place = value.place) LIMIT ?1");
    query.bind(kVerifiedAtOnce);
    while (query.step())
      find("a large result at place " + std::to_string(query.integer(0)) + " belongs to no record",
           "it stays in the file for ever, though its record is forgotten");
  }

  void look_at_unrouted() {
    std::int64_t counted = 0;
    Query query = db_.query("SELECT sequence, topic FROM log WHERE stage = 0");
    while (query.step()) {
      const std::string_view topic = query.bytes(1);
      const std::uint64_t sequence = query.number(0);
      if (!core::own_topic(topic) &&
          std::none_of(queues_.begin(), queues_.end(),
                       [&](const auto& each) { return each.second.queue->has(topic, sequence); }))
        ++counted;
    }
    if (counted != zone_.unrouted)
      find("the zone's total of tasks that no queue takes is " + std::to_string(zone_.unrouted) +
               ", and the log has " + std::to_string(counted),
           "the status and the metrics show a wrong number");
  }

  Connection& db_;
  HolderCheck& holders_;
  VerifyMark mark_;
  ZoneRow zone_{};
  std::map<std::int64_t, QueueRow> queues_{};
  std::set<std::int64_t> removed_{};
  Store::VerifyPage page_{};
};

}  // namespace

Result<Store::VerifyPage> SqliteStore::verify(Depth depth, const std::string& after) {
  return database_->read([&](ReadTransaction& transaction) {
    return Verification(transaction, VerifyMark::from(after)).run(depth);
  });
}

}  // namespace once::store::sqlite
