// Strong types for numbers and bytes that must not be mixed up, and the store's own time.
#pragma once

#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "once/task.h"

namespace once::core {

template <class Tag>
struct Number {
  std::uint64_t value{};
  auto operator<=>(const Number&) const = default;
  explicit operator bool() const { return value != 0; }
};

using Sequence = Number<struct SequenceTag>;  // place in the log, from 1, never reused
using Revision =
    Number<struct RevisionTag>;           // of a record; grows with every ledger write of a zone
using Token = Number<struct TokenTag>;    // the revision at which a claim was recorded
using Member = Number<struct MemberTag>;  // a worker's number in its zone, never reused

template <std::size_t N, class Tag>
struct Bytes {
  std::array<std::uint8_t, N> bytes{};
  auto operator<=>(const Bytes&) const = default;
};

using Digest = Bytes<32, struct DigestTag>;  // SHA-256
using Nonce = Bytes<16, struct NonceTag>;    // random per append and per claim; see the glossary

// The store's time. The store stamps each write with it. It is monotonic within a zone and
// comparable only with itself. Leases, due times and ages use it; wall clocks are for people.
struct StoreClock {
  using rep = std::int64_t;
  using period = std::milli;
  using duration = Duration;
  using time_point = std::chrono::time_point<StoreClock, Duration>;
  static constexpr bool is_steady = true;
};
using StoreTime = StoreClock::time_point;

struct Now {
  StoreTime store{};
  Time wall{};  // shown to people, never compared
};

}  // namespace once::core
