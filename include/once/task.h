// The nouns of Once: a task and its body, the receipt a publisher gets, the queue that hands tasks
// to workers. Plain values; copy and move them freely.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
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

// JSON text (by default `null`) or bytes that Once does not look into. Copies share the text.
class Body {
 public:
  Body() = default;
  // Refuses what RFC 8785 cannot make canonical: invalid JSON, duplicate keys, lone surrogates,
  // numbers that a double cannot hold. The error names the place.
  static Result<Body> json(std::string_view text);
  static Body bytes(std::string bytes);

  std::string_view text() const {  // as given, not canonical
    return text_ ? std::string_view(*text_) : std::string_view("null");
  }
  bool is_json() const { return json_; }
  // The value at a dot path (`order.lines.0.sku`): a string as it is, anything else as JSON.
  Result<std::string> at(std::string_view dot_path) const;

  friend bool operator==(const Body& left, const Body& right) {
    return left.json_ == right.json_ && left.text() == right.text();
  }

 private:
  friend struct StoredBody;
  std::shared_ptr<const std::string> text_{};  // null: `null`
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

// How the values of a key template become a key. A queue keeps the format that it was made with.
enum class KeyFormat {
  plain,    // as people write them: 17 and "17" are 17; a missing, null or empty value is no key
  escaped,  // of version 0.1: 17 is =17, strings are percent-escaped
};
std::string_view to_string(KeyFormat format);
std::optional<KeyFormat> key_format_from(std::string_view name);

// A named, durable subscription of a topic filter (`*` one token, `>` the rest, as in NATS).
struct Queue {
  std::string name{};
  std::string topic{};
  std::string key{};  // template such as `{order.id}:{$topic}`; empty: the task id
  KeyFormat key_format = KeyFormat::plain;  // of the template
  Duration lease{30'000};                   // renewed at a third of it while a handler runs
  Duration timeout{};                       // of one attempt; zero: none
  int attempts{};                           // zero: one more than there are backoff values
  std::vector<Duration> backoff{};          // empty: 30 s, 2 m, 5 m; the last value repeats
  InDoubt in_doubt = InDoubt::retry;
  SameKey same_key = SameKey::duplicate;
  int max_running{};                    // across all workers; zero: no limit
  int window{};                         // claimed ahead of free handlers, per worker
  std::uint64_t max_result{};           // bytes of a task's or a step's result; zero: 16 MiB
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
