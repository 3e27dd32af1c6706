// A signalfd beside an eventfd: signals are read by a thread, never run as handlers.
#include "cli/app/signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <limits>

namespace once::cli {

Signals::Signals(bool hang_up) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (hang_up) sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  woken_ = ::eventfd(0, EFD_CLOEXEC);
}

Signals::~Signals() {
  ::close(signals_);
  ::close(woken_);
}

bool Signals::wait(Duration limit) {
  return wait_for(static_cast<int>(
      std::clamp<Duration::rep>(limit.count(), 0, std::numeric_limits<int>::max())));
}

bool Signals::wait() { return wait_for(-1); }

bool Signals::wait_for(int milliseconds) {
  pollfd fds[] = {{.fd = signals_, .events = POLLIN, .revents = 0},
                  {.fd = woken_, .events = POLLIN, .revents = 0}};
  ::poll(fds, 2, milliseconds);
  signalfd_siginfo taken{};
  return ::read(signals_, &taken, sizeof taken) == sizeof taken;
}

void Signals::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(woken_, &one, sizeof one);
}

}  // namespace once::cli
