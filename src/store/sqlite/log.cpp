// The log: one entry per id, in commit order.
#include <algorithm>

#include "core/names.h"
#include "store/sqlite/log_rows.h"
#include "store/sqlite/store_impl.h"

namespace once::store::sqlite {
namespace {

// A page of a read ends at the first of these limits, so that no read transaction is long.
constexpr std::size_t kScannedEntries = 2'000;
constexpr std::size_t kLogPageBytes = 8 << 20;

struct Known {
  Sequence sequence{};
  Digest digest{};
  Nonce nonce{};
};

template <std::size_t N, class Tag>
void take(std::string_view from, core::Bytes<N, Tag>& to) {
  if (from.size() == N) std::copy(from.begin(), from.end(), to.bytes.begin());
}

Known known_entry(Connection& db, std::string_view id) {
  Query query = db.query(
      "SELECT l.sequence, l.digest, l.nonce FROM ids i JOIN log l ON l.sequence = i.sequence"
      " WHERE i.id = ?1");
  Known known;
  if (query.bind(id).step()) {
    known.sequence = {query.number(0)};
    take(query.bytes(1), known.digest);
    take(query.bytes(2), known.nonce);
  }
  return known;
}

AppendResult append_again(WriteTransaction& transaction, const Append& item) {
  const Known known = known_entry(transaction.db(), item.id);
  const core::AppendVerdict verdict =
      core::judge_append(item.nonce, item.digest, known.nonce, known.digest);
  if (verdict == core::AppendVerdict::duplicate)
    transaction.db()
        .query("UPDATE log SET duplicates = duplicates + 1 WHERE sequence = ?1")
        .bind(known.sequence)
        .run();
  return {.verdict = verdict, .sequence = known.sequence, .digest = known.digest};
}

// Counts the new entry for each queue that takes it. An entry with a delay becomes a pending row.
void route(WriteTransaction& transaction, const std::vector<std::size_t>& places,
           std::uint64_t sequence, const Append& item) {
  bool routed = false;
  for (const std::size_t place : places) {
    const KnownQueue& queue = transaction.queues().all()[place];
    if (sequence < queue.first()) continue;
    QueueDelta& delta = transaction.delta(queue);
    delta.changed = true;
    ++delta.matched;
    delta.last_match = static_cast<std::int64_t>(sequence);
    if (delta.first_match == 0) delta.first_match = delta.last_match;
    if (item.delay > Duration{0})
      schedule(transaction, queue, {sequence}, transaction.now() + item.delay);
    routed = true;
  }
  if (routed)
    transaction.due_at(transaction.now());
  else if (!core::own_topic(item.topic))
    ++transaction.zone.unrouted;
}

#define ONCE_LOG_ROW "(?1, ?2, ?1, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define ONCE_4_LOG_ROWS ONCE_LOG_ROW ", " ONCE_LOG_ROW ", " ONCE_LOG_ROW ", " ONCE_LOG_ROW
#define ONCE_INSERT_LOG                                                                          \
  "INSERT INTO log (stage_at, published_at, appended_at, stage, duplicates, sequence, topic, id" \
  ", digest, nonce, delay, lives, headers, is_json, body) VALUES "
constexpr const char* kInsertEntry = ONCE_INSERT_LOG ONCE_LOG_ROW;
constexpr const char* kInsertEntries = ONCE_INSERT_LOG ONCE_4_LOG_ROWS ", " ONCE_4_LOG_ROWS;
constexpr std::size_t kLogRowsPerStatement = 8;
constexpr int kParametersPerRow = 10;

// Appends items in one transaction. Many rows share one statement, as in row_batch.h.
class Appender {
 public:
  explicit Appender(WriteTransaction& transaction) : transaction_(transaction) {}

  // `item` must stay valid until flush().
  AppendResult append(const Append& item) {
    Connection& db = transaction_.db();
    const std::vector<std::size_t>& places =
        transaction_.routes().of(transaction_.queues(), item.topic);
    const std::uint64_t sequence = transaction_.zone.last_sequence + 1;
    db.query("INSERT INTO ids (id, sequence) VALUES (?1, ?2) ON CONFLICT DO NOTHING")
        .bind(std::string_view(item.id), sequence)
        .run();
    if (db.changes() == 0) {
      flush();  // the entry that has the id may be among the rows
      AppendResult known = append_again(transaction_, item);
      known.unrouted = places.empty();
      return known;
    }
    transaction_.zone.last_sequence = sequence;
    rows_.push_back({.sequence = sequence, .item = item, .headers = encode_headers(item.headers)});
    if (rows_.size() == kLogRowsPerStatement) flush();
    route(transaction_, places, sequence, item);
    return {.verdict = core::AppendVerdict::accepted,
            .sequence = {sequence},
            .digest = item.digest,
            .unrouted = places.empty()};
  }

  void flush() {
    if (rows_.size() == kLogRowsPerStatement)
      write(kInsertEntries, rows_);
    else
      for (const LogRow& row : rows_) write(kInsertEntry, std::span(&row, 1));
    rows_.clear();
  }

 private:
  struct LogRow {
    std::uint64_t sequence{};
    const Append& item;
    std::string headers{};
  };

  void write(const char* sql, std::span<const LogRow> rows) {
    Query query = transaction_.db().query(sql);
    query.bind(transaction_.now(), transaction_.wall().time_since_epoch().count());
    int first = 3;
    for (const auto& [sequence, item, headers] : rows) {
      std::optional<std::int64_t> delay;
      if (item.delay > Duration{0}) delay = item.delay.count();
      std::optional<std::int64_t> lives;
      if (item.lives) lives = item.lives->count();
      query.bind_from(first, sequence, std::string_view(item.topic), std::string_view(item.id),
                      blob(item.digest), blob(item.nonce), delay, lives,
                      headers.empty() ? std::nullopt : std::optional<Blob>(Blob{headers}),
                      item.body.is_json() ? 1 : 0, Blob{item.body.text()});
      first += kParametersPerRow;
    }
    query.run();
  }

  WriteTransaction& transaction_;
  std::vector<LogRow> rows_{};
};

}  // namespace

std::vector<Result<AppendResult>> SqliteStore::append(std::span<const Append> items) {
  if (items.empty()) return {};
  auto written = database_->write_shared([&](WriteTransaction& transaction) {
    std::vector<Result<AppendResult>> answers;
    answers.reserve(items.size());
    Appender appender(transaction);
    for (const Append& item : items) answers.emplace_back(appender.append(item));
    appender.flush();
    return answers;
  });
  if (written) return std::move(*written);
  return std::vector<Result<AppendResult>>(items.size(), written.error());
}

Result<std::vector<Entry>> SqliteStore::read(Sequence after, std::size_t limit,
                                             std::string_view filter) {
  TopicFilter wanted(filter);
  std::vector<Entry> found;
  if (limit == 0) return found;
  while (true) {
    auto ended = database_->read([&](ReadTransaction& transaction) {
      Query query = transaction.db().query("SELECT " ONCE_ENTRY_COLUMNS
                                           " FROM log WHERE sequence > ?1 ORDER BY sequence");
      query.bind(after);
      std::size_t bytes = 0;
      for (std::size_t scanned = 0; scanned < kScannedEntries; ++scanned) {
        if (!query.step()) return true;
        after = {query.number(0)};
        if (!wanted.matches(query.bytes(2))) continue;
        found.push_back(entry_from(query));
        if (found.back().body) bytes += found.back().body->text().size();
        if (found.size() == limit || bytes >= kLogPageBytes) return true;
      }
      return false;
    });
    if (!ended) return ended.error();
    if (*ended || !found.empty()) return found;
  }
}

Result<std::optional<Entry>> SqliteStore::find(std::string_view id) {
  return database_->read([&](ReadTransaction& transaction) -> std::optional<Entry> {
    Query query = transaction.db().query(
        "SELECT " ONCE_ENTRY_COLUMNS
        " FROM log WHERE sequence = (SELECT sequence FROM ids WHERE id = ?1)");
    if (!query.bind(id).step()) return std::nullopt;
    return entry_from(query);
  });
}

}  // namespace once::store::sqlite
