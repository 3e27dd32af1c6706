// All chance in a simulation comes from one seed, through this.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace once::sim {

// SplitMix64: small, quick, and the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0xD1342543DE82EF95ULL + 1) {}

  std::uint64_t next() {
    std::uint64_t mixed = (state_ += 0x9E3779B97F4A7C15ULL);
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
    return mixed ^ (mixed >> 31U);
  }
  double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }  // [0, 1)
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }
  // Both ends can come.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(double probability) { return unit() < probability; }
  template <class T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::uint64_t state_;
};

}  // namespace once::sim
