// What happened, in order: always as a hash, which tells whether two runs were the same; as text when
// somebody wants to read it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace once::sim {

// Of the world: what no process and no store can see.
using Instant = std::chrono::time_point<struct InstantTag, std::chrono::microseconds>;

class Trace {
 public:
  enum class Detail { none, short_end, everything };
  explicit Trace(Detail detail)
      : kept_(detail == Detail::none        ? 0
              : detail == Detail::short_end ? 60
                                            : SIZE_MAX) {}

  // A call that went well is told only where everything is.
  bool tells_everything() const { return kept_ == SIZE_MAX; }

  // Without a text.
  void note(Instant at, std::string_view who, std::string_view what, std::uint64_t number) {
    mix(static_cast<std::uint64_t>(at.time_since_epoch().count()));
    mix(who.size() * 31 + static_cast<unsigned char>(who.empty() ? 0 : who.back()));
    mix(what.size() * 31 + static_cast<unsigned char>(what.front()));
    mix(number);
  }
  // `detail` is called only when text is kept.
  template <class Text>
  void note(Instant at, std::string_view who, std::string_view what, std::uint64_t number,
            Text detail) {
    note(at, who, what, number);
    if (kept_ == 0) return;
    if (lines_.size() == kept_) lines_.pop_front();
    lines_.push_back(line(at, who, what, detail()));
  }

  std::uint64_t hash() const { return hash_; }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  void mix(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x100000001B3ULL;
    hash_ ^= hash_ >> 29U;
  }
  static std::string line(Instant at, std::string_view who, std::string_view what,
                          std::string_view detail) {
    const auto micros = at.time_since_epoch().count();
    std::string fraction = std::to_string(1'000'000 + micros % 1'000'000).substr(1);
    std::string text = std::to_string(micros / 1'000'000) + "." + fraction + "  ";
    text += who;
    text.resize(std::max<std::size_t>(text.size() + 2, 24), ' ');
    text += what;
    text += ' ';
    text += detail;
    return text;
  }

  const std::size_t kept_;
  std::uint64_t hash_ = 0xCBF29CE484222325ULL;
  std::deque<std::string> lines_;
};

}  // namespace once::sim
