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

Error foreign(const StreamMessage& message) {
  return {.code = Code::store_unusable,
          .message = "message " + std::to_string(message.sequence) + " (" + message.subject +
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

Outgoing retired_message(const Subjects& subjects, const LogEntry& log_entry, core::Stage stage) {
  const Entry& entry = log_entry.entry;
  Outgoing message{.subject = subjects.old(entry.id, entry.sequence),
                   .headers = expecting(log_entry.message)};
  message.headers.emplace_back("Nats-Expected-Last-Subject-Sequence-Subject",
                               subjects.all_of(entry.id));
  message.headers.emplace_back("Once-Digest", hex(entry.digest));
  message.headers.emplace_back("Once-Nonce", hex(log_entry.nonce));
  message.headers.emplace_back("Once-Topic", entry.topic);
  message.headers.emplace_back("Once-Stage", std::to_string(static_cast<int>(stage)));
  message.headers.emplace_back("Once-Appended",
                               std::to_string(entry.appended_at.time_since_epoch().count()));
  message.headers.emplace_back("Once-Published",
                               std::to_string(entry.published_at.time_since_epoch().count()));
  add_name(message.headers, "Once-Id", entry.id);
  add_times(message.headers, entry.delay, entry.lives);
  if (!log_entry.keys.empty())
    message.headers.emplace_back("Once-Keys", headers_text(log_entry.keys));
  return message;
}

bool is_retired(const StreamMessage& message) {
  std::string_view subject = message.subject;
  for (int i = 0; i < 2; ++i) subject.remove_prefix(subject.find('.') + 1);
  return subject.starts_with("old.");
}

Result<LogEntry> log_entry_from(StreamMessage message, const ZoneClock& clock) {
  // once . zone . log|sys|old . id . rest
  const auto tokens = tokens_of(message.subject, 5);
  LogEntry made{.message = message.sequence};
  Entry& entry = made.entry;
  const std::string* digest = message.header("Once-Digest");
  const std::string* nonce = message.header("Once-Nonce");
  if (tokens.size() != 5 || !digest || !read_hex(*digest, entry.digest) || !nonce ||
      !read_hex(*nonce, made.nonce))
    return foreign(message);
  entry.id = name_of(tokens[3], message.header("Once-Id"));
  entry.delay = Duration{integer(message.header("Once-Delay"))};
  if (const auto* lives = message.header("Once-Lives")) entry.lives = Duration{integer(lives)};
  const StoreTime stamp = clock.stamp_of(message);
  made.stage_since = stamp;
  if (tokens[2] == "old") {
    if (const auto* keys = message.header("Once-Keys"))
      if (const auto json = encoding::parse_json(*keys))
        for (const auto& [generation, key] : json->members()) made.keys[generation] = key.string();
    const auto* topic = message.header("Once-Topic");
    entry.sequence = {std::strtoull(std::string(tokens[4]).c_str(), nullptr, 10)};
    made.stage = integer(message.header("Once-Stage")) == 1 ? core::Stage::body_retired
                                                            : core::Stage::records_dropped;
    if (topic) entry.topic = *topic;
    entry.appended_at = StoreTime{Duration{integer(message.header("Once-Appended"))}};
    entry.published_at = Time{Duration{integer(message.header("Once-Published"))}};
    return made;
  }
  entry.sequence = {message.sequence};
  entry.topic = tokens[4];
  entry.appended_at = stamp;
  entry.published_at = Time{stamp.time_since_epoch()};
  const auto* kind = message.header("Once-Body");
  if (kind && *kind == "json") {
    auto body = StoredBody::checked_json(std::move(message.data));
    if (!body) return foreign(message);
    entry.body = std::move(*body);
  } else {
    entry.body = Body::bytes(std::move(message.data));
  }
  if (const auto* headers = message.header("Once-Headers")) {
    const auto json = encoding::parse_json(*headers);
    if (!json) return foreign(message);
    for (const auto& [name, value] : json->members()) entry.headers[name] = value.string();
  }
  return made;
}

Result<LogNote> log_note_from(const StreamMessage& message, const ZoneClock& clock) {
  const auto tokens = tokens_of(message.subject, 5);
  if (tokens.size() != 5 || !message.header("Once-Digest")) return foreign(message);
  if (tokens[2] != "old")
    return LogNote{
        .sequence = {message.sequence},
        .topic = std::string(tokens[4]),
        .not_before = clock.stamp_of(message) + Duration{integer(message.header("Once-Delay"))},
        .delayed = integer(message.header("Once-Delay")) > 0};
  const auto* topic = message.header("Once-Topic");
  return LogNote{.sequence = {std::strtoull(std::string(tokens[4]).c_str(), nullptr, 10)},
                 .topic = topic ? *topic : std::string(),
                 .stage = integer(message.header("Once-Stage")) == 1
                              ? core::Stage::body_retired
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

Result<Stored> stored_from(const StreamMessage& message, const ZoneClock& clock,
                           std::vector<MovedValue>* moved) {
  std::optional<std::size_t> size;
  if (const auto* text = message.header("Once-Record"))
    size = static_cast<std::size_t>(integer(text));
  std::vector<MovedValue> elsewhere;
  auto record = encoding::unpack(message.data, size, elsewhere);
  if (moved) *moved = std::move(elsewhere);
  if (!record) return record.error();
  return Stored{.record = std::move(*record),
                .revision = {message.sequence},
                .stamp = clock.stamp_of(message)};
}

RecordPlace place_of(const StreamMessage& message) {
  // $KV . bucket . queue . generation . kind . key
  const auto tokens = tokens_of(message.subject, 6);
  RecordPlace place;
  if (tokens.size() != 6 || tokens[4].size() != 1) return place;
  place.kind = tokens[4].front();
  if (place.kind == 'e')
    place.sequence = {std::strtoull(std::string(tokens[5]).c_str(), nullptr, 10)};
  else
    place.key = name_of(tokens[5], message.header("Once-Key"));
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

Result<WakeNote> wake_from(const StreamMessage& message) {
  WakeNote note{.sequence = {std::strtoull(last_token(message.subject).c_str(), nullptr, 10)},
                .after = StoreTime{Duration{integer(message.header("Once-After"))}}};
  if (message.header("Once-Order")) {
    auto order = encoding::decode_order(message.data);
    if (!order) return order.error();
    note.order = std::move(*order);
  }
  return note;
}

}  // namespace once::store::nats
