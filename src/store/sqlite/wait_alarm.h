// Bounds system calls that block without a time limit of their own.
#pragma once

#include <signal.h>
#include <time.h>

#include <chrono>

namespace once::store::sqlite {

// While it lives, system calls of this thread that block return EINTR every so often: a timer sends
// this thread a real-time signal whose handler does nothing. It repeats, so that a signal that
// comes just before the call is not the last one.
class WaitAlarm {
 public:
  explicit WaitAlarm(std::chrono::milliseconds every);
  ~WaitAlarm();
  WaitAlarm(const WaitAlarm&) = delete;
  WaitAlarm& operator=(const WaitAlarm&) = delete;

  bool armed() const { return armed_; }

 private:
  timer_t timer_{};
  sigset_t mask_{};
  bool armed_ = false;
};

}  // namespace once::store::sqlite
