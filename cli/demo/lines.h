// Files of lines that several processes append to: what happened, told by those who did it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace once::cli::demo {

// One write to the file's end, so that lines of several processes do not mix. False: errno says why.
bool append_line(const std::string& path, std::string line);

// The lines that have come since the last look; one without its end is waited for.
class Tail {
 public:
  explicit Tail(std::string path) : path_(std::move(path)) {}
  std::vector<std::string> next();

 private:
  std::string path_;
  std::size_t read_ = 0;
};

// What blanks part.
std::vector<std::string> words_of(std::string_view line);

}  // namespace once::cli::demo
