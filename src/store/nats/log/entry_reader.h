// Reads the entry that a queue's sequence stands for: from the zone's log, or from the stream of others
// that the queue is on. Any thread may call it.
#pragma once

#include "store/nats/foreign/foreign_streams.h"
#include "store/nats/log/task_log.h"

namespace once::store::nats {

class EntryReader {
 public:
  EntryReader(const TaskLog& log, const ForeignStreams& foreign) : log_(log), foreign_(foreign) {}

  // nullopt if the entry is forgotten, or gone from the stream and not copied.
  Result<std::optional<Entry>> read(const KnownQueue& queue, Sequence sequence) const {
    if (queue.foreign()) return foreign_.entry(queue, sequence);
    auto found = log_.entry_at(sequence);
    if (!found) return found.error();
    return *found ? std::optional<Entry>(std::move((*found)->entry)) : std::nullopt;
  }

 private:
  const TaskLog& log_;
  const ForeignStreams& foreign_;
};

}  // namespace once::store::nats
