// The bytes that records are made of: fields as (tag, value), and a checksum at the end.
//
//   field  := varint(number * 2 + kind) value
//   value  := varint                 kind 0
//           | varint(size) byte*     kind 1
//   varint := 7 bits per byte, low ones first, the high bit set in all but the last byte; no longer
//             than needed. A signed number is folded first: 0, -1, 1, -2 ... become 0, 1, 2, 3 ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace once::encoding {

enum class WireKind : unsigned { number = 0, bytes = 1 };

inline constexpr std::size_t kLongestVarint = 10;

// Writes at most kLongestVarint bytes and returns their end.
inline char* write_varint(std::uint64_t value, char* to) {
  for (; value >= 0x80; value >>= 7) *to++ = static_cast<char>(value | 0x80);
  *to++ = static_cast<char>(value);
  return to;
}

inline void append_varint(std::uint64_t value, std::string& out) {
  char buffer[kLongestVarint];
  out.append(buffer, write_varint(value, buffer));
}

// Both by one call of append(), which costs more than the numbers.
inline void append_varints(std::uint64_t first, std::uint64_t second, std::string& out) {
  char buffer[2 * kLongestVarint];
  out.append(buffer, write_varint(second, write_varint(first, buffer)));
}

inline std::uint64_t fold_sign(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t unfold_sign(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

inline void append_number_field(unsigned number, std::uint64_t value, std::string& out) {
  append_varints(number * 2 + static_cast<unsigned>(WireKind::number), value, out);
}
inline void append_bytes_field(unsigned number, std::string_view bytes, std::string& out) {
  append_varints(number * 2 + static_cast<unsigned>(WireKind::bytes), bytes.size(), out);
  out += bytes;
}

// Reads numbers one by one and never beyond the bytes it was given.
class VarintReader {
 public:
  explicit VarintReader(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  // None: what follows is no number.
  std::optional<std::uint64_t> next() {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < 10 && i < rest_.size(); ++i) {
      const auto byte = static_cast<unsigned char>(rest_[i]);
      if (i == 9 && byte > 1) return std::nullopt;  // beyond 64 bits
      value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
      if (byte >= 0x80) continue;
      if (byte == 0 && i > 0) return std::nullopt;  // longer than needed
      rest_.remove_prefix(i + 1);
      return value;
    }
    return std::nullopt;
  }

  // None: there are not so many bytes.
  std::optional<std::string_view> bytes(std::uint64_t size) {
    if (size > rest_.size()) return std::nullopt;
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

 private:
  std::string_view rest_;
};

struct WireField {
  std::uint64_t number{};
  WireKind kind{};
  std::uint64_t value{};     // kind number
  std::string_view bytes{};  // kind bytes
};

// Reads fields one by one and never beyond the bytes it was given.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : numbers_(bytes) {}

  bool at_end() const { return numbers_.at_end(); }

  // None: what follows is no field.
  std::optional<WireField> next() {
    const auto tag = numbers_.next();
    const auto value = tag ? numbers_.next() : std::nullopt;
    if (!value) return std::nullopt;
    WireField field{*tag / 2, static_cast<WireKind>(*tag % 2), *value, {}};
    if (field.kind == WireKind::bytes) {
      const auto bytes = numbers_.bytes(field.value);
      if (!bytes) return std::nullopt;
      field.bytes = *bytes;
    }
    return field;
  }

 private:
  VarintReader numbers_;
};

// Eight bytes as a number, the low ones first. Without a loop, a compiler makes one load of this.
inline std::uint64_t word_at(const char* bytes) {
  const auto at = [bytes](unsigned i) {
    return static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  };
  return at(0) | at(1) | at(2) | at(3) | at(4) | at(5) | at(6) | at(7);
}

// Finds bytes that a disk or a hand has changed; no protection against intent.
inline std::uint32_t checksum(std::string_view bytes) {
  constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  std::uint64_t sum = bytes.size() * kFactor;
  const auto add = [&sum](std::uint64_t word) {
    sum = (sum ^ word) * kFactor;
    sum ^= sum >> 32;
  };
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) add(word_at(bytes.data()));
  if (bytes.empty()) return static_cast<std::uint32_t>(sum);
  char rest[8] = {};
  bytes.copy(rest, sizeof rest);
  add(word_at(rest));
  return static_cast<std::uint32_t>(sum);
}

inline constexpr std::size_t kChecksumSize = 4;

inline void append_checksum(std::string& bytes) {
  const std::uint32_t sum = checksum(bytes);
  char text[kChecksumSize];
  for (unsigned i = 0; i < kChecksumSize; ++i) text[i] = static_cast<char>(sum >> (8 * i));
  bytes.append(text, kChecksumSize);
}

// The bytes without their checksum; none when it does not fit them.
inline std::optional<std::string_view> checked(std::string_view bytes) {
  if (bytes.size() < kChecksumSize) return std::nullopt;
  const std::string_view content = bytes.substr(0, bytes.size() - kChecksumSize);
  const std::uint32_t sum = checksum(content);
  for (unsigned i = 0; i < kChecksumSize; ++i) {
    if (bytes[content.size() + i] != static_cast<char>(sum >> (8 * i))) return std::nullopt;
  }
  return content;
}

}  // namespace once::encoding
