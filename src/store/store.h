// The seam between the engine and a store. Each part has a header of its own: meta.h, log.h, ledger.h,
// feed.h, queues.h, inspection.h and key_value.h. memory/ is the reference, sqlite/ the default, nats/
// the store for many machines. All three pass tests/contract.
//
// - Calls take batches, block, and answer per item; one bad item does not fail its batch. A batch
//   is not atomic. A swap by itself is.
// - A store never decides: it compares revisions, and asks the core where a rule is needed
//   (judge_append, look_again, may_forget; the Claimer that commit() is given).
// - An error with in_doubt means that the write may have happened. To find out, the caller repeats
//   an append with the same nonce, and reads a swapped record back.
// - Any thread may call anything.
#pragma once

#include "store/feed.h"
#include "store/inspection.h"
#include "store/key_value.h"
#include "store/ledger.h"
#include "store/log.h"
#include "store/meta.h"
#include "store/queues.h"

namespace once::store {

class Store : public Meta,
              public Log,
              public Ledger,
              public Feed,
              public Queues,
              public Inspection {
 public:
  virtual KeyValue& key_values() = 0;  // lives as long as the store

  struct CommitResult {
    std::vector<Result<SwapResult>> swapped{};
    Result<std::vector<Delivery>> delivered = std::vector<Delivery>{};
  };
  // Writes the records, then hands over deliveries. A store does both in one commit if it can. If that
  // commit fails, both parts return its error.
  //
  // The store hands over entries that no worker has received and whose not-before has passed. It also
  // hands over entries that are due again. A paused queue hands over nothing. If a delivery is not
  // answered, the store hands the entry over again after the queue's lease, or at once if the store
  // sees that the worker is gone. A store may leave deliveries unclaimed; the caller then claims them
  // by swap(). If `delivered` is an error with in_doubt, every claim that the Claimer returned may be
  // durable.
  //
  // A commit with records does not wait for a delivery. A store may then hand over fewer deliveries
  // than are due, or none.
  virtual CommitResult commit(std::span<const Swap> records, const Fetch& request) = 0;
  // A commit without records.
  Result<std::vector<Delivery>> fetch(const Fetch& request) {
    return std::move(commit({}, request).delivered);
  }

  // The entry of that sequence in the queue's source: the zone's log, or the stream of others that
  // the queue is on. The caller knows that the entry belongs to the queue. Returns nullopt if the
  // entry is gone.
  virtual Result<std::optional<Entry>> entry(std::string_view, Sequence sequence) {
    auto entries = read(Sequence{sequence.value - 1}, 1, {});
    if (!entries) return entries.error();
    if (entries->empty() || entries->front().sequence != sequence) return std::optional<Entry>{};
    return std::optional<Entry>(std::move(entries->front()));
  }
};

}  // namespace once::store
