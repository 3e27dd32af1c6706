// Wakes fetches that wait for tasks. Inside the process, notify() wakes them. Between processes, a
// writer touches the lock file after its commit, and inotify wakes the other processes. To watch
// the write-ahead log would miss wake-ups, because a write is seen before its commit is visible.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>

#include "store/file_descriptor.h"

namespace once::store::sqlite {

// Any thread may call.
class Notifier {
 public:
  explicit Notifier(std::string watched) : watched_(std::move(watched)) {}

  // Call it before looking for tasks, and pass the result to wait(). Then no notification is
  // missed.
  std::uint64_t listen();
  void notify();
  // Returns when something was notified after `heard`, at `until`, on a stop, or early.
  void wait(std::uint64_t heard, std::chrono::steady_clock::time_point until,
            const std::stop_token& stop);

 private:
  // All with mutex_ held.
  void watch();
  void wake_all();

  void drain();  // takes what inotify has to say

  const std::string watched_;
  std::mutex mutex_;
  std::uint64_t notified_ = 0;  // guarded by mutex_, like all below
  std::set<int> waiters_;       // an eventfd each
  FileDescriptor inotify_;      // made once, then only read
  int watch_ = -1;
  ino_t inode_ = 0;  // of the watched file
};

}  // namespace once::store::sqlite
