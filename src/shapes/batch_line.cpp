// A splitter for the one object a line holds. It finds where values begin and end; strings are read
// by nlohmann::json, bodies by Body::json.
#include "shapes/batch_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

Error refused(std::string message) {
  return {.code = Code::invalid_input, .message = message + "; the line was not published"};
}

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

  Error expected(std::string_view what) const {
    return refused(
        fmt::format("not the JSON object it should be: {} expected at byte {}", what, at_ + 1));
  }

  Result<std::string> string(std::string_view what) {
    skip_space();
    const std::size_t start = at_;
    if (start >= text_.size() || text_[start] != '"') return expected(what);
    if (!skip_string()) return expected("a closing quote");
    const auto token = text_.substr(start, at_ - start);
    const auto value = nlohmann::json::parse(token, nullptr, false);
    if (!value.is_string()) {
      return refused(fmt::format("the string at byte {} is not a valid JSON string", start + 1));
    }
    return value.get<std::string>();
  }

  // The text of any value; whether it is valid is for others to say.
  Result<std::string_view> value() {
    skip_space();
    const std::size_t start = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
      if (c == '"') {
        if (!skip_string()) return expected("a closing quote");
        continue;
      }
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at_;
    }
    auto token = text_.substr(start, at_ - start);
    while (!token.empty() && is_space(token.back())) token.remove_suffix(1);
    if (token.empty()) return expected("a value");
    return token;
  }

 private:
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool skip_string() {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '\\') {
        ++at_;
      } else if (text_[at_] == '"') {
        ++at_;
        return true;
      }
    }
    at_ = text_.size();
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// `member` takes each member's value; it has the name.
template <class Member>
Result<void> read_object(Splitter& in, Member member) {
  if (!in.take('{')) return in.expected("{");
  std::set<std::string> seen;
  if (in.take('}')) return {};
  do {
    auto name = in.string("a name");
    if (!name) return name.error();
    if (!seen.insert(*name).second) return refused(fmt::format("\"{}\" is there twice", *name));
    if (!in.take(':')) return in.expected(":");
    if (Result<void> done = member(*name); !done) return done;
  } while (in.take(','));
  if (!in.take('}')) return in.expected(", or }");
  return {};
}

Result<void> read_headers(Splitter& in, Task& task) {
  return read_object(in, [&](const std::string& name) -> Result<void> {
    auto value = in.string(fmt::format("a string for header \"{}\"", name));
    if (!value) return value.error();
    task.headers.emplace(name, std::move(*value));
    return {};
  });
}

// Does nothing for other fields.
Result<void> read_time(const std::string& name, const std::string& text, Time now, Task& task) {
  auto take = [&](std::optional<Time>& to, std::optional<Time> time,
                  std::string_view wanted) -> Result<void> {
    to = time;
    if (time) return {};
    return refused(fmt::format("\"{}\" takes {}, not \"{}\"", name, wanted, text));
  };
  if (name == "delay") {
    const auto delay = parse_duration(text);
    return take(task.not_before, delay ? std::optional(now + *delay) : std::nullopt,
                "a duration such as 30s or 1h30m");
  }
  if (name == "at") {
    return take(task.not_before, parse_time(text), "a time such as 2024-05-01T09:30:00Z");
  }
  if (name == "expires") {
    return take(task.expires, parse_coming(text, now),
                "a duration such as 1h, or a time such as 2024-05-01T09:30:00Z");
  }
  return {};
}

}  // namespace

Result<Task> task_from(std::string_view line) {
  Splitter in(line);
  Task task;
  const Time now = cli::now();  // one moment for "delay" and "expires"
  std::set<std::string> given;
  bool is_text = false;
  auto member = [&](const std::string& name) -> Result<void> {
    given.insert(name);
    if (name == "headers") return read_headers(in, task);
    if (name == "body") {
      auto text = in.value();
      if (!text) return text.error();
      auto body = Body::json(*text);
      if (!body) return body.error();
      task.body = std::move(*body);
      return {};
    }
    if (name == "text") {
      auto value = in.value();
      if (!value) return value.error();
      is_text = *value == "true";
      if (is_text || *value == "false") return {};
      return refused(fmt::format("\"text\" takes true or false, not {}", *value));
    }
    static const std::set<std::string> kTexts{"id", "topic", "raw", "delay", "at", "expires"};
    if (!kTexts.contains(name)) {
      return refused(fmt::format(
          "unknown field \"{}\" (known: id, topic, body, text, raw, headers, delay, at, expires)",
          name));
    }
    auto text = in.string(fmt::format("a string for \"{}\"", name));
    if (!text) return text.error();
    if (name == "id") task.id = std::move(*text);
    if (name == "topic") task.topic = std::move(*text);
    if (name == "raw") {
      auto bytes = from_base64(*text);
      if (!bytes) return refused("\"raw\" is not base64");
      task.body = Body::bytes(std::move(*bytes));
    }
    return read_time(name, *text, now, task);
  };
  if (auto done = read_object(in, member); !done) return done.error();
  if (!in.at_end()) return in.expected("the end of the line");
  if (!given.contains("topic")) return refused("\"topic\" is missing");
  if (given.contains("id") && task.id.empty()) return refused("\"id\" is empty");
  if (given.contains("delay") && given.contains("at")) {
    return refused("\"delay\" and \"at\" are both there");
  }
  if (given.contains("body") && given.contains("raw")) {
    return refused("\"body\" and \"raw\" are both there");
  }
  if (is_text) {
    const auto value = nlohmann::json::parse(task.body.text(), nullptr, false);
    if (!value.is_string()) return refused("with \"text\":true, \"body\" must be a string");
    task.body = Body::bytes(value.get<std::string>());
  }
  return task;
}

}  // namespace once::cli
