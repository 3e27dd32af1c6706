#include "store/sqlite/failure.h"

#include <cerrno>
#include <system_error>

namespace once::store::sqlite {
namespace {

bool out_of_space(sqlite3* db, int code) {
  if ((code & 0xff) == SQLITE_FULL) return true;
  if ((code & 0xff) != SQLITE_IOERR && (code & 0xff) != SQLITE_CANTOPEN) return false;
  const int error = db ? sqlite3_system_errno(db) : 0;
  return error == ENOSPC || error == EDQUOT;
}

std::string reason(sqlite3* db, int code) {
  std::string text = db ? sqlite3_errmsg(db) : sqlite3_errstr(code);
  const int error = db ? sqlite3_system_errno(db) : 0;
  if (error != 0 && ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN))
    text += ", " + errno_text(error);
  return text;
}

}  // namespace

std::string errno_text(int error) { return std::generic_category().message(error); }

Error unusable(std::string message) {
  return {.code = Code::store_unusable, .message = std::move(message)};
}

Error statement_error(sqlite3* db, int code, std::string_view path) {
  const std::string file(path);
  if (out_of_space(db, code))
    return {.code = Code::store_unusable,
            .message = "the disk is full: nothing was written to " + file +
                       "; free some space and try again",
            .retryable = true};
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {.code = Code::store_unavailable,
              .message = "another program holds " + file +
                         " locked: nothing was written; close it and try again",
              .retryable = true};
    case SQLITE_NOTADB:
      return unusable(file + " is not a database: nothing was changed; choose another path");
    case SQLITE_CORRUPT:
      return unusable(file + " is damaged (" + reason(db, code) +
                      "): nothing was written; restore a backup, or salvage it with " +
                      "`sqlite3 FILE .recover`");
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return unusable(file + " is read-only here: nothing was written; give this user write " +
                      "access to the file and its folder");
    case SQLITE_CANTOPEN:
      return unusable(file + " cannot be opened (" + reason(db, code) +
                      "): nothing was written; check the path and its permissions");
    case SQLITE_IOERR:
      return {.code = Code::store_unusable,
              .message = "the disk failed under " + file + " (" + reason(db, code) +
                         "): nothing was written; check the disk and try again",
              .retryable = true};
    default:
      return {.code = Code::failed,
              .message = "SQLite refused a statement on " + file + " (" + reason(db, code) +
                         "): nothing was written"};
  }
}

// A commit in WAL mode writes its pages to the log, the one that marks the commit last, and then
// syncs. A write that found no room therefore left no commit behind: a page that is not all there
// fails its checksum. Anything later, the sync above all and the growth of the index that follows it,
// leaves the outcome open until the log is read again.
Error commit_error(sqlite3* db, int code, std::string_view path) {
  const int primary = code & 0xff;
  if (primary == SQLITE_FULL || (code == SQLITE_IOERR_WRITE && out_of_space(db, code)))
    return statement_error(db, code, path);
  if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) return statement_error(db, code, path);
  return {.code = Code::outcome_unknown,
          .message = "the commit to " + std::string(path) + " failed (" + reason(db, code) +
                     "): it may or may not have been written; the same call again is safe",
          .retryable = true,
          .in_doubt = true};
}

}  // namespace once::store::sqlite
