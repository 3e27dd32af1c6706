// Claims the entries of deliveries: reads their records, asks the Claimer, and writes all claims in
// one burst. Any thread may call it.
#pragma once

#include <map>
#include <vector>

#include "store/nats/ledger/record_ledger.h"

namespace once::store::nats {

// Deliveries with what the feed knows of each.
struct Deliveries {
  std::vector<Delivery> all{};
  std::vector<bool> first_time{};  // no worker received the entry before
};

class Claims {
 public:
  Claims(ZoneConnection& zone, RecordLedger& ledger, Watch& watch, const Redelivery& redelivery)
      : zone_(zone), ledger_(ledger), watch_(watch), redelivery_(redelivery) {}

  // A first delivery most likely has no record. So it is claimed without a read, and the swap
  // refuses the claim if there is a record. For a redelivery, both possible records are read: the
  // one of the key and the own record. A delivery whose record could not be read or written is left
  // out. The server delivers it again after its lease. It must not block the others.
  Result<std::vector<Delivery>> claim(const KnownQueue& queue, Claimer& claimer,
                                      Deliveries deliveries, Definitions definitions);

 private:
  class Call;

  ZoneConnection& zone_;
  RecordLedger& ledger_;
  Watch& watch_;
  const Redelivery& redelivery_;
};

}  // namespace once::store::nats
