// A number that any thread may count, and any may read, without waiting.
#pragma once

#include <atomic>
#include <cstdint>

namespace once::engine {

class Counter {
 public:
  void add() { value_.fetch_add(1, std::memory_order_relaxed); }
  void subtract() { value_.fetch_sub(1, std::memory_order_relaxed); }
  std::uint64_t read() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace once::engine
