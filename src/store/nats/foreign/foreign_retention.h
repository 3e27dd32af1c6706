// Forgets tasks of a queue on a stream of others': the copies of old messages, and the records of messages
// that are gone from the stream. Any thread may call it.
#pragma once

#include "store/nats/foreign/foreign_streams.h"
#include "store/nats/retention/record_remover.h"

namespace once::store::nats {

class ForeignRetention {
 public:
  ForeignRetention(ZoneConnection& zone, ForeignStreams& foreign, PastTotals& past)
      : zone_(zone), foreign_(foreign), past_(past) {}

  Result<Retired> retire(const KnownQueue& queue, const Retention& ages);

 private:
  using Tasks = std::map<Sequence, ForeignTask>;
  Result<std::uint64_t> remove_copies(const KnownQueue& queue, const Tasks& tasks,
                                      const Retention& ages, StoreTime time);
  Result<std::uint64_t> remove_records(const KnownQueue& queue, const Tasks& tasks,
                                       const Retention& ages, StoreTime time);
  std::vector<RecordAt> records_of(const KnownQueue& queue, Sequence sequence,
                                   const ForeignTask& task) const;

  ZoneConnection& zone_;
  ForeignStreams& foreign_;
  PastTotals& past_;
};

}  // namespace once::store::nats
