// What stands behind the record in a message whose values were moved:
//
//   values := value* checksum          wire.h has fields and checksum
//   value  := 1 step + 1   2 SHA-256 (32 bytes)   3 size   4 chunk size   5 JSON (1)
//
// each as field 1; a field that has its default is left out.
#include "store/nats/values.h"

#include <algorithm>

#include "encoding/digest.h"
#include "encoding/record_codec.h"
#include "encoding/wire.h"
#include "store/nats/store_impl.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kWorthMoving =
    512;                                // smaller values stay: saying where they are costs as much
constexpr std::size_t kSaidOfOne = 64;  // bytes, about
constexpr std::size_t kAtOnce = 4 << 20;      // bytes of chunks under way
constexpr std::size_t kMostRecords = 10'000;  // whose values are remembered
constexpr int kRounds = 3;                    // of sending chunks whose outcome is unknown

enum ValueField : unsigned { kStep = 1, kDigest = 2, kSize = 3, kChunkSize = 4, kJson = 5 };

void append_value(const MovedValue& value, std::string& out) {
  std::string fields;
  if (value.step) encoding::append_number_field(kStep, *value.step + 1, fields);
  encoding::append_bytes_field(
      kDigest,
      {reinterpret_cast<const char*>(value.digest.bytes.data()), value.digest.bytes.size()},
      fields);
  encoding::append_number_field(kSize, value.size, fields);
  encoding::append_number_field(kChunkSize, value.chunk_size, fields);
  if (value.json) encoding::append_number_field(kJson, 1, fields);
  encoding::append_bytes_field(1, fields, out);
}

std::optional<MovedValue> value_from(std::string_view fields) {
  MovedValue value;
  for (encoding::WireReader reader(fields); !reader.at_end();) {
    const auto field = reader.next();
    if (!field) return std::nullopt;
    switch (field->number) {
      case kStep: value.step = field->value - 1; break;
      case kDigest:
        if (field->bytes.size() != value.digest.bytes.size()) return std::nullopt;
        std::copy(field->bytes.begin(), field->bytes.end(), value.digest.bytes.begin());
        break;
      case kSize: value.size = field->value; break;
      case kChunkSize: value.chunk_size = field->value; break;
      case kJson: value.json = field->value == 1; break;
      default: break;  // of a newer writer
    }
  }
  if (value.size == 0 || value.chunk_size == 0) return std::nullopt;
  return value;
}

Error damaged(const std::string& what) {
  return {.code = Code::store_unusable,
          .message = what +
                     "; the record stands as it is, nothing was changed and nothing is run again "
                     "because of it: restore the stream from a backup"};
}

std::vector<MovedValue> movable(const Record& record, std::size_t chunk_size) {
  std::vector<MovedValue> found;
  const auto consider = [&](const Body& value, std::optional<std::size_t> step) {
    if (value.text().size() < kWorthMoving) return;
    found.push_back({.step = step,
                     .size = value.text().size(),
                     .chunk_size = chunk_size,
                     .json = value.is_json()});
  };
  if (record.result) consider(*record.result, std::nullopt);
  for (std::size_t i = 0; i < record.steps.size(); ++i) consider(record.steps[i].result, i);
  std::stable_sort(found.begin(), found.end(), [](const MovedValue& left, const MovedValue& right) {
    return left.size > right.size;
  });
  return found;
}

}  // namespace

std::string MovedValue::name() const {
  return encoding::hex(digest) + "." + std::to_string(chunk_size);
}

PackedRecord pack(const Record& record, std::size_t max_payload) {
  const std::size_t room = max_payload / 2;
  PackedRecord packed{.data = encoding::encode(record)};
  packed.record_size = packed.data.size();
  if (packed.data.size() <= room) return packed;
  Record rest = record;
  std::size_t size = packed.data.size();
  for (MovedValue& value : movable(record, room)) {
    if (size <= room) break;
    size -= value.size - kSaidOfOne;
    value.digest = encoding::sha256(value_of(record, value).text());
    put_value(rest, value, {});
    packed.moved.push_back(std::move(value));
  }
  if (packed.moved.empty()) return packed;
  packed.data = encoding::encode(rest);
  packed.record_size = packed.data.size();
  std::string values;
  for (const MovedValue& value : packed.moved) append_value(value, values);
  encoding::append_checksum(values);
  packed.data += values;
  return packed;
}

Result<Record> unpack(std::string_view data, std::optional<std::size_t> record_size,
                      std::vector<MovedValue>& moved) {
  const std::size_t size = std::min(record_size.value_or(data.size()), data.size());
  auto record = encoding::decode(data.substr(0, size));
  if (!record || !record_size) return record;
  const Error broken = damaged("what a record says about its large values is damaged");
  const auto values = encoding::checked(data.substr(size));
  if (!values) return broken;
  for (encoding::WireReader reader(*values); !reader.at_end();) {
    const auto field = reader.next();
    if (!field || field->number != 1) return broken;
    auto value = value_from(field->bytes);
    if (!value || (value->step ? *value->step >= record->steps.size() : !record->result))
      return broken;
    moved.push_back(std::move(*value));
  }
  return record;
}

const Body& value_of(const Record& record, const MovedValue& moved) {
  return moved.step ? record.steps[*moved.step].result : *record.result;
}

void put_value(Record& record, const MovedValue& moved, Body value) {
  if (moved.step)
    record.steps[*moved.step].result = std::move(value);
  else
    record.result = std::move(value);
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

// --- The store's part -------------------------------------------------------------------------

// Before the record. Whatever goes wrong, no record refers to them yet.
Result<void> NatsStore::store_values(const std::string& record_subject, const Record& record,
                                     Revision expected, const std::vector<MovedValue>& moved) {
  std::vector<Outgoing> chunks;
  std::size_t bytes = 0;
  const auto send = [&]() -> Result<void> {
    Published failed;
    for (int round = 0; round < kRounds && !chunks.empty(); ++round) {
      const auto published = zone_->jet.publish(chunks);
      std::vector<Outgoing> unknown;
      for (std::size_t i = 0; i < chunks.size(); ++i) {
        using Kind = Published::Kind;
        // Refused: it is there, and what is there has this content.
        if (published[i].kind == Kind::stored || published[i].kind == Kind::refused) continue;
        failed = published[i];
        if (failed.kind == Kind::failed) break;
        unknown.push_back(std::move(chunks[i]));
      }
      chunks = std::move(unknown);
      if (failed.kind == Published::Kind::failed) break;
    }
    bytes = 0;
    if (chunks.empty() && failed.kind != Published::Kind::failed) return {};
    return Error{
        .code = Code::store_unavailable,
        .message = "a large result could not be stored (" + failed.text + "); nothing was recorded",
        .retryable = true};
  };
  for (const MovedValue& value : moved) {
    if (zone_->values.knows(record_subject, expected, value)) continue;
    const std::string_view text = value_of(record, value).text();
    for (std::uint64_t i = 0; i < value.chunks(); ++i) {
      chunks.push_back({.subject = zone_->subjects.chunk(record_subject, value.name(), i),
                        .data = std::string(text.substr(i * value.chunk_size, value.chunk_size)),
                        .headers = expecting(0)});
      bytes += chunks.back().data.size();
      if (bytes < kAtOnce) continue;
      if (auto sent = send(); !sent) return sent;
    }
  }
  return send();
}

Result<Body> NatsStore::read_value(const std::string& record_subject, const MovedValue& value) {
  const std::string stream = zone_->subjects.blob_stream();
  const auto part = [&](std::uint64_t i) {
    return "part " + std::to_string(i + 1) + " of " + std::to_string(value.chunks()) +
           " of a large result";
  };
  std::string text;
  for (std::uint64_t next = 0; next < value.chunks();) {
    std::vector<std::string> subjects;
    do subjects.push_back(zone_->subjects.chunk(record_subject, value.name(), next++));
    while (next < value.chunks() && subjects.size() * value.chunk_size < kAtOnce);
    const auto found = zone_->jet.last(stream, subjects);
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (!found[i]) return found[i].error();
      if (!*found[i])
        return damaged(part(next - subjects.size() + i) + " is missing in the stream " + stream +
                       " (" + subjects[i] + ")");
      text += (*found[i])->data;
    }
  }
  if (encoding::sha256(text) != value.digest)
    return damaged("a large result in the stream " + stream + " is not what was written (" +
                   zone_->subjects.chunk(record_subject, value.name(), 0) + " and following)");
  if (!value.json) return Body::bytes(std::move(text));
  return Body::json(text);
}

// The record with its values, read from the leader.
Result<std::optional<Stored>> NatsStore::whole_record(Kept kept) {
  constexpr int kLooks = 3;
  for (int look = 1;; ++look) {
    std::vector<MovedValue> moved;
    auto stored = stored_from(kept, zone_->clock, &moved);
    if (!stored) return stored.error();
    std::optional<Error> missing;
    for (const MovedValue& value : moved) {
      auto body = read_value(kept.subject, value);
      if (!body) {
        missing = body.error();
        break;
      }
      put_value(stored->record, value, std::move(*body));
    }
    if (!missing) {
      if (!moved.empty()) zone_->values.learn(kept.subject, stored->revision, moved);
      return std::optional<Stored>(std::move(*stored));
    }
    // Values go with their record: perhaps it is another by now, or gone.
    auto now = zone_->jet.last(zone_->subjects.ledger_stream(), kept.subject);
    if (!now) return now.error();
    if (!*now) return std::optional<Stored>{};
    if ((*now)->sequence == kept.sequence || look == kLooks) return *missing;
    kept = std::move(**now);
  }
}

void NatsStore::show_values(const Kept& kept, Record& record) {
  std::vector<MovedValue> moved;
  if (!stored_from(kept, zone_->clock, &moved)) return;
  for (const MovedValue& value : moved) {
    auto body = read_value(kept.subject, value);
    (value.step ? record.steps[*value.step].result_cut : record.result_cut) |= !body;
    put_value(record, value, body ? std::move(*body) : Body::bytes(body.error().message));
  }
}

}  // namespace once::store::nats
