#include "store/sqlite/key_values.h"

#include "store/sqlite/ledger_rows.h"

namespace once::store::sqlite {
namespace {

constexpr std::size_t kValuePageBytes = 16 << 20;  // of values, after which a page ends
constexpr std::int64_t kRemovedAtOnce = 2'000;     // of expired values, in one transaction

// From the columns revision, stamp, expires, value at `first`.
Value value_from(const Query& query, int first) {
  Value value{.bytes = std::string(query.bytes(first + 3)),
              .revision = {query.number(first)},
              .stamp = store_time(query.integer(first + 1))};
  if (const auto expires = query.optional(first + 2))
    value.lives = store_time(*expires) - value.stamp;
  return value;
}

std::optional<Value> find(Connection& db, const std::string& key) {
  Query query = db.query("SELECT revision, stamp, expires, value FROM kv WHERE key = ?1");
  if (!query.bind(std::string_view(key)).step()) return std::nullopt;
  return value_from(query, 0);
}

std::optional<Value> live(std::optional<Value> value, StoreTime now) {
  return value && value->expired(now) ? std::nullopt : std::move(value);
}

KeyWriteResult write_one(WriteTransaction& transaction, const KeyWrite& item) {
  const std::string key = joined(item.key);
  auto there = find(transaction.db(), key);
  const bool same = item.expected ? there && there->revision == item.expected
                                  : !there || there->expired(transaction.now());
  if (!same) return {.current = live(std::move(there), transaction.now())};
  const Revision revision{++transaction.zone.last_revision};
  std::optional<StoreTime> expires;
  if (item.lives) expires = transaction.now() + *item.lives;
  transaction.db()
      .query(
          "INSERT INTO kv (key, revision, stamp, expires, value) VALUES (?1, ?2, ?3, ?4, ?5)"
          " ON CONFLICT (key) DO UPDATE SET revision = ?2, stamp = ?3, expires = ?4, value = ?5")
      .bind(std::string_view(key), revision, transaction.now(), expires, Blob{item.bytes})
      .run();
  return {.written = true, .revision = revision};
}

}  // namespace

std::vector<Result<std::optional<Value>>> KeyValues::get(std::span<const Key> keys) {
  using Answer = Result<std::optional<Value>>;
  if (keys.empty()) return {};
  auto found = database_->read([&](ReadTransaction& transaction) {
    std::vector<Answer> answers;
    answers.reserve(keys.size());
    for (const Key& key : keys)
      answers.emplace_back(live(find(transaction.db(), joined(key)), transaction.now()));
    return answers;
  });
  if (found) return std::move(*found);
  return std::vector<Answer>(keys.size(), found.error());
}

std::vector<Result<KeyWriteResult>> KeyValues::write(std::span<const KeyWrite> items) {
  using Answer = Result<KeyWriteResult>;
  if (items.empty()) return {};
  auto written = database_->write_shared([&](WriteTransaction& transaction) {
    std::vector<Answer> answers;
    answers.reserve(items.size());
    for (const KeyWrite& item : items) answers.emplace_back(write_one(transaction, item));
    return answers;
  });
  if (written) return std::move(*written);
  return std::vector<Answer>(items.size(), written.error());
}

Result<bool> KeyValues::remove(const Key& key, core::Revision revision) {
  return database_->write([&](WriteTransaction& transaction) {
    const std::string text = joined(key);
    transaction.db()
        .query("DELETE FROM kv WHERE key = ?1 AND revision = ?2")
        .bind(std::string_view(text), revision)
        .run();
    return transaction.db().changes() > 0;
  });
}

Result<KeyPage> KeyValues::list(const KeyList& query) {
  return database_->read([&](ReadTransaction& transaction) {
    const std::string prefix = joined(query.prefix);
    const std::string after = query.after.empty() ? prefix + kKeySeparator : query.after;
    const std::string end = prefix + kBehindKeys;
    Query rows = transaction.db().query(
        query.lasting ? "SELECT key, revision, stamp, expires, value FROM kv"
                        " WHERE key > ?1 AND key < ?2 AND expires IS NULL ORDER BY key"
                      : "SELECT key, revision, stamp, expires, value FROM kv"
                        " WHERE key > ?1 AND key < ?2 ORDER BY key");
    rows.bind(std::string_view(after), std::string_view(end));
    KeyPage page;
    std::size_t size = 0;
    while (rows.step()) {
      if (page.values.size() >= query.limit || size > kValuePageBytes) {
        page.next = joined(page.values.back().first);
        break;
      }
      Value value = value_from(rows, 1);
      if (value.expired(transaction.now())) continue;
      size += value.bytes.size();
      page.values.emplace_back(split_key(rows.bytes(0)), std::move(value));
    }
    return page;
  });
}

Result<std::uint64_t> KeyValues::remove_expired() {
  std::uint64_t removed = 0;
  while (true) {
    const auto any = database_->read([](ReadTransaction& transaction) {
      Query query = transaction.db().query("SELECT 1 FROM kv WHERE expires <= ?1 LIMIT 1");
      return query.bind(transaction.now()).step();
    });
    if (!any) return any.error();
    if (!*any) return removed;
    const auto gone = database_->write([](WriteTransaction& transaction) {
      transaction.db()
          .query(
              "DELETE FROM kv WHERE rowid IN"
              " (SELECT rowid FROM kv WHERE expires <= ?1 LIMIT ?2)")
          .bind(transaction.now(), kRemovedAtOnce)
          .run();
      return static_cast<std::uint64_t>(transaction.db().changes());
    });
    if (!gone) return gone.error();
    removed += *gone;
  }
}

}  // namespace once::store::sqlite
