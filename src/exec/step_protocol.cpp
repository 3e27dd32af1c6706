#include "exec/step_protocol.h"

#include <algorithm>

#include "codec/wire.h"
#include "core/names.h"

namespace once::engine::step {
namespace {

enum Field : unsigned { version = 1, kind, name, policy, key, bytes, cut, limit, oversize };

bool is_known(std::uint64_t kind_value) {
  using Kind = Message::Kind;
  const auto within = [&](Kind first, Kind last) {
    return kind_value >= static_cast<std::uint64_t>(first) &&
           kind_value <= static_cast<std::uint64_t>(last);
  };
  return within(Kind::begin, Kind::hold) || within(Kind::run, Kind::refused);
}

// False: the field cannot be what it says.
bool take(const encoding::WireField& field, Message& to) {
  switch (field.number) {
    case Field::version: to.version = field.value; return true;
    case Field::kind:
      to.kind = static_cast<Message::Kind>(field.value);
      return is_known(field.value);
    case Field::name: to.name = field.bytes; return true;
    case Field::policy: to.policy = in_doubt_from(field.bytes); return to.policy.has_value();
    case Field::key: to.key = field.bytes; return true;
    case Field::bytes: to.bytes = field.bytes; return true;
    case Field::cut: to.cut = field.value != 0; return true;
    case Field::limit: to.limit = field.value; return true;
    case Field::oversize: to.oversize = field.value; return true;
    default: return true;
  }
}

}  // namespace

std::string encode(const Message& message) {
  std::string frame(kSizeBytes, '\0');
  frame.reserve(message.bytes.size() + kAroundResult);
  encoding::append_number_field(Field::version, message.version, frame);
  encoding::append_number_field(Field::kind, static_cast<std::uint64_t>(message.kind), frame);
  if (!message.name.empty()) encoding::append_bytes_field(Field::name, message.name, frame);
  if (message.policy)
    encoding::append_bytes_field(Field::policy, to_string(*message.policy), frame);
  if (!message.key.empty()) encoding::append_bytes_field(Field::key, message.key, frame);
  if (!message.bytes.empty()) encoding::append_bytes_field(Field::bytes, message.bytes, frame);
  if (message.cut) encoding::append_number_field(Field::cut, 1, frame);
  if (message.limit != kOldLimit) encoding::append_number_field(Field::limit, message.limit, frame);
  if (message.oversize > 0) encoding::append_number_field(Field::oversize, message.oversize, frame);
  const std::size_t size = frame.size() - kSizeBytes;
  for (std::size_t i = 0; i < kSizeBytes; ++i) frame[i] = static_cast<char>(size >> (8 * i));
  return frame;
}

std::optional<Message> decode(std::string_view content) {
  Message message;
  message.version = 0;
  for (encoding::WireReader fields(content); !fields.at_end();) {
    const auto field = fields.next();
    if (!field || !take(*field, message)) return std::nullopt;
    if (field->number == Field::version && message.version != kVersion) return message;
  }
  if (message.version != kVersion || message.kind == Message::Kind::none) return std::nullopt;
  return message;
}

}  // namespace once::engine::step
