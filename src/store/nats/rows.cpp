// What people see. Rows are read a page of the log at a time, with the records of just these entries;
// counts come from the queue's tally, which follows what was written since it was last asked.
#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "codec/key_template.h"
#include "core/names.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

bool passes(const RowFilter& filter, const Row& row, StoreTime time) {
  const Time since = row.stored ? row.stored->record.since : row.entry.published_at;
  return (!filter.state || *filter.state == state_of(row, time)) &&
         (!filter.since || since >= *filter.since) &&
         (!filter.up_to || row.entry.sequence <= filter.up_to) &&
         (filter.topic.empty() || core::matches(filter.topic, row.entry.topic));
}

}  // namespace

Result<std::vector<NatsStore::ForeignRow>> NatsStore::foreign_rows(const KnownQueue& queue) {
  auto tasks = foreign_tasks(queue);
  if (!tasks) return tasks.error();
  std::map<Sequence, StoreTime> since;
  const auto wakes = wakes_of(queue, &since);
  if (!wakes) return wakes.error();
  std::vector<std::uint64_t> left;
  for (const auto& [sequence, task] : *tasks)
    if (task.gone) left.push_back(sequence.value);
  const auto taken = taken_of(queue, left);
  if (!taken) return taken.error();
  std::vector<ForeignRow> found;
  for (auto& [sequence, task] : *tasks) {
    if (taken->contains(sequence.value)) continue;
    Row row{.entry = std::move(task.entry),
            .queue = queue.definition.name,
            .key = std::move(task.key),
            .own = task.own_record.has_value()};
    if (const Stored* stored = task.standing()) row.stored = *stored;
    if (const auto wake = wakes->find(sequence); wake != wakes->end())
      row.order = wake->second.order;
    found.push_back({.row = std::move(row),
                     .ordered_at = since.contains(sequence) ? since[sequence] : StoreTime{}});
  }
  return found;
}

Result<bool> NatsStore::add_foreign_rows(const KnownQueue& queue, const RowFilter& filter,
                                         const Row* after, std::size_t limit, Page& page) {
  auto all = foreign_rows(queue);
  if (!all) return all.error();
  const StoreTime time = now();
  for (ForeignRow& each : *all) {
    if (after && each.row.entry.sequence <= after->entry.sequence) continue;
    if (!passes(filter, each.row, time)) continue;
    if (page.rows.size() == limit) return true;
    page.rows.push_back(std::move(each.row));
  }
  return false;
}

Result<std::vector<NatsStore::Places>> NatsStore::places_of(const KnownQueue& queue,
                                                            std::span<const LogEntry> entries) {
  const auto keys = encoding::KeyTemplate::of(queue.definition);
  if (!keys) return keys.error();
  std::vector<Places> all;
  all.reserve(entries.size());
  for (const LogEntry& each : entries) {
    const Entry& entry = each.entry;
    Address at{.queue = queue.definition.name, .sequence = entry.sequence};
    Places places;
    if (queue.definition.key.empty()) {
      places.key = entry.id;
    } else if (entry.body) {
      if (auto key = keys->key(entry.id, entry.topic, *entry.body, entry.headers))
        places.key = std::move(*key);
    } else if (const auto known = each.keys.find(queue.generation); known != each.keys.end()) {
      places.key = known->second;
    }
    at.key = places.key;
    if (!places.key.empty()) places.by_key = zone_->subjects.record(queue, at);
    at.kind = Address::Kind::entry;
    places.by_itself = zone_->subjects.record(queue, at);
    all.push_back(std::move(places));
  }
  return all;
}

void Standings::read(const StreamMessage* by_key, const StreamMessage* by_itself, Sequence sequence,
                     const ZoneClock& clock) {
  const auto take = [&](const StreamMessage* kept, bool its_own) {
    if (!kept || failed) return;
    auto stored = stored_from(*kept, clock);
    if (!stored) {
      failed = stored.error();
      return;
    }
    if (!its_own && stored->record.sequence != sequence) return;
    (its_own ? own : key) = std::move(*stored);
  };
  take(by_key, false);
  take(by_itself, true);
}

// One page of a queue's rows, after a sequence. Answers where to go on; zero: the end.
Result<Sequence> NatsStore::add_rows(const KnownQueue& queue, const RowFilter& filter,
                                     Sequence after, std::size_t limit, Page& page) {
  constexpr std::size_t kMost = 500;
  const StoreTime time = now();
  const auto entries =
      read_log(after, std::clamp<std::size_t>(limit, 1, kMost), queue.definition.topic);
  if (!entries) return entries.error();
  if (entries->empty()) return Sequence{};
  const auto places = places_of(queue, *entries);
  if (!places) return places.error();
  std::vector<std::string> subjects;
  std::vector<std::string> slots;
  for (std::size_t i = 0; i < entries->size(); ++i) {
    if (!(*places)[i].by_key.empty()) subjects.push_back((*places)[i].by_key);
    subjects.push_back((*places)[i].by_itself);
    slots.push_back(zone_->subjects.wake(queue, (*entries)[i].entry.sequence));
  }
  const auto records = zone_->jet.last_of_each(zone_->subjects.ledger_stream(), subjects);
  if (!records) return records.error();
  const auto wakes = zone_->jet.last_of_each(zone_->subjects.wake_stream(), slots);
  if (!wakes) return wakes.error();
  const auto find = [](const std::map<std::string, StreamMessage>& in, const std::string& subject) {
    const auto found = in.find(subject);
    return found == in.end() ? nullptr : &found->second;
  };
  std::vector<std::uint64_t> retired;
  for (const LogEntry& each : *entries)
    if (each.stage != core::Stage::whole) retired.push_back(each.entry.sequence.value);
  const auto taken = taken_of(queue, retired);
  if (!taken) return taken.error();
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const LogEntry& each = (*entries)[i];
    const Sequence sequence = each.entry.sequence;
    if (!queue.has(each.entry.topic, sequence) || taken->contains(sequence.value)) continue;
    const StreamMessage* by_key = find(*records, (*places)[i].by_key);
    const StreamMessage* by_itself = find(*records, (*places)[i].by_itself);
    Standings standings;
    standings.read(by_key, by_itself, sequence, zone_->clock);
    const bool damaged = standings.failed && standings.failed->code == Code::store_unusable;
    if (standings.failed && !damaged) return *standings.failed;
    const Stored* stored = damaged ? nullptr : standings.standing();
    // What had lost its body before this queue came is none of its tasks.
    if (each.stage != core::Stage::whole && !stored && !damaged) continue;
    Row row{.entry = each.entry, .queue = queue.definition.name, .damaged = damaged};
    row.entry.body.reset();
    row.own = standings.own.has_value();
    if (standings.key || queue.definition.key.empty()) row.key = (*places)[i].key;
    if (stored) row.stored = *stored;
    if (const StreamMessage* slot = find(*wakes, slots[i])) {
      auto note = wake_from(*slot);
      if (!note) return note.error();
      row.order = std::move(note->order);
    }
    if (!passes(filter, row, time)) continue;
    if (stored && !filter.lean) show_values(row.own ? *by_itself : *by_key, row.stored->record);
    page.rows.push_back(std::move(row));
    if (page.rows.size() == limit) return sequence;
  }
  return entries->back().entry.sequence;
}

Result<bool> NatsStore::add_rows_alone(const KnownQueue& queue, const RowFilter& filter,
                                       const Row* after, std::size_t limit, Page& page) {
  auto scan = scan_ledger(queue);
  if (!scan) return scan.error();
  std::vector<std::uint64_t> settled;
  for (const auto& [key, stored] : scan->keys)
    if (core::settled(stored.record.state)) settled.push_back(stored.revision.value);
  const auto taken = taken_of(queue, settled);
  if (!taken) return taken.error();
  for (auto& [key, stored] : scan->keys) {
    if ((after && key <= after->key) || taken->contains(stored.revision.value)) continue;
    Row row{.queue = queue.definition.name, .key = key, .stored = std::move(stored)};
    if (!passes(filter, row, now())) continue;
    if (page.rows.size() == limit) return true;
    if (const auto kept = scan->parted.find(row.stored->revision);
        kept != scan->parted.end() && !filter.lean)
      show_values(kept->second, row.stored->record);
    page.rows.push_back(std::move(row));
  }
  return false;
}

Result<NatsStore::Page> NatsStore::rows(const RowFilter& filter, const Row* after,
                                        std::size_t limit) {
  const auto queues = filter.queue.empty() ? all_known_to_the_leader() : the_one(filter.queue);
  if (!queues) return queues.error();
  Page page;
  for (const KnownQueue& queue : *queues) {
    const std::string& name = queue.definition.name;
    if (after && name < after->queue) continue;
    const Row* last = after && name == after->queue ? after : nullptr;
    if (page.rows.size() == limit) {
      page.more = true;
      return page;
    }
    if (queue.definition.ledger || queue.foreign()) {
      const auto more = queue.foreign() ? add_foreign_rows(queue, filter, last, limit, page)
                                        : add_rows_alone(queue, filter, last, limit, page);
      if (!more) return more.error();
      page.more = *more;
      if (*more) return page;
      continue;
    }
    Sequence from = last ? last->entry.sequence : Sequence{};
    while (page.rows.size() < limit && (!filter.up_to || from < filter.up_to)) {
      if (filter.state) {
        const auto next = next_in_state(queue, *filter.state, from);
        if (!next) return next.error();
        if (!*next) break;
        from = {(*next)->value - 1};
      }
      const auto next = add_rows(queue, filter, from, limit, page);
      if (!next) return next.error();
      if (!*next) break;
      from = *next;
    }
    page.more = page.rows.size() == limit;
    if (page.more) return page;
  }
  return page;
}

// --- The tally --------------------------------------------------------------------------------

std::shared_ptr<SharedTally> NatsStore::tally_of(const KnownQueue& queue) {
  const std::lock_guard lock(zone_->mutex);
  auto& tally = zone_->tallies[queue.consumer()];
  if (!tally) tally = std::make_shared<SharedTally>();
  return tally;
}

// True: there was something new. Of the log, what is up to there.
Result<bool> NatsStore::read_news(const KnownQueue& queue, QueueCounts& tally,
                                  std::uint64_t log_up_to) {
  bool news = false;
  const StoreTime time = now();
  // The ledger before the log: an entry is there before its record.
  auto read = zone_->jet.each(
      zone_->subjects.ledger_stream(), zone_->subjects.records(queue), tally.ledger_seen + 1,
      JetStreamClient::kToTheEnd, [&](StreamMessage kept) -> Result<void> {
        news = true;
        const RecordPlace place = place_of(kept);
        const auto stored = stored_from(kept, zone_->clock);
        tally.ledger_seen = kept.sequence;
        // A damaged record is counted as one without a task. A caller that needs it finds the damage.
        if (stored && place.kind == 'e')
          tally.see_record(QueueCounts::Place::own, place.sequence, stored->record, stored->stamp);
        else if (stored && place.kind == 'k' && stored->record.sequence)
          tally.see_record(QueueCounts::Place::key, stored->record.sequence, stored->record,
                           stored->stamp);
        else
          tally.see_lone(std::move(kept.subject));
        return {};
      });
  if (!read) return read.error();
  const auto see = [&](const StreamMessage& kept, std::uint64_t& seen) -> Result<void> {
    news = true;
    seen = kept.sequence;
    const auto note = log_note_from(kept, zone_->clock);
    if (!note) return {};  // no once wrote it
    if (!queue.has(note->topic, note->sequence)) return {};
    // Who is not to wait does not wait for a clock that is behind.
    const StoreTime since = note->delayed ? note->not_before : std::min(note->not_before, time);
    tally.see_entry(note->sequence, note->stage == core::Stage::whole, since);
    if (note->stage == core::Stage::records_dropped) tally.drop_records(note->sequence);
    return {};
  };
  // What is left of a retired task comes after it, and its subject does not tell its topic.
  const std::uint64_t from = queue.definition.from.value_or(0);
  read = zone_->jet.each(zone_->subjects.log_stream(), zone_->subjects.logs(queue.definition.topic),
                         std::max(tally.log_seen + 1, from), log_up_to,
                         [&](const StreamMessage& kept) { return see(kept, tally.log_seen); });
  if (read)
    read = zone_->jet.each(zone_->subjects.log_stream(), zone_->subjects.olds(),
                           tally.olds_seen + 1, JetStreamClient::kToTheEnd,
                           [&](const StreamMessage& kept) { return see(kept, tally.olds_seen); });
  if (!read) return read.error();
  return news;
}

Result<NatsStore::Newest> NatsStore::newest_of(const KnownQueue& queue) {
  const auto record =
      zone_->jet.last(zone_->subjects.ledger_stream(), zone_->subjects.records(queue));
  if (!record) return record.error();
  const std::array<std::string, 2> in_log{zone_->subjects.logs(queue.definition.topic),
                                          zone_->subjects.olds()};
  const auto entries = zone_->jet.last(zone_->subjects.log_stream(), in_log);
  for (const auto& entry : entries)
    if (!entry) return entry.error();
  const auto sequence_of = [](const std::optional<StreamMessage>& kept) {
    return kept ? kept->sequence : 0;
  };
  Newest newest{.record = sequence_of(*record),
                .entry = sequence_of(*entries[0]),
                .old = sequence_of(*entries[1])};
  // What is before the queue's beginning is not read.
  if (newest.entry < queue.definition.from.value_or(1)) newest.entry = 0;
  return newest;
}

// Everything that was there when it began is known in the end, of the log up to `log_up_to`. A replica
// that lags behind, or has just come back, does not know the newest: the leader says what that is.
Result<bool> NatsStore::catch_up(const KnownQueue& queue, QueueCounts& tally,
                                 std::uint64_t log_up_to) {
  bool news = false;
  Result<Newest> newest = newest_of(queue);
  for (int round = 0; round < kRoundsToFollow; ++round) {
    if (!newest) return newest.error();
    // Which is the last one before that, nobody tells: what a replica lacks of it is read next time.
    if (newest->entry > log_up_to) newest->entry = 0;
    if (newest->record < tally.ledger_seen) tally = {};  // records were lost, or taken back
    const auto read = read_news(queue, tally, log_up_to);
    if (!read) return read.error();
    news = news || *read;
    if (tally.ledger_seen >= newest->record && tally.olds_seen >= newest->old &&
        tally.log_seen >= newest->entry)
      return news;
    if (*read) continue;
    std::this_thread::sleep_for(kUntilReplicasFollow);
    newest = newest_of(queue);  // that one may have been removed meanwhile
  }
  return replicas_lag();
}

Error NatsStore::replicas_lag() {
  return {.code = Code::store_unavailable,
          .message =
              "the NATS server's replicas do not follow their leader: what is there cannot be told "
              "just now; the same call later may succeed",
          .retryable = true};
}

// What was removed leaves no message behind: the server's own counts say whether all is known. When
// they say otherwise and nothing new explains it, everything is read again, and that is what is there:
// a retirement that was cut off, or a message that nobody can read, is counted by the server alone.
Result<void> NatsStore::bring_up_to_date(const KnownQueue& queue, QueueCounts& tally) {
  constexpr int kRounds = 5;  // then it changes faster than it can be looked at
  bool read_anew = false;
  for (int round = 0; round < kRounds; ++round) {
    const auto news = catch_up(queue, tally, JetStreamClient::kToTheEnd);
    if (!news) return news.error();
    const auto records =
        zone_->jet.count(zone_->subjects.ledger_stream(), zone_->subjects.records(queue));
    if (!records) return records.error();
    const auto whole =
        zone_->jet.count(zone_->subjects.log_stream(), zone_->subjects.logs(queue.definition.topic),
                         queue.definition.from.value_or(0));
    if (!whole) return whole.error();
    if (*records == tally.records() && *whole == tally.whole()) return {};
    if (*news) continue;
    if (read_anew || round + 1 == kRounds) return {};
    tally = {};
    read_anew = true;
  }
  return {};
}

Result<std::optional<Sequence>> NatsStore::next_in_state(const KnownQueue& queue, State state,
                                                         Sequence after) {
  const auto shared = tally_of(queue);
  const std::lock_guard lock(shared->mutex);
  QueueCounts& tally = shared->tally;
  if (auto done = bring_up_to_date(queue, tally); !done) return done.error();
  std::optional<Sequence> next = tally.next(state, after);
  if (state != State::waiting) return next;
  // A dead or doubtful one with an order waits, too.
  const auto wakes = wakes_of(queue);
  if (!wakes) return wakes.error();
  for (auto wake = wakes->upper_bound(after); wake != wakes->end(); ++wake)
    if (wake->second.order) {
      if (!next || wake->first < *next) next = wake->first;
      break;
    }
  return next;
}

Result<Counts> NatsStore::counts(std::string_view name) {
  const auto queue = must_know(name);
  if (!queue) return queue.error();
  const auto alive = workers(name);
  if (!alive) return alive.error();
  Counts counts;
  counts.workers = *alive;
  constexpr State kAll[] = {State::scheduled, State::waiting,   State::running,
                            State::retrying,  State::in_doubt,  State::completed,
                            State::dead,      State::cancelled, State::duplicate};
  for (const State state : kAll) counts.tasks[state] = 0;
  const auto add = [&](State state, Duration age) {
    ++counts.tasks[state];
    if (state == State::waiting)
      counts.oldest_waiting = std::max(counts.oldest_waiting.value_or(age), age);
    if (state == State::in_doubt)
      counts.oldest_in_doubt = std::max(counts.oldest_in_doubt.value_or(age), age);
  };
  if (queue->definition.ledger) {
    const auto scan = scan_ledger(*queue);
    if (!scan) return scan.error();
    const StoreTime time = now();
    for (const auto& [key, stored] : scan->keys) add(stored.record.state, time - stored.stamp);
    return counts;
  }
  if (queue->foreign()) {
    const auto all = foreign_rows(*queue);
    if (!all) return all.error();
    const StoreTime time = now();
    for (const auto& [row, ordered_at] : *all) {
      const State state = state_of(row, time);
      StoreTime since = row.entry.not_before();
      if (row.stored) since = state == row.stored->record.state ? row.stored->stamp : ordered_at;
      add(state, time - since);
    }
    return counts;
  }
  std::map<Sequence, StoreTime> since;
  const auto wakes = wakes_of(*queue, &since);
  if (!wakes) return wakes.error();
  const auto shared = tally_of(*queue);
  const std::lock_guard lock(shared->mutex);
  const QueueCounts& tally = shared->tally;
  if (auto done = bring_up_to_date(*queue, shared->tally); !done) return done.error();
  const StoreTime time = now();
  for (const State state : kAll) counts.tasks[state] = tally.settled(state);
  std::set<Sequence> ordered;
  for (const auto& [sequence, wake] : *wakes) {
    if (!wake.order) continue;
    if (!tally.has_state(sequence, State::dead) && !tally.has_state(sequence, State::in_doubt))
      continue;
    ordered.insert(sequence);
    if (tally.has_state(sequence, State::dead) && !tally.open().contains(sequence))
      --counts.tasks[State::dead];
    add(State::waiting, time - since[sequence]);
  }
  for (const auto& [sequence, open] : tally.open()) {
    if (ordered.contains(sequence)) continue;
    const bool scheduled = !open.recorded && time < open.since;
    add(scheduled ? State::scheduled : open.state, time - open.since);
  }
  return counts;
}

// True: the feed is done with every entry.
Result<bool> NatsStore::feed_is_done(const KnownQueue& queue) {
  const Subjects& subjects = zone_->subjects;
  const auto newest = zone_->jet.last(subjects.log_stream(), subjects.logs(queue.definition.topic));
  if (!newest) return newest.error();
  const auto feed = consumer_state(queue);
  if (!feed) return feed.error();
  const auto wake = zone_->jet.last(subjects.wake_stream(), subjects.wakes(queue));
  if (!wake) return wake.error();
  // A consumer hears of an entry a moment after its publisher does.
  const std::uint64_t up_to = *newest ? (*newest)->sequence : 0;
  const bool heard = up_to <= feed->delivered || up_to < queue.definition.from.value_or(0);
  return heard && feed->as_made && feed->unanswered == 0 && feed->pending == 0 && !*wake;
}

// What nobody but us has written needs no reading: only then it is known for so little.
Result<bool> NatsStore::all_settled(std::string_view name) {
  const auto queue = must_know(name);
  if (!queue) return queue.error();
  if (queue->definition.ledger || queue->foreign()) return Store::all_settled(name);
  const auto done = feed_is_done(*queue);
  if (!done) return done.error();
  const auto info = zone_->jet.stream_info(zone_->subjects.ledger_stream());
  if (!info) return info.error();
  const encoding::Json* state = *info ? (*info)->member("state") : nullptr;
  if (!state) return Store::all_settled(name);
  const SoleWriter::Ledger ledger{.last = number_of(*state, "last_seq").value_or(0),
                                  .messages = number_of(*state, "messages").value_or(0)};
  if (*done && zone_->own_writes.all_settled(queue->consumer(), ledger)) return true;
  auto settled = Store::all_settled(name);
  if (!settled || !*settled) return settled;
  {
    const auto shared = tally_of(*queue);
    const std::lock_guard lock(shared->mutex);
    if (shared->tally.owes_replies()) return false;
  }
  zone_->own_writes.saw_all_settled(queue->consumer(), ledger);
  return true;
}

Result<std::uint64_t> NatsStore::unrouted() {
  const auto queues = all_known_to_the_leader();
  if (!queues) return queues.error();
  std::string signature;
  for (const KnownQueue& queue : *queues) signature += queue.consumer() + ' ';
  const std::lock_guard lock(zone_->unrouted.mutex);
  Unrouted& known = zone_->unrouted;
  if (known.queues != signature) known.restart(signature);
  for (int round = 0; round < 2; ++round) {
    const auto read = zone_->jet.each(
        zone_->subjects.log_stream(), zone_->subjects.logs(">"), known.seen + 1,
        JetStreamClient::kToTheEnd, [&](const StreamMessage& kept) -> Result<void> {
          const auto note = log_note_from(kept, zone_->clock);
          known.seen = kept.sequence;
          ++known.whole;
          if (!note) return {};  // no once wrote it
          known.count += std::none_of(queues->begin(), queues->end(),
                                      [&](const KnownQueue& queue) {
                                        return queue.has(note->topic, note->sequence);
                                      })
                             ? 1
                             : 0;
          return {};
        });
    if (!read) return read.error();
    const auto whole = zone_->jet.count(zone_->subjects.log_stream(), zone_->subjects.logs(">"));
    if (!whole) return whole.error();
    if (*whole >= known.whole) break;
    known.restart(signature);  // some are gone since
  }
  return known.count;
}

}  // namespace once::store::nats
