#include "store/sqlite/connection.h"

#include "store/sqlite/failure.h"

namespace once::store::sqlite {
namespace {

constexpr const char* kSettings =
    "PRAGMA synchronous=FULL;"
    "PRAGMA wal_autocheckpoint=0;"
    "PRAGMA temp_store=MEMORY;"
    "PRAGMA trusted_schema=OFF;"
    "PRAGMA secure_delete=OFF;";
// In KiB. Without cache_spill SQLite writes to the log at the commit only, after the files were checked.
constexpr const char* kWriterCache = "PRAGMA cache_size=-32768; PRAGMA cache_spill=OFF;";
constexpr const char* kCommit = "COMMIT";
constexpr const char* kReaderCache = "PRAGMA cache_size=-4096; PRAGMA query_only=ON;";

void answer_one(sqlite3_context* context, int, sqlite3_value**) { sqlite3_result_int(context, 1); }

}  // namespace

bool Query::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  throw StatementFailure(statement_error(sqlite3_db_handle(statement_), code, path_));
}

void Query::run() {
  while (step()) {
  }
  sqlite3_reset(statement_);
}

std::string_view Query::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

void Query::bind_one(int index, std::string_view text) {
  const char* data = text.data() ? text.data() : "";
  check(sqlite3_bind_text64(statement_, index, data, text.size(), SQLITE_STATIC, SQLITE_UTF8));
}

void Query::bind_one(int index, Blob blob) {
  const char* data = blob.bytes.data() ? blob.bytes.data() : "";
  check(sqlite3_bind_blob64(statement_, index, data, blob.bytes.size(), SQLITE_STATIC));
}

void Query::check(int code) {
  if (code != SQLITE_OK)
    throw StatementFailure(statement_error(sqlite3_db_handle(statement_), code, path_));
}

Connection::Connection(std::string path, Use use, bool create, Duration busy_wait)
    : path_(std::move(path)) {
  // Readers too: a reader of a WAL writes its marks beside the database.
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (create) flags |= SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path_.c_str(), &db_, flags, nullptr);
  try {
    if (code != SQLITE_OK) throw StatementFailure(statement_error(db_, code, path_));
    sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    sqlite3_db_config(db_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    // See flow_upgrade.cpp.
    sqlite3_create_function_v2(db_, "once_keeps_values", 0,
                               SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, nullptr,
                               answer_one, nullptr, nullptr, nullptr);
    set_busy_wait(busy_wait);
    script(kSettings);
    script(use == Use::write ? kWriterCache : kReaderCache);
  } catch (...) {
    close();
    throw;
  }
}

Connection::~Connection() { close(); }

void Connection::close() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  statements_.clear();
  sqlite3_close(db_);
  db_ = nullptr;
  if (files_) std::exchange(files_, nullptr)->unpin();
}

Query Connection::query(const char* sql) {
  sqlite3_stmt*& statement = statements_[sql];
  if (!statement) {
    const int code =
        sqlite3_prepare_v3(db_, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) throw StatementFailure(statement_error(db_, code, path_));
  }
  return {statement, path_};
}

void Connection::script(const std::string& sql) {
  const int code = sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) throw StatementFailure(statement_error(db_, code, path_));
}

int Connection::commit() {
  sqlite3_stmt*& statement = statements_[kCommit];
  if (!statement) {
    const int code =
        sqlite3_prepare_v3(db_, kCommit, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    if (code != SQLITE_OK) return code;
  }
  sqlite3_step(statement);
  return sqlite3_reset(statement);
}

void Connection::sync_log_once() {
  if (log_synced_) return;
  sqlite3_file* log = nullptr;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  sqlite3_int64 size = 0;
  int code = SQLITE_OK;
  if (log && log->pMethods) code = log->pMethods->xFileSize(log, &size);
  if (code == SQLITE_OK && size > 0) code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL);
  if (code != SQLITE_OK) throw StatementFailure(statement_error(nullptr, code, path_));
  log_synced_ = true;
}

void Connection::pin(ZoneFiles& files) {
  if (files_) return;
  int moved = 0;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  files.pin(moved != 0);
  files_ = &files;
}

// The beginning of the log's index, as sqlite.org/walformat.html describes it.
std::int64_t Connection::committed_log_size() {
  struct IndexHeader {
    std::uint32_t version, unused, change;
    std::uint8_t initialized, big_endian;
    std::uint16_t page_size;  // 1: 65536
    std::uint32_t frames;
  };
  constexpr int kRegion = 32'768;
  constexpr std::int64_t kLogHeader = 32;
  constexpr std::int64_t kFrameHeader = 24;
  sqlite3_file* file = nullptr;
  sqlite3_file_control(db_, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (!file || !file->pMethods || file->pMethods->iVersion < 2 || !file->pMethods->xShmMap)
    return 0;
  void volatile* region = nullptr;
  if (file->pMethods->xShmMap(file, 0, kRegion, 0, &region) != SQLITE_OK || !region) return 0;
  const auto* const header = static_cast<const volatile IndexHeader*>(region);
  const std::int64_t frames = header->frames;
  if (header->initialized == 0 || frames == 0) return 0;
  const std::int64_t page = header->page_size == 1 ? 65'536 : header->page_size;
  return kLogHeader + frames * (kFrameHeader + page);
}

void Connection::checkpoint_on_close() {
  sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
}

}  // namespace once::store::sqlite
