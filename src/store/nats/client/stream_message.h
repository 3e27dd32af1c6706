// A message of a stream, in whatever way it was read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "json/json_string.h"
#include "once/task.h"
#include "store/nats/client/handles.h"

namespace once::store::nats {

using encoding::json_string;

// A message of a stream.
struct StreamMessage {
  std::string subject{};
  std::uint64_t sequence{};
  Time time{};  // the leader's clock when it was stored
  std::map<std::string, std::string, std::less<>> headers{};
  std::string data{};

  const std::string* header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? nullptr : &found->second;
  }
};

// A message as it was delivered: without sequence and time, which its reply subject tells.
StreamMessage stream_message_from(const Message& message);

// "2026-01-02T03:04:05.678901234Z"
std::optional<Time> time_from(std::string_view text);

// A message as STREAM.MSG.GET answers with it, and as a direct read brings it. nullopt if something is
// missing in it.
std::optional<StreamMessage> stream_message_from(const encoding::Json& message);
std::optional<StreamMessage> read_directly(const Message& message);

// A member of an answer. nullopt or empty if there is none of that kind.
std::optional<std::uint64_t> number_of(const encoding::Json& json, std::string_view member);
std::string text_of(const encoding::Json& json, std::string_view member);

}  // namespace once::store::nats
