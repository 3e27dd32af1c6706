#include "server/consumers.h"

namespace once::server {
namespace {

constexpr std::chrono::seconds kIdleWorker{60};
constexpr std::size_t kMostWorkers = 2000;

}  // namespace

Result<std::shared_ptr<Consumer>> Consumers::of(const std::string& queue) {
  return find({queue, "", false}, {.housekeeping = true});
}

Result<std::shared_ptr<Consumer>> Consumers::of(const std::string& queue, const std::string& worker,
                                                bool can_probe) {
  if (auto house = of(queue); !house) return house.error();
  return find({queue, worker, can_probe},
              {.name = worker, .can_probe = can_probe, .housekeeping = false});
}

// The store is asked without the mutex, so that one slow call does not stop the others.
Result<std::shared_ptr<Consumer>> Consumers::find(const Key& key, const ConsumerOptions& options) {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_, [&](const auto& each) {
      const bool house = std::get<1>(each.first).empty();
      return !house && now - each.second.used > kIdleWorker;
    });
    if (const auto found = known_.find(key); found != known_.end()) {
      found->second.used = now;
      return found->second.consumer;
    }
    if (known_.size() >= kMostWorkers)
      return Error{.code = Code::overloaded,
                   .message = "too many workers; nothing was claimed: use fewer names",
                   .retryable = true};
  }
  auto made = zone_.consumer(std::get<0>(key), options);
  if (!made) return made.error();
  const std::lock_guard lock(mutex_);
  auto& known = known_[key];
  if (!known.consumer) known.consumer = std::make_shared<Consumer>(std::move(*made));
  known.used = now;
  return known.consumer;
}

void Consumers::forget(const std::string& queue) {
  const std::lock_guard lock(mutex_);
  std::erase_if(known_, [&](const auto& each) { return std::get<0>(each.first) == queue; });
}

}  // namespace once::server
