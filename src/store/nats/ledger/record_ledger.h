// The ledger on JetStream. Every write is a compare-and-swap on the record's subject. If the server
// refuses a write, the current record is read from the leader. After a record is durable, its
// deliveries are acknowledged. Any thread may call it.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "store/nats/feed/acknowledgements.h"
#include "store/nats/ledger/record_places.h"
#include "store/nats/ledger/record_writer.h"
#include "store/nats/ledger/sole_writer.h"
#include "store/nats/queues/queue_registry.h"

namespace once::store::nats {

// Whether swap() asks, in the same burst, if the queues are still what they were.
enum class Definitions { ask, known };

class RecordLedger {
 public:
  RecordLedger(ZoneConnection& zone, QueueRegistry& registry, const RecordPlaces& places,
               ValueChunks& values, ForeignStreams& foreign, SoleWriter& sole_writer,
               Acknowledgements& acknowledgements, Watch& watch)
      : zone_(zone),
        registry_(registry),
        places_(places),
        values_(values),
        foreign_(foreign),
        sole_writer_(sole_writer),
        acknowledgements_(acknowledgements),
        watch_(watch),
        writer_(zone) {}

  std::vector<Result<SwapResult>> swap(std::span<const Swap> items,
                                       Definitions definitions = Definitions::ask);
  std::vector<Result<std::optional<Stored>>> get(std::span<const Address> items);

 private:
  class Call;  // of swap()

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  const RecordPlaces& places_;
  ValueChunks& values_;
  ForeignStreams& foreign_;
  SoleWriter& sole_writer_;
  Acknowledgements& acknowledgements_;
  Watch& watch_;
  RecordWriter writer_;
};

}  // namespace once::store::nats
