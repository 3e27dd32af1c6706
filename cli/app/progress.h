// How far something long has come, on standard error: only on a terminal, and only after a second.
#pragma once

#include <chrono>
#include <string_view>

namespace once::cli {

class Progress {
 public:
  Progress(std::string_view what, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // leaves nothing on the terminal

  void at(double fraction);

 private:
  std::string_view what_;
  bool shown_;
  bool painted_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace once::cli
