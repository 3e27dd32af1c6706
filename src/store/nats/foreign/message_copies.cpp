#include "store/nats/foreign/message_copies.h"

#include <algorithm>

#include "store/nats/foreign/foreign_codec.h"

namespace once::store::nats {

Result<bool> MessageCopies::has(const KnownQueue& queue, Sequence sequence) const {
  const auto first =
      zone_.client.last(zone_.subjects.copy_stream(), zone_.subjects.copy(queue, sequence) + "0");
  if (!first) return first.error();
  return first->has_value();
}

// The first part is written last: with it the copy is whole.
Result<std::optional<StreamMessage>> MessageCopies::read(const KnownQueue& queue,
                                                         Sequence sequence) const {
  const std::string stream = zone_.subjects.copy_stream();
  const std::string subject = zone_.subjects.copy(queue, sequence);
  const auto first = zone_.client.last(stream, subject + "0");
  if (!first) return first.error();
  if (!*first) return std::optional<StreamMessage>{};
  const std::string* count = (*first)->header("Once-Parts");
  std::vector<std::string> rest;
  for (std::uint64_t i = 1; count && i < std::strtoull(count->c_str(), nullptr, 10); ++i)
    rest.push_back(subject + std::to_string(i));
  std::string bytes = (*first)->data;
  for (const auto& part : zone_.client.last(stream, rest)) {
    if (!part) return part.error();
    if (!*part) return std::optional<StreamMessage>{};  // being removed
    bytes += (*part)->data;
  }
  auto stream_message = decode_copy(sequence.value, bytes);
  if (!stream_message) return stream_message.error();
  return std::optional<StreamMessage>(std::move(*stream_message));
}

Result<void> MessageCopies::write(const KnownQueue& queue, const StreamMessage& stream_message) {
  const std::string subject = zone_.subjects.copy(queue, {stream_message.sequence});
  const std::string bytes = encode_copy(stream_message);
  const std::size_t size = std::max<std::size_t>(zone_.mux->max_payload() / 2, 1);
  const std::size_t parts = bytes.size() / size + 1;
  for (std::size_t i = parts; i-- > 0;) {
    Outgoing message{.subject = subject + std::to_string(i),
                     .data = bytes.substr(i * size, size),
                     .headers = expecting(0)};
    message.headers.emplace_back("Once-Parts", std::to_string(parts));
    zone_.clock.stamp(message.headers);
    const PublishResult written = zone_.client.publish(message);
    // Refused: another has written the very same.
    if (written.kind == PublishResult::Kind::failed || written.kind == PublishResult::Kind::unknown)
      return failure_of(written);
  }
  return {};
}

Result<std::vector<Sequence>> MessageCopies::all(const KnownQueue& queue) const {
  const std::string root = zone_.subjects.copy_root(queue);
  const auto info = zone_.client.stream_info(
      zone_.subjects.copy_stream(), "{\"subjects_filter\":" + json_string(root + "*.0") + "}");
  if (!info) return info.error();
  const encoding::Json* state = *info ? (*info)->member("state") : nullptr;
  const encoding::Json* subjects = state ? state->member("subjects") : nullptr;
  std::vector<Sequence> sequences;
  if (subjects)
    for (const auto& [subject, count] : subjects->members())
      sequences.push_back({std::strtoull(subject.c_str() + root.size(), nullptr, 10)});
  return sequences;
}

Result<void> MessageCopies::remove(const KnownQueue& queue, Sequence sequence) {
  return zone_.client.purge(zone_.subjects.copy_stream(),
                            zone_.subjects.copy(queue, sequence) + ">");
}

}  // namespace once::store::nats
