// A thin layer over SQLite's C interface: a connection that prepares each statement once, and a
// query that is one use of such a statement. A call that fails throws once::Failure. Only one
// thread at a time may use a connection.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/types.h"
#include "once/task.h"
#include "store/sqlite/zone_files.h"

namespace once::store::sqlite {

struct Blob {
  std::string_view bytes;
};

template <std::size_t N, class Tag>
Blob blob(const core::Bytes<N, Tag>& bytes) {
  return {{reinterpret_cast<const char*>(bytes.bytes.data()), N}};
}

// One use of a prepared statement. After the destructor, the statement can be used again. Bound
// text and blobs must stay valid until the statement has run.
class Query {
 public:
  Query(sqlite3_stmt* statement, std::string_view path) : statement_(statement), path_(path) {}
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;
  ~Query() { sqlite3_reset(statement_); }

  // Gives values to the parameters ?1, ?2, ... in order.
  template <class... Values>
  Query& bind(const Values&... values) {
    return bind_from(1, values...);
  }
  // The same from the parameter with the number `first` on.
  template <class... Values>
  Query& bind_from(int first, const Values&... values) {
    (bind_one(first++, values), ...);
    return *this;
  }
  bool step();  // true: there is a row
  void run();   // to its end; then it can be bound again

  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  std::uint64_t number(int column) const { return static_cast<std::uint64_t>(integer(column)); }
  bool null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::string_view bytes(int column) const;  // of text or a blob, until the next step
  std::optional<std::int64_t> optional(int column) const {
    return null(column) ? std::nullopt : std::optional(integer(column));
  }

 private:
  void bind_one(int index, std::int64_t value) {
    check(sqlite3_bind_int64(statement_, index, value));
  }
  void bind_one(int index, std::uint64_t value) {
    bind_one(index, static_cast<std::int64_t>(value));
  }
  void bind_one(int index, int value) { bind_one(index, std::int64_t{value}); }
  template <class Tag>
  void bind_one(int index, core::Number<Tag> value) {
    bind_one(index, value.value);
  }
  void bind_one(int index, core::StoreTime value) {
    bind_one(index, std::int64_t{value.time_since_epoch().count()});
  }
  void bind_one(int index, std::string_view text);
  void bind_one(int index, Blob blob);
  void bind_one(int index, std::nullopt_t) { check(sqlite3_bind_null(statement_, index)); }
  template <class Value>
  void bind_one(int index, const std::optional<Value>& value) {
    value ? bind_one(index, *value) : bind_one(index, std::nullopt);
  }
  void check(int code);

  sqlite3_stmt* statement_;
  std::string_view path_;
};

class Connection {
 public:
  enum class Use { read, write };

  // Opens (and, for a writer that may, creates) the database with the settings every connection of
  // Once has: no checkpoint but an explicit one, every commit synced.
  Connection(std::string path, Use use, bool create, Duration busy_wait);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // `sql` is a literal: the statement is kept under its address.
  Query query(const char* sql);
  // Several statements that are run once.
  void script(const std::string& sql);
  // Ends the transaction. Returns SQLite's code, because only the caller knows what a failure means.
  int commit();
  std::int64_t changes() const { return sqlite3_changes64(db_); }

  sqlite3* handle() { return db_; }
  const std::string& path() const { return path_; }
  void set_busy_wait(Duration wait) { sqlite3_busy_timeout(db_, static_cast<int>(wait.count())); }
  // Syncs the write-ahead log, once per connection. Call it in a transaction before its results are
  // used. The first connection to a file accepts every complete commit in the write-ahead log. The
  // sync of such a commit may have failed, or its process was killed before the sync.
  void sync_log_once();
  // Call it in the first transaction. Registers the files that the connection has open until it is
  // closed.
  void pin(ZoneFiles& files);
  // In a write transaction: the least size of the write-ahead log, according to its index. Zero if
  // SQLite does not say.
  std::int64_t committed_log_size();
  // Lets SQLite checkpoint when this connection is closed and is the file's last.
  void checkpoint_on_close();

 private:
  void close();

  std::string path_;
  sqlite3* db_ = nullptr;
  bool log_synced_ = false;
  ZoneFiles* files_ = nullptr;  // of the database that owns this; null: not pinned yet
  std::unordered_map<const char*, sqlite3_stmt*> statements_;
};

}  // namespace once::store::sqlite
