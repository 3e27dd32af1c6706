// Prints lines to a descriptor from a thread of its own: a slow reader holds up nobody.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace once::cli {

// Any thread may call.
class LinePrinter {
 public:
  // `missing` words the line that stands for so many lost ones.
  LinePrinter(int fd, std::function<std::string(std::uint64_t)> missing);
  // Waits until all is printed, but not for a reader that takes nothing.
  ~LinePrinter();
  LinePrinter(const LinePrinter&) = delete;
  LinePrinter& operator=(const LinePrinter&) = delete;

  // False: so much waits already that lines which may be lost are.
  bool has_room() const;
  void print(std::string_view line);  // is never lost; without its line end
  void lose(std::uint64_t lines);     // they are told as missing

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the thread, which may outlive this
  std::thread thread_;
};

}  // namespace once::cli
