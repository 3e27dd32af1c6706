// What the log has and lacks, and records that it knows nothing of. For the audit. Reads only. Any thread
// may call it.
#pragma once

#include "store/nats/log/task_log.h"
#include "store/nats/queues/queue_registry.h"
#include "store/nats/retention/past_totals.h"

namespace once::store::nats {

class LogAudit {
 public:
  LogAudit(ZoneConnection& zone, QueueRegistry& registry, const TaskLog& log,
           const PastTotals& past)
      : zone_(zone), registry_(registry), log_(log), past_(past) {}

  Result<Log::Inventory> inventory(Sequence after, std::size_t limit) const;
  Result<Ledger::Strays> strays(std::string_view queue, const std::string& after) const;

 private:
  ZoneConnection& zone_;
  QueueRegistry& registry_;
  const TaskLog& log_;
  const PastTotals& past_;
};

}  // namespace once::store::nats
