// The two consumers of a queue: one on the stream of its tasks and one on the wakes. Deliveries are
// endless and not backed off: attempts, retries and dead letters are in the ledger. Any thread may call
// it.
#pragma once

#include <vector>

#include "store/nats/feed/redelivery.h"
#include "store/nats/foreign/foreign_streams.h"
#include "store/nats/streams.h"

namespace once::store::nats {

// What a consumer says of its deliveries.
struct ConsumerState {
  std::uint64_t delivered{};   // the last sequence that was delivered
  std::uint64_t floor{};       // every delivery up to here is answered
  std::uint64_t unanswered{};  // how many deliveries are not
  std::uint64_t pending{};     // not delivered yet
  bool as_made = false;        // nobody has changed the consumer
};

class QueueConsumers {
 public:
  QueueConsumers(ZoneConnection& zone, const ForeignStreams& foreign, const Redelivery& redelivery)
      : zone_(zone), foreign_(foreign), redelivery_(redelivery) {}

  // What the consumers must be: the one of the wakes, then the one of the tasks.
  std::vector<Plan> plans(const KnownQueue& queue) const;
  // Makes them, or sets them back. Returns how many tasks wait for the queue.
  Result<std::uint64_t> make(const KnownQueue& queue);
  // Makes them again if somebody deleted or edited one.
  Result<void> restore(const KnownQueue& queue);
  Result<void> remove(const KnownQueue& queue);
  Result<ConsumerState> state(const KnownQueue& queue) const;

 private:
  ZoneConnection& zone_;
  const ForeignStreams& foreign_;
  const Redelivery& redelivery_;
};

}  // namespace once::store::nats
