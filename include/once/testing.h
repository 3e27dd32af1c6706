// A clock for tests of programs that use Once. It moves only when a test calls advance().
#pragma once

#include <atomic>

#include "once/zone.h"

namespace once::testing {

// Any thread may call.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(Time start = Time{Duration{1'700'000'000'000}})
      : now_(start.time_since_epoch().count()) {}
  Time now() override { return Time{Duration{now_.load()}}; }
  void advance(Duration by) { now_ += by.count(); }

 private:
  std::atomic<Duration::rep> now_;
};

}  // namespace once::testing
