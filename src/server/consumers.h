// The consumers of a server: one per queue that does its housekeeping, and one per worker that asks for
// offers. A worker that asks for nothing for a minute is not counted any more.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>

#include "once/zone.h"

namespace once::server {

// Any thread may call. The zone must outlive it.
class Consumers {
 public:
  explicit Consumers(Zone& zone) : zone_(zone) {}

  // For calls with a claim. Shared with the calls that use it.
  Result<std::shared_ptr<Consumer>> of(const std::string& queue);
  // For offers to this worker.
  Result<std::shared_ptr<Consumer>> of(const std::string& queue, const std::string& worker,
                                       bool can_probe);
  // The queue was removed. A queue of the same name needs new consumers.
  void forget(const std::string& queue);

 private:
  using Key = std::tuple<std::string, std::string, bool>;  // queue, worker, can_probe
  struct Known {
    std::shared_ptr<Consumer> consumer{};
    std::chrono::steady_clock::time_point used{};
  };
  Result<std::shared_ptr<Consumer>> find(const Key& key, const ConsumerOptions& options);

  Zone& zone_;
  std::mutex mutex_;
  std::map<Key, Known> known_;  // under mutex_
};

}  // namespace once::server
