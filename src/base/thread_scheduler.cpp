// The scheduler of production: threads, and a buffer per thread between getrandom and its many
// small callers.
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/scheduler.h"

namespace once::engine {
namespace {

class ThreadCondition final : public Condition {
 public:
  explicit ThreadCondition(std::mutex& mutex) : mutex_(mutex) {}

  void wait(std::optional<Moment> deadline) override {
    std::unique_lock lock(mutex_, std::adopt_lock);
    if (deadline) {
      condition_.wait_until(lock,
                            std::chrono::steady_clock::time_point(deadline->time_since_epoch()));
    } else {
      condition_.wait(lock);
    }
    lock.release();
  }
  void notify_one() override { condition_.notify_one(); }
  void notify_all() override { condition_.notify_all(); }

 private:
  std::mutex& mutex_;
  std::condition_variable condition_;
};

class ThreadMutex final : public Mutex {
 public:
  void lock() override { mutex_.lock(); }
  void unlock() override { mutex_.unlock(); }
  std::unique_ptr<Condition> condition() override {
    return std::make_unique<ThreadCondition>(mutex_);
  }

 private:
  std::mutex mutex_;
};

class ThreadActivity final : public Activity {
 public:
  explicit ThreadActivity(std::function<void()> body) : thread_(std::move(body)) {}

 private:
  std::jthread thread_;
};

// Without randomness nonces would collide, and with them two workers' claims.
void fill_random(std::uint8_t* to, std::size_t size) {
  while (size > 0) {
    const ssize_t got = getrandom(to, size, 0);
    if (got < 0 && errno != EINTR) std::abort();
    if (got <= 0) continue;
    to += got;
    size -= static_cast<std::size_t>(got);
  }
}

class ThreadScheduler final : public Scheduler {
 public:
  Moment now() override {
    return Moment{std::chrono::duration_cast<std::chrono::microseconds>(
        std::chrono::steady_clock::now().time_since_epoch())};
  }
  std::unique_ptr<Mutex> mutex() override { return std::make_unique<ThreadMutex>(); }
  std::unique_ptr<Activity> spawn(std::function<void()> body) override {
    return std::make_unique<ThreadActivity>(std::move(body));
  }
  double random() override {
    std::uint64_t bits = 0;
    random_bytes(reinterpret_cast<std::uint8_t*>(&bits), sizeof bits);
    return static_cast<double>(bits >> 11U) * 0x1.0p-53;
  }
  void random_bytes(std::uint8_t* to, std::size_t size) override {
    thread_local std::array<std::uint8_t, 4096> buffer;
    thread_local std::size_t used = buffer.size();
    if (size > buffer.size()) return fill_random(to, size);
    if (buffer.size() - used < size) {
      fill_random(buffer.data(), buffer.size());
      used = 0;
    }
    std::memcpy(to, buffer.data() + used, size);
    used += size;
  }
};

}  // namespace

std::unique_ptr<Scheduler> thread_scheduler() { return std::make_unique<ThreadScheduler>(); }

}  // namespace once::engine
