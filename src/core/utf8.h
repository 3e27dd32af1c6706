// Well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above
// U+10FFFF.
// Also cuts text between characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace once::core {

// The length of the character that begins at `at`. Zero if it is not well-formed.
inline std::size_t utf8_sequence(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
  };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return at < text.size() ? 1 : 0;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  if (lead < 0xE0) return within(1, 0x80, 0xBF) ? 2 : 0;
  if (lead < 0xF0) {
    const unsigned low = lead == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : 0xBF;
    return within(1, low, high) && within(2, 0x80, 0xBF) ? 3 : 0;
  }
  const unsigned low = lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xF4 ? 0x8F : 0xBF;
  return within(1, low, high) && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
}

inline bool valid_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_sequence(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

// `code_point` is a scalar value: no surrogate, at most U+10FFFF.
inline void append_utf8(unsigned code_point, std::string& out) {
  const auto put = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

// The text with U+FFFD in place of each byte that is not part of any character.
inline std::string readable(std::string_view raw) {
  std::string text;
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t size = utf8_sequence(raw, at);
    text += size == 0 ? std::string_view("\uFFFD") : raw.substr(at, size);
    at += size == 0 ? 1 : size;
  }
  return text;
}

// Returns true if the byte is inside a character and does not begin it.
inline bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// The first `limit` bytes at most, cut between characters.
inline std::string_view first_bytes(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && continues_character(text[limit])) --limit;
  return text.substr(0, limit);
}

// The last `limit` bytes at most, cut between characters.
inline std::string_view last_bytes(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t begin = text.size() - limit;
  while (begin < text.size() && continues_character(text[begin])) ++begin;
  return text.substr(begin);
}

// Text for a message: at most `limit` bytes, and an ellipsis if some are missing.
inline std::string excerpt(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  return std::string(first_bytes(text, limit)) + "…";
}

}  // namespace once::core
