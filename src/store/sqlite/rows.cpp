// Rows for people: what stands where, in pages of short reads.
#include <algorithm>

#include "codec/record_codec.h"
#include "store/sqlite/log_rows.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

constexpr std::int64_t kScannedRows = 1'000;  // rows per read transaction

// The records of a ledger-only queue by key: all after one, and all from the first on.
constexpr const char* kLedgerOnlyAfter =
    "SELECT k.key, g.place, g.state, g.revision, g.stamp FROM keys k JOIN ledger g"
    " ON g.place = k.place WHERE k.qid = ?1 AND k.kind = 0 AND k.key > ?2 ORDER BY k.key LIMIT ?3";
constexpr const char* kLedgerOnlyFrom =
    "SELECT k.key, g.place, g.state, g.revision, g.stamp FROM keys k JOIN ledger g"
    " ON g.place = k.place WHERE k.qid = ?1 AND k.kind = 0 AND k.key >= ?2 ORDER BY k.key LIMIT ?3";

// Entries of a queue that may be in the page, in order: what is rare is found by an index, what is
// common by going along. All are checked again.
std::vector<Sequence> candidates(Connection& db, const KnownQueue& queue,
                                 const std::optional<State>& state, Sequence after,
                                 Sequence up_to) {
  std::vector<Sequence> found;
  if (!state || *state == State::waiting) {
    Query query =
        db.query("SELECT sequence FROM log WHERE sequence > ?1 ORDER BY sequence LIMIT ?2");
    // What is asked for by its number is found without going along.
    const bool one = up_to.value == after.value + 1;
    query.bind(after, one ? 1 : kScannedRows);
    while (query.step()) found.push_back({query.number(0)});
    return found;
  }
  if (*state == State::scheduled) {
    Query query = db.query(
        "SELECT sequence FROM pending WHERE qid = ?1 AND sequence > ?2 AND first = 1"
        " ORDER BY sequence LIMIT ?3");
    query.bind(queue.qid, after, kScannedRows);
    while (query.step()) found.push_back({query.number(0)});
    return found;
  }
  const auto collect = [&](const char* sql) {
    Query query = db.query(sql);
    query.bind(queue.qid, place_of(queue.qid, after, true), first_place(queue.qid + 1),
               kScannedRows, number_of(*state));
    while (query.step()) found.push_back(sequence_at(query.integer(0)));
  };
  switch (*state) {
    case State::running:
      collect(
          "SELECT place FROM ledger WHERE qid = ?1 AND watched = 1 AND due IS NOT NULL"
          " AND state = ?5 AND place > ?2 AND place < ?3 ORDER BY place LIMIT ?4");
      collect(
          "SELECT place FROM ledger WHERE +qid = ?1 AND watched = 0 AND state = ?5"
          " AND place > max(?2, ?3 - (1 << 43) + (SELECT swept FROM queue WHERE qid = ?1) * 2)"
          " AND place < ?3 ORDER BY place LIMIT ?4");
      std::sort(found.begin(), found.end());
      if (found.size() > kScannedRows) found.resize(kScannedRows);
      break;
    case State::completed:
      collect(
          "SELECT place FROM ledger WHERE +qid = ?1 AND state = ?5 AND place > ?2 AND place < ?3"
          " ORDER BY place LIMIT ?4");
      break;
    default:
      collect(
          "SELECT place FROM ledger WHERE qid = ?1 AND state = ?5 AND state NOT IN (2, 5)"
          " AND place > ?2 AND place < ?3 ORDER BY place LIMIT ?4");
  }
  return found;
}

// One that is damaged says nothing but that it waits.
std::optional<core::Order> waiting_order(Connection& db, const KnownQueue& queue,
                                         Sequence sequence) {
  Query query =
      db.query("SELECT wake FROM pending WHERE qid = ?1 AND sequence = ?2 AND wake IS NOT NULL");
  if (!query.bind(queue.qid, sequence).step()) return std::nullopt;
  auto order = encoding::decode_order(query.bytes(0));
  return order ? std::move(*order) : core::Order{};
}

// Where a page goes on, in the queue it has come to.
struct Mark {
  Sequence sequence{};
  std::optional<std::string> key{};  // in a ledger-only queue; none: from its beginning
};

std::string key_at(Connection& db, const LedgerRow& row) {
  Query query = db.query("SELECT key FROM ledger WHERE place = ?1");
  return query.bind(row.place).step() ? std::string(query.bytes(0)) : std::string();
}

class PageReader {
 public:
  PageReader(const RowFilter& filter, std::size_t limit)
      : filter_(filter), limit_(limit), topics_(filter.topic) {}

  // Reads on after `mark`, which moves; true: the queue has no more, or the page is full.
  bool read(ReadTransaction& transaction, const KnownQueue& queue, Mark& mark) {
    return queue.ledger_only() ? read_ledger_only(transaction, queue, mark.key)
                               : read_entries(transaction, queue, mark.sequence);
  }

  Inspection::Page page{};

 private:
  bool read_entries(ReadTransaction& transaction, const KnownQueue& queue, Sequence& sequence) {
    const Sequence before_first{queue.first() > 0 ? queue.first() - 1 : 0};
    sequence = std::max(sequence, before_first);
    const auto found = candidates(transaction.db(), queue, filter_.state, sequence, filter_.up_to);
    TopicFilter own(queue.definition);
    for (const Sequence candidate : found) {
      if (candidate == sequence) continue;  // the other row of the same entry
      if (filter_.up_to && candidate > filter_.up_to) return true;
      if (full()) {
        page.more = true;
        return true;
      }
      if (auto row = row_of(transaction, queue, own, candidate)) add(std::move(*row));
      sequence = candidate;
    }
    return found.size() < static_cast<std::size_t>(kScannedRows);
  }

  // The rows of a ledger-only queue, by key.
  bool read_ledger_only(ReadTransaction& transaction, const KnownQueue& queue,
                        std::optional<std::string>& key) {
    if (!filter_.topic.empty()) return true;
    std::vector<std::pair<std::string, LedgerRow>> found;
    {
      Query query = transaction.db().query(key ? kLedgerOnlyAfter : kLedgerOnlyFrom);
      query.bind(queue.qid, key ? std::string_view(*key) : std::string_view(), kScannedRows);
      while (query.step())
        found.push_back({std::string(query.bytes(0)),
                         {.place = query.integer(1),
                          .state = static_cast<State>(query.integer(2)),
                          .revision = {query.number(3)},
                          .stamp = store_time(query.integer(4))}});
    }
    for (const auto& [name, record] : found) {
      if (full()) {
        page.more = true;
        return true;
      }
      key = name;
      if (filter_.state && *filter_.state != record.state) continue;
      Row row{.queue = queue.definition.name, .key = name};
      show_record(transaction.db(), record, transaction.holders(), row, values());
      if (!filter_.since || row.stored->record.since >= *filter_.since) add(std::move(row));
    }
    return found.size() < static_cast<std::size_t>(kScannedRows);
  }

  std::optional<Row> row_of(ReadTransaction& transaction, const KnownQueue& queue, TopicFilter& own,
                            Sequence sequence) {
    Connection& db = transaction.db();
    Row row{.queue = queue.definition.name};
    core::Stage stage{};
    {
      Query query = db.query("SELECT " ONCE_LEAN_COLUMNS ", stage FROM log WHERE sequence = ?1");
      if (!query.bind(sequence).step()) return std::nullopt;
      const std::string_view topic = query.bytes(2);
      if (!own.matches(topic) || !topics_.matches(topic)) return std::nullopt;
      row.entry = entry_from(query);
      stage = static_cast<core::Stage>(query.integer(kEntryColumns));
    }
    const EntryRows rows = read_rows(db, queue, sequence);
    const LedgerRow* counting = rows.counting();
    // Settled and forgotten, or settled before this queue came: it waits for nothing.
    if (!counting && stage != core::Stage::whole) return std::nullopt;
    row.own = rows.own.has_value();
    row.order = waiting_order(db, queue, sequence);
    // By the row's own word before its record is read: most are read for nothing else.
    if (counting) row.stored = Stored{.record = {.state = counting->state}};
    if (filter_.state && *filter_.state != state_of(row, transaction.now())) return std::nullopt;
    if (counting) show_record(db, *counting, transaction.holders(), row, values());
    const Time since = counting ? row.stored->record.since : row.entry.published_at;
    if (filter_.since && since < *filter_.since) return std::nullopt;
    if (queue.by_id())
      row.key = row.entry.id;
    else if (rows.task)
      row.key = key_at(db, *rows.task);
    return row;
  }

  Values values() const { return filter_.lean ? Values::leave : Values::read; }

  // Many may be asked for at once, and each may have a result of many megabytes.
  bool full() const { return page.rows.size() == limit_ || results_ >= kMostResults; }
  void add(Row row) {
    if (row.stored && row.stored->record.result)
      results_ += row.stored->record.result->text().size();
    if (row.stored)
      for (const core::Step& step : row.stored->record.steps) results_ += step.result.text().size();
    page.rows.push_back(std::move(row));
  }

  static constexpr std::size_t kMostResults = 16 << 20;  // bytes
  const RowFilter& filter_;
  const std::size_t limit_;
  std::size_t results_ = 0;
  TopicFilter topics_;
};

}  // namespace

Result<Inspection::Page> SqliteStore::rows(const RowFilter& filter, const Row* after,
                                           std::size_t limit) {
  PageReader reader(filter, limit);
  std::string queue = after ? after->queue : std::string();
  Mark mark;
  if (after) mark = {.sequence = after->entry.sequence, .key = after->key};
  // One short read after the other; between two of them queues may come and go.
  while (true) {
    auto ended = database_->read([&](ReadTransaction& transaction) {
      for (const KnownQueue& known : transaction.queues().all()) {
        const std::string& name = known.definition.name;
        if (name < queue || (!filter.queue.empty() && name != filter.queue)) continue;
        if (name != queue) mark = {};
        queue = name;
        if (!reader.read(transaction, known, mark)) return false;
        if (reader.page.more) return true;
      }
      return true;
    });
    if (!ended) return ended.error();
    if (*ended) return std::move(reader.page);
  }
}

}  // namespace once::store::sqlite
