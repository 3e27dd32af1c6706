// Starts supervisors with posix_spawn (never fork: the worker has threads and a database open), talks to
// them, and ends them.
#include "exec/supervisor_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <set>

#include "exec/process_table.h"

namespace once::engine {
namespace {

constexpr int kFirstFreeFd = 10;  // above every number that a supervisor finds its descriptors at

Error cannot_start(const std::string& name, int error) {
  return Error{Code::failed,
               "cannot start the supervisor '" + name + "': " + std::strerror(error) +
                   "; no program was started; mend that and start the worker again",
               true};
}

// The supervisors of this process, and whether every other child of it is an orphan of a supervisor.
class Family {
 public:
  // False from the start if this process has children that it did not get from a supervisor, and for
  // process 1, which gets the orphans of strangers.
  void adopt() {
    const std::lock_guard lock(mutex_);
    if (adopts_ || ::getpid() == 1) return;
    const auto all = processes();
    adopts_ = std::none_of(all.begin(), all.end(),
                           [&](const Process& process) { return is_stranger(process); }) &&
              ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
  }

  // No supervisor is taken for an orphan between its start and its entry here.
  template <class Start>
  pid_t add(Start start) {
    const std::lock_guard lock(mutex_);
    const pid_t pid = start();
    if (pid > 0) supervisors_.insert(pid);
    return pid;
  }
  void remove(pid_t supervisor) {
    const std::lock_guard lock(mutex_);
    supervisors_.erase(supervisor);
  }

  // Kills the orphans that are there now and takes in those that have ended. True: there were some.
  bool end_orphans() {
    const std::lock_guard lock(mutex_);
    bool any = false;
    if (!adopts_) return any;
    for (const Process& process : processes()) {
      if (!is_stranger(process)) continue;
      any = true;
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, WNOHANG);
    }
    return any;
  }

 private:
  bool is_stranger(const Process& process) const {
    return process.parent == ::getpid() && !supervisors_.contains(process.pid);
  }

  std::mutex mutex_{};
  std::set<pid_t> supervisors_{};  // under mutex_
  bool adopts_ = false;            // under mutex_
};

Family& family() {
  static Family one;
  return one;
}

}  // namespace

Result<SupervisorProcess> SupervisorProcess::start(int executable, const std::string& name,
                                                   const std::vector<std::string>& environment) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return cannot_start(name, errno);
  store::FileDescriptor ours(ends[0]);
  const store::FileDescriptor theirs(ends[1]);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), supervisor::kChannelFd);
  for (int fd = 0; fd < supervisor::kChannelFd; ++fd)
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  // A session of its own: Ctrl-C at the terminal is the worker's. All signals blocked from the first
  // instruction on: nothing but SIGKILL takes a supervisor before its program.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  const std::string path = "/proc/self/fd/" + std::to_string(executable);
  const auto pointer = [](const std::string& text) { return const_cast<char*>(text.c_str()); };
  const std::string mode = "--supervisor";
  char* const arguments[] = {pointer(name), pointer(mode), nullptr};
  std::vector<char*> variables;
  for (const auto& variable : environment) variables.push_back(pointer(variable));
  variables.push_back(nullptr);
  int error = 0;
  const pid_t pid = family().add([&] {
    pid_t started = -1;
    error =
        ::posix_spawn(&started, path.c_str(), &actions, &attributes, arguments, variables.data());
    return error == 0 ? started : -1;
  });
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return cannot_start(name, error);
  return SupervisorProcess(pid, std::move(ours));
}

SupervisorProcess::SupervisorProcess(SupervisorProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      channel_(std::move(other.channel_)),
      reused_(other.reused_) {}

SupervisorProcess::~SupervisorProcess() {
  if (pid_ < 0) return;
  // Not only closed: a child that the application forked may hold a copy.
  ::shutdown(channel_.get(), SHUT_RDWR);
  channel_.reset();
  await_end(0);
  family().remove(pid_);
}

bool SupervisorProcess::send_job(const std::vector<int>& descriptors) const {
  supervisor::Order order = supervisor::Order::run;
  iovec bytes{&order, sizeof order};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * supervisor::passed_count)> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof(int) * descriptors.size());
  return ::sendmsg(channel_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof order;
}

bool SupervisorProcess::send(supervisor::Order order) const {
  return ::send(channel_.get(), &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof order;
}

SupervisorProcess::Heard SupervisorProcess::hear() const {
  supervisor::Notice notice;
  const ssize_t size = ::recv(channel_.get(), &notice, sizeof notice, MSG_DONTWAIT);
  // A supervisor that died with words of ours unread resets the channel before its own last words are
  // read; they come after.
  if (size < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET)) return {};
  if (size != sizeof notice) return {std::nullopt, true};
  return {notice, false};
}

void SupervisorProcess::keep_going() const { ::kill(pid_, SIGCONT); }

// Only a suspended supervisor gets SIGCONT. That signal also removes the SIGSTOP of a tracer that is about
// to attach, such as LeakSanitizer at the supervisor's exit. The tracer would then wait for ever.
void SupervisorProcess::await_end(int more) const {
  for (;;) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WSTOPPED | more) != 0) {
      if (errno != EINTR) return;
    } else if (info.si_code == CLD_STOPPED) {
      keep_going();
    } else {
      return;
    }
  }
}

// While the supervisor is there, it adopts what is below it: nothing gets out of its tree.
void SupervisorProcess::kill_all() const {
  ::kill(pid_, SIGSTOP);
  for (bool any = true; any;) {
    any = false;
    for (const Process& process : descendants(processes(), pid_)) {
      if (process.state == 'Z') continue;
      any = true;
      ::kill(process.pid, SIGKILL);
    }
    if (any) ::poll(nullptr, 0, 1);
  }
  ::kill(pid_, SIGKILL);
}

// The program dies with its supervisor; this is for the rest. The supervisor is not waited for yet, so that
// nobody else can have its process id, which is the session's.
void SupervisorProcess::end_orphans() const {
  // A supervisor that could not be given its job may be alive. Without a channel it ends.
  ::shutdown(channel_.get(), SHUT_RDWR);
  // The channel closes before the kernel hands the supervisor's children on.
  await_end(WNOWAIT);
  for (bool any = true; any;) {
    any = family().end_orphans();
    for (const Process& process : processes()) {
      if (process.session != pid_ || process.state == 'Z') continue;
      any = true;
      ::kill(process.pid, SIGKILL);
    }
    if (any) ::poll(nullptr, 0, 1);
  }
}

Result<std::unique_ptr<SupervisorPool>> SupervisorPool::open(const std::string& executable,
                                                             std::vector<std::string> environment,
                                                             bool adopts) {
  if (adopts) family().adopt();
  store::FileDescriptor file(::open(executable.c_str(), O_PATH | O_CLOEXEC));
  if (file && file.get() < kFirstFreeFd)
    file = store::FileDescriptor(::fcntl(file.get(), F_DUPFD_CLOEXEC, kFirstFreeFd));
  if (!file) return cannot_start(executable, errno);
  return std::unique_ptr<SupervisorPool>(
      new SupervisorPool(std::move(file), executable, std::move(environment)));
}

Result<SupervisorProcess> SupervisorPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      SupervisorProcess supervisor = std::move(idle_.back());
      idle_.pop_back();
      supervisor.reused_ = true;
      supervisor.keep_going();
      return supervisor;
    }
  }
  return SupervisorProcess::start(executable_.get(), name_, environment_);
}

void SupervisorPool::give_back(SupervisorProcess supervisor) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(supervisor));
}

}  // namespace once::engine
