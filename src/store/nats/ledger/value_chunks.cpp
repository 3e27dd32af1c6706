#include "store/nats/ledger/value_chunks.h"

#include "codec/digest.h"
#include "codec/stored_body.h"
#include "store/nats/log/entry_codec.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kChunksAtOnce = 4 << 20;  // bytes of chunks under way
constexpr std::size_t kMostRecords = 10'000;    // whose values are remembered
constexpr int kChunkRounds = 3;                 // of sending chunks whose outcome is unknown

Error damaged_chunks(const std::string& what) {
  return {.code = Code::store_unusable,
          .message = what +
                     "; the record stands as it is, nothing was changed and nothing is run again "
                     "because of it: restore the stream from a backup"};
}

}  // namespace

PackedRecord pack(const Record& record, std::size_t max_payload) {
  const std::size_t room = max_payload / 2;
  return encoding::pack(record, {.record = room, .chunk = room});
}

void KnownValues::learn(const std::string& record, Revision revision,
                        const std::vector<MovedValue>& moved) {
  const std::lock_guard lock(mutex_);
  if (moved.empty()) {
    records_.erase(record);
    return;
  }
  if (records_.size() >= kMostRecords) records_.clear();
  Known& known = records_[record];
  known = {.revision = revision};
  for (const MovedValue& value : moved) known.names.insert(value.name());
}

bool KnownValues::knows(const std::string& record, Revision revision,
                        const MovedValue& moved) const {
  const std::lock_guard lock(mutex_);
  const auto known = records_.find(record);
  return known != records_.end() && known->second.revision == revision &&
         known->second.names.contains(moved.name());
}

Result<void> ValueChunks::send(std::vector<Outgoing> chunks) const {
  using Kind = PublishResult::Kind;
  PublishResult failed;
  for (int round = 0; round < kChunkRounds && !chunks.empty() && failed.kind != Kind::failed;
       ++round) {
    const auto published = zone_.client.publish(chunks);
    std::vector<Outgoing> unknown;
    for (std::size_t i = 0; i < chunks.size() && failed.kind != Kind::failed; ++i) {
      // Refused: it is there, and what is there has this content.
      if (published[i].kind == Kind::stored || published[i].kind == Kind::refused) continue;
      failed = published[i];
      unknown.push_back(std::move(chunks[i]));
    }
    chunks = std::move(unknown);
  }
  if (chunks.empty()) return {};
  return Error{
      .code = Code::store_unavailable,
      .message = "a large result could not be stored (" + failed.text + "); nothing was recorded",
      .retryable = true};
}

Result<void> ValueChunks::store(const std::string& record_subject, const Record& record,
                                Revision expected, const std::vector<MovedValue>& moved) {
  std::vector<Outgoing> chunks;
  std::size_t bytes = 0;
  for (const MovedValue& value : moved) {
    if (known_.knows(record_subject, expected, value)) continue;
    const std::string_view text = encoding::text_of(record, value);
    for (std::uint64_t i = 0; i < value.chunks(); ++i) {
      chunks.push_back({.subject = zone_.subjects.chunk(record_subject, value.name(), i),
                        .data = std::string(text.substr(i * value.chunk_size, value.chunk_size)),
                        .headers = expecting(0)});
      bytes += chunks.back().data.size();
      if (bytes < kChunksAtOnce) continue;
      if (auto sent = send(std::exchange(chunks, {})); !sent) return sent;
      bytes = 0;
    }
  }
  return send(std::move(chunks));
}

Result<Body> ValueChunks::read(const std::string& record_subject, const MovedValue& value) const {
  const std::string stream = zone_.subjects.blob_stream();
  const auto part = [&](std::uint64_t i) {
    return "part " + std::to_string(i + 1) + " of " + std::to_string(value.chunks()) +
           " of a large result";
  };
  std::string text;
  for (std::uint64_t next = 0; next < value.chunks();) {
    std::vector<std::string> subjects;
    do subjects.push_back(zone_.subjects.chunk(record_subject, value.name(), next++));
    while (next < value.chunks() && subjects.size() * value.chunk_size < kChunksAtOnce);
    const auto found = zone_.client.last(stream, subjects);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) return found[i].error();
      if (!*found[i])
        return damaged_chunks(part(next - subjects.size() + i) + " is missing in the stream " +
                              stream + " (" + subjects[i] + ")");
      text += (*found[i])->data;
    }
  }
  if (encoding::sha256(text) != value.digest)
    return damaged_chunks("a large result in the stream " + stream + " is not what was written (" +
                          zone_.subjects.chunk(record_subject, value.name(), 0) +
                          " and following)");
  return value.json ? StoredBody::json(std::move(text)) : Body::bytes(std::move(text));
}

Result<void> ValueChunks::fill(const std::string& record_subject,
                               const std::vector<MovedValue>& moved, Record& record) const {
  for (const MovedValue& value : moved) {
    const auto held = encoding::in_use(value);
    auto body = held ? Result<Body>(*held) : read(record_subject, value);
    if (!body) return body.error();
    encoding::put_value(record, value, std::move(*body));
  }
  return {};
}

Result<std::optional<Stored>> ValueChunks::whole_record(StreamMessage message) {
  constexpr int kLooks = 3;
  for (int look = 1;; ++look) {
    std::vector<MovedValue> moved;
    auto stored = stored_from(message, zone_.clock, &moved);
    if (!stored) return stored.error();
    const auto filled = fill(message.subject, moved, stored->record);
    if (filled && !moved.empty()) {
      known_.learn(message.subject, stored->revision, moved);
      encoding::hold_in_use(stored->record, moved);
    }
    if (filled) return std::optional<Stored>(std::move(*stored));
    // Values go with their record: perhaps it is another by now, or gone.
    auto now = zone_.client.last(zone_.subjects.ledger_stream(), message.subject);
    if (!now) return now.error();
    if (!*now) return std::optional<Stored>{};
    if ((*now)->sequence == message.sequence || look == kLooks) return filled.error();
    message = std::move(**now);
  }
}

void ValueChunks::show(const StreamMessage& message, Record& record) const {
  std::vector<MovedValue> moved;
  if (!stored_from(message, zone_.clock, &moved)) return;
  for (const MovedValue& value : moved) {
    auto body = read(message.subject, value);
    (value.step ? record.steps[*value.step].result_cut : record.result_cut) |= !body;
    encoding::put_value(record, value, body ? std::move(*body) : Body::bytes(body.error().message));
  }
}

}  // namespace once::store::nats
