// The files that this process uses as one zone, and whether their names still lead to them.
//
// SQLite opens a file by its name once and never looks at the name again. When somebody deletes or
// replaces the file, SQLite goes on with a file that no other process can find, and a commit to it is
// lost. So the store compares names and files before each commit, after it, and before each answer.
//
// Each process also marks the database file itself: it holds a lock of the kernel on one byte far
// behind the end of the file. The inode of the write-ahead log in use gives the byte. Two processes
// that hold different bytes use one database with two logs; the later one is refused. That finds two
// names of one database, whatever became of the first name, and a log that was deleted.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "once/result.h"
#include "once/task.h"
#include "store/sqlite/file_system.h"

namespace once::store::sqlite {

struct LogMark;

// Any thread may call. Must outlive all connections of SQLite to the database.
class ZoneFiles {
 public:
  explicit ZoneFiles(std::string database);
  ~ZoneFiles();
  ZoneFiles(const ZoneFiles&) = delete;
  ZoneFiles& operator=(const ZoneFiles&) = delete;

  // Before SQLite opens the database: waits until no process uses it with another log.
  Result<void> await_others(Duration wait);

  // A connection has its files open from its first transaction until it is closed. `moved`: SQLite says
  // that the name leads to another database. Throws like check().
  void pin(bool moved);
  void unpin();

  enum class Before { answer, commit, receipt };
  // Throws if a name does not lead to the file in use. From then on every call throws.
  void check(Before what);
  // The same before a commit, with the write lock held. Throws also if the log is shorter than
  // `log_size`: somebody truncated it, and a commit behind its end would be lost.
  void check_commit(off_t log_size);
  // Throws if the files were lost before. Looks at nothing.
  void throw_if_lost();
  // Looks again, and returns the error if the files are lost.
  std::optional<Error> lost();

  // Whether commits may be in a log that no later process will find, and the database can take them.
  bool log_can_be_saved();
  void log_was_saved();

 private:
  // All with mutex_ held.
  void look(Before what, off_t log_size = 0);
  void mark_log();
  void drop_pin();
  void drop_mark();
  [[noreturn]] void lose(const std::string& file, Before what);
  [[noreturn]] void throw_lost(Before what);
  Error lost_error() const;
  bool other_log(ino_t log);  // `log`: zero if there is none
  Error other_log_error() const;

  const std::string database_;
  const std::array<std::string, 3> names_;  // of the database, its -wal and its -shm
  const bool real_;                         // the files are files of the kernel, and not of a test
  std::mutex mutex_;
  std::shared_ptr<LogMark> mark_;                // guarded by mutex_, like all below
  std::size_t pins_ = 0;                         // connections with open files
  bool marked_ = false;                          // mark_ counts this object among its users
  std::array<std::optional<FileId>, 3> used_{};  // while pins_ > 0: database, -wal, -shm
  std::string lost_{};                           // the name that leads elsewhere; empty: none
  bool truncated_ = false;                       // lost_ is in its place, but too short
  bool in_doubt_ = false;                        // a commit was under way then
  bool saved_ = false;                           // what was committed before
};

}  // namespace once::store::sqlite
