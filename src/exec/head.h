// The bytes of a stream, unless it has more than a limit: then only how many it had.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace once::engine {

class Head {
 public:
  explicit Head(std::uint64_t limit) : limit_(limit) {}

  void add(std::string_view bytes) {
    size_ += bytes.size();
    if (size_ <= limit_)
      text_ += bytes;
    else
      std::string().swap(text_);  // nobody may take a part of it for the whole
  }
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }
  // How many bytes there were, when they were too many; zero: `text` has them all.
  std::uint64_t oversize() const { return size_ > limit_ ? size_ : 0; }

 private:
  std::uint64_t limit_;
  std::uint64_t size_ = 0;
  std::string text_;
};

}  // namespace once::engine
