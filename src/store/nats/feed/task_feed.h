// Store::commit() and Store::fetch() on JetStream: writes records, pulls messages, and hands
// entries over to a worker. Puller pulls, Handover makes deliveries, Claims claims them. Any thread
// may call it.
#pragma once

#include "store/nats/feed/handover.h"
#include "store/nats/feed/puller.h"
#include "store/nats/feed/queue_news.h"
#include "store/nats/queues/members.h"

namespace once::store::nats {

class TaskFeed {
 public:
  TaskFeed(QueueRegistry& registry, const Members& members, Watch& watch, QueueNews& news,
           Puller& puller, Acknowledgements& acknowledgements, Handover& handover,
           RecordLedger& ledger)
      : registry_(registry),
        members_(members),
        watch_(watch),
        news_(news),
        puller_(puller),
        acknowledgements_(acknowledgements),
        handover_(handover),
        ledger_(ledger) {}

  // See Store::commit().
  Store::CommitResult commit(std::span<const Swap> records, const Fetch& request);

 private:
  class Call;  // of fetch()
  Result<std::vector<Delivery>> fetch(const Fetch& request);
  Result<void> may_hand_over(const KnownQueue& queue, const Fetch& request) const;
  // Whether a definition that was read at `known_at`, after that many news, is still current. If
  // not, the claim must ask for the definitions.
  Definitions definitions_since(std::chrono::steady_clock::time_point known_at,
                                std::uint64_t news) const;

  QueueRegistry& registry_;
  const Members& members_;
  Watch& watch_;
  QueueNews& news_;
  Puller& puller_;
  Acknowledgements& acknowledgements_;
  Handover& handover_;
  RecordLedger& ledger_;
};

}  // namespace once::store::nats
