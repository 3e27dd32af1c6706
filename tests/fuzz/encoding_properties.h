// What must hold for any bytes at all: shared by the libFuzzer targets and by the unit test that
// mutates a seeded corpus. Each answers what is wrong, or nothing.
#pragma once

#include <string>
#include <string_view>

#include "codec/record_codec.h"
#include "codec/wire.h"
#include "json/json.h"
#include "once/json.h"

namespace once::fuzz {

inline std::string refusal_complaint(const Error& error, Code expected) {
  if (error.code != expected) return "another error code";
  if (error.message.empty() || error.message.size() > 1000) return "a message of odd length";
  if (error.message.find('\n') != std::string::npos) return "a message of several lines";
  return {};
}

inline std::string canonical_complaint(std::string_view text) {
  const auto tree = encoding::parse_json(text);
  std::string direct = "kept";
  const auto done = encoding::canonicalise(text, direct);
  if (static_cast<bool>(tree) != static_cast<bool>(done)) return "tree and text disagree";
  if (!done) {
    if (direct != "kept") return "an error left something behind";
    if (tree.error().message != done.error().message) return "two messages for one error";
    return refusal_complaint(done.error(), Code::invalid_input);
  }
  direct.erase(0, 4);
  if (encoding::canonical(*tree) != direct) return "two canonical forms";
  const auto again = canonical_json(direct);
  if (again) {
    if (*again != direct) return "the canonical form is not stable";
    if (*encoding::parse_json(direct) != *tree) return "the canonical form means something else";
  } else if (again.error().message.find("cannot be held exactly") == std::string::npos) {
    return "the canonical form is refused: " + again.error().message;
  }
  return {};
}

template <class Decode>
std::string round_trip_complaint(std::string_view bytes, Decode decode) {
  const auto thing = decode(bytes);
  if (!thing) return refusal_complaint(thing.error(), Code::store_unusable);
  const auto again = decode(encoding::encode(*thing));
  if (!again) return "what was encoded cannot be decoded: " + again.error().message;
  if (*again != *thing) return "it changed on its way";
  return {};
}

// Of records, orders and queue definitions.
inline std::string record_complaint(std::string_view bytes) {
  // Once as given, and once with a version and a checksum that lead into the fields.
  std::string sealed = "\x01" + std::string(bytes);
  encoding::append_checksum(sealed);
  for (const std::string_view given : {bytes, std::string_view(sealed)}) {
    for (auto what : {round_trip_complaint(given, encoding::decode),
                      round_trip_complaint(given, encoding::decode_order)}) {
      if (!what.empty()) return what;
    }
  }
  const auto queue = encoding::decode_queue(bytes);
  if (queue) {
    const auto again = encoding::decode_queue(encoding::encode_queue(*queue));
    if (!again || *again != *queue) return "the queue changed on its way";
  }
  return {};
}

}  // namespace once::fuzz
