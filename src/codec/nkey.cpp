#include "codec/nkey.h"

#include <openssl/evp.h>

#include <array>
#include <cstdint>
#include <memory>

namespace once::encoding {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
constexpr std::uint8_t kSeed = 18 << 3;  // 'S'
constexpr std::uint8_t kUser = 20 << 3;  // 'U'
constexpr std::size_t kKeySize = 32;

struct KeyFree {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

std::optional<std::string> from_base32(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : text) {
    const std::size_t value = kLetters.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 5U | static_cast<std::uint32_t>(value);
    count += 5;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFFU);
  }
  return bytes;
}

std::string base32(std::string_view bytes) {
  std::string text;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : bytes) {
    bits = bits << 8U | static_cast<std::uint8_t>(c);
    for (count += 8; count >= 5; count -= 5) text += kLetters[bits >> (count - 5) & 31U];
  }
  if (count > 0) text += kLetters[bits << (5 - count) & 31U];
  return text;
}

// CRC-16/XMODEM, low byte first.
std::string check_sum(std::string_view bytes) {
  std::uint16_t sum = 0;
  for (const char c : bytes) {
    sum = static_cast<std::uint16_t>(sum ^ static_cast<std::uint8_t>(c) << 8);
    for (int i = 0; i < 8; ++i)
      sum = static_cast<std::uint16_t>((sum & 0x8000) != 0 ? sum << 1 ^ 0x1021 : sum << 1);
  }
  return {static_cast<char>(sum & 0xFF), static_cast<char>(sum >> 8)};
}

}  // namespace

std::optional<std::string> nkey_user(std::string_view seed) {
  const auto bytes = from_base32(seed);
  if (!bytes || bytes->size() != 2 + kKeySize + 2) return std::nullopt;
  const std::string_view checked = std::string_view(*bytes).substr(0, 2 + kKeySize);
  const auto first = static_cast<std::uint8_t>(checked[0]);
  const auto second = static_cast<std::uint8_t>(checked[1]);
  if (first != (kSeed | kUser >> 5) || second != (kUser & 31) << 3) return std::nullopt;
  if (check_sum(checked) != bytes->substr(checked.size())) return std::nullopt;
  const std::unique_ptr<EVP_PKEY, KeyFree> key(EVP_PKEY_new_raw_private_key(
      EVP_PKEY_ED25519, nullptr, reinterpret_cast<const unsigned char*>(checked.data() + 2),
      kKeySize));
  std::array<unsigned char, kKeySize> raw{};
  std::size_t size = raw.size();
  if (!key || EVP_PKEY_get_raw_public_key(key.get(), raw.data(), &size) != 1) return std::nullopt;
  std::string out(1, static_cast<char>(kUser));
  out.append(reinterpret_cast<const char*>(raw.data()), raw.size());
  return base32(out + check_sum(out));
}

}  // namespace once::encoding
