// What follows the record in a packed record whose values were moved:
//
//   values := value* checksum          wire.h has fields and checksum
//   value  := 1 step + 1   2 SHA-256 (32 bytes)   3 size   4 chunk size   5 JSON (1)   6 attempt + 1
//
// each as field 1; a field that has its default is left out.
#include "codec/large_values.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "codec/digest.h"
#include "codec/record_codec.h"
#include "codec/stored_body.h"
#include "codec/wire.h"

namespace once::encoding {
namespace {

using core::Record;

constexpr std::size_t kWorthMoving =
    512;                                // smaller values stay: saying where they are costs as much
constexpr std::size_t kSaidOfOne = 64;  // bytes, about

enum ValueField : unsigned {
  kStep = 1,
  kDigest = 2,
  kSize = 3,
  kChunkSize = 4,
  kJson = 5,
  kAttempt = 6
};

void append_value(const MovedValue& value, std::string& out) {
  std::string fields;
  if (value.step) append_number_field(kStep, *value.step + 1, fields);
  append_bytes_field(
      kDigest,
      {reinterpret_cast<const char*>(value.digest.bytes.data()), value.digest.bytes.size()},
      fields);
  append_number_field(kSize, value.size, fields);
  if (value.chunk_size > 0) append_number_field(kChunkSize, value.chunk_size, fields);
  if (value.json) append_number_field(kJson, 1, fields);
  if (value.attempt) append_number_field(kAttempt, *value.attempt + 1, fields);
  append_bytes_field(1, fields, out);
}

std::optional<MovedValue> value_from(std::string_view fields) {
  MovedValue value;
  for (WireReader reader(fields); !reader.at_end();) {
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
      case kAttempt: value.attempt = field->value - 1; break;
      default: break;  // of a newer writer
    }
  }
  if (value.size == 0) return std::nullopt;
  return value;
}

bool fits(const Record& record, const MovedValue& value) {
  if (value.step) return *value.step < record.steps.size();
  if (value.attempt) return *value.attempt < record.attempts.size();
  return record.result.has_value();
}

// The largest first.
std::vector<MovedValue> movable(const Record& record, const Packing& packing) {
  std::vector<MovedValue> found;
  const auto consider = [&](std::string_view text, bool json, MovedValue value) {
    if (text.size() < kWorthMoving) return;
    value.size = text.size();
    value.chunk_size = packing.chunk;
    value.json = json;
    found.push_back(value);
  };
  if (record.result) consider(record.result->text(), record.result->is_json(), {});
  for (std::size_t i = 0; i < record.steps.size(); ++i)
    consider(record.steps[i].result.text(), record.steps[i].result.is_json(), {.step = i});
  for (std::size_t i = 0; packing.logs && i < record.attempts.size(); ++i)
    consider(record.attempts[i].log, false, {.attempt = i});
  std::stable_sort(found.begin(), found.end(), [](const MovedValue& left, const MovedValue& right) {
    return left.size > right.size;
  });
  return found;
}

const Body& body_of(const Record& record, const MovedValue& value) {
  return value.step ? record.steps[*value.step].result : *record.result;
}

constexpr std::size_t kFewHeld = 64;

// By digest, so that zones may share them.
struct Held {
  std::mutex mutex{};
  std::map<core::Digest, std::weak_ptr<const std::string>> texts{};
  std::size_t most = kFewHeld;  // entries, before those that nobody holds are dropped
};
Held& held_values() {
  static Held* const held = new Held;  // never freed: stores may outlive statics
  return *held;
}

core::Digest digest_of(const Record& record, const MovedValue& value) {
  if (value.attempt) return sha256(record.attempts[*value.attempt].log);
  return StoredBody::digest(body_of(record, value));
}

}  // namespace

std::string MovedValue::name() const { return hex(digest) + "." + std::to_string(chunk_size); }

PackedRecord pack(const Record& record, const Packing& packing) {
  PackedRecord packed;
  packed.moved = movable(record, packing);
  std::size_t moving = 0;
  while (moving < packed.moved.size() && packed.moved[moving].size > packing.value) ++moving;
  if (moving == 0) {
    packed.data = encode(record);
    std::size_t size = packed.data.size();
    while (moving < packed.moved.size() && size > packing.record)
      size -= packed.moved[moving++].size - kSaidOfOne;
  }
  packed.moved.resize(moving);
  if (moving > 0) {
    Record rest = record;
    for (MovedValue& value : packed.moved) {
      value.digest = digest_of(record, value);
      put_value(rest, value, {});
    }
    packed.data = encode(rest);
  }
  packed.record_size = packed.data.size();
  if (moving == 0) return packed;
  std::string values;
  for (const MovedValue& value : packed.moved) append_value(value, values);
  append_checksum(values);
  packed.data += values;
  return packed;
}

Result<Record> unpack(std::string_view data, std::optional<std::size_t> record_size,
                      std::vector<MovedValue>& moved) {
  const std::size_t size = std::min(record_size.value_or(data.size()), data.size());
  auto record = decode(data.substr(0, size));
  if (!record || !record_size) return record;
  const Error broken{.code = Code::store_unusable,
                     .message =
                         "what a record says about its large values is damaged; the record "
                         "stands as it is, nothing was changed and nothing is run again "
                         "because of it: restore the store from a backup"};
  const auto values = checked(data.substr(size));
  if (!values) return broken;
  for (WireReader reader(*values); !reader.at_end();) {
    const auto field = reader.next();
    if (!field || field->number != 1) return broken;
    auto value = value_from(field->bytes);
    if (!value || !fits(*record, *value)) return broken;
    moved.push_back(*value);
  }
  return record;
}

std::string_view text_of(const Record& record, const MovedValue& moved) {
  if (moved.attempt) return record.attempts[*moved.attempt].log;
  return body_of(record, moved).text();
}

void put_value(Record& record, const MovedValue& moved, Body value) {
  if (moved.attempt)
    record.attempts[*moved.attempt].log = value == Body() ? std::string_view() : value.text();
  else if (moved.step)
    record.steps[*moved.step].result = std::move(value);
  else
    record.result = std::move(value);
}

void hold_in_use(const Record& record, const std::vector<MovedValue>& moved) {
  Held& held = held_values();
  const std::lock_guard lock(held.mutex);
  for (const MovedValue& value : moved)
    if (!value.attempt) held.texts[value.digest] = StoredBody::text(body_of(record, value));
  if (held.texts.size() <= held.most) return;
  std::erase_if(held.texts, [](const auto& each) { return each.second.expired(); });
  held.most = std::max(kFewHeld, 2 * held.texts.size());
}

std::optional<Body> in_use(const MovedValue& moved) {
  Held& held = held_values();
  const std::lock_guard lock(held.mutex);
  const auto found = held.texts.find(moved.digest);
  if (found == held.texts.end() || moved.attempt) return std::nullopt;
  auto text = found->second.lock();
  if (!text) return std::nullopt;
  return StoredBody::with(std::move(text), moved.json);
}

}  // namespace once::encoding
