#include "store/nats/log/entry_codec.h"

#include <algorithm>

#include "codec/digest.h"
#include "codec/record_codec.h"
#include "codec/stored_body.h"

namespace once::store::nats {
namespace {

std::string headers_text(const std::map<std::string, std::string>& headers) {
  std::string out = "{";
  for (const auto& [name, value] : headers) {
    if (out.size() > 1) out += ',';
    out += json_string(name) + ':' + json_string(value);
  }
  return out + '}';
}

std::int64_t integer(const std::string* text) {
  return text ? std::strtoll(text->c_str(), nullptr, 10) : 0;
}

std::vector<std::string_view> tokens_of(std::string_view subject, std::size_t most) {
  std::vector<std::string_view> tokens;
  while (tokens.size() + 1 < most) {
    const std::size_t dot = subject.find('.');
    if (dot == std::string_view::npos) break;
    tokens.push_back(subject.substr(0, dot));
    subject.remove_prefix(dot + 1);
  }
  tokens.push_back(subject);
  return tokens;
}

std::string name_of(std::string_view token, const std::string* header) {
  if (header) return from_token(*header).value_or("");
  return from_token(token).value_or("");
}

void add_name(Headers& headers, const char* header, std::string_view bytes) {
  if (token(bytes).starts_with("==")) headers.emplace_back(header, escaped(bytes));
}

Error foreign(const StreamMessage& kept) {
  return {.code = Code::store_unusable,
          .message = "message " + std::to_string(kept.sequence) + " (" + kept.subject +
                     ") was not written by once; somebody else publishes to its subjects"};
}

void add_times(Headers& headers, Duration delay, const std::optional<Duration>& lives) {
  if (delay > Duration{0}) headers.emplace_back("Once-Delay", std::to_string(delay.count()));
  if (lives) headers.emplace_back("Once-Lives", std::to_string(lives->count()));
}

}  // namespace

std::string last_token(std::string_view subject) {
  return std::string(subject.substr(subject.rfind('.') + 1));
}

Outgoing task_message(const Subjects& subjects, const Append& item) {
  Outgoing message{.subject = subjects.log(item.id, item.topic),
                   .data = std::string(item.body.text()),
                   .headers = expecting(0)};
  message.headers.emplace_back("Nats-Expected-Last-Subject-Sequence-Subject",
                               subjects.all_of(item.id));
  message.headers.emplace_back("Nats-Expected-Stream", subjects.log_stream());
  message.headers.emplace_back("Once-Digest", hex(item.digest));
  message.headers.emplace_back("Once-Nonce", hex(item.nonce));
  message.headers.emplace_back("Once-Body", item.body.is_json() ? "json" : "bytes");
  add_name(message.headers, "Once-Id", item.id);
  add_times(message.headers, item.delay, item.lives);
  if (!item.headers.empty())
    message.headers.emplace_back("Once-Headers", headers_text(item.headers));
  return message;
}

Outgoing retired_message(const Subjects& subjects, const LogEntry& kept, core::Stage stage) {
  const Entry& entry = kept.entry;
  Outgoing message{.subject = subjects.old(entry.id, entry.sequence),
                   .headers = expecting(kept.message)};
  message.headers.emplace_back("Nats-Expected-Last-Subject-Sequence-Subject",
                               subjects.all_of(entry.id));
  message.headers.emplace_back("Once-Digest", hex(entry.digest));
  message.headers.emplace_back("Once-Nonce", hex(kept.nonce));
  message.headers.emplace_back("Once-Topic", entry.topic);
  message.headers.emplace_back("Once-Stage", std::to_string(static_cast<int>(stage)));
  message.headers.emplace_back("Once-Appended",
                               std::to_string(entry.appended_at.time_since_epoch().count()));
  message.headers.emplace_back("Once-Published",
                               std::to_string(entry.published_at.time_since_epoch().count()));
  add_name(message.headers, "Once-Id", entry.id);
  add_times(message.headers, entry.delay, entry.lives);
  if (!kept.keys.empty()) message.headers.emplace_back("Once-Keys", headers_text(kept.keys));
  return message;
}

bool is_retired(const StreamMessage& kept) {
  std::string_view subject = kept.subject;
  for (int i = 0; i < 2; ++i) subject.remove_prefix(subject.find('.') + 1);
  return subject.starts_with("old.");
}

Result<LogEntry> log_entry_from(StreamMessage kept, const ZoneClock& clock) {
  // once . zone . log|sys|old . id . rest
  const auto tokens = tokens_of(kept.subject, 5);
  LogEntry made{.message = kept.sequence};
  Entry& entry = made.entry;
  const std::string* digest = kept.header("Once-Digest");
  const std::string* nonce = kept.header("Once-Nonce");
  if (tokens.size() != 5 || !digest || !read_hex(*digest, entry.digest) || !nonce ||
      !read_hex(*nonce, made.nonce))
    return foreign(kept);
  entry.id = name_of(tokens[3], kept.header("Once-Id"));
  entry.delay = Duration{integer(kept.header("Once-Delay"))};
  if (const auto* lives = kept.header("Once-Lives")) entry.lives = Duration{integer(lives)};
  const StoreTime stamp = clock.stamp_of(kept);
  made.stage_since = stamp;
  if (tokens[2] == "old") {
    if (const auto* keys = kept.header("Once-Keys"))
      if (const auto json = encoding::parse_json(*keys))
        for (const auto& [generation, key] : json->members()) made.keys[generation] = key.string();
    const auto* topic = kept.header("Once-Topic");
    entry.sequence = {std::strtoull(std::string(tokens[4]).c_str(), nullptr, 10)};
    made.stage = integer(kept.header("Once-Stage")) == 1 ? core::Stage::body_retired
                                                         : core::Stage::records_dropped;
    if (topic) entry.topic = *topic;
    entry.appended_at = StoreTime{Duration{integer(kept.header("Once-Appended"))}};
    entry.published_at = Time{Duration{integer(kept.header("Once-Published"))}};
    return made;
  }
  entry.sequence = {kept.sequence};
  entry.topic = tokens[4];
  entry.appended_at = stamp;
  entry.published_at = Time{stamp.time_since_epoch()};
  const auto* kind = kept.header("Once-Body");
  if (kind && *kind == "json") {
    auto body = StoredBody::checked_json(std::move(kept.data));
    if (!body) return foreign(kept);
    entry.body = std::move(*body);
  } else {
    entry.body = Body::bytes(std::move(kept.data));
  }
  if (const auto* headers = kept.header("Once-Headers")) {
    const auto json = encoding::parse_json(*headers);
    if (!json) return foreign(kept);
    for (const auto& [name, value] : json->members()) entry.headers[name] = value.string();
  }
  return made;
}

Result<LogNote> log_note_from(const StreamMessage& kept, const ZoneClock& clock) {
  const auto tokens = tokens_of(kept.subject, 5);
  if (tokens.size() != 5 || !kept.header("Once-Digest")) return foreign(kept);
  if (tokens[2] != "old")
    return LogNote{
        .sequence = {kept.sequence},
        .topic = std::string(tokens[4]),
        .not_before = clock.stamp_of(kept) + Duration{integer(kept.header("Once-Delay"))},
        .delayed = integer(kept.header("Once-Delay")) > 0};
  const auto* topic = kept.header("Once-Topic");
  return LogNote{.sequence = {std::strtoull(std::string(tokens[4]).c_str(), nullptr, 10)},
                 .topic = topic ? *topic : std::string(),
                 .stage = integer(kept.header("Once-Stage")) == 1 ? core::Stage::body_retired
                                                                  : core::Stage::records_dropped};
}

Outgoing record_message(const std::string& subject, const store::Address& at, PackedRecord packed,
                        Revision expected) {
  Outgoing message{
      .subject = subject, .data = std::move(packed.data), .headers = expecting(expected.value)};
  if (!packed.moved.empty())
    message.headers.emplace_back("Once-Record", std::to_string(packed.record_size));
  if (at.kind != store::Address::Kind::entry) add_name(message.headers, "Once-Key", at.key);
  return message;
}

Result<Stored> stored_from(const StreamMessage& kept, const ZoneClock& clock,
                           std::vector<MovedValue>* moved) {
  std::optional<std::size_t> size;
  if (const auto* text = kept.header("Once-Record")) size = static_cast<std::size_t>(integer(text));
  std::vector<MovedValue> elsewhere;
  auto record = encoding::unpack(kept.data, size, elsewhere);
  if (moved) *moved = std::move(elsewhere);
  if (!record) return record.error();
  return Stored{
      .record = std::move(*record), .revision = {kept.sequence}, .stamp = clock.stamp_of(kept)};
}

RecordPlace place_of(const StreamMessage& kept) {
  // $KV . bucket . queue . generation . kind . key
  const auto tokens = tokens_of(kept.subject, 6);
  RecordPlace place;
  if (tokens.size() != 6 || tokens[4].size() != 1) return place;
  place.kind = tokens[4].front();
  if (place.kind == 'e')
    place.sequence = {std::strtoull(std::string(tokens[5]).c_str(), nullptr, 10)};
  else
    place.key = name_of(tokens[5], kept.header("Once-Key"));
  return place;
}

Outgoing wake_message(const std::string& subject, const WakeNote& note, std::uint64_t expected) {
  Outgoing message{.subject = subject, .headers = expecting(expected)};
  if (note.order) {
    message.data = encoding::encode(*note.order);
    message.headers.emplace_back("Once-Order", "1");
  }
  if (note.after > StoreTime{})
    message.headers.emplace_back("Once-After",
                                 std::to_string(note.after.time_since_epoch().count()));
  return message;
}

Result<WakeNote> wake_from(const StreamMessage& kept) {
  WakeNote note{.sequence = {std::strtoull(last_token(kept.subject).c_str(), nullptr, 10)},
                .after = StoreTime{Duration{integer(kept.header("Once-After"))}}};
  if (kept.header("Once-Order")) {
    auto order = encoding::decode_order(kept.data);
    if (!order) return order.error();
    note.order = std::move(*order);
  }
  return note;
}

}  // namespace once::store::nats
