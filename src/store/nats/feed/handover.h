// Turns pulled messages into deliveries and claims them. Any thread may call it.
#pragma once

#include <vector>

#include "store/nats/feed/claims.h"

namespace once::store::nats {

class Handover {
 public:
  Handover(ZoneConnection& zone, const EntryReader& entries, const ForeignStreams& foreign,
           Redelivery& redelivery, Acknowledgements& acknowledgements, Claims& claims)
      : zone_(zone),
        entries_(entries),
        foreign_(foreign),
        redelivery_(redelivery),
        acknowledgements_(acknowledgements),
        claims_(claims) {}

  // Puts a message off if its time has not come, or if it is a redelivery beyond request.again.
  Result<std::vector<Delivery>> hand_over(const KnownQueue& queue, const Fetch& request,
                                          std::vector<PulledMessage> messages,
                                          Definitions definitions);

 private:
  class Call;

  ZoneConnection& zone_;
  const EntryReader& entries_;
  const ForeignStreams& foreign_;
  Redelivery& redelivery_;
  Acknowledgements& acknowledgements_;
  Claims& claims_;
};

}  // namespace once::store::nats
