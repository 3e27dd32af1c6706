#include "cli/app/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace once::cli {

using namespace std::chrono_literals;

Progress::Progress(std::string_view what, bool quiet)
    : what_(what),
      shown_(!quiet && ::isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + 1s) {}

Progress::~Progress() {
  if (painted_) fmt::print(stderr, "\r\x1b[K");
}

void Progress::at(double fraction) {
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || now < next_) return;
  next_ = now + 200ms;
  painted_ = true;
  constexpr std::size_t kWidth = 30;
  const auto done = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * kWidth);
  fmt::print(stderr, "\r{} [{:#<{}}{:<{}}] {:3.0f} %", what_, "", done, "", kWidth - done,
             fraction * 100);
  std::fflush(stderr);
}

}  // namespace once::cli
