#include "cli/demo/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli::demo {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

// At most `width` columns of a line; colours take none.
std::string cut(std::string_view line, std::size_t width) {
  std::string out;
  bool coloured = false;
  for (std::size_t shown = 0; !line.empty();) {
    std::size_t length = std::max<std::size_t>(utf8_length(line), 1);
    if (line.front() == '\x1b') {
      length = line.find('m') + 1;
      coloured = true;
    } else if (++shown > width) {
      return coloured ? out + "\x1b[0m" : out;
    }
    out += line.substr(0, length);
    line.remove_prefix(length);
  }
  return out;
}

// A background job that changes the terminal would be stopped.
bool in_foreground() { return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

}  // namespace

Terminal::Terminal(Output& out) : out_(out) {
  if (in_foreground() && ::tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios quick = before_;
    quick.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    // ^C ends the demo as a signal; one that stops it would leave the screen as it is.
    quick.c_cc[VSUSP] = _POSIX_VDISABLE;
    quick.c_cc[VQUIT] = _POSIX_VDISABLE;
    keys_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &quick) == 0;
  }
  out_.write(kEnter);
  out_.flush();
}

Terminal::~Terminal() {
  out_.write(kLeave);
  out_.flush();
  if (keys_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
}

std::optional<char> Terminal::key() const {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  char pressed = 0;
  if (!keys_ || ::poll(&input, 1, 0) != 1 || ::read(STDIN_FILENO, &pressed, 1) != 1) return {};
  return pressed;
}

std::size_t Terminal::height() const {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

void Terminal::show(const std::string& lines) {
  // The last column is left free: after a character there, clearing the line takes it away again.
  const std::size_t width = std::max<std::size_t>(terminal_width(STDOUT_FILENO), 2) - 1;
  const std::size_t rows = height();
  std::string screen = "\x1b[H";
  std::size_t from = 0;
  for (std::size_t row = 0; row < rows && from < lines.size(); ++row) {
    const std::size_t end = lines.find('\n', from);
    if (row > 0) screen += "\r\n";
    screen += cut(std::string_view(lines).substr(from, end - from), width) + "\x1b[K";
    from = end + 1;
  }
  out_.write(screen + "\x1b[J");
  out_.flush();
}

}  // namespace once::cli::demo
