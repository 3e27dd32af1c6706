#include "core/names.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "core/record.h"
#include "core/utf8.h"

namespace once::core {
namespace {

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7F; }

Error invalid(std::string message) {
  return {.code = Code::invalid_input, .message = std::move(message)};
}

// The text for a message: short, printable and valid UTF-8.
std::string shown(std::string_view text) {
  const std::string_view part = first_bytes(text, 60);
  const bool plain = !valid_utf8(part);
  std::string out = "'";
  for (const char c : part) {
    const auto u = static_cast<unsigned char>(c);
    out += is_control(u) || (plain && u >= 0x80) ? '?' : c;
  }
  out += part.size() < text.size() ? "...'" : "'";
  return out;
}

bool starts_with_ignoring_case(std::string_view text, std::string_view lower_prefix) {
  if (text.size() < lower_prefix.size()) return false;
  return std::equal(lower_prefix.begin(), lower_prefix.end(), text.begin(), [](char a, char b) {
    return a == static_cast<char>(std::tolower(static_cast<unsigned char>(b)));
  });
}

Result<void> check_dotted(std::string_view text, std::string_view what, bool wildcards) {
  if (text.empty()) return invalid("a " + std::string(what) + " may not be empty");
  if (text.size() > kMaxTopic)
    return invalid(std::string(what) + " " + shown(text) + " has " + std::to_string(text.size()) +
                   " bytes; at most " + std::to_string(kMaxTopic) + " are allowed");
  if (!valid_utf8(text)) return invalid(std::string(what) + " " + shown(text) + " is not UTF-8");
  std::size_t start = 0;
  while (true) {
    const std::size_t dot = std::min(text.find('.', start), text.size());
    const std::string_view token = text.substr(start, dot - start);
    const bool last = dot == text.size();
    if (token.empty())
      return invalid(std::string(what) + " " + shown(text) +
                     " has an empty part; write it as a.b.c");
    const bool wildcard = wildcards && (token == "*" || (token == ">" && last));
    if (!wildcard) {
      for (const char c : token) {
        if (c == '*' || c == '>')
          return invalid(std::string(what) + " " + shown(text) +
                         (wildcards ? ": * must be a whole part, > the last part"
                                    : " has a wildcard; those belong into filters"));
        if (c == ' ' || is_control(static_cast<unsigned char>(c)))
          return invalid(std::string(what) + " " + shown(text) +
                         " has a space or control character");
      }
    }
    if (last) return {};
    start = dot + 1;
  }
}

Result<void> check_text(std::string_view text, const std::string& what) {
  if (text.size() > kMaxId)
    return invalid(what + shown(text) + " has " + std::to_string(text.size()) +
                   " bytes; at most 1024 are allowed");
  if (!valid_utf8(text)) return invalid(what + shown(text) + " is not UTF-8");
  if (std::any_of(text.begin(), text.end(),
                  [](char c) { return is_control(static_cast<unsigned char>(c)); }))
    return invalid(what + shown(text) + " has a control character");
  return {};
}

}  // namespace

Result<void> check_id(std::string_view id) {
  if (id.empty()) return invalid("an id may not be empty");
  return check_text(id, "id ");
}

Result<void> check_key(std::string_view key) {
  if (key.empty()) return invalid("a key may not be empty");
  return check_text(key, "key ");
}

Result<void> check_topic(std::string_view topic) {
  if (own_topic(topic))
    return invalid("topic " + shown(topic) + ": names under $once. belong to Once itself");
  return check_dotted(topic, "topic", false);
}

Result<void> check_filter(std::string_view filter) { return check_dotted(filter, "filter", true); }

Result<void> check_name(std::string_view name, std::string_view what) {
  const bool good =
      !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
      });
  if (good) return {};
  return invalid(std::string(what) + " name " + shown(name) +
                 ": 1 to 64 of A-Z a-z 0-9 _ - are allowed");
}

Result<void> check_headers(const std::map<std::string, std::string>& headers) {
  std::size_t total = 0;
  for (const auto& [name, value] : headers) {
    total += name.size() + value.size();
    const bool token = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      const auto u = static_cast<unsigned char>(c);
      return u > 0x20 && u < 0x7F && c != ':';
    });
    if (!token)
      return invalid("header " + shown(name) +
                     ": names are printable ASCII without space and colon");
    if (starts_with_ignoring_case(name, "nats-") || starts_with_ignoring_case(name, "once-"))
      return invalid("header " + shown(name) +
                     ": names that begin with Nats- or Once- are reserved");
    const bool clean = std::none_of(value.begin(), value.end(), [](char c) {
      return is_control(static_cast<unsigned char>(c));
    });
    if (!clean || !valid_utf8(value))
      return invalid("header " + shown(name) +
                     ": the value must be UTF-8 without control characters");
  }
  if (total > kMaxHeaders)
    return Error{.code = Code::too_large,
                 .message = "the headers have " + std::to_string(total) +
                            " bytes together; at most " + std::to_string(kMaxHeaders) +
                            " are allowed"};
  return {};
}

Result<void> check_step_name(std::string_view text) {
  const auto refused = [](const std::string& why) {
    return Error{Code::invalid_input, "the step's name " + why + "; nothing was run; use 1 to " +
                                          std::to_string(kMaxStepName) +
                                          " bytes of text without control characters"};
  };
  if (text.empty()) return refused("is empty");
  if (text.size() > kMaxStepName) return refused("has " + std::to_string(text.size()) + " bytes");
  if (!valid_utf8(text)) return refused("is not UTF-8");
  if (std::any_of(text.begin(), text.end(),
                  [](char c) { return is_control(static_cast<unsigned char>(c)); }))
    return refused("has a control character");
  return {};
}

Result<void> check_stream(std::string_view name) {
  const bool good =
      !name.empty() && name.size() <= 255 && std::all_of(name.begin(), name.end(), [](char c) {
        const auto u = static_cast<unsigned char>(c);
        return u > 0x20 && u < 0x7F && std::string_view(".*>/\\").find(c) == std::string_view::npos;
      });
  if (good) return {};
  return invalid("stream name " + shown(name) +
                 ": 1 to 255 printable ASCII characters without space . * > / \\ are allowed");
}

Result<void> check_queue(const Queue& queue) {
  if (auto ok = check_name(queue.name, "queue"); !ok) return ok;
  const auto refuse = [&](std::string_view what) {
    return invalid("queue " + queue.name + ": " + std::string(what));
  };
  if (!queue.stream.empty()) {
    if (auto ok = check_stream(queue.stream); !ok) return ok;
    if (queue.ledger)
      return refuse("a ledger-only queue takes no stream: nothing is delivered to it");
    if (queue.key.empty())
      return refuse(
          "a stream of others' has no task ids: its key must say what a task is there, such as "
          "header:Nats-Msg-Id or {order.id}");
  }
  if (queue.ledger) {
    if (!queue.topic.empty() || !queue.key.empty() || queue.from)
      return refuse("a ledger-only queue takes no topic, key or from: nothing is delivered to it");
    if (queue.max_running != 0 || queue.window != 0 || queue.timeout != Duration{0} || queue.paused)
      return refuse(
          "a ledger-only queue takes no max-running, window, timeout or pause: its loops run by "
          "themselves");
    if (queue.in_doubt == InDoubt::steps || queue.in_doubt == InDoubt::probe)
      return refuse("a ledger-only queue takes in-doubt retry or hold: it has no worker to ask");
  } else if (auto ok = check_filter(queue.topic); !ok) {
    return ok;
  } else if (queue.stream.empty() && own_topic(queue.topic) && !own_queue(queue.name)) {
    return refuse("topics under $once. belong to Once itself");
  }
  constexpr Duration kLongest = std::chrono::hours{24 * 365};
  if (queue.lease < Duration{100} || queue.lease > kLongest)
    return refuse("the lease must be between 100ms and a year");
  if (queue.timeout < Duration{0} || queue.timeout > kLongest)
    return refuse("the timeout must be between 0 (none) and a year");
  if (queue.attempts < 0 || queue.attempts > 1'000'000)
    return refuse("attempts must be between 1 and 1000000, or 0 for the default");
  if (queue.backoff.size() > 100) return refuse("at most 100 backoff values are allowed");
  for (const Duration value : queue.backoff)
    if (value < Duration{0} || value > kLongest)
      return refuse("a backoff value must be between 0 and a year");
  if (queue.max_result > kHighestMaxResult)
    return refuse("max-result must be between 1 byte and 256 MiB, or 0 for 16 MiB");
  if (queue.max_running < 0 || queue.max_running > 1024)
    return refuse("max-running must be between 1 and 1024, or 0 for no limit");
  if (queue.window < 0 || queue.window > 10'000)
    return refuse("the window must be between 0 and 10000");
  if (queue.window > 0 && queue.in_doubt != InDoubt::retry)
    return refuse("a window needs in-doubt retry: what is claimed ahead and lost never began");
  return {};
}

std::string stream_task_id(std::string_view stream, std::uint64_t sequence) {
  return std::string(stream) + ":" + std::to_string(sequence);
}

std::optional<std::uint64_t> sequence_in(std::string_view stream, std::string_view id) {
  if (!id.starts_with(stream) || id.size() <= stream.size() + 1) return std::nullopt;
  std::uint64_t sequence = 0;
  std::from_chars(id.data() + stream.size() + 1, id.data() + id.size(), sequence);
  if (sequence == 0 || stream_task_id(stream, sequence) != id) return std::nullopt;
  return sequence;
}

bool own_topic(std::string_view topic) { return topic == "$once" || topic.starts_with("$once."); }

bool own_queue(std::string_view name) {
  return name == kFlowQueue || name == kFlowsLedger || name == kRunsLedger || name == kKeysLedger ||
         name == kValuesLedger;
}

bool matches(std::string_view filter, std::string_view topic) {
  if (own_topic(topic) && !own_topic(filter)) return false;
  while (true) {
    if (filter == ">") return true;
    const std::size_t filter_dot = std::min(filter.find('.'), filter.size());
    const std::size_t topic_dot = std::min(topic.find('.'), topic.size());
    const std::string_view token = filter.substr(0, filter_dot);
    if (token != "*" && token != topic.substr(0, topic_dot)) return false;
    const bool filter_ends = filter_dot == filter.size();
    const bool topic_ends = topic_dot == topic.size();
    if (filter_ends || topic_ends) return filter_ends && topic_ends;
    filter.remove_prefix(filter_dot + 1);
    topic.remove_prefix(topic_dot + 1);
  }
}

// A `*` of the filter would take the `>` of the other for one token.
bool covers(std::string_view filter, std::string_view other) {
  return matches(filter, other) && (!other.ends_with('>') || filter.ends_with('>'));
}

}  // namespace once::core
