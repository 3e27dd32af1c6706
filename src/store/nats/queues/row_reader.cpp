#include "store/nats/queues/row_reader.h"

#include <algorithm>

#include "core/names.h"
#include "store/nats/ledger/ledger_scan.h"
#include "store/nats/ledger/standings.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kMostRows = 500;  // entries of the log at a time

bool passes(const RowFilter& filter, const Row& row, StoreTime time) {
  const Time since = row.stored ? row.stored->record.since : row.entry.published_at;
  return (!filter.state || *filter.state == state_of(row, time)) &&
         (!filter.since || since >= *filter.since) &&
         (!filter.up_to || row.entry.sequence <= filter.up_to) &&
         (filter.topic.empty() || core::matches(filter.topic, row.entry.topic));
}

}  // namespace

struct RowReader::Call {
  const RowFilter& filter;
  std::size_t limit{};
  StoreTime time{};
  Inspection::Page page{};

  bool full() const { return page.rows.size() == limit; }
};

struct RowReader::LogPage {
  std::vector<LogEntry> entries{};
  std::vector<RecordSubjects> places{};
  MessagesBySubject records{};
  MessagesBySubject wakes{};
  core::Sequences taken{};  // counted in the past already
};

Result<RowReader::LogPage> RowReader::read_page(const KnownQueue& queue, Sequence after,
                                                std::size_t limit) const {
  LogPage page;
  auto entries =
      log_.page(after, std::clamp<std::size_t>(limit, 1, kMostRows), queue.definition.topic);
  if (!entries) return entries.error();
  page.entries = std::move(*entries);
  if (page.entries.empty()) return page;
  auto places = record_subjects(zone_.subjects, queue, page.entries);
  if (!places) return places.error();
  page.places = std::move(*places);
  std::vector<std::string> subjects;
  std::vector<std::string> wake_subjects;
  std::vector<std::uint64_t> retired;
  for (std::size_t i = 0; i < page.entries.size(); ++i) {
    const LogEntry& each = page.entries[i];
    if (!page.places[i].by_key.empty()) subjects.push_back(page.places[i].by_key);
    subjects.push_back(page.places[i].by_itself);
    wake_subjects.push_back(zone_.subjects.wake(queue, each.entry.sequence));
    if (each.stage != core::Stage::whole) retired.push_back(each.entry.sequence.value);
  }
  auto records = zone_.client.last_of_each(zone_.subjects.ledger_stream(), subjects);
  if (!records) return records.error();
  page.records = std::move(*records);
  auto wakes = zone_.client.last_of_each(zone_.subjects.wake_stream(), wake_subjects);
  if (!wakes) return wakes.error();
  page.wakes = std::move(*wakes);
  auto taken = past_.taken_of(queue, retired);
  if (!taken) return taken.error();
  page.taken = std::move(*taken);
  return page;
}

Result<std::optional<Row>> RowReader::row_of(const KnownQueue& queue, const LogPage& page,
                                             std::size_t i, const Call& call) const {
  const std::optional<Row> none;
  const LogEntry& each = page.entries[i];
  const Sequence sequence = each.entry.sequence;
  if (!queue.has(each.entry.topic, sequence) || page.taken.contains(sequence.value)) return none;
  const StreamMessage* by_key = message_at(page.records, page.places[i].by_key);
  const StreamMessage* by_itself = message_at(page.records, page.places[i].by_itself);
  Standings standings;
  standings.read(by_key, by_itself, sequence, zone_.clock);
  const bool damaged = standings.failed && standings.failed->code == Code::store_unusable;
  if (standings.failed && !damaged) return *standings.failed;
  const Stored* stored = damaged ? nullptr : standings.standing();
  // What had lost its body before this queue came is none of its tasks.
  if (each.stage != core::Stage::whole && !stored && !damaged) return none;
  Row row{.entry = each.entry, .queue = queue.definition.name, .damaged = damaged};
  row.entry.body.reset();
  row.own = standings.own.has_value();
  if (standings.key || queue.definition.key.empty()) row.key = page.places[i].key;
  if (stored) row.stored = *stored;
  if (const StreamMessage* wake = message_at(page.wakes, zone_.subjects.wake(queue, sequence))) {
    auto note = wake_from(*wake);
    if (!note) return note.error();
    row.order = std::move(note->order);
  }
  if (!passes(call.filter, row, call.time)) return none;
  if (stored && !call.filter.lean) values_.show(row.own ? *by_itself : *by_key, row.stored->record);
  return std::optional(std::move(row));
}

Result<Sequence> RowReader::add_page(const KnownQueue& queue, Sequence after, Call& call) {
  call.time = zone_.now();
  const auto page = read_page(queue, after, call.limit);
  if (!page) return page.error();
  if (page->entries.empty()) return Sequence{};
  for (std::size_t i = 0; i < page->entries.size(); ++i) {
    auto row = row_of(queue, *page, i, call);
    if (!row) return row.error();
    if (!*row) continue;
    call.page.rows.push_back(std::move(**row));
    if (call.full()) return page->entries[i].entry.sequence;
  }
  return page->entries.back().entry.sequence;
}

Result<bool> RowReader::add_log(const KnownQueue& queue, const Row* after, Call& call) {
  const RowFilter& filter = call.filter;
  Sequence from = after ? after->entry.sequence : Sequence{};
  while (!call.full() && (!filter.up_to || from < filter.up_to)) {
    if (filter.state) {
      const auto next = status_.next_in_state(queue, *filter.state, from);
      if (!next) return next.error();
      if (!*next) break;
      from = {(*next)->value - 1};
    }
    const auto next = add_page(queue, from, call);
    if (!next) return next.error();
    if (!*next) break;
    from = *next;
  }
  return call.full();
}

Result<bool> RowReader::add_ledger_only(const KnownQueue& queue, const Row* after, Call& call) {
  auto scan = scan_ledger(zone_, queue);
  if (!scan) return scan.error();
  std::vector<std::uint64_t> settled;
  for (const auto& [key, stored] : scan->keys)
    if (core::settled(stored.record.state)) settled.push_back(stored.revision.value);
  const auto taken = past_.taken_of(queue, settled);
  if (!taken) return taken.error();
  for (auto& [key, stored] : scan->keys) {
    if ((after && key <= after->key) || taken->contains(stored.revision.value)) continue;
    Row row{.queue = queue.definition.name, .key = key, .stored = std::move(stored)};
    if (!passes(call.filter, row, zone_.now())) continue;
    if (call.full()) return true;
    if (const auto parted_message = scan->parted.find(row.stored->revision);
        parted_message != scan->parted.end() && !call.filter.lean)
      values_.show(parted_message->second, row.stored->record);
    call.page.rows.push_back(std::move(row));
  }
  return false;
}

Result<bool> RowReader::add_foreign(const KnownQueue& queue, const Row* after, Call& call) {
  auto all = status_.foreign_rows(queue);
  if (!all) return all.error();
  const StoreTime time = zone_.now();
  for (QueueStatus::ForeignRow& each : *all) {
    if (after && each.row.entry.sequence <= after->entry.sequence) continue;
    if (!passes(call.filter, each.row, time)) continue;
    if (call.full()) return true;
    call.page.rows.push_back(std::move(each.row));
  }
  return false;
}

Result<Inspection::Page> RowReader::rows(const RowFilter& filter, const Row* after,
                                         std::size_t limit) {
  std::vector<KnownQueue> queues;
  if (filter.queue.empty()) {
    auto all = registry_.all();
    if (!all) return all.error();
    queues = std::move(*all);
  } else {
    auto one = registry_.known(filter.queue);
    if (!one) return one.error();
    if (*one) queues.push_back(std::move(**one));
  }
  Call call{.filter = filter, .limit = limit};
  for (const KnownQueue& queue : queues) {
    const std::string& name = queue.definition.name;
    if (after && name < after->queue) continue;
    const Row* last = after && name == after->queue ? after : nullptr;
    call.page.more = call.full();
    if (call.page.more) break;
    const auto more = queue.foreign()           ? add_foreign(queue, last, call)
                      : queue.definition.ledger ? add_ledger_only(queue, last, call)
                                                : add_log(queue, last, call);
    if (!more) return more.error();
    call.page.more = *more;
    if (*more) break;
  }
  return std::move(call.page);
}

}  // namespace once::store::nats
