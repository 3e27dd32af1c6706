#include "store/nats/feed/pulled_message.h"

#include <algorithm>

#include "store/nats/foreign/foreign_codec.h"

namespace once::store::nats {
namespace {

constexpr char kOrderMark = '!';

}  // namespace

std::string nak(Duration delay) {
  if (delay <= Duration{0}) return "-NAK";
  return "-NAK {\"delay\":" + std::to_string(delay.count()) + "000000}";
}

// $JS.ACK.<stream>.<consumer>.<times>.<sequence>.<delivery>.<time>.<pending>, and since 2.10 perhaps
// with <domain>.<account> before the stream and a random token at the end.
std::optional<AckSubject> ack_subject(std::string_view reply) {
  std::vector<std::string> tokens;
  for (std::size_t at = 0; at <= reply.size();) {
    const std::size_t dot = std::min(reply.find('.', at), reply.size());
    tokens.emplace_back(reply.substr(at, dot - at));
    at = dot + 1;
  }
  if (tokens.size() < 9 || tokens[0] != "$JS" || tokens[1] != "ACK") return std::nullopt;
  const std::size_t first = tokens.size() == 9 ? 2 : 4;
  if (tokens.size() < first + 7) return std::nullopt;
  const auto number = [&](std::size_t i) {
    return std::strtoull(tokens[first + i].c_str(), nullptr, 10);
  };
  return AckSubject{.stream = tokens[first],
                    .times = number(2),
                    .sequence = number(3),
                    .time = Time{Duration{static_cast<Duration::rep>(number(5) / 1'000'000)}}};
}

std::optional<PulledMessage> pulled_from(const KnownQueue& queue, const Message& message,
                                         ZoneConnection& zone) {
  auto delivery = ack_subject(message.reply());
  if (!delivery) return std::nullopt;
  StreamMessage stream_message = stream_message_from(message);
  stream_message.sequence = delivery->sequence;
  stream_message.time = delivery->time;
  PulledMessage pulled{.reply = std::string(message.reply()), .handed_over = delivery->times > 1};
  if (delivery->stream == zone.subjects.wake_stream()) {
    auto note = wake_from(stream_message);
    if (!note) return std::nullopt;
    pulled.wake = true;
    pulled.handed_over = true;
    pulled.sequence = note->sequence;
    pulled.order = std::move(note->order);
    pulled.after = note->after;
    return pulled;
  }
  const StoreTime now = zone.now();
  if (queue.foreign()) {
    pulled.sequence = {stream_message.sequence};
    pulled.entry = foreign_entry(queue, std::move(stream_message), now);
    return pulled;
  }
  auto entry = log_entry_from(std::move(stream_message), zone.clock);
  if (!entry) return std::nullopt;
  pulled.sequence = entry->entry.sequence;
  if (entry->entry.waits_at(now)) pulled.after = entry->entry.not_before();
  // The first delivery of a scheduled task was put off without a hand-over.
  if (entry->entry.delay > Duration{0} && delivery->times == 2) pulled.handed_over = false;
  pulled.entry = std::move(entry->entry);
  return pulled;
}

std::vector<Reply> replies_of(std::string_view handle) {
  std::vector<Reply> replies;
  while (!handle.empty()) {
    const std::size_t end = std::min(handle.find(' '), handle.size());
    std::string_view one = handle.substr(0, end);
    handle.remove_prefix(std::min(end + 1, handle.size()));
    const bool order = one.starts_with(kOrderMark);
    if (order) one.remove_prefix(1);
    if (one.starts_with("$JS.ACK.")) replies.push_back({std::string(one), order});
  }
  return replies;
}

void add_reply(std::string& handle, const PulledMessage& message) {
  if (!handle.empty()) handle += ' ';
  if (message.order) handle += kOrderMark;
  handle += message.reply;
}

}  // namespace once::store::nats
