// Buffered writes to one descriptor, with EINTR, partial writes and a reader that left.
#include "cli/app/output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace once::cli {
namespace {
constexpr std::size_t kBuffer = 64 << 10;
}

void Output::write(std::string_view text) {
  if (closed()) return;
  buffer_ += text;
  if (buffer_.size() >= kBuffer) flush();
}

void Output::line(std::string_view text) {
  write(text);
  write("\n");
}

bool Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty() && !closed()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait{.fd = fd_, .events = POLLOUT, .revents = 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  buffer_.clear();
  return !closed();
}

bool Output::reader_left() const {
  pollfd look{.fd = fd_, .events = 0, .revents = 0};
  return ::poll(&look, 1, 0) == 1 && (look.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

bool Output::is_terminal() const { return ::isatty(fd_) == 1; }

std::size_t Output::width() const { return terminal_width(fd_); }

std::string repainted(std::string_view block) {
  std::string out = "\x1b[H";
  for (char c : block) {
    if (c == '\n') out += "\x1b[K";
    out += c;
  }
  return out + "\x1b[J";
}

std::size_t terminal_width(int fd) {
  winsize size{};
  if (::isatty(fd) != 1) return 0;
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace once::cli
