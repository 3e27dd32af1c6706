#include "cli/demo/lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace once::cli::demo {

bool append_line(const std::string& path, std::string line) {
  line += '\n';
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool whole = ::write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  ::close(fd);
  return whole;
}

std::vector<std::string> Tail::next() {
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(read_));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    read_ += line.size() + 1;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> words_of(std::string_view line) {
  std::istringstream in{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(std::move(word));
  return words;
}

}  // namespace once::cli::demo
