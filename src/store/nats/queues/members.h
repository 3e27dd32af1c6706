// Presence of workers: a number of their own, and a key that expires when it is not renewed. It tells how
// many workers there are and nothing more. Whether a task is held, its lease alone says. Any thread may
// call it.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "store/nats/queues/queue_consumers.h"
#include "store/nats/queues/queue_registry.h"
#include "store/nats/watch.h"

namespace once::store::nats {

// The consumers of the queues that workers of this store have joined, by member.
class JoinedQueues {
 public:
  void joined(Member member, std::string consumer);
  void left(Member member);
  // False if the member has joined another queue, or an earlier one of the same name.
  bool may_fetch(Member member, const KnownQueue& queue) const;

 private:
  mutable std::mutex mutex_;
  std::map<Member, std::string> consumers_;
};

class Members {
 public:
  Members(std::shared_ptr<ZoneConnection> zone, QueueRegistry& registry, QueueConsumers& consumers,
          Watch& watch)
      : zone_(std::move(zone)), registry_(registry), consumers_(consumers), watch_(watch) {}

  Result<std::unique_ptr<Membership>> join(std::string_view queue, std::string_view worker);
  // How many workers are alive.
  Result<std::uint64_t> workers(const KnownQueue& queue) const;
  // not_found if the member has not joined this queue, but another one of the same name.
  Result<void> may_fetch(Member member, const KnownQueue& queue) const;

 private:
  const std::shared_ptr<ZoneConnection>
      zone_;  // shared with memberships, which may outlive the store
  QueueRegistry& registry_;
  QueueConsumers& consumers_;
  Watch& watch_;
  const std::shared_ptr<JoinedQueues> joined_ = std::make_shared<JoinedQueues>();  // the same
};

}  // namespace once::store::nats
