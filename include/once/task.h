// The basic types of Once: a task, its body, the receipt for a publisher, and the queue.
// All types here are plain values that are safe to copy and move.
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

// Parses a duration such as `500ms`, `30s`, `2m`, `1h30m` or `7d`. `0` alone is zero.
Result<Duration> duration_from(std::string_view text);
std::string duration_text(Duration duration);

// JSON text, by default `null`, or bytes that Once does not interpret. Copies share the text.
class Body {
 public:
  Body() = default;
  // Returns an error for text that has no RFC 8785 form. Examples are invalid JSON, duplicate
  // keys, lone surrogates and numbers that do not fit a double. The error names the position.
  static Result<Body> json(std::string_view text);
  static Body bytes(std::string bytes);

  std::string_view text() const {  // the original text, not the canonical form
    return text_ ? std::string_view(*text_) : std::string_view("null");
  }
  bool is_json() const { return json_; }
  // Returns the value at a dot path such as `order.lines.0.sku`. A string is returned without
  // quotes, any other value as JSON.
  Result<std::string> at(std::string_view dot_path) const;

  friend bool operator==(const Body& left, const Body& right) {
    return left.json_ == right.json_ && left.text() == right.text();
  }

 private:
  friend struct StoredBody;
  std::shared_ptr<const std::string> text_{};  // a null pointer means the JSON text `null`
  bool json_ = true;
};

struct Task {
  std::string topic{};
  std::string id{};  // if empty, made from the content; equal content is one task
  Body body{};
  std::map<std::string, std::string> headers{};
  // The task does not start before `not_before`. A task that has not started by `expires` is
  // cancelled with that reason. The store keeps both as delays from the commit, in store time.
  // Store time does not follow the wall clock and does not advance while the machine is off.
  std::optional<Time> not_before{};
  std::optional<Time> expires{};
};

struct Receipt {
  std::string id{};
  std::uint64_t sequence{};
  std::string digest{};  // "sha256:..."
  bool duplicate{};      // the log already had the task; `sequence` is the original's
  bool unrouted{};       // no queue matches the topic yet; the log keeps the task
};

// What Once does with an attempt that ended without a verdict. Causes are a crash, a kill, a
// timeout or a lost lease. The effect of such an attempt may have happened.
enum class InDoubt {
  retry,  // run the task again; the handler can ask Context::in_doubt()
  steps,  // run the task again after its finished steps; hold it if a step was cut off
  hold,   // hold the task until a person decides
  probe,  // ask the outside system, then complete the task or run it again
};

std::string_view to_string(InDoubt policy);
std::optional<InDoubt> in_doubt_from(std::string_view name);

// What Once does with a later task that has a known key and other content.
enum class SameKey { duplicate, ignore };

// How a key template turns values into a key. A queue keeps the format of its creation.
enum class KeyFormat {
  plain,    // 17 and "17" both become 17; a missing, null or empty value makes no key
  escaped,  // format of version 0.1; 17 becomes =17 and strings are percent-escaped
};
std::string_view to_string(KeyFormat format);
std::optional<KeyFormat> key_format_from(std::string_view name);

// A named, durable subscription of a topic filter. As in NATS, `*` matches one token and `>`
// matches the rest.
struct Queue {
  std::string name{};
  std::string topic{};
  std::string key{};  // a template such as `{order.id}:{$topic}`; if empty, the task id
  KeyFormat key_format = KeyFormat::plain;  // of the template
  Duration lease{30'000};                   // renewed after a third while a handler runs
  Duration timeout{};                       // of one attempt; zero means no timeout
  int attempts{};                           // zero means one more than the backoff values
  std::vector<Duration> backoff{};          // empty means 30 s, 2 m, 5 m; last repeats
  InDoubt in_doubt = InDoubt::retry;
  SameKey same_key = SameKey::duplicate;
  int max_running{};                    // across all workers; zero means no limit
  int window{};                         // tasks claimed ahead of free handlers, per worker
  std::uint64_t max_result{};           // bytes of a task's or step's result; zero means 16 MiB
  std::optional<std::uint64_t> from{};  // first sequence; nullopt means the start of the log
  bool paused = false;                  // workers claim nothing until a person resumes the queue
  // A JetStream stream of another program. The queue takes its messages whose subjects match the
  // topic. If empty, the queue reads the zone's own log. A stream needs a key and a zone on NATS.
  std::string stream{};
  // If true, the queue is a ledger without a topic and delivers no tasks. LedgerClient uses such a
  // queue for loops that get their work from another system.
  bool ledger = false;

  friend bool operator==(const Queue&, const Queue&) = default;
};

}  // namespace once::inline v1
