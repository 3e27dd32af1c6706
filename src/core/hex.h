// Bytes as lower-case hexadecimal digits.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/types.h"

namespace once::core {

inline constexpr std::string_view kHexDigits = "0123456789abcdef";

inline std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text(2 * bytes.size(), '0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text[2 * i] = kHexDigits[bytes[i] >> 4U];
    text[2 * i + 1] = kHexDigits[bytes[i] & 0xFU];
  }
  return text;
}

template <std::size_t N, class Tag>
std::string hex(const Bytes<N, Tag>& value) {
  return hex(std::span<const std::uint8_t>(value.bytes));
}

// Reads what hex() wrote. Returns false if the text is not exactly that many digits.
template <std::size_t N, class Tag>
bool read_hex(std::string_view text, Bytes<N, Tag>& into) {
  if (text.size() != 2 * N) return false;
  for (std::size_t i = 0; i < N; ++i) {
    const std::size_t high = kHexDigits.find(text[2 * i]);
    const std::size_t low = kHexDigits.find(text[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return false;
    into.bytes[i] = static_cast<std::uint8_t>(high << 4U | low);
  }
  return true;
}

}  // namespace once::core
