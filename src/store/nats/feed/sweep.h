// Finds the entries that the server would not deliver again although their records are not settled.
//
// The server says how many deliveries are unanswered, and up to which number all are answered (the
// floor). It does not say which ones are unanswered. An unsettled entry is certainly overlooked in
// three cases. It is below the floor. No delivery is unanswered. Or it is due, and the unanswered
// deliveries are no more than the entries that are not due yet. Otherwise the sweep reports overdue
// entries. To wake too many entries does no harm, because the ledger decides.
//
// Any thread may call it.
#pragma once

#include "store/nats/feed/wakes.h"
#include "store/nats/queues/counts_keeper.h"
#include "store/nats/queues/queue_consumers.h"
#include "store/nats/watch.h"

namespace once::store::nats {

class Sweep {
 public:
  Sweep(ZoneConnection& zone, QueueRegistry& registry, const QueueConsumers& consumers,
        const ForeignStreams& foreign, const Wakes& wakes, CountsKeeper& counts, Watch& watch)
      : zone_(zone),
        registry_(registry),
        consumers_(consumers),
        foreign_(foreign),
        wakes_(wakes),
        counts_(counts),
        watch_(watch) {}

  Result<Feed::OverlookedPage> overlooked(std::string_view queue, Sequence after,
                                          std::size_t limit);

 private:
  class Page;
  Result<void> sweep_log(const KnownQueue& queue, Page& page);
  Result<void> sweep_foreign(const KnownQueue& queue, Page& page);

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  const QueueConsumers& consumers_;
  const ForeignStreams& foreign_;
  const Wakes& wakes_;
  CountsKeeper& counts_;
  Watch& watch_;
};

}  // namespace once::store::nats
