// How many entries of the log no queue takes. The log is read once, and then only what is new in it. Any
// thread may call it.
#pragma once

#include <mutex>
#include <string>

#include "store/nats/queues/queue_registry.h"

namespace once::store::nats {

class UnroutedCount {
 public:
  UnroutedCount(ZoneConnection& zone, QueueRegistry& registry) : zone_(zone), registry_(registry) {}

  Result<std::uint64_t> count();

 private:
  void restart(const std::string& queues);
  Result<void> read_on(const std::vector<KnownQueue>& queues);

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  std::mutex mutex_;    // guards what follows
  std::string queues_;  // by which the entries were judged
  std::uint64_t seen_{};
  std::uint64_t whole_{};
  std::uint64_t count_{};
};

}  // namespace once::store::nats
