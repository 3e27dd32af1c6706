#include "store/nats/client/stream_message.h"

#include <stdlib.h>

#include <charconv>
#include <chrono>

#include "json/base64.h"

namespace once::store::nats {
namespace {

using encoding::Json;

// A header's value is the same in whatever way it was read.
std::string_view trimmed(std::string_view value) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!value.empty() && blank(value.front())) value.remove_prefix(1);
  while (!value.empty() && blank(value.back())) value.remove_suffix(1);
  return value;
}

void read_headers(std::string_view block, StreamMessage& stream_message) {
  while (true) {
    const std::size_t end = block.find("\r\n");
    if (end == std::string_view::npos || end == 0) return;
    const std::string_view line = block.substr(0, end);
    block.remove_prefix(end + 2);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    stream_message.headers.emplace(line.substr(0, colon), trimmed(line.substr(colon + 1)));
  }
}

}  // namespace

std::optional<std::uint64_t> number_of(const Json& json, std::string_view member) {
  const Json* found = json.member(member);
  if (!found || found->kind() != Json::Kind::number || found->number() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(found->number());
}

std::string text_of(const Json& json, std::string_view member) {
  const Json* found = json.member(member);
  return found && found->kind() == Json::Kind::string ? found->string() : std::string();
}

std::optional<Time> time_from(std::string_view text) {
  const auto digits = [&](std::size_t at, std::size_t count) {
    int value = -1;
    if (at + count <= text.size())
      std::from_chars(text.data() + at, text.data() + at + count, value);
    return value;
  };
  if (text.size() < 20 || text.back() != 'Z') return std::nullopt;
  using namespace std::chrono;
  const auto day = year{digits(0, 4)} / month{static_cast<unsigned>(digits(5, 2))} /
                   std::chrono::day{static_cast<unsigned>(digits(8, 2))};
  if (!day.ok()) return std::nullopt;
  std::string fraction(text[19] == '.' ? text.substr(20, text.size() - 21) : "");
  fraction.resize(3, '0');
  const Duration since = sys_days{day}.time_since_epoch() + hours{digits(11, 2)} +
                         minutes{digits(14, 2)} + seconds{digits(17, 2)} +
                         milliseconds{std::stoi(fraction)};
  return Time{since};
}

StreamMessage stream_message_from(const Message& message) {
  StreamMessage stream_message{.subject = std::string(message.subject()),
                               .data = std::string(message.data())};
  const char** names = nullptr;
  int count = 0;
  if (message.header_names(&names, &count))
    for (int i = 0; i < count; ++i)
      if (const auto value = message.header(names[i]))
        stream_message.headers.emplace(names[i], trimmed(*value));
  free(static_cast<void*>(names));
  return stream_message;
}

std::optional<StreamMessage> stream_message_from(const Json& message) {
  StreamMessage stream_message{.subject = text_of(message, "subject"),
                               .sequence = number_of(message, "seq").value_or(0)};
  const auto time = time_from(text_of(message, "time"));
  const auto headers = encoding::from_base64(text_of(message, "hdrs"));
  auto data = encoding::from_base64(text_of(message, "data"));
  if (!time || !headers || !data || stream_message.sequence == 0) return std::nullopt;
  stream_message.time = *time;
  stream_message.data = std::move(*data);
  read_headers(*headers, stream_message);
  return stream_message;
}

std::optional<StreamMessage> read_directly(const Message& message) {
  StreamMessage stream_message = stream_message_from(message);
  const auto* subject = stream_message.header("Nats-Subject");
  const auto* sequence = stream_message.header("Nats-Sequence");
  const auto* time = stream_message.header("Nats-Time-Stamp");
  const auto stamp = time ? time_from(*time) : std::nullopt;
  if (!subject || !sequence || !stamp) return std::nullopt;
  stream_message.subject = *subject;
  stream_message.sequence = std::strtoull(sequence->c_str(), nullptr, 10);
  stream_message.time = *stamp;
  return stream_message;
}

}  // namespace once::store::nats
