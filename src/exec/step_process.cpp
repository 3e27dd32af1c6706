#include "exec/step_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

namespace once::engine {
namespace {

constexpr std::array kStops = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int kPiecesAfterExit = 64;  // more than a pipe holds

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (const auto& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// Both ends close on exec.
bool open_pipe(store::FileDescriptor& reader, store::FileDescriptor& writer) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return false;
  reader = store::FileDescriptor(ends[0]);
  writer = store::FileDescriptor(ends[1]);
  return true;
}

}  // namespace

HeldSignals::HeldSignals() {
  // Where it is ignored, children leave no status behind.
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t held;
  sigemptyset(&held);
  for (const int number : kStops) sigaddset(&held, number);
  sigaddset(&held, SIGCHLD);
  ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  descriptor_ = store::FileDescriptor(::signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK));
}

HeldSignals::~HeldSignals() {
  while (next()) {  // they were heard, and end nobody any more
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<HeldSignals::Signal> HeldSignals::next() const {
  signalfd_siginfo info{};
  if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return Signal{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid)};
}

std::optional<int> HeldSignals::pending_stop() const {
  sigset_t pending;
  if (::sigpending(&pending) != 0) return std::nullopt;
  for (const int number : kStops)
    if (sigismember(&pending, number) == 1) return number;
  return std::nullopt;
}

StepProcess::End StepProcess::run() {
  if (start()) watch();
  return std::move(end_);
}

bool StepProcess::start() {
  store::FileDescriptor writer;
  store::FileDescriptor failure;
  store::FileDescriptor failure_writer;
  // Made before the fork: the child may only do what a signal handler may.
  const auto arguments = pointers(options_.arguments);
  const auto variables = pointers(options_.variables);
  const pid_t parent = ::getpid();
  if (signals_.descriptor() < 0 || !open_pipe(output_, writer) ||
      !open_pipe(failure, failure_writer) || ::fcntl(output_.get(), F_SETFL, O_NONBLOCK) != 0) {
    end_.start_error = errno;
    return false;
  }
  pid_ = ::fork();
  if (pid_ < 0) {
    end_.start_error = errno;
    return false;
  }
  if (pid_ == 0)
    become(parent, writer.get(), failure_writer.get(), arguments.data(), variables.data());
  failure_writer.reset();
  ssize_t size = 0;
  do size = ::read(failure.get(), &end_.start_error, sizeof end_.start_error);
  while (size < 0 && errno == EINTR);
  if (size <= 0) return true;  // the exec closed it
  ::waitpid(pid_, nullptr, 0);
  return false;
}

void StepProcess::become(pid_t parent, int output, int failure, char* const* arguments,
                         char* const* variables) const {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before that took effect
  bool ready = ::dup2(output, STDOUT_FILENO) >= 0;
  if (!options_.reads_input) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ready = ready && nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0;
  }
  if (ready) {
    std::signal(SIGPIPE, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
    ::execvpe(options_.path.c_str(), arguments, variables);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t size = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

void StepProcess::watch() {
  for (int pieces = 0; !exited_ || !waiting_.empty() || pieces < kPiecesAfterExit;) {
    const bool full = !waiting_.empty();
    // What is left in the pipe is taken, not waited for: a process that outlives the command may
    // keep its end open.
    pollfd fds[] = {{signals_.descriptor(), POLLIN, 0},
                    {full ? -1 : output_.get(), POLLIN, 0},
                    {full ? STDOUT_FILENO : -1, POLLOUT, 0}};
    if (::poll(fds, std::size(fds), exited_ && !full ? 0 : -1) < 0) continue;
    if (fds[0].revents != 0) take_signals();
    if (fds[2].revents != 0) pass_some_on();
    if (full) continue;
    const bool more = fds[1].revents != 0 && read_some();
    if (!exited_) continue;
    if (!more && fds[0].revents == 0) return;
    ++pieces;
  }
}

void StepProcess::take_signals() {
  while (const auto signal = signals_.next()) {
    if (signal->number == SIGCHLD) {
      exited_ = exited_ || ::waitpid(pid_, &end_.status, WNOHANG) == pid_;
      continue;
    }
    end_.stopped_by = signal->number;
    // The supervisor, which leads the session, signals the whole group: the command has it already, and
    // might take a second one for impatience.
    if (!exited_ && signal->sender != ::getsid(0)) ::kill(pid_, signal->number);
  }
}

// False: there is nothing more now.
bool StepProcess::read_some() {
  char bytes[64 << 10];
  const ssize_t size = ::read(output_.get(), bytes, sizeof bytes);
  if (size < 0) return errno == EINTR;
  if (size == 0) output_.reset();
  const std::string_view piece(bytes, static_cast<std::size_t>(size));
  end_.output.add(piece);
  if (options_.passes_on && end_.output_error == 0) waiting_ = piece;
  return size > 0;
}

// No more than a pipe that has room is sure to take: a reader that is slow must not keep signals
// from being passed on.
void StepProcess::pass_some_on() {
  const ssize_t size =
      ::write(STDOUT_FILENO, waiting_.data(), std::min<std::size_t>(waiting_.size(), PIPE_BUF));
  if (size >= 0) {
    waiting_.erase(0, static_cast<std::size_t>(size));
  } else if (errno != EINTR && errno != EAGAIN) {
    end_.output_error = errno;
    waiting_.clear();
  }
}

int write_out(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      pollfd fd{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&fd, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace once::engine
