// Forgetting, in an order that a crash may cut anywhere: what says that the id is known is written
// before the task goes, and goes last.
#include <algorithm>

#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

std::string text_of(const Retention& ages) {
  return "{\"bodies\":" + std::to_string(ages.bodies.count()) +
         ",\"ids\":" + std::to_string(ages.ids.count()) +
         ",\"records\":" + std::to_string(ages.records.count()) + "}";
}

}  // namespace

Result<Retention> NatsStore::retention() {
  const auto kept =
      zone_->jet.last(zone_->subjects.meta_stream(), zone_->subjects.meta("retention"));
  if (!kept) return kept.error();
  if (!*kept) return Retention{};
  const auto json = encoding::parse_json((*kept)->data);
  if (!json) return json.error();
  const auto age = [&](const char* which) {
    return Duration{static_cast<Duration::rep>(number_of(*json, which).value_or(0))};
  };
  return Retention{.bodies = age("bodies"), .records = age("records"), .ids = age("ids")};
}

Result<void> NatsStore::set_retention(const Retention& ages) {
  while (true) {
    const auto kept =
        zone_->jet.last(zone_->subjects.meta_stream(), zone_->subjects.meta("retention"));
    if (!kept) return kept.error();
    const Published written =
        zone_->jet.publish({.subject = zone_->subjects.meta("retention"),
                            .data = text_of(ages),
                            .headers = expecting(*kept ? (*kept)->sequence : 0)});
    if (written.kind == Published::Kind::stored) return {};
    if (written.kind != Published::Kind::refused) return failure_of(written);
  }
}

Result<Retired> NatsStore::retire_alone(const std::vector<KnownQueue>& queues,
                                        const Retention& ages) {
  Retired retired;
  const StoreTime time = now();
  for (const KnownQueue& queue : queues) {
    if (!queue.definition.ledger) continue;
    const auto scan = scan_ledger(queue);
    if (!scan) return scan.error();
    std::vector<std::vector<RecordAt>> old;
    Takings takings;
    for (const auto& [key, stored] : scan->keys)
      if (core::may_forget_alone({stored.record.state, stored.stamp}, ages, time)) {
        old.push_back({{zone_->subjects.record(queue, {.queue = queue.definition.name, .key = key}),
                        stored.revision}});
        take_records(queue, stored.revision.value, {.stored = stored}, takings);
      }
    if (auto kept = keep_past(takings); !kept) return kept.error();
    std::vector<const std::vector<RecordAt>*> items;
    for (const auto& records : old) items.push_back(&records);
    const auto gone = drop_records(items);
    if (!gone) return gone.error();
    retired.records += static_cast<std::uint64_t>(std::count(gone->begin(), gone->end(), true));
  }
  return retired;
}

Result<NatsStore::RetirePage> NatsStore::retire(Sequence after, std::size_t limit) {
  const auto queues = all_known_to_the_leader();
  if (!queues) return queues.error();
  const auto ages = retention();
  if (!ages) return ages.error();
  RetirePage page;
  if (!after) {
    const auto alone = retire_alone(*queues, *ages);
    if (!alone) return alone.error();
    page.retired = *alone;
    for (const KnownQueue& queue : *queues) {
      if (!queue.foreign()) continue;
      const auto outside = retire_foreign(queue, *ages);
      if (!outside) return outside.error();
      page.retired.bodies += outside->bodies;
      page.retired.records += outside->records;
    }
  }
  auto entries = read_log(after, limit, {});
  if (!entries) return entries.error();
  if (!entries->empty()) page.next = entries->back().entry.sequence;
  std::vector<std::uint64_t> left;
  for (const LogEntry& each : *entries)
    if (each.beside_its_task) left.push_back(each.entry.sequence.value);
  if (auto gone = zone_->jet.remove(zone_->subjects.log_stream(), left); !gone) return gone.error();
  // A replica may answer the first look and lag behind: what it lets us forget is looked at once
  // more at the leader, and that decides.
  auto old = forgettable(*queues, *ages, std::move(*entries), false);
  if (!old) return old.error();
  std::vector<LogEntry> again;
  for (Forgettable& each : *old) again.push_back(std::move(each.entry));
  old = forgettable(*queues, *ages, std::move(again), true);
  if (!old) return old.error();
  for (const core::Forget step : {core::Forget::body, core::Forget::records, core::Forget::id}) {
    std::vector<const Forgettable*> now;
    for (const Forgettable& each : *old)
      if (each.forget == step) now.push_back(&each);
    const auto takings = takings_of(step, now, *queues);
    if (!takings) return takings.error();
    if (auto kept = keep_past(*takings); !kept) return kept.error();
    const auto done = forget(step, now);
    if (!done) return done.error();
    (step == core::Forget::body      ? page.retired.bodies
     : step == core::Forget::records ? page.retired.records
                                     : page.retired.ids) += *done;
  }
  return page;
}

Result<std::vector<NatsStore::Forgettable>> NatsStore::forgettable(
    const std::vector<KnownQueue>& queues, const Retention& ages, std::vector<LogEntry> entries,
    bool by_leader) {
  struct Of {
    const KnownQueue* queue{};
    std::vector<Places> places{};
  };
  std::vector<Of> all;
  std::vector<std::string> subjects;
  for (const KnownQueue& queue : queues) {
    if (queue.definition.ledger || queue.foreign()) continue;
    auto places = places_of(queue, entries);
    if (!places) return places.error();
    for (const Places& each : *places)
      for (const std::string& subject : {each.by_key, each.by_itself})
        if (!subject.empty()) subjects.push_back(subject);
    all.push_back({&queue, std::move(*places)});
  }
  const std::string stream = zone_->subjects.ledger_stream();
  std::map<std::string, StreamMessage> records;
  if (by_leader) {
    auto kept = zone_->jet.last(stream, subjects);
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (!kept[i]) return kept[i].error();
      if (*kept[i]) records.emplace(subjects[i], std::move(**kept[i]));
    }
  } else {
    auto read = zone_->jet.last_of_each(stream, subjects);
    if (!read) return read.error();
    records = std::move(*read);
  }
  const auto find = [&](const std::string& subject) {
    const auto found = records.find(subject);
    return found == records.end() ? nullptr : &found->second;
  };
  const StoreTime time = now();
  std::vector<Forgettable> found;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    Forgettable each{.entry = std::move(entries[i])};
    LogEntry& entry = each.entry;
    const Sequence sequence = entry.entry.sequence;
    std::vector<core::Standing> standings;
    for (const Of& of : all) {
      const Places& places = of.places[i];
      Standings records_of;
      records_of.read(find(places.by_key), find(places.by_itself), sequence, zone_->clock);
      if (records_of.failed) return *records_of.failed;
      if (records_of.key) {
        each.records.push_back({places.by_key, records_of.key->revision});
        if (!of.queue->definition.key.empty()) entry.keys[of.queue->generation] = places.key;
      }
      if (records_of.own) each.records.push_back({places.by_itself, records_of.own->revision});
      // A crash may have left the values of a record that is gone.
      for (const std::string& subject : {places.by_key, places.by_itself})
        if (!subject.empty() && !find(subject)) each.records.push_back({subject, {}});
      if (const Stored* stored = records_of.standing()) {
        standings.push_back({stored->record.state, stored->stamp, stored->record.reply_due});
        each.rows.push_back({of.queue, {.entry = entry.entry, .stored = *stored}});
      } else if (entry.stage == core::Stage::whole && of.queue->has(entry.entry.topic, sequence)) {
        standings.push_back({State::waiting, entry.entry.appended_at});
      }
    }
    each.forget = core::may_forget(entry.stage, entry.stage_since, standings, ages, time);
    if (each.forget != core::Forget::nothing) found.push_back(std::move(each));
  }
  return found;
}

// The records, then their values: nobody may meet a record whose values are gone. Of each whether all
// its records were there still; when not, another is at it.
Result<std::vector<bool>> NatsStore::drop_records(
    std::span<const std::vector<RecordAt>* const> items) {
  std::vector<std::uint64_t> revisions;
  for (const auto* records : items)
    for (const RecordAt& each : *records)
      if (each.revision) revisions.push_back(each.revision.value);
  const auto gone = zone_->jet.remove_each(zone_->subjects.ledger_stream(), revisions);
  if (!gone) return gone.error();
  std::vector<bool> whole;
  std::vector<std::string> values;
  std::size_t next = 0;
  for (const auto* records : items) {
    bool all = true;
    for (const RecordAt& each : *records)
      if (each.revision) all = (*gone)[next++] && all;
    whole.push_back(all);
    for (const RecordAt& each : *records)
      if (all) values.push_back(zone_->subjects.chunks(each.subject));
  }
  if (values.empty()) return whole;
  const auto stored = zone_->jet.count(zone_->subjects.blob_stream(), zone_->subjects.all_chunks());
  if (!stored) return stored.error();
  if (*stored > 0)
    if (auto purged = zone_->jet.purge(zone_->subjects.blob_stream(), values); !purged)
      return purged.error();
  return whole;
}

// The same step for many entries, in bursts. Answers of how many it was done; of the others another
// was faster.
Result<std::uint64_t> NatsStore::forget(core::Forget step,
                                        std::span<const Forgettable* const> items) {
  const std::string stream = zone_->subjects.log_stream();
  std::vector<const Forgettable*> open(items.begin(), items.end());
  if (open.empty()) return std::uint64_t{0};
  if (step == core::Forget::id) {
    std::vector<std::string> counters;
    std::vector<std::uint64_t> messages;
    std::vector<std::string> notes;
    for (const Forgettable* each : open) {
      notes.push_back(zone_->subjects.old_note(each->entry.entry.sequence));
      counters.push_back(zone_->subjects.duplicates(each->entry.entry.id));
      messages.push_back(each->entry.message);
    }
    if (auto gone = zone_->jet.purge(zone_->subjects.count_stream(), counters); !gone)
      return gone.error();
    auto removed = zone_->jet.remove(stream, messages);
    if (!removed) return removed;
    if (auto gone = zone_->jet.purge(zone_->subjects.old_stream(), notes); !gone)
      return gone.error();
    return removed;
  }
  if (step == core::Forget::body) {
    std::vector<Outgoing> notes;
    for (const Forgettable* each : open) {
      const Entry& entry = each->entry.entry;
      notes.push_back({.subject = zone_->subjects.old_note(entry.sequence),
                       .data = zone_->subjects.old(entry.id, entry.sequence)});
    }
    for (const Published& noted : zone_->jet.publish(notes))
      if (noted.kind != Published::Kind::stored) return failure_of(noted);
  }
  if (step == core::Forget::records) {
    // The tasks themselves, in case that a crash left them beside their retirement.
    std::vector<std::uint64_t> tasks;
    std::vector<const std::vector<RecordAt>*> records;
    for (const Forgettable* each : open) {
      tasks.push_back(each->entry.entry.sequence.value);
      records.push_back(&each->records);
    }
    if (auto gone = zone_->jet.remove(stream, tasks); !gone) return gone.error();
    const auto dropped = drop_records(records);
    if (!dropped) return dropped.error();
    open.clear();
    for (std::size_t i = 0; i < items.size(); ++i)
      if ((*dropped)[i]) open.push_back(items[i]);
  }
  std::vector<Outgoing> messages;
  for (const Forgettable* each : open) {
    messages.push_back(retired_message(
        zone_->subjects, each->entry,
        step == core::Forget::body ? core::Stage::body_retired : core::Stage::records_dropped));
    zone_->clock.stamp(messages.back().headers);
  }
  std::vector<std::uint64_t> before;
  const auto published = zone_->jet.publish(messages);
  std::optional<Error> failed;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (published[i].kind == Published::Kind::refused) continue;
    if (published[i].kind == Published::Kind::stored)
      before.push_back(open[i]->entry.message);
    else
      failed = failure_of(published[i]);
  }
  if (auto gone = zone_->jet.remove(stream, before); !gone) return gone.error();
  if (failed) return *failed;
  return before.size();
}

}  // namespace once::store::nats
