#include "cli/app/line_printer.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <utility>

namespace once::cli {
namespace {

constexpr std::size_t kMostWaiting = 1 << 20;           // bytes
constexpr std::chrono::seconds kReaderTakesNothing{2};  // at the end

// Zero, or the error number.
int write_piece(int fd, std::string_view piece) {
  while (!piece.empty()) {
    const ssize_t size = ::write(fd, piece.data(), piece.size());
    if (size >= 0) {
      piece.remove_prefix(static_cast<std::size_t>(size));
    } else if (errno == EAGAIN) {
      pollfd wait{.fd = fd, .events = POLLOUT, .revents = 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Whole lines, and no more of them than a pipe takes in one piece: lines of others are not mixed in.
std::string_view first_piece(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text;
  auto end = text.rfind('\n', PIPE_BUF - 1);
  if (end == text.npos) end = text.find('\n');
  return text.substr(0, end + 1);
}

}  // namespace

struct LinePrinter::State {
  const int fd;
  const std::function<std::string(std::uint64_t)> missing;
  std::mutex mutex{};
  std::condition_variable changed{};
  // Under mutex.
  std::string waiting{};
  std::uint64_t lost = 0;
  std::uint64_t pieces = 0;  // written so far
  bool ending = false;
  bool closed = false;  // the reader left
  bool done = false;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ending || !waiting.empty() || lost > 0; });
      if (lost > 0) waiting += missing(std::exchange(lost, 0)) + '\n';
      if (waiting.empty()) break;
      const std::string taken = std::exchange(waiting, {});
      for (std::string_view rest = taken; !rest.empty() && !closed; ++pieces) {
        const std::string_view piece = first_piece(rest);
        lock.unlock();
        const int error = write_piece(fd, piece);
        lock.lock();
        closed = error != 0;
        rest.remove_prefix(piece.size());
        changed.notify_all();
      }
    }
    done = true;
    changed.notify_all();
  }
};

LinePrinter::LinePrinter(int fd, std::function<std::string(std::uint64_t)> missing)
    : state_(new State{.fd = fd, .missing = std::move(missing)}) {
  // Signals are taken by the threads that wait for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([state = state_] { state->run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LinePrinter::~LinePrinter() {
  std::unique_lock lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
  bool moves = true;
  while (!state_->done && moves) {
    const std::uint64_t before = state_->pieces;
    moves = state_->changed.wait_for(lock, kReaderTakesNothing,
                                     [&] { return state_->done || state_->pieces != before; });
  }
  lock.unlock();
  if (moves)
    thread_.join();
  else
    thread_.detach();  // it ends with the process
}

bool LinePrinter::has_room() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->closed && state_->waiting.size() < kMostWaiting;
}

void LinePrinter::print(std::string_view line) {
  const std::lock_guard lock(state_->mutex);
  if (state_->closed) return;
  // Said where the lines are missing.
  if (state_->lost > 0 && state_->waiting.size() < kMostWaiting)
    state_->waiting += state_->missing(std::exchange(state_->lost, 0)) + '\n';
  state_->waiting += line;
  state_->waiting += '\n';
  state_->changed.notify_all();
}

void LinePrinter::lose(std::uint64_t lines) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->closed) state_->lost += lines;
}

}  // namespace once::cli
