// Compares what the streams hold with what they hold elsewhere about the same: tasks with their digests
// and subjects, records with their subjects and tasks, large values with their digests. Reads only. Any
// thread may call it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "store/nats/ledger/value_chunks.h"
#include "store/nats/log/task_log.h"
#include "store/nats/queues/queue_registry.h"

namespace once::store::nats {

class Verifier {
 public:
  Verifier(ZoneConnection& zone, QueueRegistry& registry, const TaskLog& log, ValueChunks& values)
      : zone_(zone), registry_(registry), log_(log), values_(values) {}

  Result<Store::VerifyPage> verify(Store::Depth depth, const std::string& after);

 private:
  Result<void> verify_records(std::span<const StreamMessage> page, std::vector<Damage>& damages);
  void verify_task(const StreamMessage& message, std::vector<Damage>& damages) const;
  Result<void> verify_ids(std::span<const StreamMessage> page, std::vector<Damage>& damages) const;
  Result<void> verify_record(const KnownQueue& queue, const StreamMessage& message,
                             std::vector<Damage>& damages);

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  const TaskLog& log_;
  ValueChunks& values_;
};

}  // namespace once::store::nats
