#include "store/nats/queues/counts_keeper.h"

#include <algorithm>
#include <array>
#include <thread>

#include "store/nats/ledger/ledger_scan.h"

namespace once::store::nats {

std::shared_ptr<SharedCounts> CountsKeeper::of(const KnownQueue& queue) {
  const std::lock_guard lock(mutex_);
  auto& counts = counts_[queue.consumer()];
  if (!counts) counts = std::make_shared<SharedCounts>();
  return counts;
}

Result<bool> CountsKeeper::read_records(const KnownQueue& queue, QueueCounts& counts) const {
  bool news = false;
  const auto read = zone_.client.each(
      zone_.subjects.ledger_stream(), zone_.subjects.records(queue), counts.ledger_seen + 1,
      JetStreamClient::kToTheEnd, [&](StreamMessage message) -> Result<void> {
        news = true;
        const RecordPlace place = place_of(message);
        const auto stored = stored_from(message, zone_.clock);
        counts.ledger_seen = message.sequence;
        // A damaged record is counted as one without a task. A caller that needs it finds the damage.
        if (stored && place.kind == 'e')
          counts.see_record(QueueCounts::Place::own, place.sequence, stored->record, stored->stamp);
        else if (stored && place.kind == 'k' && stored->record.sequence)
          counts.see_record(QueueCounts::Place::key, stored->record.sequence, stored->record,
                            stored->stamp);
        else
          counts.see_lone(std::move(message.subject));
        return {};
      });
  if (!read) return read.error();
  return news;
}

// True if there was something new.
Result<bool> CountsKeeper::read_news(const KnownQueue& queue, QueueCounts& counts,
                                     std::uint64_t log_up_to) {
  const StoreTime time = zone_.now();
  // The ledger before the log: an entry is there before its record.
  auto news = read_records(queue, counts);
  if (!news) return news;
  const auto see = [&](const StreamMessage& message, std::uint64_t& seen) -> Result<void> {
    *news = true;
    seen = message.sequence;
    const auto note = log_note_from(message, zone_.clock);
    if (!note) return {};  // no once wrote it
    if (!queue.has(note->topic, note->sequence)) return {};
    // An entry without a delay does not wait for a clock that is behind.
    const StoreTime since = note->delayed ? note->not_before : std::min(note->not_before, time);
    counts.see_entry(note->sequence, note->stage == core::Stage::whole, since);
    if (note->stage == core::Stage::records_dropped) counts.drop_records(note->sequence);
    return {};
  };
  // What is left of a retired task comes after it, and its subject does not tell its topic.
  const std::uint64_t from = queue.definition.from.value_or(0);
  auto read = zone_.client.each(
      zone_.subjects.log_stream(), zone_.subjects.logs(queue.definition.topic),
      std::max(counts.log_seen + 1, from), log_up_to,
      [&](const StreamMessage& message) { return see(message, counts.log_seen); });
  if (read)
    read = zone_.client.each(
        zone_.subjects.log_stream(), zone_.subjects.olds(), counts.olds_seen + 1,
        JetStreamClient::kToTheEnd,
        [&](const StreamMessage& message) { return see(message, counts.olds_seen); });
  if (!read) return read.error();
  return news;
}

Result<CountsKeeper::Newest> CountsKeeper::newest_of(const KnownQueue& queue) const {
  const auto record =
      zone_.client.last(zone_.subjects.ledger_stream(), zone_.subjects.records(queue));
  if (!record) return record.error();
  const std::array<std::string, 2> in_log{zone_.subjects.logs(queue.definition.topic),
                                          zone_.subjects.olds()};
  const auto entries = zone_.client.last(zone_.subjects.log_stream(), in_log);
  for (const auto& entry : entries)
    if (!entry) return entry.error();
  const auto sequence_of = [](const std::optional<StreamMessage>& message) {
    return message ? message->sequence : 0;
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
Result<bool> CountsKeeper::catch_up(const KnownQueue& queue, QueueCounts& counts,
                                    std::uint64_t log_up_to) {
  bool news = false;
  Result<Newest> newest = newest_of(queue);
  for (int round = 0; round < kRoundsToFollow; ++round) {
    if (!newest) return newest.error();
    // Which is the last one before that, nobody tells: what a replica lacks of it is read next time.
    if (newest->entry > log_up_to) newest->entry = 0;
    if (newest->record < counts.ledger_seen) counts = {};  // records were lost, or taken back
    const auto read = read_news(queue, counts, log_up_to);
    if (!read) return read.error();
    news = news || *read;
    if (counts.ledger_seen >= newest->record && counts.olds_seen >= newest->old &&
        counts.log_seen >= newest->entry)
      return news;
    if (*read) continue;
    std::this_thread::sleep_for(kUntilReplicasFollow);
    newest = newest_of(queue);  // that one may have been removed meanwhile
  }
  return replicas_lag();
}

Result<bool> CountsKeeper::agrees_with_server(const KnownQueue& queue,
                                              const QueueCounts& counts) const {
  const auto records =
      zone_.client.count(zone_.subjects.ledger_stream(), zone_.subjects.records(queue));
  if (!records) return records.error();
  const auto whole =
      zone_.client.count(zone_.subjects.log_stream(), zone_.subjects.logs(queue.definition.topic),
                         queue.definition.from.value_or(0));
  if (!whole) return whole.error();
  return *records == counts.records() && *whole == counts.whole();
}

// What was removed leaves no message behind: the server's own counts say whether all is known. When
// they say otherwise and nothing new explains it, everything is read again, and that is what is there:
// a retirement that was cut off, or a message that nobody can read, is counted by the server alone.
Result<void> CountsKeeper::bring_up_to_date(const KnownQueue& queue, QueueCounts& counts) {
  constexpr int kRounds = 5;  // then it changes faster than it can be looked at
  bool read_anew = false;
  for (int round = 0; round < kRounds; ++round) {
    const auto news = catch_up(queue, counts, JetStreamClient::kToTheEnd);
    if (!news) return news.error();
    const auto agrees = agrees_with_server(queue, counts);
    if (!agrees) return agrees.error();
    if (*agrees) return {};
    if (*news) continue;
    if (read_anew || round + 1 == kRounds) return {};
    counts = {};
    read_anew = true;
  }
  return {};
}

}  // namespace once::store::nats
