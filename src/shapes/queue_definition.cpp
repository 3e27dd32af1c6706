// Options to Queue, `--from` to a sequence, and back to text.
#include "shapes/queue_definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

Error invalid(std::string message) {
  return {.code = Code::invalid_input, .message = std::move(message)};
}

const std::vector<Duration>& effective_backoff(const Queue& queue) {
  using namespace std::chrono_literals;
  static const std::vector<Duration> kDefault{30s, 2min, 5min};
  return queue.backoff.empty() ? kDefault : queue.backoff;
}

Result<std::vector<Duration>> parse_backoff(std::string_view text) {
  std::vector<Duration> values;
  for (;;) {
    const std::size_t comma = text.find(',');
    const auto value = parse_duration(text.substr(0, comma));
    if (!value) {
      return invalid(fmt::format(
          "--backoff takes durations with commas between, such as 30s,2m,5m, not \"{}\"",
          text.substr(0, comma)));
    }
    values.push_back(*value);
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

// One more than the log's last sequence. Found by halving: the API reads forward only.
Result<std::uint64_t> end_of_log(const Zone& zone) {
  auto beyond = [&](std::uint64_t after) -> Result<bool> {
    auto entries = zone.tasks().log(after, 1);
    if (!entries) return entries.error();
    return !entries->empty();
  };
  std::uint64_t low = 0, high = 1;  // something comes after `low`, or low is zero
  for (;;) {
    auto more = beyond(high);
    if (!more) return more.error();
    if (!*more) break;
    low = high;
    high *= 2;
  }
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    auto more = beyond(middle);
    if (!more) return more.error();
    if (*more) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low + 1;
}

// The first entry published then or later. Read from the beginning: clocks may have been set back,
// and a task too many is better than one that is left out.
Result<std::uint64_t> first_since(const Zone& zone, Time since) {
  std::uint64_t after = 0;
  for (;;) {
    auto entries = zone.tasks().log(after, 100);
    if (!entries) return entries.error();
    if (entries->empty()) return after + 1;
    for (const LogEntry& entry : *entries) {
      if (entry.published_at >= since) return entry.sequence;
    }
    after = entries->back().sequence;
  }
}

Result<std::optional<std::uint64_t>> start_from(const Zone& zone, const std::string& from) {
  if (from == "start") return std::optional<std::uint64_t>{};
  if (from == "now") {
    auto end = end_of_log(zone);
    if (!end) return end.error();
    return std::optional(*end);
  }
  if (auto sequence = parse_number(from)) {
    if (*sequence == 0) return invalid("--from takes a sequence from 1 on, not 0");
    return sequence;
  }
  auto time = parse_time(from);
  if (!time) {
    return invalid(fmt::format(
        "--from takes start, now, a sequence or a time such as 2024-05-01T09:30:00Z, not \"{}\"",
        from));
  }
  if (*time > now()) {
    return invalid(
        fmt::format("--from {} is in the future; nothing was added. Give now, a sequence "
                    "or a time that has passed",
                    from));
  }
  auto first = first_since(zone, *time);
  if (!first) return first.error();
  return std::optional(*first);
}

constexpr std::uint64_t kMostResult = 256 << 20;

// "64MiB", "500KiB", "1000": bytes, at least one and no more than a queue takes.
std::optional<std::uint64_t> parse_size(std::string_view text) {
  int shift = 0;
  if (text.ends_with("KiB")) shift = 10;
  if (text.ends_with("MiB")) shift = 20;
  if (shift > 0) text.remove_suffix(3);
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  if (number == 0 || number > kMostResult >> shift) return std::nullopt;
  return number << shift;
}

std::string size_text(std::uint64_t bytes) {
  for (const auto& [shift, unit] : {std::pair(20, "MiB"), std::pair(10, "KiB")})
    if (bytes % (std::uint64_t{1} << shift) == 0) return fmt::format("{}{}", bytes >> shift, unit);
  return fmt::format("{} bytes", bytes);
}

std::uint64_t effective_max_result(const Queue& queue) {
  return queue.max_result > 0 ? queue.max_result : 16 << 20;
}

using Options = QueueOptions;

// In the order of the help: what is fixed, then what `queue set` can change.
constexpr QueueField kFields[] = {
    {"topic", &Options::topic, true, "FILTER",
     "The topics it takes: orders.new, orders.*, orders.>"},
    {"key", &Options::key, true, "TEMPLATE",
     "What a task is remembered by: {order.id}, header:NAME; none: its id"},
    {"from", &Options::from, true, "WHERE",
     "Where in the log it starts: start, now, a sequence or a time (start)"},
    {"stream", &Options::stream, true, "STREAM",
     "Take tasks from this JetStream stream, whoever publishes to it, and not\n"
     "from the zone's log; needs --key, --topic filters its subjects (>)"},
    {"ledger", &Options::ledger, true, "", "Without a topic: a ledger-only queue, for once claim"},
    {"lease", &Options::lease, false, "DURATION", "How long a silent worker keeps a task (30s)", 1},
    {"timeout", &Options::timeout, false, "DURATION",
     "How long one attempt may take; 0: no limit (0)"},
    {"attempts", &Options::attempts, false, "N",
     "Attempts before a task is dead (backoff values + 1)", 1},
    {"backoff", &Options::backoff, false, "D,D,...",
     "Waits between attempts, the last one repeats (30s,2m,5m)"},
    {"in_doubt", &Options::in_doubt, false, "retry|steps|probe|hold",
     "After an attempt without a verdict: run it again (retry, the default);\n"
     "the same, but hold it when a step was cut off (steps); ask whether it\n"
     "happened (probe); hold it for a person (hold)"},
    {"max_running", &Options::max_running, false, "N",
     "Tasks running at once, all workers together; 0: no limit (0)"},
    {"max_result", &Options::max_result, false, "SIZE",
     "The most a result, a task's or a step's, may have: 500KiB, 64MiB (16MiB)"},
    {"window", &Options::window, false, "N", "Tasks a worker claims ahead of free hands (0)"},
    {"same_key", &Options::same_key, false, "duplicate|ignore",
     "Other content under a known key: dead with that reason (duplicate),\n"
     "or a duplicate all the same (ignore)"},
};

std::optional<std::string> any(const QueueOptions& options, bool fixed) {
  for (const QueueField& field : kFields)
    if (field.fixed == fixed && field.given(options)) return field.option();
  return {};
}

}  // namespace

std::string QueueField::option() const {
  std::string option = std::string("--") + name;
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

bool QueueField::given(const QueueOptions& options) const {
  return std::visit([&](auto member) { return static_cast<bool>(options.*member); }, to);
}

std::span<const QueueField> queue_fields() { return kFields; }

std::optional<std::string> QueueOptions::any_fixed() const { return any(*this, true); }
std::optional<std::string> QueueOptions::any_changeable() const { return any(*this, false); }

Result<void> apply(const QueueOptions& options, Queue& queue) {
  if (options.lease) queue.lease = *options.lease;
  if (options.timeout) queue.timeout = *options.timeout;
  if (options.attempts) queue.attempts = static_cast<int>(*options.attempts);
  if (options.max_running) queue.max_running = static_cast<int>(*options.max_running);
  if (options.window) queue.window = static_cast<int>(*options.window);
  if (options.max_result) {
    const auto size = parse_size(*options.max_result);
    if (!size)
      return invalid(fmt::format("--max-result takes 1 byte to 256MiB (500KiB, 64MiB), not \"{}\"",
                                 printable(*options.max_result)));
    queue.max_result = *size;
  }
  if (options.backoff) {
    auto backoff = parse_backoff(*options.backoff);
    if (!backoff) return backoff.error();
    queue.backoff = std::move(*backoff);
  }
  if (options.in_doubt) {
    const auto policy = in_doubt_from(*options.in_doubt);
    if (!policy) {
      return invalid(fmt::format("--in-doubt takes retry, steps, probe or hold, not \"{}\"",
                                 *options.in_doubt));
    }
    queue.in_doubt = *policy;
  }
  if (options.same_key) {
    if (*options.same_key != "duplicate" && *options.same_key != "ignore") {
      return invalid(
          fmt::format("--same-key takes duplicate or ignore, not \"{}\"", *options.same_key));
    }
    queue.same_key = *options.same_key == "ignore" ? SameKey::ignore : SameKey::duplicate;
  }
  return {};
}

Result<Queue> queue_from(const std::string& name, const QueueOptions& options) {
  Queue queue{.name = name,
              .topic = options.topic.value_or(options.stream ? ">" : ""),
              .key = options.key.value_or(""),
              .stream = options.stream.value_or("")};
  if (options.stream && options.stream->empty())
    return invalid("--stream takes a name; it is empty");
  queue.ledger = options.ledger;
  if (auto done = apply(options, queue); !done) return done.error();
  return queue;
}

Result<Added> add_queue(Zone& zone, Queue queue, const std::optional<std::string>& from) {
  const bool relative = from && *from != "start" && !parse_number(*from);
  if (relative && !queue.stream.empty()) {
    return invalid(
        "--from takes start or a sequence of the stream together with --stream; nothing was added");
  }
  if (!queue.stream.empty() && queue.key.empty()) {
    return invalid(fmt::format(
        "queue {}: a stream of others' has no task ids: say by --key what a task is there, such as "
        "header:Nats-Msg-Id or {{order.id}}; nothing was added",
        queue.name));
  }
  // Twice: another process may add the queue between looking and adding.
  for (int attempt = 0;; ++attempt) {
    auto queues = zone.queues().list();
    if (!queues) return queues.error();
    const auto existing = find_queue(*queues, queue.name);
    if (existing) queue.key_format = existing->key_format;
    if (existing && relative) {
      queue.from = existing->from;
    } else if (from) {
      auto start = start_from(zone, *from);
      if (!start) return start.error();
      queue.from = *start;
    }
    auto found = zone.queues().add(queue);
    if (found) return Added{existing.value_or(queue), existing.has_value(), *found};
    const bool again = found.error().code == Code::queue_mismatch && relative && !existing;
    if (!again || attempt > 0) return found.error();
  }
}

std::optional<Queue> find_queue(const std::vector<Queue>& queues, std::string_view name) {
  const auto found = std::find_if(queues.begin(), queues.end(),
                                  [&](const Queue& queue) { return queue.name == name; });
  return found == queues.end() ? std::nullopt : std::optional(*found);
}

Error no_such_queue(std::string_view name) {
  return {.code = Code::not_found,
          .message = fmt::format("there is no queue {} (once queue list)", name)};
}

Result<Queue> existing_queue(const Zone& zone, std::string_view name) {
  auto queues = zone.queues().list();
  if (!queues) return queues.error();
  if (auto queue = find_queue(*queues, name)) return std::move(*queue);
  return no_such_queue(name);
}

int effective_attempts(const Queue& queue) {
  return queue.attempts > 0 ? queue.attempts
                            : static_cast<int>(effective_backoff(queue).size()) + 1;
}

std::string backoff_text(const Queue& queue) {
  std::string out;
  for (Duration value : effective_backoff(queue)) {
    if (!out.empty()) out += ',';
    out += format_duration(value);
  }
  return out;
}

JsonLine& add_fields(JsonLine& line, const Queue& queue) {
  auto number_or_null = [&](std::string_view name, int value) {
    if (value > 0) {
      line.number(name, static_cast<std::uint64_t>(value));
    } else {
      line.null(name);
    }
  };
  line.text("queue", queue.name)
      .text_or_null("topic", queue.topic)
      .text_or_null("key", queue.key)
      .text_or_null("key_format", queue.key.empty() ? "" : to_string(queue.key_format))
      .text("lease", format_duration(queue.lease))
      .text_or_null("timeout", queue.timeout.count() > 0 ? format_duration(queue.timeout) : "")
      .number("attempts", static_cast<std::uint64_t>(effective_attempts(queue)));
  std::vector<std::string> backoff;
  for (Duration value : effective_backoff(queue)) {
    backoff.push_back(json_string(format_duration(value)));
  }
  line.json("backoff", json_array(backoff)).text("in_doubt", to_string(queue.in_doubt));
  number_or_null("max_running", queue.max_running);
  line.number("max_result", effective_max_result(queue));
  line.number("window", static_cast<std::uint64_t>(std::max(queue.window, 0)));
  line.text("same_key", queue.same_key == SameKey::ignore ? "ignore" : "duplicate");
  if (queue.from) {
    line.number("from", *queue.from);
  } else {
    line.null("from");
  }
  return line.boolean("paused", queue.paused)
      .boolean("ledger", queue.ledger)
      .text_or_null("stream", queue.stream);
}

std::string topic_text(const Queue& queue) {
  if (queue.ledger) return "(ledger)";
  return printable(queue.stream.empty() ? queue.topic : queue.stream + ": " + queue.topic);
}

namespace {

std::string format_text(KeyFormat format) {
  return format == KeyFormat::plain ? "plain" : "escaped: of version 0.1 (17 is =17)";
}

}  // namespace

std::string source_text(const Queue& queue) {
  return queue.stream.empty() ? "the log" : "the stream " + printable(queue.stream);
}

std::vector<std::pair<std::string, std::string>> described(const Queue& queue) {
  return {
      {"topic", queue.ledger ? "none: a ledger-only queue (once claim)" : printable(queue.topic)},
      {"key", queue.key.empty() ? "the task's id" : printable(queue.key)},
      {"key format", queue.key.empty() ? "none: no template" : format_text(queue.key_format)},
      {"lease", format_duration(queue.lease)},
      {"timeout", queue.timeout.count() > 0 ? format_duration(queue.timeout) : "none"},
      {"attempts", fmt::format("{}", effective_attempts(queue))},
      {"backoff", backoff_text(queue)},
      {"in doubt", std::string(to_string(queue.in_doubt))},
      {"max running", queue.max_running > 0 ? fmt::format("{}", queue.max_running) : "no limit"},
      {"max result", size_text(effective_max_result(queue))},
      {"window", fmt::format("{}", queue.window)},
      {"same key", queue.same_key == SameKey::ignore ? "ignore" : "duplicate"},
      {"stream", queue.stream.empty() ? "none: the zone's log" : printable(queue.stream)},
      {"from", queue.from ? fmt::format("#{}", *queue.from) : "start"},
      {"paused", queue.paused ? "yes" : "no"},
  };
}

std::vector<QueueChange> differences(const Queue& before, const Queue& after) {
  const auto old = described(before);
  const auto wanted = described(after);
  std::vector<QueueChange> changes;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == old[i]) continue;
    const std::string& label = wanted[i].first;
    const bool fixed = std::any_of(std::begin(kFields), std::end(kFields), [&](const auto& field) {
      return field.fixed && label == field.name;
    });
    changes.push_back({label, old[i].second, wanted[i].second, fixed});
  }
  return changes;
}

}  // namespace once::cli
