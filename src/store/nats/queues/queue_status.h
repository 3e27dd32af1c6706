// How many tasks of a queue are in each state, and whether all are settled. Any thread may call it.
#pragma once

#include "store/nats/feed/wakes.h"
#include "store/nats/ledger/sole_writer.h"
#include "store/nats/queues/counts_keeper.h"
#include "store/nats/queues/members.h"

namespace once::store::nats {

class QueueStatus {
 public:
  QueueStatus(ZoneConnection& zone, QueueRegistry& registry, const Members& members,
              const QueueConsumers& consumers, const ForeignStreams& foreign, const Wakes& wakes,
              const PastTotals& past, CountsKeeper& keeper, SoleWriter& sole_writer)
      : zone_(zone),
        registry_(registry),
        members_(members),
        consumers_(consumers),
        foreign_(foreign),
        wakes_(wakes),
        past_(past),
        keeper_(keeper),
        sole_writer_(sole_writer) {}

  Result<Counts> counts(std::string_view queue);
  Result<bool> all_settled(std::string_view queue);
  // The first entry after `after` that may be in that state. nullopt if there is none.
  Result<std::optional<Sequence>> next_in_state(const KnownQueue& queue, State state,
                                                Sequence after);
  // The tasks of a queue on a stream of others', in the order of sequences.
  struct ForeignRow {
    Row row{};
    StoreTime ordered_at{};  // when the order was given that waits for a worker
  };
  Result<std::vector<ForeignRow>> foreign_rows(const KnownQueue& queue) const;

 private:
  class Sum;
  Result<void> add_ledger_only(const KnownQueue& queue, Sum& sum);
  Result<void> add_foreign(const KnownQueue& queue, Sum& sum);
  Result<void> add_log(const KnownQueue& queue, Sum& sum);
  Result<Counts> counts(const KnownQueue& queue);
  Result<bool> counted_settled(const KnownQueue& queue);
  // Whether the feed is done with every entry.
  Result<bool> feed_is_done(const KnownQueue& queue) const;
  // nullopt if the server does not tell.
  Result<std::optional<SoleWriter::Ledger>> ledger_state() const;

  ZoneConnection& zone_;
  QueueRegistry& registry_;
  const Members& members_;
  const QueueConsumers& consumers_;
  const ForeignStreams& foreign_;
  const Wakes& wakes_;
  const PastTotals& past_;
  CountsKeeper& keeper_;
  SoleWriter& sole_writer_;
};

}  // namespace once::store::nats
