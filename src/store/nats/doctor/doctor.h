// The doctor's part in this store: servers, streams, consumers and the account. Reads only. Any thread may
// call it.
#pragma once

#include "store/nats/queues/members.h"

namespace once::store::nats {

class ZoneLook;

class Doctor {
 public:
  Doctor(ZoneConnection& zone, QueueRegistry& registry, const QueueConsumers& consumers,
         const ForeignStreams& foreign, const Members& members, const Watch& watch)
      : zone_(zone),
        registry_(registry),
        consumers_(consumers),
        foreign_(foreign),
        members_(members),
        watch_(watch) {}

  Result<Examination> examine(const DoctorOptions& options);

 private:
  Result<QueueGlance> examine_queue(const KnownQueue& queue, const DoctorOptions& options,
                                    bool countable, ZoneLook& look);

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  const QueueConsumers& consumers_;
  const ForeignStreams& foreign_;
  const Members& members_;
  const Watch& watch_;
};

}  // namespace once::store::nats
