// Reads everything that the ledger holds of a ledger-only queue. Any thread may call it.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "store/nats/log/entry_codec.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

struct LedgerScan {
  std::map<std::string, Stored> keys{};        // by key
  std::map<Revision, StreamMessage> parted{};  // those whose large values lie elsewhere
};

Result<LedgerScan> scan_ledger(ZoneConnection& zone, const KnownQueue& queue);

// How often, and after how long, a reader looks again at replicas that lag behind their leader.
inline constexpr int kRoundsToFollow = 50;
inline constexpr std::chrono::milliseconds kUntilReplicasFollow{20};
Error replicas_lag();

}  // namespace once::store::nats
