#include "store/nats/foreign/foreign_streams.h"

#include <algorithm>

#include "codec/key_template.h"
#include "store/nats/foreign/foreign_codec.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kForeignPage = 500;

bool owns(const Subjects& subjects, const std::string& stream) {
  return stream.starts_with("ONCE_" + subjects.zone + "_") || stream == subjects.ledger_stream() ||
         stream == subjects.meta_stream();
}

}  // namespace

Result<encoding::Json> ForeignStreams::describe(const Queue& queue) const {
  if (owns(zone_.subjects, queue.stream))
    return Error{
        .code = Code::invalid_input,
        .message = "queue '" + queue.name + "': the stream '" + queue.stream +
                   "' is the zone's own; nothing was added. Leave out the stream: the queue "
                   "takes the zone's log then."};
  auto info = zone_.client.stream_info(queue.stream);
  if (!info) return info.error();
  if (!*info)
    return Error{.code = Code::not_found,
                 .message = "queue '" + queue.name + "': there is no stream '" + queue.stream +
                            "' on this NATS server, or not in this account; nothing was done: make "
                            "it first"};
  return std::move(**info);
}

Result<bool> ForeignStreams::is_the_same(const KnownQueue& queue) const {
  const auto info = zone_.client.stream_info(queue.definition.stream);
  if (!info) return info.error();
  return *info && text_of(**info, "created") == queue.stream_made;
}

Result<void> ForeignStreams::check_the_same(const KnownQueue& queue) const {
  const auto source = describe(queue.definition);
  if (!source) return source.error();
  if (text_of(*source, "created") == queue.stream_made) return {};
  const std::string& name = queue.definition.name;
  return Error{
      .code = Code::store_unusable,
      .message = "the stream '" + queue.definition.stream + "' of queue '" + name +
                 "' was deleted and made anew: it counts from one again, and what the "
                 "queue knows is about other messages. Nothing was fetched. Bind a queue of "
                 "another name to it, or remove this one by force, which forgets its completed "
                 "keys",
      .reason = Reason::stream_replaced,
      .facts = {{"queue", name}, {"stream", queue.definition.stream}}};
}

Result<std::optional<Entry>> ForeignStreams::entry(const KnownQueue& queue,
                                                   Sequence sequence) const {
  auto stream_message = message(queue, sequence);
  if (!stream_message) return stream_message.error();
  if (!*stream_message) stream_message = copies_.read(queue, sequence);
  if (!stream_message) return stream_message.error();
  if (!*stream_message || !takes(queue, **stream_message)) return std::optional<Entry>{};
  return std::optional<Entry>(foreign_entry(queue, std::move(**stream_message), zone_.now()));
}

// A stream that was made anew may hold another message under the same sequence.
Result<std::optional<StreamMessage>> ForeignStreams::message(const KnownQueue& queue,
                                                             Sequence sequence) const {
  auto stream_message = zone_.client.get(queue.definition.stream, sequence.value);
  if (!stream_message || !*stream_message) return stream_message;
  const auto ours = is_the_same(queue);
  if (!ours) return ours.error();
  return *ours ? std::move(stream_message) : std::optional<StreamMessage>{};
}

Result<void> ForeignStreams::keep_copy(const KnownQueue& queue, Sequence sequence) {
  const auto there = copies_.has(queue, sequence);
  if (!there) return there.error();
  if (*there) return {};
  const auto stream_message = message(queue, sequence);
  if (!stream_message) return stream_message.error();
  return *stream_message ? copies_.write(queue, **stream_message) : Result<void>{};
}

Result<std::optional<Entry>> ForeignStreams::rest_of(const KnownQueue& queue,
                                                     Sequence sequence) const {
  auto all = tasks(queue);
  if (!all) return all.error();
  const auto found = all->find(sequence);
  if (found == all->end() || !found->second.gone) return std::optional<Entry>{};
  const Stored* stored = found->second.standing();
  if (!stored || core::settled(stored->record.state)) return std::optional<Entry>{};
  return std::optional<Entry>(std::move(found->second.entry));
}

// From the delivery that the write answers; else from the record that it replaces; else from the
// message itself.
Result<std::string> ForeignStreams::note_for(const KnownQueue& queue, const Swap& item) const {
  if (const auto note = note_in(item.handle); !note.empty()) return std::string(note);
  if (item.expected) {
    const auto before = zone_.client.get(zone_.subjects.ledger_stream(), item.expected.value);
    if (!before) return before.error();
    if (const auto* note = *before ? (*before)->header(kNote) : nullptr) return *note;
  }
  const auto found = entry(queue, item.record.sequence);
  if (!found) return found.error();
  return *found ? note_of(**found) : std::string();
}

Result<void> ForeignStreams::prepare(const KnownQueue& queue, const Swap& item, Outgoing& record) {
  if (!queue.foreign() || item.at.kind == Address::Kind::lone) return {};
  auto note = note_for(queue, item);
  if (!note) return note.error();
  record.headers.emplace_back(kNote, std::move(*note));
  const bool waits_for_a_person =
      item.record.state == State::dead || item.record.state == State::in_doubt;
  return waits_for_a_person ? keep_copy(queue, item.record.sequence) : Result<void>{};
}

Result<void> ForeignStreams::add_messages(const KnownQueue& queue,
                                          std::map<Sequence, ForeignTask>& tasks) const {
  const auto keys = encoding::KeyTemplate::of(queue.definition);
  if (!keys) return keys.error();
  std::uint64_t next = std::max<std::uint64_t>(queue.definition.from.value_or(1), 1);
  for (bool more = true; more;) {
    std::vector<StreamMessage> page;
    const auto read = zone_.client.leader_page(queue.definition.stream, queue.definition.topic,
                                               next, kForeignPage, page);
    if (!read) return read.error();
    more = *read;
    for (StreamMessage& stream_message : page) {
      next = stream_message.sequence + 1;
      Entry entry = foreign_entry(queue, std::move(stream_message), zone_.now());
      auto key = keys->key(entry.id, entry.topic, *entry.body, entry.headers);
      entry.body.reset();
      const Sequence sequence = entry.sequence;
      tasks[sequence] = {.entry = std::move(entry), .key = key ? std::move(*key) : ""};
    }
  }
  return {};
}

Result<void> ForeignStreams::add_records(const KnownQueue& queue,
                                         std::map<Sequence, ForeignTask>& tasks) const {
  const auto records =
      zone_.client.all(zone_.subjects.ledger_stream(), zone_.subjects.records(queue));
  if (!records) return records.error();
  for (const StreamMessage& stream_message : *records) {
    RecordPlace place = place_of(stream_message);
    if (place.kind == 'l') continue;
    auto stored = stored_from(stream_message, zone_.clock);
    if (!stored) return stored.error();
    values_.show(stream_message, stored->record);
    const Sequence sequence = stored->record.sequence;
    const auto [found, is_new] = tasks.try_emplace(sequence);
    ForeignTask& task = found->second;
    if (is_new) {
      const std::string* note = stream_message.header(kNote);
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
  return {};
}

// Messages before records: one that is settled meanwhile is missed as a message, not as a task. One
// that comes meanwhile may seem to be gone. The records are about the stream that the queue was made on:
// messages of a stream that has taken its name are not theirs.
Result<std::map<Sequence, ForeignTask>> ForeignStreams::tasks(const KnownQueue& queue) const {
  const auto same = is_the_same(queue);
  if (!same) return same.error();
  std::map<Sequence, ForeignTask> tasks;
  if (*same)
    if (auto added = add_messages(queue, tasks); !added) return added.error();
  if (auto added = add_records(queue, tasks); !added) return added.error();
  return tasks;
}

// Each message that was handed over has a record, until retention takes it and keeps its number. So a
// number without a message, a record and such a note was dropped before anybody was handed it.
Result<core::Sequences> ForeignStreams::dropped(const KnownQueue& queue, std::uint64_t last) const {
  core::Sequences known;
  std::uint64_t handed = 0;  // the newest of those that were
  const auto all = tasks(queue);
  if (!all) return all.error();
  for (const auto& [sequence, task] : *all) {
    known.add(sequence.value);
    if (task.standing()) handed = sequence.value;
  }
  const auto read = past_.each(queue, [&](const core::Past& past) {
    known.add(past.records);
    if (!past.records.empty()) handed = std::max(handed, past.records.ranges().rbegin()->second);
  });
  if (!read) return read.error();
  if (queue.stream_whole > 0)
    return known.missing(std::max(queue.stream_whole, queue.definition.from.value_or(0)) - 1, last);
  // An older Once did not note it. What was gone before there was a queue looks the same.
  return handed > 0 ? known.missing(handed, last) : core::Sequences{};
}

}  // namespace once::store::nats
