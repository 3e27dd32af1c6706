#include "store/sqlite/wait_alarm.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

namespace once::store::sqlite {
namespace {

void do_nothing(int) {}

// A real-time signal that nobody in this process uses, taken when it is first needed; zero: none.
int alarm_signal() {
  static const int chosen = [] {
    for (int signal = SIGRTMAX; signal > SIGRTMIN; --signal) {
      struct sigaction current {};
      if (sigaction(signal, nullptr, &current) != 0 || current.sa_handler != SIG_DFL) continue;
      struct sigaction ours {};
      ours.sa_handler = do_nothing;  // without SA_RESTART: the call that waits is to end
      sigemptyset(&ours.sa_mask);
      if (sigaction(signal, &ours, nullptr) == 0) return signal;
    }
    return 0;
  }();
  return chosen;
}

}  // namespace

WaitAlarm::WaitAlarm(std::chrono::milliseconds every) {
  const int signal = alarm_signal();
  if (signal == 0) return;
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = signal;
  event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
  if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) return;
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, &mask_);
  itimerspec times{};
  times.it_interval.tv_sec = every.count() / 1000;
  times.it_interval.tv_nsec = every.count() % 1000 * 1'000'000;
  times.it_value = times.it_interval;
  armed_ = timer_settime(timer_, 0, &times, nullptr) == 0;
  if (!armed_) {
    timer_delete(timer_);
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }
}

WaitAlarm::~WaitAlarm() {
  if (!armed_) return;
  timer_delete(timer_);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

}  // namespace once::store::sqlite
