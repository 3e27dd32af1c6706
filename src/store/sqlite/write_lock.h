// The lock of all writers: one flock(2) on the file `PATH-lock`. Only its holder writes to the
// database or checkpoints it. Waiting writers queue in the kernel.
//
//   thread queue (in the process) -> turnstile (a byte of the lock file) -> flock -> write
//
// flock excludes open file descriptions, not threads. So the threads of a process queue first.
// flock is also not fair: a writer that releases it can take it again before a waiting writer wakes
// up. So a writer first takes the turnstile, and releases it after it has the lock. A writer that
// comes again is then behind the waiting writers. The turnstile only gives fairness. If a process
// is suspended while it holds the turnstile, other writers go past it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>

#include "once/task.h"
#include "store/file_descriptor.h"
#include "store/sqlite/file_system.h"

namespace once::store::sqlite {

// Serves the threads of one process in the order of their calls.
class ThreadQueue {
 public:
  bool enter(std::chrono::steady_clock::time_point until);
  void leave();

 private:
  struct Waiter {
    std::condition_variable turn{};
    bool has_it = false;
  };

  std::mutex mutex_;
  bool taken_ = false;          // guarded by mutex_
  std::list<Waiter*> waiting_;  // guarded by mutex_
};

class WriteLock {
 public:
  // Asked before the lock file is opened or made. An error ends the attempt.
  using MayOpen = std::function<Result<void>()>;
  WriteLock(std::string file, std::string database, MayOpen may_open = {})
      : file_(std::move(file)), database_(std::move(database)), may_open_(std::move(may_open)) {}

  // Holds the lock until release() or the destructor.
  class Held {
   public:
    explicit Held(WriteLock& lock) : lock_(&lock) {}
    Held(Held&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    Held& operator=(Held&&) = delete;
    ~Held() { release(false); }
    // With `tell`, touches the lock file afterwards, which other processes watch.
    void release(bool tell);

   private:
    WriteLock* lock_;
  };

  // as_opened: the file that this process has open, whatever its name leads to now.
  enum class File { as_named, as_opened };
  // Any thread. Waits that long at most; the error then names the process that holds the lock.
  Result<Held> acquire(Duration wait, File file = File::as_named);
  // Has the lock file open from now on, if it is there: another process sees by it that this one
  // keeps to the lock. Before any other thread comes.
  void show();
  // Gives the lock file the database's mode and group, once the database has been made. Only with
  // the lock held.
  void follow_database();

  const std::string& file() const { return file_; }

 private:
  using Moment = std::chrono::steady_clock::time_point;

  Result<void> lock(Moment until, File file);
  bool pass_turnstile(Moment until);
  Error took_too_long(Duration wait) const;

  const std::string file_;
  const std::string database_;
  const MayOpen may_open_;
  ThreadQueue threads_;

  // Only with the thread queue passed:
  FileDescriptor fd_;
  std::optional<FileId> locked_{};  // the file of fd_; nullopt until the first lock
  Moment turnstile_stuck_until_{};
};

}  // namespace once::store::sqlite
