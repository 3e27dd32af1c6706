// The nouns of Once: a task and its body, the receipt a publisher gets, the queue that hands tasks
// to workers. Plain values; copy and move them freely.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "once/result.h"

namespace once::inline v1 {

using Duration = std::chrono::milliseconds;
using Time = std::chrono::sys_time<Duration>;

// A length of time as people write it: `500ms 30s 2m 1h30m 7d`; `0` alone is zero.
Result<Duration> duration_from(std::string_view text);
std::string duration_text(Duration duration);

// JSON text (by default `null`) or bytes that Once does not look into.
class Body {
 public:
  Body() = default;
  // Refuses what RFC 8785 cannot make canonical: invalid JSON, duplicate keys, lone surrogates,
  // numbers that a double cannot hold. The error names the place.
  static Result<Body> json(std::string_view text);
  static Body bytes(std::string bytes);

  std::string_view text() const { return text_; }  // as given, not canonical
  bool is_json() const { return json_; }
  // The value at a dot path (`order.lines.0.sku`): a string as it is, anything else as JSON.
  Result<std::string> at(std::string_view dot_path) const;

  friend bool operator==(const Body&, const Body&) = default;

 private:
  friend struct StoredBody;
  std::string text_ = "null";
  bool json_ = true;
};

struct Task {
  std::string topic{};
  std::string id{};  // empty: made from the content, so that equal content is one task
  Body body{};
  std::map<std::string, std::string> headers{};
  // Not run before then, and not begun after then: it is cancelled, with that reason. Both are kept
  // as lengths from the commit in the store's time, which goes by no wall clock and stands still
  // while the machine is off.
  std::optional<Time> not_before{};
  std::optional<Time> expires{};
};

struct Receipt {
  std::string id{};
  std::uint64_t sequence{};
  std::string digest{};  // "sha256:..."
  bool duplicate{};      // true: the log had it already, and `sequence` is the original's
  bool unrouted{};       // true: no queue matches the topic yet; the task is kept
};

// What becomes of an attempt that ended without a verdict (crash, kill, timeout, lost lease): its
// effect may have happened.
enum class InDoubt {
  retry,  // run it again; the handler is told
  steps,  // run it again, past its finished steps; hold it when a step was cut off
  hold,   // nothing happens until a person decides
  probe,  // ask the outside world whether it happened, then complete it or run it again
};

std::string_view to_string(InDoubt policy);
std::optional<InDoubt> in_doubt_from(std::string_view name);

// What a later task with a known key and other content is.
enum class SameKey { duplicate, ignore };

// A named, durable subscription of a topic filter (`*` one token, `>` the rest, as in NATS).
struct Queue {
  std::string name{};
  std::string topic{};
  std::string key{};                // template such as `{order.id}:{$topic}`; empty: the task id
  Duration lease{30'000};           // renewed at a third of it while a handler runs
  Duration timeout{};               // of one attempt; zero: none
  int attempts{};                   // zero: one more than there are backoff values
  std::vector<Duration> backoff{};  // empty: 30 s, 2 m, 5 m; the last value repeats
  InDoubt in_doubt = InDoubt::retry;
  SameKey same_key = SameKey::duplicate;
  int max_running{};                    // across all workers; zero: no limit
  int window{};                         // claimed ahead of free handlers, per worker
  std::optional<std::uint64_t> from{};  // first sequence; none: the log's beginning
  bool paused = false;                  // nothing is claimed until it is resumed
  // The stream of others' that it takes its tasks from, as far as their subjects match the topic;
  // empty: the zone's own log. Needs a key and a zone on NATS JetStream.
  std::string stream{};
  // Without a topic: no task is delivered, the queue is a ledger alone for loops that get their
  // work elsewhere (see Guard).
  bool ledger = false;

  friend bool operator==(const Queue&, const Queue&) = default;
};

}  // namespace once::inline v1
