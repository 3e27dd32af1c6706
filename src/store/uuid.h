// A zone's name for itself.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>

#include "core/hex.h"

namespace once::store {

// Random bytes as a version 4 UUID.
inline std::string uuid_from(std::array<std::uint8_t, 16> bytes) {
  bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0fU) | 0x40U);
  bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3fU) | 0x80U);
  std::string text = core::hex(bytes);
  for (const std::size_t at : {8U, 13U, 18U, 23U}) text.insert(at, 1, '-');
  return text;
}

inline std::string random_uuid() {
  std::random_device device;
  std::array<std::uint8_t, 16> bytes{};
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(device());
  return uuid_from(bytes);
}

}  // namespace once::store
