#include "store/nats/retention/record_remover.h"

#include <algorithm>

namespace once::store::nats {

Result<std::vector<bool>> remove_records(ZoneConnection& zone,
                                         std::span<const std::vector<RecordAt>> items) {
  std::vector<std::uint64_t> revisions;
  for (const auto& records : items)
    for (const RecordAt& each : records)
      if (each.revision) revisions.push_back(each.revision.value);
  const auto gone = zone.client.remove_each(zone.subjects.ledger_stream(), revisions);
  if (!gone) return gone.error();
  std::vector<bool> whole;
  std::vector<std::string> values;
  std::size_t next = 0;
  for (const auto& records : items) {
    bool all = true;
    for (const RecordAt& each : records)
      if (each.revision) all = (*gone)[next++] && all;
    whole.push_back(all);
    for (const RecordAt& each : records)
      if (all) values.push_back(zone.subjects.chunks(each.subject));
  }
  if (values.empty()) return whole;
  const auto stored = zone.client.count(zone.subjects.blob_stream(), zone.subjects.all_chunks());
  if (!stored) return stored.error();
  if (*stored > 0)
    if (auto purged = zone.client.purge(zone.subjects.blob_stream(), values); !purged)
      return purged.error();
  return whole;
}

Result<std::uint64_t> count_removed(ZoneConnection& zone,
                                    std::span<const std::vector<RecordAt>> items) {
  const auto removed = remove_records(zone, items);
  if (!removed) return removed.error();
  return static_cast<std::uint64_t>(std::count(removed->begin(), removed->end(), true));
}

}  // namespace once::store::nats
