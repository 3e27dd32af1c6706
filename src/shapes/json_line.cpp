// Writing JSON: the half that parsing libraries do not do in one line and in our order.
#include "shapes/json_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "once/json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {

std::string json_array(const std::vector<std::string>& values) {
  return fmt::format("[{}]", fmt::join(values, ","));
}

std::string json_object(const std::map<std::string, std::string>& members) {
  JsonLine line;
  for (const auto& [name, value] : members) line.text(name, value);
  return line.str();
}

void JsonLine::start(std::string_view name) {
  if (text_.size() > 1) text_ += ',';
  text_ += json_string(name);
  text_ += ':';
}

JsonLine& JsonLine::text(std::string_view name, std::string_view value) {
  return json(name, json_string(value));
}

JsonLine& JsonLine::text_or_null(std::string_view name, std::string_view value) {
  return value.empty() ? null(name) : text(name, value);
}

JsonLine& JsonLine::number(std::string_view name, std::uint64_t value) {
  return json(name, fmt::format("{}", value));
}

JsonLine& JsonLine::boolean(std::string_view name, bool value) {
  return json(name, value ? "true" : "false");
}

JsonLine& JsonLine::null(std::string_view name) { return json(name, "null"); }

JsonLine& JsonLine::time(std::string_view name, Time value) {
  return text(name, format_time(value));
}

JsonLine& JsonLine::time_or_null(std::string_view name, const std::optional<Time>& value) {
  return value ? time(name, *value) : null(name);
}

JsonLine& JsonLine::time_if(std::string_view name, const std::optional<Time>& value) {
  return value ? time(name, *value) : *this;
}

JsonLine& JsonLine::json(std::string_view name, std::string_view value) {
  start(name);
  text_ += value;
  return *this;
}

JsonLine& JsonLine::body(std::string_view name, std::string_view raw_name, const Body& value) {
  if (value.is_json()) return json(name, one_line(value));
  if (is_utf8(value.text())) return text(name, value.text()).boolean("text", true);
  return text(raw_name, base64(value.text()));
}

JsonLine& JsonLine::body_or_null(std::string_view name, std::string_view raw_name,
                                 const std::optional<Body>& value) {
  return value ? body(name, raw_name, *value) : null(name);
}

JsonLine& add_content(JsonLine& line, const LogEntry& entry) {
  if (entry.body) {
    line.body("body", "raw", *entry.body);
  } else {
    line.null("body").boolean("retired", true);
  }
  return line.json("headers", json_object(entry.headers));
}

std::string one_line(const Body& body) {
  std::string text(body.text());
  // Outside of strings, where alone they can stand, line ends are white space.
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string compact(const Body& body) {
  if (!body.is_json()) return std::string(body.text());
  auto canonical = canonical_json(body.text());
  return canonical ? std::move(*canonical) : std::string(body.text());
}

}  // namespace once::cli
