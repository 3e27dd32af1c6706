// The first bytes of a stream, and whether there were more.
#pragma once

#include <string>
#include <string_view>

#include "engine/assignment.h"

namespace once::engine {

class Head {
 public:
  void add(std::string_view bytes) {
    const auto room = kMaxResult - text_.size();
    cut_ = cut_ || bytes.size() > room;
    text_.append(bytes.substr(0, room));
  }
  const std::string& text() const { return text_; }
  bool cut() const { return cut_; }

 private:
  std::string text_;
  bool cut_ = false;
};

}  // namespace once::engine
