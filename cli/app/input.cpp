// Input by descriptor, so that a pipe that has gone quiet is noticed.
#include "cli/app/input.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace once::cli {
namespace {
constexpr std::size_t kBlock = 256 << 10;
constexpr std::size_t kBatchLines = 1000;
constexpr std::size_t kBatchBytes = 8 << 20;  // bounds memory when lines are long
}  // namespace

Result<InputFile> InputFile::open(const std::string& path) {
  if (path == "-") return InputFile(STDIN_FILENO, "standard input");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return Error{.code = Code::invalid_input,
                 .message = fmt::format("cannot read {}: {}", path, std::strerror(errno))};
  }
  return InputFile(fd, path);
}

InputFile::InputFile(InputFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), name_(std::move(other.name_)) {}

InputFile::~InputFile() {
  if (fd_ > STDERR_FILENO) ::close(fd_);
}

Result<std::size_t> InputFile::read(char* to, std::size_t size) {
  for (;;) {
    const ssize_t got = ::read(fd_, to, size);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd wait{.fd = fd_, .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return Error{.code = Code::invalid_input,
                   .message = fmt::format("cannot read {}: {}", name_, std::strerror(errno))};
    }
  }
}

bool InputFile::ready() const {
  pollfd look{.fd = fd_, .events = POLLIN, .revents = 0};
  return ::poll(&look, 1, 0) == 1;
}

Result<std::string> read_all(const std::string& path, std::size_t most) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kBlock);
    auto got = file->read(text.data() + before, kBlock);
    if (!got) return got.error();
    text.resize(before + *got);
    if (*got == 0) return text;
    if (text.size() > most) {
      return Error{.code = Code::too_large,
                   .message = fmt::format("{} is longer than {} MiB; nothing was done",
                                          file->name(), most >> 20)};
    }
  }
}

Result<std::string> read_argument(const std::string& argument, std::size_t most) {
  if (argument == "-") return read_all("-", most);
  if (argument.starts_with('@')) return read_all(argument.substr(1), most);
  return argument;
}

Result<Body> body_from(const std::optional<std::string>& argument, bool raw, std::size_t most) {
  if (!argument && !raw) return Body{};
  auto text = read_argument(argument.value_or(""), most);
  if (!text) return text.error();
  if (raw) return Body::bytes(std::move(*text));
  return Body::json(*text);
}

Result<Body> result_from(const std::optional<std::string>& argument, bool raw) {
  auto result = body_from(argument, raw, kMaxResultInput);
  if (result) return result;
  Error error = result.error();
  const bool says_so = error.message.ends_with("nothing was done");
  error.message = fmt::format("--result: {}{}", error.message, says_so ? "" : "; nothing was done");
  return error;
}

// Moves the next whole line from the buffer; false: there is none yet.
bool LineReader::take_line(std::vector<Line>& to) {
  const std::size_t newline = buffer_.find('\n', looked_);
  const bool whole = newline != std::string::npos;
  if (!whole && !(ended_ && (start_ < buffer_.size() || skipping_))) {
    looked_ = buffer_.size();
    if (buffer_.size() - start_ > kMaxInput || skipping_) {
      skipping_ = true;
      buffer_.clear();
      start_ = looked_ = 0;
    }
    return false;
  }
  const std::size_t end = whole ? newline : buffer_.size();
  Line line{.number = ++number_, .text = {}, .too_long = skipping_ || end - start_ > kMaxInput};
  if (!line.too_long) line.text = buffer_.substr(start_, end - start_);
  skipping_ = false;
  start_ = looked_ = whole ? end + 1 : end;
  to.push_back(std::move(line));
  return true;
}

Result<std::vector<Line>> LineReader::next() {
  std::vector<Line> lines;
  std::size_t bytes = 0;
  for (;;) {
    while (lines.size() < kBatchLines && bytes < kBatchBytes && take_line(lines)) {
      bytes += lines.back().text.size();
    }
    const bool full = lines.size() == kBatchLines || bytes >= kBatchBytes;
    if (full || ended_ || (!lines.empty() && !file_.ready())) return lines;
    buffer_.erase(0, start_);
    looked_ -= start_;
    start_ = 0;
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kBlock);
    auto got = file_.read(buffer_.data() + before, kBlock);
    buffer_.resize(before + (got ? *got : 0));
    if (!got) {
      // What was read before goes first; the next call meets the failure again.
      if (!lines.empty()) return lines;
      return got.error();
    }
    if (*got == 0) ended_ = true;
  }
}

}  // namespace once::cli
