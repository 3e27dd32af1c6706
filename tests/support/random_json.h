// Random JSON texts in every spelling the grammar allows, from a seed.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace once::encoding {

class RandomJson {
 public:
  explicit RandomJson(std::uint64_t seed) : random_(seed) {}

  std::string document() { return space() + value(0) + space(); }

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

 private:
  std::string value(int depth) {
    switch (below(depth < 5 ? 8 : 6)) {
      case 0: return "null";
      case 1: return below(2) == 0 ? "true" : "false";
      case 2:
      case 3: return number();
      case 4:
      case 5: return spelled(characters());
      case 6: return array(depth);
      default: return object(depth);
    }
  }

  std::string array(int depth) {
    std::string out = "[" + space();
    for (std::uint64_t i = 0, n = below(6); i < n; ++i) {
      if (i > 0) out += "," + space();
      out += value(depth + 1) + space();
    }
    return out + "]";
  }

  std::string object(int depth) {
    std::string out = "{" + space();
    std::set<std::vector<char32_t>> used;
    for (std::uint64_t i = 0, n = below(8); i < n; ++i) {
      const auto key = characters();
      if (!used.insert(key).second) continue;
      if (used.size() > 1) out += "," + space();
      out += spelled(key) + space() + ":" + space() + value(depth + 1) + space();
    }
    return out + "}";
  }

  std::string number() {
    const std::string sign = below(3) == 0 ? "-" : "";
    switch (below(5)) {
      case 0: return sign + std::to_string(below(1000));
      case 1: return sign + std::to_string(below((1ULL << 53) + 1));
      case 2: return sign + std::to_string(below(100'000)) + "." + std::to_string(below(1'000'000));
      case 3: {
        const char* const exponents[] = {"e", "E", "e+", "E-", "e-0"};
        return sign + std::to_string(below(1'000'000)) + "." + std::to_string(below(10'000)) +
               exponents[below(5)] + std::to_string(below(290));
      }
      default: {
        // Any finite double, to all its digits.
        const auto exponent = below(2047) << 52;
        const auto bits = exponent | (random_() >> 12);
        double value = 0;
        static_assert(sizeof bits == sizeof value);
        std::memcpy(&value, &bits, sizeof value);
        char buffer[64];
        const auto end =
            std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific, 17);
        return sign + std::string(buffer, end.ptr);
      }
    }
  }

  std::vector<char32_t> characters() {
    static constexpr char32_t kNotable[] = {
        0,      0x1F,   '"',     '\\',    '/',      0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000,
        0xFB33, 0xFFFF, 0x10000, 0x1F602, 0x10FFFF, '\n', '\t', '\b',  '\f',  '\r'};
    std::vector<char32_t> out;
    for (std::uint64_t i = 0, n = below(below(4) == 0 ? 24 : 5); i < n; ++i) {
      if (below(3) == 0) {
        out.push_back(kNotable[below(std::size(kNotable))]);
      } else {
        out.push_back(static_cast<char32_t>('a' + below(26)));
      }
    }
    return out;
  }

  // Raw where JSON allows it, or one of the escapes.
  std::string spelled(const std::vector<char32_t>& characters) {
    std::string out = "\"";
    for (const char32_t c : characters) {
      const bool must_escape = c < 0x20 || c == '"' || c == '\\';
      if (!must_escape && below(4) != 0) {
        append_utf8(c, out);
        continue;
      }
      static constexpr std::string_view kShort = "\"\"\\\\//\bb\ff\nn\rr\tt";
      std::size_t at = std::string_view::npos;
      for (std::size_t i = 0; i < kShort.size(); i += 2) {
        if (c == static_cast<unsigned char>(kShort[i])) at = i + 1;
      }
      if (at != std::string_view::npos && below(2) == 0) {
        out += '\\';
        out += kShort[at];
      } else if (c < 0x10000) {
        append_unit(c, out);
      } else {
        append_unit(0xD800 + ((c - 0x10000) >> 10), out);
        append_unit(0xDC00 + ((c - 0x10000) & 0x3FF), out);
      }
    }
    return out + "\"";
  }

  void append_unit(char32_t unit, std::string& out) {
    const std::string_view digits = below(2) == 0 ? "0123456789abcdef" : "0123456789ABCDEF";
    out += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) out += digits[unit >> shift & 15];
  }

  // Of its own, so that a mistake in the product's would show.
  static void append_utf8(char32_t c, std::string& out) {
    const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
    const int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static constexpr char32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
    put(kLead[more] | c >> (6 * more));
    for (int i = more - 1; i >= 0; --i) put(0x80 | (c >> (6 * i) & 0x3F));
  }

  std::string space() {
    static constexpr std::string_view kSpaces = " \n\r\t";
    std::string out;
    while (below(4) == 0) out += kSpaces[below(4)];
    return out;
  }

  std::mt19937_64 random_;
};

}  // namespace once::encoding
