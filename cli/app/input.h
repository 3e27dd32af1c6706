// Reading what a command is given: whole files, and lines as they arrive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "once/task.h"

namespace once::cli {

// No body, however it is written, is longer than this.
inline constexpr std::size_t kMaxInput = 16 << 20;
// No queue keeps a longer result.
inline constexpr std::size_t kMaxResultInput = 256 << 20;

// A descriptor with one owner. `-` is standard input.
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();
  // Up to `size` bytes; zero: the end.
  Result<std::size_t> read(char* to, std::size_t size);
  bool ready() const;  // read() would not wait
  const std::string& name() const { return name_; }

 private:
  InputFile(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  int fd_;
  std::string name_;
};

Result<std::string> read_all(const std::string& path, std::size_t most = kMaxInput);

// What an argument stands for: the text itself, @FILE, or - for standard input.
Result<std::string> read_argument(const std::string& argument, std::size_t most = kMaxInput);
// Such an argument as JSON, or as bytes; none: null, or no bytes.
Result<Body> body_from(const std::optional<std::string>& argument, bool raw,
                       std::size_t most = kMaxInput);
// The same for --result, up to kMaxResultInput.
Result<Body> result_from(const std::optional<std::string>& argument, bool raw);

struct Line {
  std::uint64_t number{};  // from 1
  std::string text{};
  bool too_long = false;  // above kMaxInput; `text` is empty
};

// Lines in gatherings: waits for one, then takes what has arrived, up to a batch.
class LineReader {
 public:
  explicit LineReader(InputFile file) : file_(std::move(file)) {}
  // Empty: the end. A last line needs no newline.
  Result<std::vector<Line>> next();

 private:
  bool take_line(std::vector<Line>& to);
  InputFile file_;
  std::string buffer_;
  std::size_t start_ = 0;   // of the current line in the buffer
  std::size_t looked_ = 0;  // no newline before this
  std::uint64_t number_ = 0;
  bool skipping_ = false;  // within a line that is too long
  bool ended_ = false;
};

}  // namespace once::cli
