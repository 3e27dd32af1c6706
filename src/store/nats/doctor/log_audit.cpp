#include "store/nats/doctor/log_audit.h"

#include <charconv>

namespace once::store::nats {
namespace {

constexpr std::size_t kStraysPage = 500;

}  // namespace

Result<Log::Inventory> LogAudit::inventory(Sequence after, std::size_t limit) const {
  Log::Inventory page;
  const auto info = zone_.client.stream_info(zone_.subjects.log_stream());
  if (!info) return info.error();
  if (const encoding::Json* state = *info ? (*info)->member("state") : nullptr)
    page.last = {number_of(*state, "last_seq").value_or(0)};
  auto entries = log_.page(after, limit, {});
  if (!entries) return entries.error();
  core::Sequences there;
  for (LogEntry& each : *entries) {
    there.add(each.entry.sequence.value);
    each.entry.headers.clear();
    if (each.entry.body) each.entry.body = Body();
    page.entries.push_back(std::move(each.entry));
  }
  if (auto counted = log_.read_duplicates(page.entries); !counted) return counted.error();
  if (!page.entries.empty()) page.next = page.entries.back().sequence;
  auto missing =
      past_.missing_of(there.missing(after.value, page.next ? page.next.value : page.last.value));
  if (!missing) return missing.error();
  page.missing = std::move(*missing);
  return page;
}

Result<Ledger::Strays> LogAudit::strays(std::string_view name, const std::string& after) const {
  const auto queue = registry_.must_know(name);
  if (!queue) return queue.error();
  Ledger::Strays page;
  if (queue->definition.ledger || queue->foreign()) return page;
  std::uint64_t from = 0;
  std::from_chars(after.data(), after.data() + after.size(), from);
  std::vector<StreamMessage> records;
  const auto more =
      zone_.client.page(zone_.subjects.ledger_stream(), zone_.subjects.records(*queue), from + 1,
                        kStraysPage, records);
  if (!more) return more.error();
  std::vector<Address> found;
  std::vector<std::uint64_t> sequences;
  for (const StreamMessage& message : records) {
    const RecordPlace place = place_of(message);
    const auto stored = stored_from(message, zone_.clock);
    if (!stored || place.kind == 'l') continue;
    const Sequence sequence = place.kind == 'e' ? place.sequence : stored->record.sequence;
    if (!sequence) continue;
    found.push_back({.kind = place.kind == 'e' ? Address::Kind::entry : Address::Kind::task,
                     .queue = queue->definition.name,
                     .key = place.key,
                     .sequence = sequence});
    sequences.push_back(sequence.value);
  }
  const auto tasks = zone_.client.get(zone_.subjects.log_stream(), sequences);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!tasks[i]) return tasks[i].error();
    if (*tasks[i]) continue;
    const auto entry = log_.entry_at(found[i].sequence);  // retired, perhaps
    if (!entry) return entry.error();
    if (!*entry) page.records.push_back(std::move(found[i]));
  }
  if (*more && !records.empty()) page.next = std::to_string(records.back().sequence);
  return page;
}

}  // namespace once::store::nats
