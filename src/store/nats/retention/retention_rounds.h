// The zone's retention: how long bodies, records and ids are kept, and the rounds that forget what is
// older. Any thread may call it.
#pragma once

#include "store/nats/foreign/foreign_retention.h"
#include "store/nats/keys/key_values.h"
#include "store/nats/queues/queue_registry.h"
#include "store/nats/retention/log_retention.h"

namespace once::store::nats {

class RetentionRounds {
 public:
  RetentionRounds(ZoneConnection& zone, QueueRegistry& registry, const TaskLog& log,
                  ForeignStreams& foreign, PastTotals& past, KeyValues& keys)
      : zone_(zone),
        registry_(registry),
        past_(past),
        keys_(keys),
        log_(zone, log, past),
        foreign_(zone, foreign, past) {}

  Result<Retention> ages() const;
  Result<void> set(const Retention& ages);
  // A page of the log. The first page also forgets the records of ledger-only queues and of queues on
  // streams of others', and removes expired values.
  Result<Meta::RetirePage> retire(Sequence after, std::size_t limit);

 private:
  // How many records of a ledger-only queue were forgotten.
  Result<std::uint64_t> retire_ledger_only(const KnownQueue& queue, const Retention& ages);
  Result<Retired> retire_beside_the_log(const std::vector<KnownQueue>& queues,
                                        const Retention& ages);

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  PastTotals& past_;
  KeyValues& keys_;
  LogRetention log_;
  ForeignRetention foreign_;
};

}  // namespace once::store::nats
