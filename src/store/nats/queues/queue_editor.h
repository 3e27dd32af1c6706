// Adds, changes and removes queues. A definition is written before the consumers are made, and goes
// before them. A change that was cut off between the two is finished by the next call, and by the next
// worker that starts. Any thread may call it.
#pragma once

#include "store/nats/queues/queue_consumers.h"
#include "store/nats/queues/queue_registry.h"

namespace once::store::nats {

class QueueEditor {
 public:
  QueueEditor(ZoneConnection& zone, QueueRegistry& registry, QueueConsumers& consumers,
              const ForeignStreams& foreign, Watch& watch)
      : zone_(zone), registry_(registry), consumers_(consumers), foreign_(foreign), watch_(watch) {}

  Result<Queues::QueueAdded> add(const Queue& queue);
  Result<bool> set(const Queue& queue, const Queue& expected);
  Result<void> remove(std::string_view name);

 private:
  Result<void> undo_add(const KnownQueue& queue);
  Result<void> restore(const KnownQueue& queue, const Queue& expected);
  // Removes everything of a queue whose definition is gone.
  Result<void> clear(const KnownQueue& queue);

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  QueueConsumers& consumers_;
  const ForeignStreams& foreign_;
  Watch& watch_;
};

}  // namespace once::store::nats
