// Decides whether many writes go as one atomic batch or one by one. A batch is one fsync. That is
// ten times faster on a server that syncs each write, and half as fast on a server that does not.
// The server does not say which kind it is. So this class times both ways, and tries the slower one
// again at times. It tries single writes with a few items first. Any thread may call it.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace once::store::nats {

class BatchChoice {
 public:
  // Returns how many of the items go one by one. The others go in batches.
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
