#include "server/consumers.h"

#include <vector>

#include "server/access.h"

namespace once::server {
namespace {

constexpr std::chrono::seconds kIdleQueue{60};
constexpr std::chrono::seconds kLookForIdle{10};

}  // namespace

// The store is asked without the mutex, so that one slow call does not stop the others.
Result<std::shared_ptr<Consumer>> Consumers::of(const AccessToken* caller,
                                                const std::string& queue) {
  if (auto may = may_use_queue(caller, queue); !may) return may.error();
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(queue); found != known_.end()) {
      found->second.used = now;
      return found->second.consumer;
    }
  }
  auto made = zone_.consumer(queue);
  if (!made) return made.error();
  auto consumer = std::make_shared<Consumer>(std::move(*made));  // shared with the callers
  const std::lock_guard lock(mutex_);
  Known& known = known_[queue];
  if (!known.consumer) known.consumer = std::move(consumer);
  known.used = now;
  return known.consumer;
}

// The end of a consumer asks the store, so it comes after the mutex is released.
void Consumers::forget(const std::string& queue) {
  std::map<std::string, Known>::node_type ending;
  const std::lock_guard lock(mutex_);
  ending = known_.extract(queue);
}

void Consumers::drop_idle(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<std::shared_ptr<Consumer>> ending;
    std::unique_lock lock(mutex_);
    ending_.wait_for(lock, stop, kLookForIdle, [] { return false; });
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(known_, [&](const auto& each) {
      const Known& known = each.second;
      if (known.consumer.use_count() > 1 || now - known.used < kIdleQueue) return false;
      ending.push_back(known.consumer);
      return true;
    });
    lock.unlock();
  }
}

}  // namespace once::server
