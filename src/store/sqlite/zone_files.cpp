#include "store/sqlite/zone_files.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "store/file_descriptor.h"
#include "store/sqlite/failure.h"
#include "store/sqlite/open_files.h"

namespace once::store::sqlite {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kDatabase = 0;
constexpr std::size_t kLog = 1;
constexpr std::chrono::milliseconds kLook{20};

// SQLite locks bytes at 1 GiB. No file reaches these.
constexpr off_t kFirstMark = off_t{1} << 62U;
constexpr off_t kLastMark = std::numeric_limits<off_t>::max() - 1;

struct flock lock_on(off_t first, off_t last, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = first;
  lock.l_len = last - first + 1;
  return lock;
}

off_t lock_byte_of(ino_t log) {
  return kFirstMark + static_cast<off_t>(log % static_cast<ino_t>(kLastMark - kFirstMark));
}

}  // namespace

// Closing any descriptor of the database drops the locks that SQLite holds on it in this process. So
// there is one descriptor per database and process. It is closed when no store uses the database.
struct LogMark {
  FileDescriptor fd{};
  FileId database{};
  ino_t log = 0;          // whose byte is held; guarded by the mutex of the marks, like users
  std::size_t users = 0;  // stores that have that log open
};

namespace {

std::mutex marks_mutex;
std::map<std::pair<dev_t, ino_t>, std::weak_ptr<LogMark>> marks;  // guarded by marks_mutex

// nullptr if the database cannot be opened.
std::shared_ptr<LogMark> mark_on(const std::string& database) {
  const std::lock_guard lock(marks_mutex);
  const auto named = file_named(database);
  if (!named) return nullptr;
  auto& known = marks[{named->device, named->inode}];
  if (auto mark = known.lock()) return mark;
  auto mark = std::make_shared<LogMark>();
  mark->fd = FileDescriptor(open(database.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  const auto opened = file_of(mark->fd.get());
  if (!opened) return nullptr;
  mark->database = *opened;
  known = mark;
  return mark;
}

// Under the mutex: a store that is being opened finds the descriptor before or after, never in between.
void let_go(std::shared_ptr<LogMark>& mark) {
  const std::lock_guard lock(marks_mutex);
  mark.reset();
  std::erase_if(marks, [](const auto& each) { return each.second.expired(); });
}

bool held_by_others(const LogMark& mark, off_t first, off_t last) {
  if (first > last) return false;
  struct flock lock = lock_on(first, last, F_WRLCK);
  return fcntl(mark.fd.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::string users_of(const std::string& database) {
  std::string text;
  for (const OpenedBy& each : who_has_open(database).others)
    text += (text.empty() ? "" : ", ") + each.name + " (" + std::to_string(each.pid) + ")";
  return text.empty() ? "another process" : text;
}

}  // namespace

ZoneFiles::ZoneFiles(std::string database)
    : database_(std::move(database)),
      names_{database_, database_ + "-wal", database_ + "-shm"},
      real_(std::string_view(sqlite3_vfs_find(nullptr)->zName) == "unix") {}

ZoneFiles::~ZoneFiles() {
  if (mark_) let_go(mark_);
}

bool ZoneFiles::other_log(ino_t log) {
  if (!mark_) mark_ = mark_on(database_);
  if (!mark_) return false;
  {
    const std::lock_guard lock(marks_mutex);
    if (mark_->users > 0 && mark_->log != log) return true;
  }
  const off_t own = log == 0 ? kFirstMark - 1 : lock_byte_of(log);
  return held_by_others(*mark_, kFirstMark, own - 1) || held_by_others(*mark_, own + 1, kLastMark);
}

Error ZoneFiles::other_log_error() const {
  return Error{.code = Code::store_unusable,
               .message = "a process uses " + database_ +
                          " by another name, or with a -wal file that was deleted (" +
                          users_of(database_) +
                          "): nothing was done; end that process, and use one name only",
               .retryable = true};
}

Result<void> ZoneFiles::await_others(Duration wait) {
  if (!real_) return {};
  const auto until = steady_clock::now() + wait;
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      const auto log = file_named(names_[kLog]);
      if (!other_log(log ? log->inode : 0)) return {};
      if (steady_clock::now() >= until) return other_log_error();
    }
    // The other process may be closing, or it puts its log into the database.
    std::this_thread::sleep_for(kLook);
  }
}

void ZoneFiles::pin(bool moved) {
  if (!real_) return;
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) throw_lost(Before::answer);
  if (moved) lose(database_, Before::answer);
  ++pins_;
  try {
    look(Before::answer);
  } catch (...) {
    drop_pin();
    throw;
  }
}

void ZoneFiles::unpin() {
  if (!real_) return;
  const std::lock_guard lock(mutex_);
  drop_pin();
}

// Without a connection SQLite may delete and make anew what lies beside the database.
void ZoneFiles::drop_pin() {
  if (--pins_ > 0) return;
  used_ = {};
  drop_mark();
}

void ZoneFiles::drop_mark() {
  if (!std::exchange(marked_, false)) return;
  const std::lock_guard lock(marks_mutex);
  if (--mark_->users > 0) return;
  struct flock all = lock_on(kFirstMark, kLastMark, F_UNLCK);
  fcntl(mark_->fd.get(), F_OFD_SETLK, &all);
}

void ZoneFiles::look(Before what, off_t log_size) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i];
    const auto named = file_named(name);
    if (used_[i] && (!named || !named->same(*used_[i]))) lose(name, what);
    if (!used_[i]) used_[i] = named;
    if (i == kDatabase && named) used_[i]->size = std::max(used_[i]->size, named->size);
    const bool emptied = i == kDatabase && named && named->size == 0 && used_[i]->size > 0;
    if (emptied || (i == kLog && named && named->size < log_size)) {
      truncated_ = true;
      lose(name, what);
    }
    if (i != kDatabase) continue;
    if (!named || (mark_ && !named->same(mark_->database))) lose(name, what);
    if (named->names > 1 && what == Before::commit)
      throw Failure(Error{.code = Code::store_unusable,
                          .message = database_ + " has a second name (a hard link): nothing was " +
                                     "recorded; remove the other name",
                          .retryable = true});
  }
  if (!marked_ && used_[kLog]) mark_log();
}

void ZoneFiles::mark_log() {
  const ino_t log = used_[kLog]->inode;
  if (!mark_) mark_ = mark_on(database_);
  if (!mark_) return;
  {
    // The byte first: of two processes that mark at the same moment, at least one sees the other.
    const std::lock_guard lock(marks_mutex);
    if (mark_->users++ == 0) {
      struct flock byte = lock_on(lock_byte_of(log), lock_byte_of(log), F_RDLCK);
      fcntl(mark_->fd.get(), F_OFD_SETLK, &byte);
      mark_->log = log;
    }
    marked_ = true;
  }
  if (other_log(log)) throw Failure(other_log_error());
}

void ZoneFiles::lose(const std::string& file, Before what) {
  lost_ = file;
  throw_lost(what);
}

// A reader in another thread may have noticed the loss while this one committed.
void ZoneFiles::throw_lost(Before what) {
  in_doubt_ |= what == Before::receipt;
  Error error = lost_error();
  if (what == Before::receipt) {
    error.code = Code::outcome_unknown;
    error.in_doubt = true;
  }
  throw Failure(std::move(error));
}

Error ZoneFiles::lost_error() const {
  const bool is_database = lost_ == database_;
  if (truncated_)
    return unusable(
        lost_ + " was truncated while this process had " + (is_database ? "it" : database_) +
        " open: what was only in it is lost, and nothing was recorded; end all processes, and "
        "restore a backup");
  return unusable(lost_ + " was deleted, moved or replaced while this process had " +
                  (is_database ? "it" : database_) + " open: " +
                  (in_doubt_ ? "the last commit may or may not be recorded, nothing is from now on"
                             : "nothing was recorded") +
                  (saved_ ? "; everything that was recorded before is in the database; " : "; ") +
                  (is_database ? "put the database in its place, and start again"
                               : "start again, and leave the files beside the database alone"));
}

void ZoneFiles::check(Before what) {
  if (!real_) return;
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) throw_lost(what);
  if (pins_ > 0) look(what);
}

void ZoneFiles::check_commit(off_t log_size) {
  if (!real_) return;
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) throw_lost(Before::commit);
  if (pins_ > 0) look(Before::commit, log_size);
}

void ZoneFiles::throw_if_lost() {
  const std::lock_guard lock(mutex_);
  if (!lost_.empty()) throw_lost(Before::answer);
}

std::optional<Error> ZoneFiles::lost() {
  try {
    check(Before::answer);
  } catch (const Failure&) {
  }
  const std::lock_guard lock(mutex_);
  if (lost_.empty()) return std::nullopt;
  return lost_error();
}

bool ZoneFiles::log_can_be_saved() {
  const std::lock_guard lock(mutex_);
  if (lost_.empty() || truncated_ || saved_ || pins_ == 0 || !mark_ || !used_[kLog]) return false;
  // The database must still have a name, and nobody may have written to a new log.
  const auto database = file_of(mark_->fd.get());
  if (!database || database->names == 0) return false;
  if (other_log(used_[kLog]->inode)) return false;
  struct stat log {};
  if (stat(names_[kLog].c_str(), &log) != 0) return errno == ENOENT;
  const bool is_ours = FileId{log.st_dev, log.st_ino, 0, 0}.same(*used_[kLog]);
  // With our log in place, and the database as well, everybody finds what is in it.
  const auto named = file_named(database_);
  return is_ours ? !named || !named->same(*used_[kDatabase]) : log.st_size == 0;
}

void ZoneFiles::log_was_saved() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(saved_, true)) return;
  drop_mark();  // others need not wait for the end of this process
}

}  // namespace once::store::sqlite
