#include "store/nats/foreign/foreign_codec.h"

#include <algorithm>
#include <charconv>

#include "codec/digest.h"
#include "codec/stored_body.h"
#include "core/names.h"

namespace once::store::nats {
namespace {

constexpr char kNoteMark = '=';

Digest digest_of(const Entry& entry) {
  if (const auto digest = encoding::content_digest(entry.topic, *entry.body)) return *digest;
  // A subject need not be UTF-8, and has no canonical form then.
  return encoding::sha256(escaped(entry.topic) + ' ' + std::string(entry.body->text()));
}

}  // namespace

Entry foreign_entry(const KnownQueue& queue, StreamMessage message, StoreTime now) {
  Entry entry{.sequence = {message.sequence},
              .id = core::stream_task_id(queue.definition.stream, message.sequence),
              .topic = std::move(message.subject),
              .published_at = message.time};
  for (auto& [name, value] : message.headers) entry.headers[name] = std::move(value);
  auto json = StoredBody::checked_json(std::move(message.data));
  entry.body = json ? std::move(*json) : Body::bytes(std::move(message.data));
  entry.digest = digest_of(entry);
  // Our idea of the server's time is a little late, and it was there before we saw it.
  entry.appended_at = std::min(StoreTime{message.time.time_since_epoch()}, now);
  return entry;
}

bool takes(const KnownQueue& queue, const StreamMessage& message) {
  return core::matches(queue.definition.topic, message.subject) &&
         message.sequence >= queue.definition.from.value_or(0);
}

std::string encode_copy(const StreamMessage& message) {
  std::string out = R"({"headers":[)";
  for (const auto& [name, value] : message.headers) {
    if (out.back() == ']') out += ',';
    out += '[' + json_string(escaped(name)) + ',' + json_string(escaped(value)) + ']';
  }
  out += R"(],"subject":)" + json_string(escaped(message.subject)) +
         ",\"time\":" + std::to_string(message.time.time_since_epoch().count()) + "}\n";
  return out + message.data;
}

Result<StreamMessage> decode_copy(std::uint64_t sequence, std::string_view bytes) {
  const std::size_t line = bytes.find('\n');
  const auto head = encoding::parse_json(bytes.substr(0, line));
  const encoding::Json* headers = head ? head->member("headers") : nullptr;
  if (!headers || line == std::string_view::npos)
    return Error{.code = Code::store_unusable,
                 .message = "the copy of message " + std::to_string(sequence) +
                            " cannot be read: it was not written by once, or is damaged"};
  StreamMessage message{
      .subject = from_token(text_of(*head, "subject")).value_or(""),
      .sequence = sequence,
      .time = Time{Duration{static_cast<Duration::rep>(number_of(*head, "time").value_or(0))}},
      .data = std::string(bytes.substr(line + 1))};
  for (const encoding::Json& pair : headers->items())
    message.headers[from_token(pair.items()[0].string()).value_or("")] =
        from_token(pair.items()[1].string()).value_or("");
  return message;
}

std::string note_of(const Entry& entry) {
  return escaped(entry.topic) + "," + std::to_string(entry.published_at.time_since_epoch().count());
}

std::string handle_with_note(std::string handle, const Entry& entry) {
  if (!note_in(handle).empty()) return handle;
  return kNoteMark + note_of(entry) + (handle.empty() ? "" : " ") + handle;
}

std::string_view note_in(std::string_view handle) {
  if (!handle.starts_with(kNoteMark)) return {};
  return handle.substr(1, std::min(handle.find(' '), handle.size()) - 1);
}

Entry noted_entry(const KnownQueue& queue, Sequence sequence, std::string_view note) {
  const std::size_t comma = std::min(note.find(','), note.size());
  Duration::rep time = 0;
  if (comma < note.size())
    std::from_chars(note.data() + comma + 1, note.data() + note.size(), time);
  return {.sequence = sequence,
          .id = core::stream_task_id(queue.definition.stream, sequence.value),
          .topic = from_token(note.substr(0, comma)).value_or(""),
          .published_at = Time{Duration{time}}};
}

}  // namespace once::store::nats
