// Queues on streams that others publish to. Nothing of the stream is ours: it may drop messages by
// its own rules, and on a work-queue stream an acknowledgement deletes them. So
//
// - a dead or held message is copied into the zone before its record is written, and the record comes
//   before the acknowledgement: whoever finds such a record may acknowledge;
// - a record notes subject and time of its message, so that people are told about what is gone;
// - a record is kept for as long as its message is in the stream, whatever its age: without the one
//   the other would run again;
// - a stream that was deleted and made anew counts from one again. What the queue knows is about other
//   messages then, and nothing is fetched until a person has decided.
#include <algorithm>

#include "codec/key_template.h"
#include "codec/past_codec.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kPage = 500;

bool owns(const Subjects& subjects, const std::string& stream) {
  return stream.starts_with("ONCE_" + subjects.zone + "_") || stream == subjects.ledger_stream() ||
         stream == subjects.meta_stream();
}

}  // namespace

// --- The stream -------------------------------------------------------------------------------

Result<encoding::Json> NatsStore::source_of(const Queue& queue) {
  if (owns(zone_->subjects, queue.stream))
    return Error{
        .code = Code::invalid_input,
        .message = "queue '" + queue.name + "': the stream '" + queue.stream +
                   "' is the zone's own; nothing was added. Leave out the stream: the queue "
                   "takes the zone's log then."};
  auto info = zone_->jet.stream_info(queue.stream);
  if (!info) return info.error();
  if (!*info)
    return Error{.code = Code::not_found,
                 .message = "queue '" + queue.name + "': there is no stream '" + queue.stream +
                            "' on this NATS server, or not in this account; nothing was done: make "
                            "it first"};
  return std::move(**info);
}

Result<bool> NatsStore::has_its_stream(const KnownQueue& queue) {
  const auto info = zone_->jet.stream_info(queue.definition.stream);
  if (!info) return info.error();
  return *info && text_of(**info, "created") == queue.stream_made;
}

Result<void> NatsStore::check_stream(const KnownQueue& queue) {
  const auto source = source_of(queue.definition);
  if (!source) return source.error();
  if (text_of(*source, "created") == queue.stream_made) return {};
  const std::string& name = queue.definition.name;
  return Error{
      .code = Code::store_unusable,
      .message = "the stream '" + queue.definition.stream + "' of queue '" + name +
                 "' was deleted and made anew: it counts from one again, and what the "
                 "queue knows is about other messages. Nothing was fetched. Bind a queue of "
                 "another name to it, or remove this one (once queue remove " +
                 name + " --force), which forgets its completed keys"};
}

// --- Entries ----------------------------------------------------------------------------------

Result<std::optional<Entry>> NatsStore::entry(std::string_view name, Sequence sequence) {
  const auto queue = recall(name);
  if (!queue) return queue.error();
  return entry_of(*queue, sequence);
}

Result<std::optional<Entry>> NatsStore::entry_of(const KnownQueue& queue, Sequence sequence) {
  if (!queue.foreign()) {
    auto found = entry_at(sequence);
    if (!found) return found.error();
    return *found ? std::optional<Entry>(std::move((*found)->entry)) : std::nullopt;
  }
  auto kept = message_of(queue, sequence);
  if (!kept) return kept.error();
  if (!*kept) kept = read_copy(queue, sequence);
  if (!kept) return kept.error();
  if (!*kept || !takes(queue, **kept)) return std::optional<Entry>{};
  return std::optional<Entry>(foreign_entry(queue, **kept, now()));
}

// A stream that was made anew may hold another message under the same sequence.
Result<std::optional<StreamMessage>> NatsStore::message_of(const KnownQueue& queue,
                                                           Sequence sequence) {
  auto kept = zone_->jet.get(queue.definition.stream, sequence.value);
  if (!kept || !*kept) return kept;
  const auto ours = has_its_stream(queue);
  if (!ours) return ours.error();
  return *ours ? std::move(kept) : std::optional<StreamMessage>{};
}

// The first part is written last: with it the copy is whole.
Result<std::optional<StreamMessage>> NatsStore::read_copy(const KnownQueue& queue,
                                                          Sequence sequence) {
  const std::string stream = zone_->subjects.copy_stream();
  const std::string subject = zone_->subjects.copy(queue, sequence);
  const auto first = zone_->jet.last(stream, subject + "0");
  if (!first) return first.error();
  if (!*first) return std::optional<StreamMessage>{};
  const std::string* count = (*first)->header("Once-Parts");
  std::vector<std::string> rest;
  for (std::uint64_t i = 1; count && i < std::strtoull(count->c_str(), nullptr, 10); ++i)
    rest.push_back(subject + std::to_string(i));
  std::string bytes = (*first)->data;
  for (const auto& part : zone_->jet.last(stream, rest)) {
    if (!part) return part.error();
    if (!*part) return std::optional<StreamMessage>{};  // being removed
    bytes += (*part)->data;
  }
  auto kept = decode_copy(sequence.value, bytes);
  if (!kept) return kept.error();
  return std::optional<StreamMessage>(std::move(*kept));
}

Result<void> NatsStore::keep_copy(const KnownQueue& queue, Sequence sequence) {
  const std::string subject = zone_->subjects.copy(queue, sequence);
  const auto there = zone_->jet.last(zone_->subjects.copy_stream(), subject + "0");
  if (!there) return there.error();
  if (*there) return {};
  const auto kept = message_of(queue, sequence);
  if (!kept) return kept.error();
  if (!*kept) return {};
  const std::string bytes = encode_copy(**kept);
  const std::size_t size = std::max<std::size_t>(zone_->exchange->max_payload() / 2, 1);
  const std::size_t parts = bytes.size() / size + 1;
  for (std::size_t i = parts; i-- > 0;) {
    Outgoing message{.subject = subject + std::to_string(i),
                     .data = bytes.substr(i * size, size),
                     .headers = expecting(0)};
    message.headers.emplace_back("Once-Parts", std::to_string(parts));
    zone_->clock.stamp(message.headers);
    const Published written = zone_->jet.publish(message);
    // Refused: another has written the very same.
    if (written.kind == Published::Kind::failed || written.kind == Published::Kind::unknown)
      return failure_of(written);
  }
  return {};
}

Result<std::optional<Entry>> NatsStore::left_of(const KnownQueue& queue, Sequence sequence) {
  auto tasks = foreign_tasks(queue);
  if (!tasks) return tasks.error();
  const auto found = tasks->find(sequence);
  if (found == tasks->end() || !found->second.gone) return std::optional<Entry>{};
  const Stored* stored = found->second.standing();
  if (!stored || core::settled(stored->record.state)) return std::optional<Entry>{};
  return std::optional<Entry>(std::move(found->second.entry));
}

// --- Notes ------------------------------------------------------------------------------------

// From the delivery that the write answers; else from the record that it replaces; else from the
// message itself.
Result<std::string> NatsStore::note_for(const KnownQueue& queue, const Swap& item) {
  if (const auto note = note_in(item.handle); !note.empty()) return std::string(note);
  if (item.expected) {
    const auto before = zone_->jet.get(zone_->subjects.ledger_stream(), item.expected.value);
    if (!before) return before.error();
    if (const auto* note = *before ? (*before)->header(kNote) : nullptr) return *note;
  }
  const auto found = entry_of(queue, item.record.sequence);
  if (!found) return found.error();
  return *found ? note_of(**found) : std::string();
}

Result<void> NatsStore::prepare_foreign(const KnownQueue& queue, const Swap& item,
                                        Outgoing& record) {
  if (!queue.foreign() || item.at.kind == Address::Kind::lone) return {};
  auto note = note_for(queue, item);
  if (!note) return note.error();
  record.headers.emplace_back(kNote, std::move(*note));
  const bool waits_for_a_person =
      item.record.state == State::dead || item.record.state == State::in_doubt;
  return waits_for_a_person ? keep_copy(queue, item.record.sequence) : Result<void>{};
}

// --- What people see --------------------------------------------------------------------------

// Messages before records: one that is settled meanwhile is missed as a message, not as a task. One
// that comes meanwhile may seem to be gone. The records are about the stream that the queue was made on:
// messages of a stream that has taken its name are not theirs.
Result<std::map<Sequence, NatsStore::ForeignTask>> NatsStore::foreign_tasks(
    const KnownQueue& queue) {
  const auto keys = encoding::KeyTemplate::of(queue.definition);
  if (!keys) return keys.error();
  const auto ours = has_its_stream(queue);
  if (!ours) return ours.error();
  std::map<Sequence, ForeignTask> tasks;
  std::uint64_t next = std::max<std::uint64_t>(queue.definition.from.value_or(1), 1);
  for (bool more = *ours; more;) {
    std::vector<StreamMessage> page;
    const auto read =
        zone_->jet.leader_page(queue.definition.stream, queue.definition.topic, next, kPage, page);
    if (!read) return read.error();
    more = *read;
    for (const StreamMessage& kept : page) {
      next = kept.sequence + 1;
      Entry entry = foreign_entry(queue, kept, now());
      auto key = keys->key(entry.id, entry.topic, *entry.body, entry.headers);
      entry.body.reset();
      tasks[{kept.sequence}] = {.entry = std::move(entry), .key = key ? std::move(*key) : ""};
    }
  }
  const auto records =
      zone_->jet.all(zone_->subjects.ledger_stream(), zone_->subjects.records(queue));
  if (!records) return records.error();
  for (const StreamMessage& kept : *records) {
    RecordPlace place = place_of(kept);
    if (place.kind == 'l') continue;
    auto stored = stored_from(kept, zone_->clock);
    if (!stored) return stored.error();
    show_values(kept, stored->record);
    const Sequence sequence = stored->record.sequence;
    const auto [found, is_new] = tasks.try_emplace(sequence);
    ForeignTask& task = found->second;
    if (is_new) {
      const std::string* note = kept.header(kNote);
      task.gone = true;
      task.entry = noted_entry(queue, sequence, note ? *note : "");
      task.entry.digest = stored->record.digest;
    }
    if (place.kind == 'k') {
      task.key = std::move(place.key);
      task.key_record = std::move(*stored);
    } else {
      task.own_record = std::move(*stored);
    }
  }
  return tasks;
}

// Each message that was handed over has a record, until retention takes it and keeps its number. So a
// number without a message, a record and such a note was dropped before anybody was handed it.
Result<core::Sequences> NatsStore::dropped_by_stream(const KnownQueue& queue, std::uint64_t last) {
  core::Sequences known;
  std::uint64_t handed = 0;  // the newest of those that were
  const auto tasks = foreign_tasks(queue);
  if (!tasks) return tasks.error();
  for (const auto& [sequence, task] : *tasks) {
    known.add(sequence.value);
    if (task.standing()) handed = sequence.value;
  }
  const auto take = [&](const StreamMessage& kept) -> Result<void> {
    const auto past = encoding::decode_past(kept.data);
    if (!past) return past.error();
    known.add(past->records);
    if (!past->records.empty()) handed = std::max(handed, past->records.ranges().rbegin()->second);
    return {};
  };
  const auto read =
      zone_->jet.each(zone_->subjects.meta_stream(), zone_->subjects.past_root(queue) + "*", 1,
                      JetStreamClient::kToTheEnd, take);
  if (!read) return read.error();
  if (queue.stream_whole > 0)
    return known.missing(std::max(queue.stream_whole, queue.definition.from.value_or(0)) - 1, last);
  // An older Once did not note it. What was gone before there was a queue looks the same.
  return handed > 0 ? known.missing(handed, last) : core::Sequences{};
}

// As NatsStore::overlooked() goes by the server's counts. What the stream dropped while it was
// unsettled is overlooked, too: nobody would deliver it.
Result<NatsStore::Overlooked> NatsStore::foreign_overlooked(const KnownQueue& queue, Sequence after,
                                                            std::size_t limit) {
  Overlooked page{.settled = after};
  const auto state = consumer_state(queue);
  if (!state) return state.error();
  const auto [delivered, floor, unanswered, undelivered, as_made] = *state;
  const auto tasks = foreign_tasks(queue);
  if (!tasks) return tasks.error();
  const auto wakes = wakes_of(queue);
  if (!wakes) return wakes.error();

  const StoreTime time = now();
  for (const auto& [sequence, task] : *tasks) {
    const Stored* stored = task.standing();
    if (sequence <= after || (stored && core::settled(stored->record.state))) continue;
    if ((!task.gone && sequence.value > delivered) || wakes->contains(sequence)) continue;
    const StoreTime due =
        stored ? stored->stamp + core::look_again(stored->record).value_or(Duration{0})
               : task.entry.not_before();
    const bool certain = task.gone ? time >= due : unanswered == 0 || sequence.value <= floor;
    if (!certain && time < due + queue.definition.lease) continue;
    if (page.sequences.size() == limit) {
      page.next = limit > 0 ? page.sequences.back() : after;
      break;
    }
    page.sequences.push_back(sequence);
    if (!certain) page.perhaps.push_back(sequence);
    if (!stored && certain && !task.gone && as_made) page.unrecorded.push_back(sequence);
  }
  // The records may be missing because somebody emptied the ledger.
  if (!page.sequences.empty())
    if (auto whole = zone_->watch.ledger_is_whole(); !whole) return whole.error();
  return page;
}

// --- Forgetting -------------------------------------------------------------------------------

Result<Retired> NatsStore::retire_foreign(const KnownQueue& queue, const Retention& ages) {
  Retired retired;
  // Of a stream that is not the one, nothing tells which of its messages are gone.
  if (const auto same = check_stream(queue); !same)
    return same.error().retryable ? Result<Retired>(same.error()) : retired;
  const auto tasks = foreign_tasks(queue);
  if (!tasks) return tasks.error();
  const StoreTime time = now();
  const std::string copies = zone_->subjects.copy_stream();
  const auto kept_copies = zone_->jet.stream_info(
      copies, "{\"subjects_filter\":" + quoted(zone_->subjects.copy_root(queue) + "*.0") + "}");
  if (!kept_copies) return kept_copies.error();
  const encoding::Json* state = *kept_copies ? (*kept_copies)->member("state") : nullptr;
  const encoding::Json* subjects = state ? state->member("subjects") : nullptr;
  const std::size_t root = zone_->subjects.copy_root(queue).size();
  if (subjects)
    for (const auto& [subject, count] : subjects->members()) {
      const Sequence sequence{std::strtoull(subject.c_str() + root, nullptr, 10)};
      const auto task = tasks->find(sequence);
      const Stored* stored = task == tasks->end() ? nullptr : task->second.standing();
      if (!stored) continue;
      const core::Standing standing{stored->record.state, stored->stamp};
      if (core::may_forget(core::Stage::whole, {}, std::span(&standing, 1), ages, time) !=
          core::Forget::body)
        continue;
      if (auto gone = zone_->jet.purge(copies, zone_->subjects.copy(queue, sequence) + ">"); !gone)
        return gone.error();
      ++retired.bodies;
    }
  std::vector<const ForeignTask*> old;
  std::vector<std::uint64_t> sequences;
  for (const auto& [sequence, task] : *tasks) {
    const Stored* stored = task.standing();
    if (!stored ||
        !core::may_forget_outside({stored->record.state, stored->stamp}, task.gone, ages, time))
      continue;
    old.push_back(&task);
    sequences.push_back(sequence.value);
  }
  // Whether they are gone is asked again, of the leader: by this it is decided.
  const auto messages = zone_->jet.get(queue.definition.stream, sequences);
  std::vector<std::vector<RecordAt>> records;
  Takings takings;
  for (std::size_t i = 0; i < old.size(); ++i) {
    if (!messages[i]) return messages[i].error();
    if (*messages[i]) continue;
    take_records(queue, sequences[i], {.entry = old[i]->entry, .stored = *old[i]->standing()},
                 takings);
    Address at{.queue = queue.definition.name, .key = old[i]->key, .sequence = {sequences[i]}};
    auto& both = records.emplace_back();
    if (old[i]->key_record)
      both.push_back({zone_->subjects.record(queue, at), old[i]->key_record->revision});
    at.kind = Address::Kind::entry;
    if (old[i]->own_record)
      both.push_back({zone_->subjects.record(queue, at), old[i]->own_record->revision});
  }
  std::vector<const std::vector<RecordAt>*> items;
  for (const auto& both : records) items.push_back(&both);
  if (auto kept = keep_past(takings); !kept) return kept.error();
  const auto gone = drop_records(items);
  if (!gone) return gone.error();
  retired.records += static_cast<std::uint64_t>(std::count(gone->begin(), gone->end(), true));
  return retired;
}

}  // namespace once::store::nats
