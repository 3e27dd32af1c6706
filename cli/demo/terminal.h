// The terminal while the view is on it: keys come at once and are not shown, the cursor is hidden, the
// screen is another one. Whatever ends the demo, it is as it was afterwards.
#pragma once

#include <termios.h>

#include <optional>
#include <string>

#include "cli/app/output.h"

namespace once::cli::demo {

class Terminal {
 public:
  explicit Terminal(Output& out);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  bool has_keys() const { return keys_; }
  std::optional<char> key() const;  // the next that was pressed; does not wait
  // Over what was there before; lines that are too long are cut.
  void show(const std::string& lines);
  std::size_t height() const;

 private:
  Output& out_;
  termios before_{};
  bool keys_ = false;
};

}  // namespace once::cli::demo
