// For the audit: what the log has and lacks, records that it knows nothing of, and the totals of what
// retention took. These and the deletions are many writes. The totals come first, in pieces that know
// by number what they count: whatever is cut off is done again, and counts once.
#include <algorithm>
#include <charconv>

#include "codec/past_codec.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kStraysPage = 500;

Result<core::Past> past_from(const std::optional<StreamMessage>& kept) {
  if (!kept) return core::Past{};
  return encoding::decode_past(kept->data);
}

}  // namespace

Result<void> NatsStore::keep_past(const Takings& takings) {
  std::vector<std::string> open;
  for (const auto& [subject, edits] : takings) open.push_back(subject);
  while (!open.empty()) {
    const auto known = zone_->jet.last(zone_->subjects.meta_stream(), open);
    std::vector<Outgoing> messages;
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (!known[i]) return known[i].error();
      auto past = past_from(*known[i]);
      if (!past) return past.error();
      for (const auto& edit : takings.at(open[i])) edit(*past);
      messages.push_back({.subject = open[i],
                          .data = encoding::encode(*past),
                          .headers = expecting(*known[i] ? (*known[i])->sequence : 0)});
    }
    const auto written = zone_->jet.publish(messages);
    std::vector<std::string> again;  // another was faster
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (written[i].kind == Published::Kind::stored) continue;
      if (written[i].kind != Published::Kind::refused) return failure_of(written[i]);
      again.push_back(std::move(open[i]));
    }
    open = std::move(again);
  }
  return {};
}

void NatsStore::take_records(const KnownQueue& queue, std::uint64_t number, Row row,
                             Takings& takings) {
  takings[zone_->subjects.past(queue, number)].push_back(
      [number, time = now(), row = std::move(row)](core::Past& past) {
        past.take_records(number, published(row), accounted(row, time));
      });
}

Result<NatsStore::Takings> NatsStore::takings_of(core::Forget step,
                                                 std::span<const Forgettable* const> items,
                                                 const std::vector<KnownQueue>& queues) {
  Takings takings;
  for (const Forgettable* each : items)
    for (const std::uint64_t number : {each->entry.message, each->entry.entry.sequence.value})
      takings[zone_->subjects.gone(number)].push_back(
          [number](core::Past& past) { past.ids.add(number); });
  if (step == core::Forget::records)
    for (const Forgettable* each : items)
      for (const auto& [queue, row] : each->rows)
        take_records(*queue, row.entry.sequence.value, row, takings);
  if (step != core::Forget::id) return takings;
  std::vector<Entry> entries;
  for (const Forgettable* each : items) entries.push_back(each->entry.entry);
  if (auto counted = read_duplicates(entries); !counted) return counted.error();
  for (const Entry& entry : entries)
    for (const KnownQueue& queue : queues)
      if (entry.duplicates > 0 && queue.has(entry.topic, entry.sequence))
        takings[zone_->subjects.past(queue, entry.sequence.value)].push_back(
            [number = entry.sequence.value, at = entry.published_at,
             count = entry.duplicates](core::Past& past) { past.take_id(number, at, count); });
  return takings;
}

Result<core::Sequences> NatsStore::taken_of(const KnownQueue& queue,
                                            std::span<const std::uint64_t> numbers) {
  std::set<std::string> subjects;
  for (const std::uint64_t number : numbers) subjects.insert(zone_->subjects.past(queue, number));
  core::Sequences taken;
  if (subjects.empty()) return taken;
  const auto pieces = zone_->jet.last_of_each(
      zone_->subjects.meta_stream(), std::vector<std::string>(subjects.begin(), subjects.end()));
  if (!pieces) return pieces.error();
  for (const auto& [subject, kept] : *pieces) {
    const auto past = past_from(kept);
    if (!past) return past.error();
    taken.add(past->records);
  }
  return taken;
}

Result<core::Past> NatsStore::past(std::string_view name) {
  const auto queue = must_know(name);
  if (!queue) return queue.error();
  core::Past all;
  const auto read =
      zone_->jet.each(zone_->subjects.meta_stream(), zone_->subjects.past_root(*queue) + "*", 1,
                      JetStreamClient::kToTheEnd, [&](const StreamMessage& kept) -> Result<void> {
                        const auto past = past_from(kept);
                        if (!past) return past.error();
                        for (const auto& [hour, totals] : past->hours) all.hours[hour].add(totals);
                        all.damaged = all.damaged || past->damaged;
                        return {};
                      });
  if (!read) return read.error();
  return all;
}

// By what is not there it is decided, so the leader is asked.
Result<core::Sequences> NatsStore::missing_of(const core::Sequences& numbers) {
  std::map<std::string, core::Sequences> by_piece;
  for (const auto& [first, last] : numbers.ranges())
    for (std::uint64_t from = first; from <= last;) {
      const std::uint64_t to = std::min(last, (from / Subjects::kRange + 1) * Subjects::kRange - 1);
      by_piece[zone_->subjects.gone(from)].add(from, to);
      from = to + 1;
    }
  std::vector<std::string> subjects;
  for (const auto& [subject, wanted] : by_piece) subjects.push_back(subject);
  const auto pieces = zone_->jet.last(zone_->subjects.meta_stream(), subjects);
  std::vector<std::uint64_t> untold;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (!pieces[i]) return pieces[i].error();
    const auto past = past_from(*pieces[i]);
    if (!past) return past.error();
    for (const auto& [first, last] : by_piece[subjects[i]].ranges()) {
      const core::Sequences holes = past->ids.missing(first - 1, last);
      for (const auto& [from, to] : holes.ranges())
        for (std::uint64_t number = from; number <= to; ++number) untold.push_back(number);
    }
  }
  // What a retirement wrote has a number, too.
  core::Sequences missing;
  const auto messages = zone_->jet.get(zone_->subjects.log_stream(), untold);
  for (std::size_t i = 0; i < untold.size(); ++i) {
    if (!messages[i]) return messages[i].error();
    if (!*messages[i]) missing.add(untold[i]);
  }
  return missing;
}

Result<Log::Inventory> NatsStore::inventory(Sequence after, std::size_t limit) {
  Inventory page;
  const auto info = zone_->jet.stream_info(zone_->subjects.log_stream());
  if (!info) return info.error();
  if (const encoding::Json* state = *info ? (*info)->member("state") : nullptr)
    page.last = {number_of(*state, "last_seq").value_or(0)};
  auto entries = read_log(after, limit, {});
  if (!entries) return entries.error();
  core::Sequences there;
  for (LogEntry& each : *entries) {
    there.add(each.entry.sequence.value);
    each.entry.headers.clear();
    if (each.entry.body) each.entry.body = Body();
    page.entries.push_back(std::move(each.entry));
  }
  if (auto counted = read_duplicates(page.entries); !counted) return counted.error();
  if (!page.entries.empty()) page.next = page.entries.back().sequence;
  auto missing =
      missing_of(there.missing(after.value, page.next ? page.next.value : page.last.value));
  if (!missing) return missing.error();
  page.missing = std::move(*missing);
  return page;
}

Result<Ledger::Strays> NatsStore::strays(std::string_view name, const std::string& after) {
  const auto queue = must_know(name);
  if (!queue) return queue.error();
  Strays page;
  if (queue->definition.ledger || queue->foreign()) return page;
  std::uint64_t from = 0;
  std::from_chars(after.data(), after.data() + after.size(), from);
  std::vector<StreamMessage> records;
  const auto more =
      zone_->jet.page(zone_->subjects.ledger_stream(), zone_->subjects.records(*queue), from + 1,
                      kStraysPage, records);
  if (!more) return more.error();
  std::vector<Address> found;
  std::vector<std::uint64_t> sequences;
  for (const StreamMessage& kept : records) {
    const RecordPlace place = place_of(kept);
    const auto stored = stored_from(kept, zone_->clock);
    if (!stored || place.kind == 'l') continue;
    const Sequence sequence = place.kind == 'e' ? place.sequence : stored->record.sequence;
    if (!sequence) continue;
    found.push_back({.kind = place.kind == 'e' ? Address::Kind::entry : Address::Kind::task,
                     .queue = queue->definition.name,
                     .key = place.key,
                     .sequence = sequence});
    sequences.push_back(sequence.value);
  }
  const auto tasks = zone_->jet.get(zone_->subjects.log_stream(), sequences);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!tasks[i]) return tasks[i].error();
    if (*tasks[i]) continue;
    const auto entry = entry_at(found[i].sequence);  // retired, perhaps
    if (!entry) return entry.error();
    if (!*entry) page.records.push_back(std::move(found[i]));
  }
  if (*more && !records.empty()) page.next = std::to_string(records.back().sequence);
  return page;
}

}  // namespace once::store::nats
