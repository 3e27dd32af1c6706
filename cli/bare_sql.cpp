#include "cli/bare_sql.h"

#include <sqlite3.h>

#include <stdexcept>

namespace once::cli {

struct BareSql::Impl {
  sqlite3* db = nullptr;
  sqlite3_stmt* add_id = nullptr;
  sqlite3_stmt* add_task = nullptr;
  sqlite3_stmt* claim = nullptr;
  sqlite3_stmt* complete = nullptr;
  sqlite3_int64 sequence = 0;
  const std::string record = std::string(120, 'r');  // about the size of Once's

  [[noreturn]] void fail() const { throw std::runtime_error(sqlite3_errmsg(db)); }

  sqlite3_stmt* prepare(const char* sql) const {
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr) !=
        SQLITE_OK)
      fail();
    return statement;
  }
  void step(sqlite3_stmt* statement) const {
    if (sqlite3_step(statement) != SQLITE_DONE) fail();
    sqlite3_reset(statement);
  }
  void bind(sqlite3_stmt* statement, int at, const std::string& text) const {
    sqlite3_bind_text(statement, at, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
};

BareSql::BareSql(const std::string& path) : impl_(new Impl) {
  if (sqlite3_open(path.c_str(), &impl_->db) != SQLITE_OK) impl_->fail();
  run("PRAGMA journal_mode=WAL");
  run("PRAGMA synchronous=FULL");
  run("CREATE TABLE log(sequence INTEGER PRIMARY KEY, id TEXT, topic TEXT, body TEXT, digest "
      "BLOB)");
  run("CREATE TABLE ids(id TEXT PRIMARY KEY, sequence INTEGER) WITHOUT ROWID");
  run("CREATE TABLE ledger(queue INTEGER, sequence INTEGER, state INTEGER, record BLOB, "
      "PRIMARY KEY(queue, sequence)) WITHOUT ROWID");
  impl_->add_id = impl_->prepare("INSERT OR IGNORE INTO ids VALUES(?1, ?2)");
  impl_->add_task = impl_->prepare("INSERT INTO log VALUES(?1, ?2, 'bench', ?3, zeroblob(32))");
  impl_->claim = impl_->prepare("INSERT INTO ledger VALUES(1, ?1, 1, ?2)");
  impl_->complete =
      impl_->prepare("UPDATE ledger SET state = 2, record = ?2 WHERE queue = 1 AND sequence = ?1");
}

BareSql::~BareSql() {
  for (sqlite3_stmt* statement : {impl_->add_id, impl_->add_task, impl_->claim, impl_->complete})
    sqlite3_finalize(statement);
  sqlite3_close(impl_->db);
  delete impl_;
}

void BareSql::run(const char* sql) {
  if (sqlite3_exec(impl_->db, sql, nullptr, nullptr, nullptr) != SQLITE_OK) impl_->fail();
}

void BareSql::publish(const std::string* ids, std::size_t count, const std::string& body) {
  run("BEGIN IMMEDIATE");
  for (std::size_t i = 0; i < count; ++i) {
    impl_->bind(impl_->add_id, 1, ids[i]);
    sqlite3_bind_int64(impl_->add_id, 2, impl_->sequence + 1);
    impl_->step(impl_->add_id);
    if (sqlite3_changes(impl_->db) == 0) continue;
    sqlite3_bind_int64(impl_->add_task, 1, ++impl_->sequence);
    impl_->bind(impl_->add_task, 2, ids[i]);
    impl_->bind(impl_->add_task, 3, body);
    impl_->step(impl_->add_task);
  }
  run("COMMIT");
}

void BareSql::claim(std::size_t from, std::size_t count) {
  run("BEGIN IMMEDIATE");
  for (std::size_t i = 0; i < count; ++i) {
    sqlite3_bind_int64(impl_->claim, 1, static_cast<sqlite3_int64>(from + i));
    impl_->bind(impl_->claim, 2, impl_->record);
    impl_->step(impl_->claim);
  }
  run("COMMIT");
}

void BareSql::complete(std::size_t from, std::size_t count) {
  run("BEGIN IMMEDIATE");
  for (std::size_t i = 0; i < count; ++i) {
    sqlite3_bind_int64(impl_->complete, 1, static_cast<sqlite3_int64>(from + i));
    impl_->bind(impl_->complete, 2, impl_->record);
    impl_->step(impl_->complete);
  }
  run("COMMIT");
}

}  // namespace once::cli
