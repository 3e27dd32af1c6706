// The totals of what retention took, for the audit. Writing them and deleting tasks are many writes. The
// totals come first, in pieces that know by number what they count. A piece that is written again after
// a crash counts everything once. Any thread may call it.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/audit.h"
#include "store/nats/zone_connection.h"

namespace once::store::nats {

// What is to be added to the totals, by the subject of the piece.
using Takings = std::map<std::string, std::vector<std::function<void(core::Past&)>>>;

class PastTotals {
 public:
  explicit PastTotals(ZoneConnection& zone) : zone_(zone) {}

  // Writes the totals, before anything that they count is deleted.
  Result<void> keep(const Takings& takings);
  // Adds the records of a task, or of a key in a ledger-only queue, to the takings.
  void take_records(const KnownQueue& queue, std::uint64_t number, Row row, Takings& takings);
  Result<core::Past> of(const KnownQueue& queue) const;
  // Calls for each piece of a queue's totals.
  Result<void> each(const KnownQueue& queue,
                    const std::function<void(const core::Past&)>& seen) const;
  // Which of these are counted although their records are there: a retirement was cut off.
  Result<core::Sequences> taken_of(const KnownQueue& queue,
                                   std::span<const std::uint64_t> numbers) const;
  // Of these numbers of the log's stream, those that are gone and that retention did not take.
  Result<core::Sequences> missing_of(const core::Sequences& numbers) const;

 private:
  ZoneConnection& zone_;
};

}  // namespace once::store::nats
