// Whether many writes go together, as an atomic batch, or one by one. A batch is one fsync, which is
// ten times faster on a server that syncs each write and half as fast on one that does not; which it
// is, the server does not tell. So both are timed, and the slower one is tried again now and then: of
// single writes, first a few.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace once::store::nats {

class BatchChoice {
 public:
  // How many of them are to go one by one; the others go together. Any thread.
  std::size_t singly(std::size_t items);
  void took(bool together, std::size_t items, std::chrono::nanoseconds time);

 private:
  enum Way : std::size_t { kSingly, kTogether };

  std::mutex mutex_;
  std::uint64_t asked_{};
  std::array<double, 2> cost_{};  // of one item, in nanoseconds; zero: not known yet
  int samples_{};                 // how often in a row a few were much slower one by one
  bool try_all_singly_ = false;   // a few were not
};

}  // namespace once::store::nats
