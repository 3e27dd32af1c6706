// Writes wakes, which make a queue deliver an entry again. An entry has at most one wake. A wake
// with an order replaces one without, and stays until a worker has applied the order. Any thread
// may call it.
#pragma once

#include <map>
#include <span>

#include "store/nats/log/entry_reader.h"
#include "store/nats/queues/queue_registry.h"

namespace once::store::nats {

class Wakes {
 public:
  Wakes(ZoneConnection& zone, QueueRegistry& registry, const EntryReader& entries)
      : zone_(zone), registry_(registry), entries_(entries) {}

  Result<void> wake(std::string_view queue, std::span<const Wake> items);
  // The wakes of a queue, and the times at which they were written.
  Result<std::map<Sequence, WakeNote>> of(const KnownQueue& queue,
                                          std::map<Sequence, StoreTime>* since = nullptr) const;

 private:
  Result<void> write(const KnownQueue& queue, const Wake& item);

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  const EntryReader& entries_;
};

}  // namespace once::store::nats
