#include "store/nats/ledger/ledger_scan.h"

#include <thread>

namespace once::store::nats {
namespace {

Result<void> add_to(LedgerScan& scan, StreamMessage message, const ZoneClock& clock) {
  const RecordPlace place = place_of(message);
  if (place.kind != 'k') return {};
  std::vector<MovedValue> moved;
  auto stored = stored_from(message, clock, &moved);
  if (!stored) return stored.error();
  if (!moved.empty()) scan.parted.emplace(stored->revision, std::move(message));
  scan.keys[place.key] = std::move(*stored);
  return {};
}

}  // namespace

Error replicas_lag() {
  return {.code = Code::store_unavailable,
          .message =
              "the NATS server's replicas do not follow their leader: what is there cannot be told "
              "just now; the same call later may succeed",
          .retryable = true};
}

// Any replica may answer a page: what the leader has as the last must have been seen, else one of them
// lags behind and something may be in no page.
Result<LedgerScan> scan_ledger(ZoneConnection& zone, const KnownQueue& queue) {
  const std::string stream = zone.subjects.ledger_stream();
  const std::string records = zone.subjects.records(queue);
  for (int round = 0; round < kRoundsToFollow; ++round) {
    const auto newest = zone.client.last(stream, records);
    if (!newest) return newest.error();
    LedgerScan scan;
    std::uint64_t seen = 0;
    const auto read = zone.client.each(stream, records, 1, JetStreamClient::kToTheEnd,
                                       [&](StreamMessage message) -> Result<void> {
                                         seen = message.sequence;
                                         return add_to(scan, std::move(message), zone.clock);
                                       });
    if (!read) return read.error();
    if (!*newest || seen >= (*newest)->sequence) return scan;
    std::this_thread::sleep_for(kUntilReplicasFollow);
  }
  return replicas_lag();
}

}  // namespace once::store::nats
