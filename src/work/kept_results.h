// Keeps the large results of the claims in use in memory, between two calls of a consumer. A store
// reads a large result again only if no record in the process has it (codec/large_values.h). So a
// renewal of a task does not read and hash all that its steps returned.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "core/record.h"

namespace once::engine {

// Any thread may call. It forgets the oldest claims if their results are too large together.
class KeptResults {
 public:
  // The record of the claim, after a write. A claim that does not run any more is forgotten.
  void saw(const core::Nonce& claim, const core::Record& record);

 private:
  struct Kept {
    std::vector<Body> results{};
    std::size_t size{};
    std::uint64_t age{};
  };
  void forget(const core::Nonce& claim);  // with mutex_ held

  std::mutex mutex_;
  // Under mutex_.
  std::map<core::Nonce, Kept> kept_;
  std::map<std::uint64_t, core::Nonce> by_age_;  // the oldest first
  std::uint64_t last_age_{};
  std::size_t size_{};
};

}  // namespace once::engine
