// The ledger: every write is a compare-and-swap on the record's own subject, and what was refused is
// read from the leader.
//
// An entry stands in one place, under its key or by itself, and these are two subjects: no
// compare-and-swap covers both. Whoever creates a record looks at the other place before it writes,
// and again once it has written; when both create at once, at least one sees the other and takes its
// record back. Both may, and come again. What remains: a writer that dies, or loses the server,
// between its write and the second look, while another does the same in the other place. Then the
// entry has two records. A claim that nobody could check is run or lapses, and its own record hides
// it from then on; the key stays taken until retention. Nothing is run twice by it.
//
// In queues that are keyed by the id only the creation of an entry's own record looks: the engine
// makes one there only for an entry without a body, which nobody can claim.
#include <chrono>
#include <set>
#include <thread>

#include "codec/key_template.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

Error too_large(const Swap& item, std::size_t size, std::size_t most) {
  return {.code = Code::too_large,
          .message = "the record of '" + item.at.key + "' has " + std::to_string(size) +
                     " bytes without its results; this NATS server takes at most " +
                     std::to_string(most) +
                     " (max_payload); nothing was recorded: raise max_payload"};
}

}  // namespace

// A record that is to be about an entry must name one.
Result<bool> NatsStore::has_place(const KnownQueue& queue, const Swap& item) {
  if (item.at.kind != Address::Kind::task || queue.definition.ledger) return true;
  if (item.expected || item.record.sequence || item.at.sequence) return true;
  if (!queue.definition.key.empty()) return false;
  const auto entry = find(item.at.key);
  if (!entry) return entry.error();
  return entry->has_value();
}

Result<std::string> NatsStore::other_place(const KnownQueue& queue, const Swap& item) {
  using Kind = Address::Kind;
  if (item.expected || item.at.kind == Kind::lone || queue.definition.ledger) return std::string{};
  Address other{.queue = item.at.queue, .sequence = item.record.sequence};
  if (item.at.kind == Kind::task) {
    if (queue.definition.key.empty() || !other.sequence) return std::string{};
    other.kind = Kind::entry;
    return zone_->subjects.record(queue, other);
  }
  const auto entry = entry_of(queue, item.at.sequence);
  if (!entry) return entry.error();
  if (!*entry || !(*entry)->body) return std::string{};
  const auto keys = encoding::KeyTemplate::of(queue.definition);
  if (!keys) return keys.error();
  const Entry& task = **entry;
  auto key = keys->key(task.id, task.topic, *task.body, task.headers);
  if (!key) return std::string{};  // so nobody can have claimed it
  other.key = std::move(*key);
  return zone_->subjects.record(queue, other);
}

std::vector<Result<bool>> NatsStore::stand_elsewhere(std::span<const Writing> writings) {
  std::vector<std::string> subjects;
  for (const Writing& each : writings)
    if (!each.other.empty()) subjects.push_back(each.other);
  // A key that has no record may be new, or the ledger was emptied: its seal is read in the same burst.
  if (!subjects.empty()) subjects.push_back(zone_->subjects.ledger_seal() + uuid_);
  const auto kept = zone_->jet.last(zone_->subjects.ledger_stream(), subjects);
  Result<void> whole;
  if (!kept.empty() && kept.back() && !*kept.back()) whole = zone_->watch.ledger_is_whole();
  const auto stands = [&](const Swap& item,
                          const Result<std::optional<StreamMessage>>& found) -> Result<bool> {
    if (!found) return found.error();
    if (!*found) return false;
    const auto stored = stored_from(**found, zone_->clock);
    if (!stored) return stored.error();
    return item.at.kind == Address::Kind::entry ? stored->record.sequence == item.at.sequence
                                                : core::settled(stored->record.state);
  };
  std::vector<Result<bool>> answers;
  std::size_t next = 0;
  for (const Writing& each : writings)
    answers.push_back(each.other.empty() ? false
                      : whole            ? stands(*each.item, kept[next++])
                                         : whole.error());
  return answers;
}

void NatsStore::note_written(const KnownQueue& queue, const std::string& subject, const Swap& item,
                             Revision revision) {
  const bool settled = core::settled(item.record.state) && !item.record.reply_due;
  zone_->own_writes.wrote({.queue = queue.consumer(),
                           .subject = subject,
                           .sequence = revision.value,
                           .is_new = !item.expected,
                           .settled = item.at.kind == Address::Kind::lone ||
                                      queue.definition.ledger || queue.foreign() || settled});
}

// The second look. Only what stands nowhere else is left in `written`.
void NatsStore::take_back(std::vector<Writing>& written, SwapAnswers& answers) {
  const auto standing = stand_elsewhere(written);
  std::vector<Writing> kept;
  for (std::size_t k = 0; k < written.size(); ++k) {
    Writing& each = written[k];
    if (standing[k] && !*standing[k]) {
      kept.push_back(std::move(each));
      continue;
    }
    const auto removed =
        standing[k] ? zone_->jet.remove(zone_->subjects.ledger_stream(), each.revision.value)
                    : standing[k];
    Error error = removed ? stands_elsewhere(each.item->record.sequence) : removed.error();
    error.in_doubt = !removed;
    answers[each.index] = std::move(error);
  }
  written = std::move(kept);
}

// One batch is one fsync. One conflict refuses all of it, so what is refused is looked at, by whichever
// replica: what seems to have changed goes by itself, and the rest goes together once more. An outcome
// that is unknown is unknown for each, and found out as for any other write.
void NatsStore::write_together(std::span<const Outgoing> records, std::vector<std::size_t> batch,
                               std::span<const std::string> definitions,
                               JetStreamClient::Burst& burst, std::vector<std::size_t>& singly) {
  const auto some_of = [&] {
    std::vector<Outgoing> some;
    for (const std::size_t i : batch) some.push_back(records[i]);
    return some;
  };
  const auto one_by_one = [&] { singly.insert(singly.end(), batch.begin(), batch.end()); };
  for (int round = 0; round < 2; ++round) {
    if (batch.size() < 2) return one_by_one();
    auto answer =
        zone_->jet.publish_together(some_of(), zone_->subjects.meta_stream(), definitions);
    if (burst.last.empty()) burst.last = std::move(answer.last);
    definitions = {};
    const Published& written = answer.published.front();
    // Another write on one of the subjects is not through: who goes alone can wait for that.
    if (written.kind == Published::Kind::failed || written.in_flight) return one_by_one();
    if (written.kind != Published::Kind::refused) {
      for (std::size_t k = 0; k < batch.size(); ++k) {
        burst.published[batch[k]] = written;
        burst.published[batch[k]].sequence = written.sequence - batch.size() + 1 + k;
      }
      return;
    }
    std::vector<std::string> subjects;
    for (const std::size_t i : batch) subjects.push_back(records[i].subject);
    const auto there = zone_->jet.last_of_each(zone_->subjects.ledger_stream(), subjects);
    if (!there) return one_by_one();
    std::erase_if(batch, [&](std::size_t i) {
      const auto found = there->find(records[i].subject);
      const std::uint64_t revision = found == there->end() ? 0 : found->second.sequence;
      const bool changed = records[i].headers.front() != expecting(revision).front();
      if (changed) singly.push_back(i);
      return changed;
    });
  }
  one_by_one();
}

JetStreamClient::Burst NatsStore::write_records(std::span<const Outgoing> records,
                                                std::span<const std::string> definitions) {
  const auto since = [](std::chrono::steady_clock::time_point begun) {
    return std::chrono::steady_clock::now() - begun;
  };
  const std::size_t few = zone_->record_batches.singly(records.size());
  if (few == records.size()) {
    const auto begun = std::chrono::steady_clock::now();
    auto burst = zone_->jet.publish(records, zone_->subjects.meta_stream(), definitions);
    zone_->record_batches.took(false, records.size(), since(begun));
    return burst;
  }
  // A batch takes a record once only: it does not see that its own first write is in the way.
  const std::size_t most = zone_->exchange->max_payload();
  JetStreamClient::Burst burst{.published = std::vector<Published>(records.size())};
  std::set<std::string_view> subjects;
  std::vector<std::size_t> together;
  std::vector<std::size_t> singly;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const bool fits = size_of(records[i]) + JetStreamClient::kBatchHeaders <= most;
    const bool first = subjects.insert(records[i].subject).second;
    (i >= few && fits && first ? together : singly).push_back(i);
  }
  const std::size_t planned = singly.size();
  const auto begun = std::chrono::steady_clock::now();
  for (std::size_t next = 0; next < together.size(); next += JetStreamClient::kMostInBatch) {
    const auto some = std::span(together).subspan(next);
    const auto batch = some.first(std::min(some.size(), JetStreamClient::kMostInBatch));
    write_together(records, {batch.begin(), batch.end()},
                   burst.last.empty() ? definitions : std::span<const std::string>{}, burst,
                   singly);
  }
  zone_->record_batches.took(true, together.size(), since(begun));
  // A batch that could not be sent has asked nothing.
  const bool asked = burst.last.size() == definitions.size() &&
                     std::all_of(burst.last.begin(), burst.last.end(),
                                 [](const auto& each) { return static_cast<bool>(each); });
  if (singly.empty() && asked) return burst;
  std::vector<Outgoing> rest;
  for (const std::size_t i : singly) rest.push_back(records[i]);
  const auto begun_singly = std::chrono::steady_clock::now();
  auto one_by_one = zone_->jet.publish(rest, zone_->subjects.meta_stream(),
                                       asked ? std::span<const std::string>{} : definitions);
  if (planned == singly.size()) zone_->record_batches.took(false, planned, since(begun_singly));
  if (!asked) burst.last = std::move(one_by_one.last);
  for (std::size_t k = 0; k < singly.size(); ++k)
    burst.published[singly[k]] = std::move(one_by_one.published[k]);
  return burst;
}

std::vector<Result<Swapped>> NatsStore::swap(std::span<const Swap> items) {
  return swap(items, Definitions::ask);
}

std::vector<Result<Swapped>> NatsStore::swap(std::span<const Swap> items,
                                             Definitions definitions_are) {
  SwapAnswers answers(items.size());
  std::map<std::string, Result<KnownQueue>> queues;
  const auto queue_of = [&](const std::string& name) -> Result<KnownQueue>& {
    const auto known = queues.find(name);
    return known != queues.end() ? known->second : queues.emplace(name, recall(name)).first->second;
  };
  std::vector<Writing> wanted;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Swap& item = items[i];
    const Result<KnownQueue>& queue = queue_of(item.at.queue);
    if (!queue) {
      answers[i] = queue.error();
      continue;
    }
    const auto place = has_place(*queue, item);
    auto other = other_place(*queue, item);
    if (!place) {
      answers[i] = place.error();
    } else if (!*place) {
      answers[i] = Error{
          .code = Code::not_found,
          .message = "there is no task '" + item.at.key + "' in the log: nothing was recorded"};
    } else if (!other) {
      answers[i] = other.error();
    } else {
      wanted.push_back({.item = &item, .index = i, .other = std::move(*other)});
    }
  }

  std::vector<Outgoing> messages;
  std::vector<Writing> sent;
  const std::size_t most = zone_->exchange->max_payload();
  const auto standing = stand_elsewhere(wanted);
  const StoreTime before = now();  // what is written is stamped then or a little later
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const Swap& item = *wanted[k].item;
    if (!standing[k] || *standing[k]) {
      answers[wanted[k].index] =
          standing[k] ? stands_elsewhere(item.record.sequence) : standing[k].error();
      continue;
    }
    const std::string subject = zone_->subjects.record(*queue_of(item.at.queue), item.at);
    PackedRecord packed = pack(item.record, most);
    wanted[k].moved = packed.moved;
    Outgoing message = record_message(subject, item.at, std::move(packed), item.expected);
    zone_->clock.stamp(message.headers);
    if (auto noted = prepare_foreign(*queue_of(item.at.queue), item, message); !noted) {
      answers[wanted[k].index] = noted.error();
      continue;
    }
    if (const std::size_t size = size_of(message); size > most) {
      answers[wanted[k].index] = too_large(item, size, most);
      continue;
    }
    const auto stored = store_values(subject, item.record, item.expected, wanted[k].moved);
    if (!stored) {
      answers[wanted[k].index] = stored.error();
      continue;
    }
    messages.push_back(std::move(message));
    sent.push_back(std::move(wanted[k]));
  }

  // Whether the queues are still what we remember is asked in the same burst. What was written for
  // one that is gone lies under its own generation, where nobody looks.
  std::vector<std::string> names;
  std::vector<std::string> definitions;
  for (const auto& [name, queue] : queues) {
    if (!queue || definitions_are == Definitions::known) continue;
    names.push_back(name);
    definitions.push_back(zone_->subjects.queue(name));
  }
  const auto [published, read] = write_records(messages, definitions);
  std::set<std::string_view> gone;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto queue = known_from(read[i]);
    if (!queue) continue;
    remember(names[i], *queue);
    if (!*queue || (*queue)->generation != queues.at(names[i])->generation) gone.insert(names[i]);
  }
  std::vector<std::string> refused_subjects;
  std::vector<std::size_t> refused;
  std::vector<Writing> written;
  for (std::size_t k = 0; k < sent.size(); ++k) {
    const std::size_t index = sent[k].index;
    if (gone.contains(items[index].at.queue)) {
      answers[index] = no_queue(items[index].at.queue);
      // Its values lie where nobody looks, too; what is left of them takes only room.
      if (!sent[k].moved.empty())
        static_cast<void>(zone_->jet.purge(zone_->subjects.blob_stream(),
                                           zone_->subjects.chunks(messages[k].subject)));
      continue;
    }
    switch (published[k].kind) {
      case Published::Kind::stored:
        sent[k].revision = {published[k].sequence};
        note_written(*queue_of(items[index].at.queue), messages[k].subject, items[index],
                     sent[k].revision);
        if (!sent[k].moved.empty() || items[index].expected)
          zone_->values.learn(messages[k].subject, sent[k].revision, sent[k].moved);
        encoding::hold_in_use(items[index].record, sent[k].moved);
        written.push_back(std::move(sent[k]));
        break;
      case Published::Kind::refused:
        refused_subjects.push_back(messages[k].subject);
        refused.push_back(index);
        break;
      case Published::Kind::failed:
      case Published::Kind::unknown: answers[index] = failure_of(published[k]); break;
    }
  }
  take_back(written, answers);
  std::vector<Answering> deliveries;
  for (const Writing& each : written) {
    const Swap& item = *each.item;
    Stored stored{.record = item.record, .revision = each.revision, .stamp = before};
    if (!item.handle.empty()) answer_swap(*queue_of(item.at.queue), item, stored, deliveries);
    answers[each.index] = Swapped{.written = true, .current = std::move(stored)};
  }
  answer_and_go_on(std::move(deliveries));

  auto current = zone_->jet.last(zone_->subjects.ledger_stream(), refused_subjects);
  for (std::size_t k = 0; k < refused.size(); ++k) {
    if (!current[k]) {
      answers[refused[k]] = current[k].error();
      continue;
    }
    Result<std::optional<Stored>> stored = std::optional<Stored>{};
    if (*current[k]) stored = whole_record(std::move(**current[k]));
    if (stored)
      answers[refused[k]] = Swapped{.current = std::move(*stored)};
    else
      answers[refused[k]] = stored.error();
  }

  std::vector<Result<Swapped>> result;
  result.reserve(answers.size());
  for (auto& each : answers) result.push_back(std::move(*each));
  return result;
}

std::vector<Result<std::optional<Stored>>> NatsStore::get(std::span<const Address> items) {
  std::map<std::string, Result<KnownQueue>> queues;
  std::vector<std::string> subjects;
  std::vector<std::optional<Error>> errors(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string& name = items[i].queue;
    auto known = queues.find(name);
    // Queues of Once's own are never removed: what is remembered of them holds.
    if (known == queues.end())
      known = queues.emplace(name, core::own_queue(name) ? recall(name) : must_know(name)).first;
    if (known->second)
      subjects.push_back(zone_->subjects.record(*known->second, items[i]));
    else
      errors[i] = known->second.error();
  }
  auto kept = zone_->jet.last(zone_->subjects.ledger_stream(), subjects);
  std::vector<Result<std::optional<Stored>>> answers;
  answers.reserve(items.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (errors[i]) {
      answers.emplace_back(*errors[i]);
      continue;
    }
    auto& found = kept[next++];
    if (!found)
      answers.emplace_back(found.error());
    else if (!*found)
      answers.emplace_back(std::optional<Stored>{});
    else
      answers.push_back(whole_record(std::move(**found)));
  }
  return answers;
}

// Any replica may answer a page: what the leader has as the last must have been seen, else one of them
// lags behind and something may be in no page.
Result<LedgerScan> NatsStore::scan_ledger(const KnownQueue& queue) {
  for (int round = 0; round < kRoundsToFollow; ++round) {
    const auto newest =
        zone_->jet.last(zone_->subjects.ledger_stream(), zone_->subjects.records(queue));
    if (!newest) return newest.error();
    LedgerScan scan;
    std::uint64_t seen = 0;
    const auto read =
        zone_->jet.each(zone_->subjects.ledger_stream(), zone_->subjects.records(queue), 1,
                        JetStreamClient::kToTheEnd, [&](StreamMessage kept) -> Result<void> {
                          seen = kept.sequence;
                          return add_to(scan, std::move(kept));
                        });
    if (!read) return read.error();
    if (!*newest || seen >= (*newest)->sequence) return scan;
    std::this_thread::sleep_for(kUntilReplicasFollow);
  }
  return replicas_lag();
}

Result<void> NatsStore::add_to(LedgerScan& scan, StreamMessage kept) {
  const RecordPlace place = place_of(kept);
  if (place.kind != 'k') return {};
  std::vector<MovedValue> moved;
  auto stored = stored_from(kept, zone_->clock, &moved);
  if (!stored) return stored.error();
  if (!moved.empty()) scan.parted.emplace(stored->revision, std::move(kept));
  scan.keys[place.key] = std::move(*stored);
  return {};
}

}  // namespace once::store::nats
