#include "store/sqlite/notifier.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

namespace once::store::sqlite {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Where the kernel has no inotify instance or event descriptor left for us.
constexpr milliseconds kPoll{50};

void signal(int eventfd) {
  const std::uint64_t one = 1;
  // It can only fail when it is signalled already.
  [[maybe_unused]] const auto written = write(eventfd, &one, sizeof one);
}

}  // namespace

std::uint64_t Notifier::listen() {
  const std::lock_guard lock(mutex_);
  watch();
  return notified_;
}

void Notifier::notify() {
  const std::lock_guard lock(mutex_);
  wake_all();
}

void Notifier::wake_all() {
  ++notified_;
  for (const int waiter : waiters_) signal(waiter);
}

// Watches the file of that name: it may have been deleted and made again since.
void Notifier::watch() {
  if (!inotify_) inotify_ = FileDescriptor(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!inotify_) return;
  struct stat named {};
  if (stat(watched_.c_str(), &named) != 0) {
    inode_ = 0;
    watch_ = -1;
    return;
  }
  if (watch_ >= 0 && named.st_ino == inode_) return;
  if (watch_ >= 0) inotify_rm_watch(inotify_.get(), watch_);
  watch_ = inotify_add_watch(inotify_.get(), watched_.c_str(), IN_ATTRIB);
  inode_ = watch_ >= 0 ? named.st_ino : 0;
}

void Notifier::wait(std::uint64_t heard, steady_clock::time_point until,
                    const std::stop_token& stop) {
  const FileDescriptor event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  std::array<pollfd, 2> sources{pollfd{.fd = event.get(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = -1, .events = POLLIN, .revents = 0}};
  {
    const std::lock_guard lock(mutex_);
    if (notified_ != heard) return;
    if (watch_ >= 0) sources[1].fd = inotify_.get();
    if (event) waiters_.insert(event.get());
  }
  {
    const std::stop_callback on_stop(stop, [&] {
      if (event) signal(event.get());
    });
    auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    if (!event || sources[1].fd < 0) left = std::min(left, kPoll);
    if (left.count() > 0) poll(sources.data(), sources.size(), static_cast<int>(left.count()));
  }
  {
    const std::lock_guard lock(mutex_);
    waiters_.erase(event.get());
  }
  if (sources[1].revents != 0) drain();
}

void Notifier::drain() {
  alignas(inotify_event) std::array<char, 4096> events;
  bool any = false;
  while (read(inotify_.get(), events.data(), events.size()) > 0) any = true;
  if (!any) return;  // another waiter took it, and tells
  notify();
}

}  // namespace once::store::sqlite
