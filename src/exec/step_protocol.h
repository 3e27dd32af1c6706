// What `once step` and the worker say to each other, one step per connection.
//
//   step:    begin                                     asked        end | fail | hold
//   worker:        run | ask | remembered | over | refused    run ..           done | over
//
//   frame := size field*    size in 4 bytes, low ones first; fields as in codec/wire.h
//
// The two may be different builds: the version comes first, unknown fields are passed over.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "work/task_attempt.h"

namespace once::engine::step {

inline constexpr std::uint64_t kVersion = 1;
inline constexpr std::size_t kSizeBytes = 4;
inline constexpr std::size_t kAroundResult = 16 << 10;  // all of a frame but the result
inline constexpr std::uint64_t kOldLimit = 1 << 20;     // of a worker that does not say

struct Message {
  enum class Kind : std::uint64_t {
    none = 0,  // of another version: nothing else is known of it
    // From the step.
    begin = 1,  // name, policy
    asked = 2,  // after `ask`: the probe says that it did not happen
    end = 3,    // bytes: it happened, with this result; or oversize
    fail = 4,   // bytes: why it did not happen
    hold = 5,   // bytes: why nobody knows
    // From the worker.
    run = 16,         // key, limit
    remembered = 17,  // key; bytes: the result; cut: only its first MiB was kept
    ask = 18,         // key, limit
    done = 19,        // what was said is recorded
    over = 20,        // bytes: why the attempt is over
    refused = 21,     // bytes: why nothing was recorded
  };
  Kind kind = Kind::none;
  std::string name{};
  std::optional<InDoubt> policy{};
  std::string key{};  // the step's idempotency key
  std::string bytes{};
  bool cut = false;  // from a step: its result was above a MiB, as an older `once step` says it
  std::uint64_t limit = kOldLimit;  // of the result's bytes
  std::uint64_t oversize{};         // how many bytes the result had that is not here
  std::uint64_t version = kVersion;
};

std::string encode(const Message& message);  // a frame
// The content of a frame; none: it is no message.
std::optional<Message> decode(std::string_view content);

}  // namespace once::engine::step
