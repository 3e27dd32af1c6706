// The faults of a definition, in words for a person. A definition is checked to its end, so that
// all faults can be corrected at once.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "once/result.h"

namespace once::encoding {

std::string short_quote(std::string_view text);  // 'text', shortened
std::string in_quotes(std::string_view text);    // "text", shortened

template <class Texts>
std::string joined(const Texts& texts, std::string_view between) {
  std::string out;
  for (const auto& text : texts) {
    if (!out.empty()) out += between;
    out += text;
  }
  return out;
}

// "; did you mean 'charge'?", or an empty text.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         char quote);

// All faults, each with its place.
class Findings {
 public:
  void add(const std::string& where, const std::string& what);
  bool empty() const { return all_.empty(); }

  Error error(std::string_view workflow, std::string_view undone) const;

 private:
  static constexpr std::size_t kMost = 50;
  std::vector<std::string> all_;
  std::size_t count_ = 0;
};

}  // namespace once::encoding
