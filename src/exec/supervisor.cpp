// The supervisor: a single-threaded process between a worker and one program at a time.
//
//   idle     --job------->  running
//   running  --stop order-->  stopping  --group empty, or grace over-->  ending  --> report, idle
//   running  --program exited, worker gone, worker silent too long--->  ending
//   stopping --worker gone, worker silent too long------------------->  ending
//
// Ending is SIGKILL for the group and for every descendant until the kernel says that there is no
// child left. As a subreaper the supervisor inherits descendants whose parents died, those that called
// setsid() too. It holds the worker's lock until then, so that a free lock means nobody runs.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/process_table.h"
#include "exec/program.h"
#include "exec/supervisor_protocol.h"
#include "store/file_descriptor.h"

namespace once::engine {
namespace {

using supervisor::Cause;
using supervisor::Notice;
using supervisor::Order;
// Does not run while the machine sleeps: the timer measures how long the worker was silent while it
// could have spoken. What a sleep did to the lease, the worker's next renewal finds out.
using SteadyClock = std::chrono::steady_clock;

bool send_notice(const Notice& notice) {
  return ::send(supervisor::kChannelFd, &notice, sizeof notice, MSG_NOSIGNAL) == sizeof notice;
}

// A job as it came: what to run and with what.
class Received {
 public:
  explicit Received(std::array<store::FileDescriptor, supervisor::passed_count> fds)
      : fds_(std::move(fds)) {
    struct stat about {};
    const int file = fds_[supervisor::job_file].get();
    if (::fstat(file, &about) != 0 || about.st_size < static_cast<off_t>(sizeof job_)) return;
    bytes_.resize(static_cast<std::size_t>(about.st_size));
    if (::pread(file, bytes_.data(), bytes_.size(), 0) != about.st_size) return;
    std::memcpy(&job_, bytes_.data(), sizeof job_);
    char* at = bytes_.data() + sizeof job_;
    const auto next = [&] { return std::exchange(at, at + std::strlen(at) + 1); };
    path_ = next();
    folder_ = next();
    for (auto i = job_.arguments; i > 0; --i) arguments_.push_back(next());
    arguments_.push_back(nullptr);
    for (auto i = job_.variables; i > 0; --i) variables_.push_back(next());
    variables_.push_back(nullptr);
  }

  bool complete() const { return path_ != nullptr; }
  Duration silence() const { return Duration{job_.silence_ms}; }
  Duration grace() const { return Duration{job_.grace_ms}; }

  // In the forked child: becomes the program, or says why not.
  [[noreturn]] void become_program(pid_t supervisor_pid) const {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != supervisor_pid) ::_exit(127);  // it died before that took effect
    const store::FileDescriptor& presence = fds_[supervisor::lock];
    if (::dup2(fds_[supervisor::input].get(), STDIN_FILENO) >= 0 &&
        ::dup2(fds_[supervisor::output].get(), STDOUT_FILENO) >= 0 &&
        ::dup2(fds_[supervisor::errors].get(), STDERR_FILENO) >= 0 &&
        (!presence || ::dup2(presence.get(), supervisor::kProgramLockFd) >= 0)) {
      sigset_t none;
      sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::execvpe(path_, arguments_.data(), variables_.data());
    }
    send_notice({Notice::Kind::not_started, errno, Cause::none});
    ::_exit(127);
  }

  // The program's own descriptors must not stay open here; the locks stay until all have ended.
  void leave_to_program() {
    for (const auto passed : {supervisor::input, supervisor::output, supervisor::errors})
      fds_[passed].reset();
  }

  void give_up_locks() {
    fds_[supervisor::folder].reset();
    fds_[supervisor::lock].reset();
  }

  // As the worker would have done.
  void remove_files() const {
    if (folder_ == nullptr) return;
    for (const char* name : {supervisor::kTaskFile, supervisor::kResultFile,
                             supervisor::kSocketFile, supervisor::kLockFile})
      ::unlink((std::string(folder_) + name).c_str());
    ::rmdir(folder_);
  }

 private:
  std::array<store::FileDescriptor, supervisor::passed_count> fds_;
  supervisor::Job job_{};
  std::vector<char> bytes_{};
  const char* path_ = nullptr;
  const char* folder_ = nullptr;
  std::vector<char*> arguments_{};
  std::vector<char*> variables_{};
};

// Waits for the next job; none: the worker is gone. Between jobs anything else comes too late.
std::optional<Received> next_job() {
  for (;;) {
    Order order{};
    iovec bytes{&order, sizeof order};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * supervisor::passed_count)> control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(supervisor::kChannelFd, &message, MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return std::nullopt;
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (order != Order::run || rights == nullptr) continue;
    std::array<store::FileDescriptor, supervisor::passed_count> fds;
    for (std::size_t i = 0; i < (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int); ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(rights) + i * sizeof fd, sizeof fd);
      fds[i] = store::FileDescriptor(fd);
    }
    return Received(std::move(fds));
  }
}

// One job, from its start to the end of the last descendant.
class Watch {
 public:
  Watch(Received job, int signals) : job_(std::move(job)), signals_(signals) {}

  // False: the worker is gone.
  bool run() {
    if (!send_notice({Notice::Kind::ready, 0, Cause::none})) return false;
    if (start()) {
      watch();
      end_all();
    }
    return report();
  }

  void remove_files() const { job_.remove_files(); }

 private:
  bool start() {
    const pid_t supervisor_pid = ::getpid();
    errno = EBADMSG;
    program_ = job_.complete() ? ::fork() : -1;
    if (program_ == 0) job_.become_program(supervisor_pid);
    if (program_ < 0) {
      send_notice({Notice::Kind::not_started, errno, Cause::none});
      return false;
    }
    ::setpgid(program_, program_);  // the child does so too: whoever comes first
    job_.leave_to_program();
    heard_ = SteadyClock::now();
    return true;
  }

  bool report() {
    job_.give_up_locks();
    return !worker_gone_ && send_notice({Notice::Kind::ended, status_, cause_});
  }

  void watch() {
    while (!time_to_end()) {
      pollfd fds[] = {{supervisor::kChannelFd, POLLIN, 0}, {signals_, POLLIN, 0}};
      ::poll(fds, 2, timeout());
      hear();
      clear_signals();
      look_for_exit();
    }
  }

  bool time_to_end() {
    if (worker_gone_) return true;
    const auto now = SteadyClock::now();
    if (job_.silence().count() > 0 && now - heard_ >= job_.silence()) {
      cause_ = Cause::silent;
      return true;
    }
    if (!grace_ends_) return exited_;
    if (exited_ && group_is_empty()) {
      cause_ = Cause::stopped;
      return true;
    }
    if (now < *grace_ends_) return false;
    cause_ = exited_ ? Cause::stopped : Cause::killed;
    return true;
  }

  int timeout() const {
    std::optional<SteadyClock::time_point> wake;
    if (job_.silence().count() > 0) wake = heard_ + job_.silence();
    if (grace_ends_) wake = wake ? std::min(*wake, *grace_ends_) : *grace_ends_;
    // Nobody reports the end of a group member that has a parent outside the group.
    if (grace_ends_ && exited_) wake = std::min(*wake, SteadyClock::now() + kGlance);
    if (!wake) return -1;
    const auto left = std::chrono::ceil<Duration>(*wake - SteadyClock::now()).count();
    return static_cast<int>(std::clamp<Duration::rep>(left, 0, INT_MAX));
  }

  void hear() {
    for (;;) {
      Order order{};
      const ssize_t size = ::recv(supervisor::kChannelFd, &order, sizeof order, MSG_DONTWAIT);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (size <= 0) {
        worker_gone_ = true;
        return;
      }
      heard_ = SteadyClock::now();
      if (order == Order::stop && !grace_ends_) {
        ::kill(-program_, SIGTERM);
        ::kill(-program_, SIGCONT);  // a stopped process would not see it
        grace_ends_ = heard_ + job_.grace();
      }
    }
  }

  void clear_signals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) > 0) {
    }
  }

  // Takes in adopted children that have ended. The program itself is only looked at: while it is
  // not waited for, nobody else can get its process id, which is the group's.
  void look_for_exit() {
    for (;;) {
      siginfo_t info{};
      if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
      if (info.si_pid == program_) {
        exited_ = true;
        return;
      }
      ::waitpid(info.si_pid, nullptr, WNOHANG);
    }
  }

  bool group_is_empty() const {
    const auto all = processes();
    return std::none_of(all.begin(), all.end(),
                        [&](const Process& p) { return p.group == program_ && p.state != 'Z'; });
  }

  void end_all() {
    ::kill(-program_, SIGKILL);
    while (!none_left()) {
      // Only children can be named without a doubt; their children become ours as they die.
      const pid_t self = ::getpid();
      for (const Process& process : processes())
        if (process.parent == self) ::kill(process.pid, SIGKILL);
      pollfd fd{signals_, POLLIN, 0};
      ::poll(&fd, 1, kGlanceMs);
      clear_signals();
    }
  }

  bool none_left() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid == program_) status_ = status;
      if (pid == 0) return false;
      if (pid < 0 && errno != EINTR) return true;
    }
  }

  static constexpr int kGlanceMs = 20;
  static constexpr Duration kGlance{kGlanceMs};

  Received job_;
  const int signals_;
  pid_t program_ = -1;
  SteadyClock::time_point heard_{};
  std::optional<SteadyClock::time_point> grace_ends_{};  // set: asked to stop
  bool worker_gone_ = false;
  bool exited_ = false;
  Cause cause_ = Cause::none;
  int status_ = 0;
};

}  // namespace

int run_supervisor(int, char**) {
  struct stat about {};
  if (::fstat(supervisor::kChannelFd, &about) != 0 || !S_ISSOCK(about.st_mode)) {
    std::fputs("once: --supervisor is for workers, not for people; nothing was run\n", stderr);
    return 2;
  }
  // Whatever the worker leaked stays out of here, and the worker's end of another supervisor's channel
  // above all: it would hide the worker's death from that supervisor.
  ::closefrom(supervisor::kChannelFd + 1);
  ::fcntl(supervisor::kChannelFd, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_NAME, supervisor::kName);
  // Every signal stays blocked: nobody but the worker ends a supervisor, short of SIGKILL.
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const store::FileDescriptor signals(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals || ::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return EXIT_FAILURE;
  // A worker that dies while its program ends may have heard so or not: what it can't remove any
  // more goes with its supervisor. What it has removed is not there.
  std::optional<Watch> last;
  while (auto job = next_job()) {
    last.emplace(std::move(*job), signals.get());
    if (!last->run()) break;
  }
  if (last) last->remove_files();
  return EXIT_SUCCESS;
}

}  // namespace once::engine
