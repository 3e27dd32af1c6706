// What `once step` and the worker say to each other, one step per connection.
//
//   step:    begin                                     asked        end | fail | hold
//   worker:        run | ask | remembered | over | refused    run ..           done | over
//
//   frame := size field*    size in 4 bytes, low ones first; fields as in encoding/wire.h
//
// The two may be different builds: the version comes first, unknown fields are passed over.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/assignment.h"

namespace once::engine::step {

inline constexpr std::uint64_t kVersion = 1;
inline constexpr std::size_t kSizeBytes = 4;
inline constexpr std::size_t kMaxFrame = kMaxResult + (16 << 10);
inline constexpr std::size_t kMaxName = 128;

struct Message {
  enum class Kind : std::uint64_t {
    none = 0,  // of another version: nothing else is known of it
    // From the step.
    begin = 1,  // name, policy
    asked = 2,  // after `ask`: the probe says that it did not happen
    end = 3,    // bytes, cut: it happened, with this result
    fail = 4,   // it did not happen
    hold = 5,   // bytes: why nobody knows
    // From the worker.
    run = 16,         // key
    remembered = 17,  // bytes, cut: the result
    ask = 18,         // key
    done = 19,        // what was said is recorded
    over = 20,        // bytes: why the attempt is over
    refused = 21,     // bytes: why nothing was recorded
  };
  Kind kind = Kind::none;
  std::string name{};
  std::optional<InDoubt> policy{};
  std::string key{};  // the step's idempotency key
  std::string bytes{};
  bool cut = false;
  std::uint64_t version = kVersion;
};

std::string encode(const Message& message);  // a frame
// The content of a frame; none: it is no message.
std::optional<Message> decode(std::string_view content);

// UTF-8, 1 to 128 bytes, no control characters.
Result<void> check_name(std::string_view name);

}  // namespace once::engine::step
