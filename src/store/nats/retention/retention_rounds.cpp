#include "store/nats/retention/retention_rounds.h"

#include "store/nats/ledger/ledger_scan.h"

namespace once::store::nats {
namespace {

std::string retention_text(const Retention& ages) {
  return "{\"bodies\":" + std::to_string(ages.bodies.count()) +
         ",\"ids\":" + std::to_string(ages.ids.count()) +
         ",\"records\":" + std::to_string(ages.records.count()) + "}";
}

}  // namespace

Result<Retention> RetentionRounds::ages() const {
  const auto message =
      zone_.client.last(zone_.subjects.meta_stream(), zone_.subjects.meta("retention"));
  if (!message) return message.error();
  if (!*message) return Retention{};
  const auto json = encoding::parse_json((*message)->data);
  if (!json) return json.error();
  const auto age = [&](const char* which) {
    return Duration{static_cast<Duration::rep>(number_of(*json, which).value_or(0))};
  };
  return Retention{.bodies = age("bodies"), .records = age("records"), .ids = age("ids")};
}

Result<void> RetentionRounds::set(const Retention& ages) {
  while (true) {
    const auto message =
        zone_.client.last(zone_.subjects.meta_stream(), zone_.subjects.meta("retention"));
    if (!message) return message.error();
    const PublishResult written =
        zone_.client.publish({.subject = zone_.subjects.meta("retention"),
                              .data = retention_text(ages),
                              .headers = expecting(*message ? (*message)->sequence : 0)});
    if (written.kind == PublishResult::Kind::stored) return {};
    if (written.kind != PublishResult::Kind::refused) return failure_of(written);
  }
}

Result<std::uint64_t> RetentionRounds::retire_ledger_only(const KnownQueue& queue,
                                                          const Retention& ages) {
  const auto scan = scan_ledger(zone_, queue);
  if (!scan) return scan.error();
  const StoreTime time = zone_.now();
  std::vector<std::vector<RecordAt>> old;
  Takings takings;
  for (const auto& [key, stored] : scan->keys)
    if (core::may_forget_ledger_only({stored.record.state, stored.stamp}, ages, time)) {
      old.push_back({{zone_.subjects.record(queue, {.queue = queue.definition.name, .key = key}),
                      stored.revision}});
      past_.take_records(queue, stored.revision.value, {.stored = stored}, takings);
    }
  if (auto kept = past_.keep(takings); !kept) return kept.error();
  return count_removed(zone_, old);
}

Result<Retired> RetentionRounds::retire_beside_the_log(const std::vector<KnownQueue>& queues,
                                                       const Retention& ages) {
  Retired retired;
  for (const KnownQueue& queue : queues) {
    if (!queue.definition.ledger) continue;
    const auto records = retire_ledger_only(queue, ages);
    if (!records) return records.error();
    retired.records += *records;
  }
  for (const KnownQueue& queue : queues) {
    if (!queue.foreign()) continue;
    const auto outside = foreign_.retire(queue, ages);
    if (!outside) return outside.error();
    retired.bodies += outside->bodies;
    retired.records += outside->records;
  }
  // A login that takes no part in workflows need not be permitted to see their values.
  const auto expired = keys_.remove_expired();
  if (!expired && expired.error().retryable) return expired.error();
  if (expired) retired.records += *expired;
  return retired;
}

Result<Meta::RetirePage> RetentionRounds::retire(Sequence after, std::size_t limit) {
  const auto queues = registry_.all();
  if (!queues) return queues.error();
  const auto kept_for = ages();
  if (!kept_for) return kept_for.error();
  Retired beside;
  if (!after) {
    const auto retired = retire_beside_the_log(*queues, *kept_for);
    if (!retired) return retired.error();
    beside = *retired;
  }
  auto page = log_.retire(*queues, *kept_for, after, limit);
  if (!page) return page;
  page->retired.bodies += beside.bodies;
  page->retired.records += beside.records;
  return page;
}

}  // namespace once::store::nats
