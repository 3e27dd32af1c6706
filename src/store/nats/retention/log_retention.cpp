#include "store/nats/retention/log_retention.h"

#include <algorithm>

#include "store/nats/ledger/standings.h"

namespace once::store::nats {

// The records of a page of entries, in all queues that take their tasks from the log.
class LogRetention::Records {
 public:
  Records(ZoneConnection& zone, const std::vector<KnownQueue>& queues) : zone_(zone) {
    for (const KnownQueue& queue : queues)
      if (!queue.definition.ledger && !queue.foreign()) queues_.push_back({&queue, {}});
  }

  Result<void> read(std::span<const LogEntry> entries, bool by_leader);
  // Adds what the queues' records say of the entry.
  Result<void> add_to(Forgettable& each, std::size_t i) const;

 private:
  struct InQueue {
    const KnownQueue* queue{};
    std::vector<RecordSubjects> places{};  // by entry
  };
  Result<void> add_to(Forgettable& each, const KnownQueue& queue,
                      const RecordSubjects& places) const;

  ZoneConnection& zone_;
  std::vector<InQueue> queues_;
  MessagesBySubject messages_;
};

Result<void> LogRetention::Records::read(std::span<const LogEntry> entries, bool by_leader) {
  std::vector<std::string> subjects;
  for (InQueue& each : queues_) {
    auto places = record_subjects(zone_.subjects, *each.queue, entries);
    if (!places) return places.error();
    each.places = std::move(*places);
    for (const RecordSubjects& place : each.places)
      for (const std::string& subject : {place.by_key, place.by_itself})
        if (!subject.empty()) subjects.push_back(subject);
  }
  const std::string stream = zone_.subjects.ledger_stream();
  if (!by_leader) {
    auto read = zone_.client.last_of_each(stream, subjects);
    if (!read) return read.error();
    messages_ = std::move(*read);
    return {};
  }
  auto messages = zone_.client.last(stream, subjects);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i]) return messages[i].error();
    if (*messages[i]) messages_.emplace(subjects[i], std::move(**messages[i]));
  }
  return {};
}

Result<void> LogRetention::Records::add_to(Forgettable& each, const KnownQueue& queue,
                                           const RecordSubjects& places) const {
  LogEntry& entry = each.entry;
  const Sequence sequence = entry.entry.sequence;
  Standings records;
  records.read(message_at(messages_, places.by_key), message_at(messages_, places.by_itself),
               sequence, zone_.clock);
  if (records.failed) return *records.failed;
  if (records.key) {
    each.records.push_back({places.by_key, records.key->revision});
    if (!queue.definition.key.empty()) entry.keys[queue.generation] = places.key;
  }
  if (records.own) each.records.push_back({places.by_itself, records.own->revision});
  // A crash may have left the values of a record that is gone.
  for (const std::string& subject : {places.by_key, places.by_itself})
    if (!subject.empty() && !message_at(messages_, subject)) each.records.push_back({subject, {}});
  if (const Stored* stored = records.standing()) {
    each.standings.push_back({stored->record.state, stored->stamp, stored->record.reply_due});
    each.rows.push_back({&queue, {.entry = entry.entry, .stored = *stored}});
  } else if (entry.stage == core::Stage::whole && queue.has(entry.entry.topic, sequence)) {
    each.standings.push_back({State::waiting, entry.entry.appended_at});
  }
  return {};
}

Result<void> LogRetention::Records::add_to(Forgettable& each, std::size_t i) const {
  for (const InQueue& in : queues_)
    if (auto added = add_to(each, *in.queue, in.places[i]); !added) return added;
  return {};
}

Result<std::vector<LogRetention::Forgettable>> LogRetention::forgettable(
    const std::vector<KnownQueue>& queues, const Retention& ages, std::vector<LogEntry> entries,
    bool by_leader) {
  Records records(zone_, queues);
  if (auto read = records.read(entries, by_leader); !read) return read.error();
  const StoreTime time = zone_.now();
  std::vector<Forgettable> found;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Forgettable each{.entry = std::move(entries[i])};
    if (auto added = records.add_to(each, i); !added) return added.error();
    each.forget =
        core::may_forget(each.entry.stage, each.entry.stage_since, each.standings, ages, time);
    if (each.forget != core::Forget::nothing) found.push_back(std::move(each));
  }
  return found;
}

// Also finishes the retirements in the page that were cut off.
Result<std::vector<LogEntry>> LogRetention::read_page(Sequence after, std::size_t limit) {
  auto entries = log_.page(after, limit, {});
  if (!entries) return entries;
  std::vector<std::uint64_t> left;
  for (const LogEntry& each : *entries)
    if (each.beside_its_task) left.push_back(each.entry.sequence.value);
  if (auto gone = zone_.client.remove(zone_.subjects.log_stream(), left); !gone)
    return gone.error();
  return entries;
}

Result<Meta::RetirePage> LogRetention::retire(const std::vector<KnownQueue>& queues,
                                              const Retention& ages, Sequence after,
                                              std::size_t limit) {
  Meta::RetirePage page;
  auto entries = read_page(after, limit);
  if (!entries) return entries.error();
  if (!entries->empty()) page.next = entries->back().entry.sequence;
  // A replica may answer the first look and lag behind. What it lets us forget is looked at once more
  // at the leader, and that decides.
  auto old = forgettable(queues, ages, std::move(*entries), false);
  if (!old) return old.error();
  std::vector<LogEntry> again;
  for (Forgettable& each : *old) again.push_back(std::move(each.entry));
  old = forgettable(queues, ages, std::move(again), true);
  if (!old) return old.error();
  for (const core::Forget step : {core::Forget::body, core::Forget::records, core::Forget::id}) {
    Items items;
    for (const Forgettable& each : *old)
      if (each.forget == step) items.push_back(&each);
    const auto takings = takings_of(step, items, queues);
    if (!takings) return takings.error();
    if (auto kept = past_.keep(*takings); !kept) return kept.error();
    const auto done = forget(step, items);
    if (!done) return done.error();
    (step == core::Forget::body      ? page.retired.bodies
     : step == core::Forget::records ? page.retired.records
                                     : page.retired.ids) += *done;
  }
  return page;
}

Result<Takings> LogRetention::takings_of(core::Forget step, const Items& items,
                                         const std::vector<KnownQueue>& queues) {
  Takings takings;
  for (const Forgettable* each : items)
    for (const std::uint64_t number : {each->entry.message, each->entry.entry.sequence.value})
      takings[zone_.subjects.gone(number)].push_back(
          [number](core::Past& past) { past.ids.add(number); });
  if (step == core::Forget::records)
    for (const Forgettable* each : items)
      for (const auto& [queue, row] : each->rows)
        past_.take_records(*queue, row.entry.sequence.value, row, takings);
  if (step != core::Forget::id) return takings;
  std::vector<Entry> entries;
  for (const Forgettable* each : items) entries.push_back(each->entry.entry);
  if (auto counted = log_.read_duplicates(entries); !counted) return counted.error();
  for (const Entry& entry : entries)
    for (const KnownQueue& queue : queues)
      if (entry.duplicates > 0 && queue.has(entry.topic, entry.sequence))
        takings[zone_.subjects.past(queue, entry.sequence.value)].push_back(
            [number = entry.sequence.value, at = entry.published_at,
             count = entry.duplicates](core::Past& past) { past.take_id(number, at, count); });
  return takings;
}

Result<std::uint64_t> LogRetention::forget(core::Forget step, const Items& items) {
  if (items.empty()) return std::uint64_t{0};
  if (step == core::Forget::id) return forget_ids(items);
  return step == core::Forget::body ? forget_bodies(items) : forget_records(items);
}

Result<std::uint64_t> LogRetention::forget_ids(const Items& items) {
  std::vector<std::string> counters;
  std::vector<std::uint64_t> messages;
  std::vector<std::string> notes;
  for (const Forgettable* each : items) {
    notes.push_back(zone_.subjects.old_note(each->entry.entry.sequence));
    counters.push_back(zone_.subjects.duplicates(each->entry.entry.id));
    messages.push_back(each->entry.message);
  }
  if (auto gone = zone_.client.purge(zone_.subjects.count_stream(), counters); !gone)
    return gone.error();
  auto removed = zone_.client.remove(zone_.subjects.log_stream(), messages);
  if (!removed) return removed;
  if (auto gone = zone_.client.purge(zone_.subjects.old_stream(), notes); !gone)
    return gone.error();
  return removed;
}

Result<std::uint64_t> LogRetention::forget_bodies(const Items& items) {
  std::vector<Outgoing> notes;
  for (const Forgettable* each : items) {
    const Entry& entry = each->entry.entry;
    notes.push_back({.subject = zone_.subjects.old_note(entry.sequence),
                     .data = zone_.subjects.old(entry.id, entry.sequence)});
  }
  for (const PublishResult& noted : zone_.client.publish(notes))
    if (noted.kind != PublishResult::Kind::stored) return failure_of(noted);
  return replace(items, core::Stage::body_retired);
}

Result<std::uint64_t> LogRetention::forget_records(const Items& items) {
  // The tasks themselves, in case that a crash left them beside their retirement.
  std::vector<std::uint64_t> tasks;
  std::vector<std::vector<RecordAt>> records;
  for (const Forgettable* each : items) {
    tasks.push_back(each->entry.entry.sequence.value);
    records.push_back(each->records);
  }
  if (auto gone = zone_.client.remove(zone_.subjects.log_stream(), tasks); !gone)
    return gone.error();
  const auto dropped = remove_records(zone_, records);
  if (!dropped) return dropped.error();
  Items open;
  for (std::size_t i = 0; i < items.size(); ++i)
    if ((*dropped)[i]) open.push_back(items[i]);
  return replace(open, core::Stage::records_dropped);
}

// What is left of the tasks is written in their place, then they are removed.
Result<std::uint64_t> LogRetention::replace(const Items& items, core::Stage stage) {
  std::vector<Outgoing> messages;
  for (const Forgettable* each : items) {
    messages.push_back(retired_message(zone_.subjects, each->entry, stage));
    zone_.clock.stamp(messages.back().headers);
  }
  std::vector<std::uint64_t> before;
  const auto published = zone_.client.publish(messages);
  std::optional<Error> failed;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (published[i].kind == PublishResult::Kind::refused) continue;
    if (published[i].kind == PublishResult::Kind::stored)
      before.push_back(items[i]->entry.message);
    else
      failed = failure_of(published[i]);
  }
  if (auto gone = zone_.client.remove(zone_.subjects.log_stream(), before); !gone)
    return gone.error();
  if (failed) return *failed;
  return before.size();
}

}  // namespace once::store::nats
