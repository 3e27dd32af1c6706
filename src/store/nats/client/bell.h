// A counter that threads wait on. ring() increments it and wakes all waiting threads. A thread that
// reads rings() before it looks for news misses no ring after that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>

namespace once::store::nats {

class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      ++rings_;
    }
    rung_.notify_all();
  }
  std::uint64_t rings() const {
    const std::lock_guard lock(mutex_);
    return rings_;
  }
  // Waits until the counter differs from `seen`, until the given time, or until a stop request.
  void wait_until(std::uint64_t seen, std::chrono::steady_clock::time_point until,
                  const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    rung_.wait_until(lock, stop, until, [&] { return rings_ != seen; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any rung_;
  std::uint64_t rings_{};
};

}  // namespace once::store::nats
