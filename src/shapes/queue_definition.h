// A queue as options on the command line (`queue add`, `queue set`, `work`), as fields of a file
// (`apply`) or of a request, and as people read it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "once/zone.h"
#include "shapes/json_line.h"

namespace once::cli {

struct QueueOptions {
  std::optional<std::string> topic{}, key{}, stream{}, backoff{}, in_doubt{}, same_key{}, from{},
      max_result{};
  std::optional<Duration> lease{}, timeout{};
  std::optional<std::uint64_t> attempts{}, max_running{}, window{};

  bool ledger = false;

  bool delivers() const { return topic || stream; }  // says where tasks come from

  // The name of an option that is given; none: none is.
  std::optional<std::string> any_fixed() const;       // for the life of a queue
  std::optional<std::string> any_changeable() const;  // by `queue set`
};

// One setting of a queue: an option on the command line, a field in a file.
struct QueueField {
  using Text = std::optional<std::string> QueueOptions::*;
  using Length = std::optional<Duration> QueueOptions::*;
  using Count = std::optional<std::uint64_t> QueueOptions::*;
  using Switch = bool QueueOptions::*;

  const char* name;  // as in a file: in_doubt
  std::variant<Text, Length, Count, Switch> to;
  bool fixed;  // for the life of a queue
  const char* values;
  const char* help;
  std::uint64_t least = 0;  // of a number, and of a duration in milliseconds

  std::string option() const;  // --in-doubt
  bool given(const QueueOptions& options) const;
};
std::span<const QueueField> queue_fields();
inline constexpr std::uint64_t kMostCount = 1'000'000;

// All but --from, which needs a zone.
Result<Queue> queue_from(const std::string& name, const QueueOptions& options);
// Changes what is given of the changeable ones.
Result<void> apply(const QueueOptions& options, Queue& queue);

struct Added {
  Queue queue{};
  bool existed = false;
  std::uint64_t found{};
};
// Adds the queue. `--from now` and `--from TIME` mean what they meant when it was made, so that the
// same command again is fine.
Result<Added> add_queue(Zone& zone, Queue queue, const std::optional<std::string>& from);

std::optional<Queue> find_queue(const std::vector<Queue>& queues, std::string_view name);
Error no_such_queue(std::string_view name);
Result<Queue> existing_queue(const Zone& zone, std::string_view name);

int effective_attempts(const Queue& queue);
std::string backoff_text(const Queue& queue);  // 30s,2m,5m
JsonLine& add_fields(JsonLine& line, const Queue& queue);
std::string topic_text(const Queue& queue);   // for people
std::string source_text(const Queue& queue);  // "the log", "the stream ORDERS"
// The definition as lines of label and value.
std::vector<std::pair<std::string, std::string>> described(const Queue& queue);

// A setting in which two definitions of a queue differ. A default is the same as its value.
struct QueueChange {
  std::string label{};  // as in described()
  std::string before{};
  std::string after{};
  bool fixed = false;  // it cannot be changed
};
std::vector<QueueChange> differences(const Queue& before, const Queue& after);

}  // namespace once::cli
