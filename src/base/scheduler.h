// Time, waiting and spawning, so that the same engine runs on threads in production and one step at
// a time under a simulator. The engine blocks nowhere else than here and in store calls.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "once/task.h"

namespace once::engine {

// Monotonic, for deadlines inside one process.
using Moment = std::chrono::time_point<struct MomentTag, std::chrono::microseconds>;

// Belongs to a Mutex; call with that mutex held.
class Condition {
 public:
  virtual ~Condition() = default;
  // Releases the mutex, waits for a notification or the deadline (none: no deadline), takes it
  // again. May wake early.
  virtual void wait(std::optional<Moment> deadline = {}) = 0;
  virtual void notify_one() = 0;
  virtual void notify_all() = 0;
};

class Mutex {  // BasicLockable
 public:
  virtual ~Mutex() = default;
  virtual void lock() = 0;
  virtual void unlock() = 0;
  virtual std::unique_ptr<Condition> condition() = 0;  // must not outlive the mutex
};

// A running activity; the destructor joins.
class Activity {
 public:
  virtual ~Activity() = default;
};

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual Moment now() = 0;
  virtual std::unique_ptr<Mutex> mutex() = 0;
  virtual std::unique_ptr<Activity> spawn(std::function<void()> body) = 0;
  virtual double random() = 0;  // [0, 1)
  virtual void random_bytes(std::uint8_t* to, std::size_t size) = 0;
};

// std::jthread, std::condition_variable, the steady clock, getrandom.
std::unique_ptr<Scheduler> thread_scheduler();

}  // namespace once::engine
