// Appends tasks to the log. The server stores a task's message only if the log has no message with
// that id, retired or not. So one write per task decides whether it is new. Any thread may call it.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "store/nats/batch_choice.h"
#include "store/nats/log/task_log.h"
#include "store/nats/queues/queue_registry.h"
#include "store/nats/watch.h"

namespace once::store::nats {

class Appender {
 public:
  Appender(ZoneConnection& zone, const QueueRegistry& registry, const TaskLog& log, Watch& watch)
      : zone_(zone), registry_(registry), log_(log), watch_(watch) {}

  std::vector<Result<AppendResult>> append(std::span<const Append> items);

 private:
  class Call;
  // The result of the items that were sent in batches: the sequences of stored items, and the items
  // that may have been stored.
  struct Together {
    std::map<std::size_t, std::uint64_t> stored{};
    std::set<std::size_t> unknown{};
  };
  Together append_together(std::span<const Append> items, std::span<const std::size_t> open);
  // Returns true if an id of the batch was in the log before.
  bool append_batch(std::span<const Append> items, std::vector<std::size_t> batch, bool look_first,
                    Together& together) const;
  // Removes the items from the batch whose ids are in the log. Returns whether there were any, or
  // nullopt if the log could not be read.
  std::optional<bool> leave_out_known(std::span<const Append> items,
                                      std::vector<std::size_t>& batch) const;
  // Makes the messages of the batch. Removes items from the batch that are too large for a message.
  std::vector<Outgoing> messages_of(std::span<const Append> items,
                                    std::vector<std::size_t>& batch) const;
  Outgoing message_of(const Append& item) const;

  ZoneConnection& zone_;
  const QueueRegistry& registry_;
  const TaskLog& log_;
  Watch& watch_;
  BatchChoice choice_;
  std::mutex mutex_;                  // guards what follows
  std::set<std::string> in_batches_;  // ids of the batches in progress
  bool met_duplicates_ = false;       // the last batch had ids that were in the log
};

}  // namespace once::store::nats
