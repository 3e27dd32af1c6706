// Standard output with its failures looked at: what could not be written is never taken for said.
#pragma once

#include <string>
#include <string_view>

namespace once::cli {

class Output {
 public:
  explicit Output(int fd) : fd_(fd) {}
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(std::string_view text);
  void line(std::string_view text);
  // False: nobody will read what is written from now on; a command that only talks may end.
  bool flush();

  bool closed() const { return error_ != 0; }
  int error() const { return error_; }  // errno of the first failed write; EPIPE: the reader left
  bool reader_left() const;  // looks at the descriptor; for those who have nothing to say
  bool is_terminal() const;
  std::size_t width() const;  // columns of the terminal; zero: not a terminal

 private:
  int fd_;
  std::string buffer_;
  int error_ = 0;
};

// `block` over what was painted before, without the flicker of clearing first.
std::string repainted(std::string_view block);

// Columns of the terminal behind `fd`; zero: not a terminal.
std::size_t terminal_width(int fd);

}  // namespace once::cli
