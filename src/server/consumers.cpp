#include "server/consumers.h"

#include <vector>

#include "server/access.h"

namespace once::server {
namespace {

constexpr std::chrono::seconds kIdleQueue{60};
constexpr std::chrono::seconds kLookForIdle{10};

}  // namespace

Result<std::shared_ptr<Consumer>> Consumers::of(const AccessToken* caller,
                                                const std::string& queue) {
  return line(caller, queue).transform([](const auto& found) { return found->consumer(); });
}

// The store is asked without the mutex, so that one slow call does not stop the others.
Result<std::shared_ptr<OfferLine>> Consumers::line(const AccessToken* caller,
                                                   const std::string& queue) {
  if (auto may = may_use_queue(caller, queue); !may) return may.error();
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(queue);
    if (found != known_.end() && !found->second.line->over()) {
      found->second.used = now;
      return found->second.line;
    }
  }
  auto made = zone_.consumer(queue);
  if (!made) return made.error();
  auto line = std::make_shared<OfferLine>(std::make_shared<Consumer>(std::move(*made)), response_);
  std::shared_ptr<OfferLine> ending;  // declared before the lock: its end asks the store
  const std::lock_guard lock(mutex_);
  Known& known = known_[queue];
  if (!known.line || known.line->over()) ending = std::exchange(known.line, std::move(line));
  known.used = now;
  return known.line;
}

void Consumers::forget(const std::string& queue) {
  std::map<std::string, Known>::node_type
      ending;  // declared before the lock: its end asks the store
  const std::lock_guard lock(mutex_);
  ending = known_.extract(queue);
}

void Consumers::drop_idle(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::vector<std::shared_ptr<OfferLine>> ending;
    std::unique_lock lock(mutex_);
    ending_.wait_for(lock, stop, kLookForIdle, [] { return false; });
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(known_, [&](const auto& each) {
      const Known& known = each.second;
      const bool in_use = known.line.use_count() > 1 || known.line->consumer().use_count() > 1;
      if (in_use || now - known.used < kIdleQueue) return false;
      ending.push_back(known.line);
      return true;
    });
    lock.unlock();
  }
}

}  // namespace once::server
