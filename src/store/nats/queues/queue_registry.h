// The definitions of queues: one message per queue in the meta bucket, written by compare-and-swap. The
// registry remembers what it has read. Any thread may call it.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/nats/watch.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

Error no_queue(std::string_view name);
// A definition as it was read. nullopt if there is none.
Result<std::optional<KnownQueue>> known_from(const Result<std::optional<StreamMessage>>& message);

class QueueRegistry {
 public:
  QueueRegistry(ZoneConnection& zone, Watch& watch) : zone_(zone), watch_(watch) {}

  // Reads the definition from the leader. nullopt if there is no such queue.
  Result<std::optional<KnownQueue>> known(std::string_view name);
  // The same. not_found if there is no such queue.
  Result<KnownQueue> must_know(std::string_view name);
  // As it was read last, perhaps a while ago.
  std::optional<KnownQueue> remembered(std::string_view name) const;
  // What is remembered, else must_know().
  Result<KnownQueue> recall(std::string_view name);
  void remember(std::string_view name, const std::optional<KnownQueue>& queue);

  // All queues, from the leader.
  Result<std::vector<KnownQueue>> all();
  // All queues from a replica, which may lack the newest: for hints only. Requests that the caller
  // sends between the two steps share the round trip.
  RequestMux::PendingQuestion begin_hint() const;
  Result<std::vector<KnownQueue>> end_hint(RequestMux::PendingQuestion asked) const;

  // Writes the definition over the revision that the queue was read at.
  PublishResult write(const KnownQueue& queue) const;
  // Removes the definition. False if another one has taken its place, or it is gone already.
  Result<bool> remove(const KnownQueue& queue);

 private:
  ZoneConnection& zone_;
  Watch& watch_;
  mutable std::mutex mutex_;
  std::map<std::string, KnownQueue, std::less<>> queues_;  // as they were read last
};

}  // namespace once::store::nats
