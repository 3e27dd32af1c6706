#include "store/sqlite/write_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>

#include "store/sqlite/failure.h"
#include "store/sqlite/file_system.h"
#include "store/sqlite/wait_alarm.h"

namespace once::store::sqlite {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAlarm{25};
// Far longer than it takes a busy crowd to pass, far shorter than a person notices.
constexpr std::chrono::milliseconds kCourtesy{300};
constexpr std::chrono::seconds kStuck{5};

struct flock turnstile(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = 0;
  lock.l_len = 1;
  return lock;
}

// The process that holds the flock on this file, from a line such as
//   1: FLOCK  ADVISORY  WRITE 4242 fe:00:131 0 EOF
// (waiters have "->" after the number).
std::optional<pid_t> holder_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return std::nullopt;
  std::ifstream locks("/proc/locks");
  std::optional<pid_t> same_inode;
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, how, place;
    pid_t pid = 0;
    if (!(words >> number >> kind >> advisory >> how >> pid >> place) || kind != "FLOCK") continue;
    unsigned major = 0, minor = 0;
    unsigned long inode = 0;
    char colon = 0;
    std::istringstream parts(place);
    if (!(parts >> std::hex >> major >> colon >> minor >> colon >> std::dec >> inode)) continue;
    if (inode != status.st_ino) continue;
    if (gnu_dev_makedev(major, minor) == status.st_dev) return pid;
    same_inode = pid;  // some file systems show another device here than fstat does
  }
  return same_inode;
}

// What /proc/PID/stat says: the name, and whether it is stopped.
std::string describe(pid_t pid) {
  std::string text = "process " + std::to_string(pid);
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const auto open = stat.find('(');
  const auto close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 2 >= stat.size())
    return text;
  text += " " + stat.substr(open, close - open + 1);
  const char state = stat[close + 2];
  if (state == 'T' || state == 't') text += ", which is stopped";
  return text;
}

}  // namespace

bool ThreadQueue::enter(steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  if (!taken_) return taken_ = true;
  Waiter self;
  const auto place = waiting_.insert(waiting_.end(), &self);
  if (self.turn.wait_until(lock, until, [&] { return self.has_it; })) return true;
  waiting_.erase(place);
  return false;
}

void ThreadQueue::leave() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) {
    taken_ = false;
    return;
  }
  Waiter* next = waiting_.front();
  waiting_.pop_front();
  next->has_it = true;
  next->turn.notify_one();  // under the lock: the waiter may be gone as soon as it is let go
}

void WriteLock::Held::release(bool tell) {
  if (!lock_) return;
  const int fd = lock_->fd_.get();
  ::flock(fd, LOCK_UN);
  if (tell) futimens(fd, nullptr);
  std::exchange(lock_, nullptr)->threads_.leave();
}

Result<WriteLock::Held> WriteLock::acquire(Duration wait, File file) {
  const Moment until = steady_clock::now() + wait;
  if (!threads_.enter(until)) return took_too_long(wait);
  if (auto locked = lock(until, file); !locked) {
    Error error = locked.error().code == Code::timed_out ? took_too_long(wait) : locked.error();
    threads_.leave();
    return error;
  }
  return Held(*this);
}

Result<void> WriteLock::lock(Moment until, File file) {
  while (true) {
    if (!fd_) {
      if (file == File::as_opened)
        return Error{.code = Code::store_unusable, .message = file_ + " is not open"};
      if (may_open_)
        if (auto may = may_open_(); !may) return may;
      auto opened = open_side_file(file_, database_);
      if (!opened) return opened.error();
      fd_ = std::move(*opened);
    }
    const bool passed = pass_turnstile(until);
    int failed = ::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (failed == EWOULDBLOCK) {
      const WaitAlarm alarm(kAlarm);
      if (!alarm.armed()) {
        failed = EAGAIN;
      } else {
        do {
          failed = ::flock(fd_.get(), LOCK_EX) == 0 ? 0 : errno;
        } while (failed == EINTR && steady_clock::now() < until);
      }
    }
    if (passed) {
      struct flock open_again = turnstile(F_UNLCK);
      fcntl(fd_.get(), F_OFD_SETLK, &open_again);
    }
    if (failed == EINTR) return Error{.code = Code::timed_out};
    if (failed != 0)
      return Error{.code = Code::store_unavailable,
                   .message = file_ + " cannot be locked (" + errno_text(failed) +
                              "): nothing was written; try again",
                   .retryable = true};
    if (file == File::as_opened) return {};

    // Who deleted the file while we waited let others lock a new one of that name.
    if (!locked_) locked_ = file_of(fd_.get());
    const auto named = file_named(file_);
    if (locked_ && named && locked_->same(*named)) return {};
    fd_.reset();
    locked_.reset();
  }
}

// Returns true if this writer holds the turnstile and must release it. Returns false if it went
// past.
bool WriteLock::pass_turnstile(Moment until) {
  struct flock wanted = turnstile(F_WRLCK);
  if (fcntl(fd_.get(), F_OFD_SETLK, &wanted) == 0) return true;
  if (errno != EAGAIN && errno != EACCES) return false;
  const Moment start = steady_clock::now();
  if (start < turnstile_stuck_until_) return false;
  const WaitAlarm alarm(kAlarm);
  if (!alarm.armed()) return false;
  const Moment patience = std::min(until, start + kCourtesy);
  while (true) {
    wanted = turnstile(F_WRLCK);
    if (fcntl(fd_.get(), F_OFD_SETLKW, &wanted) == 0) return true;
    if (errno != EINTR) return false;
    if (steady_clock::now() >= patience) break;
  }
  // Another process is stuck in the turnstile: it is suspended, or waits for a suspended lock
  // holder.
  turnstile_stuck_until_ = steady_clock::now() + kStuck;
  return false;
}

Error WriteLock::took_too_long(Duration wait) const {
  // A description of its own: fd_ may be in use by the thread whose turn it is.
  const FileDescriptor look(open(file_.c_str(), O_RDONLY | O_CLOEXEC));
  const auto pid = look ? holder_of(look.get()) : std::nullopt;
  return {.code = Code::store_unavailable,
          .message = "waited " + std::to_string(wait.count()) + " ms to write to " + database_ +
                     ", whose lock is held by " +
                     (pid ? describe(*pid) : std::string("another process")) +
                     ": nothing was written; let that process go on or end it, and try again",
          .retryable = true};
}

void WriteLock::show() { fd_ = FileDescriptor(open(file_.c_str(), O_RDWR | O_CLOEXEC)); }

void WriteLock::follow_database() { sqlite::follow_database(fd_, database_); }

}  // namespace once::store::sqlite
