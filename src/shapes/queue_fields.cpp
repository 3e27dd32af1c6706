#include "shapes/queue_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "shapes/values.h"

namespace once::cli {
namespace {

using Json = nlohmann::ordered_json;
using Mistake = std::optional<std::string>;

Mistake read_text(const QueueField& field, const Json& value, std::optional<std::string>& to) {
  const std::string_view name = field.name;
  if (name == "from" && value.is_number_unsigned())
    to = value.dump();
  else if (name == "backoff" && value.is_array() && !value.empty() &&
           std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); }))
    to = fmt::format("{}", fmt::join(value.get<std::vector<std::string>>(), ","));
  else if (value.is_string())
    to = value.get<std::string>();
  else
    return fmt::format("takes a text, not {}", kind_of(value));
  if (name == "from" && *to != "start" && *to != "now" && parse_number(*to).value_or(0) == 0 &&
      !parse_time(*to))
    return fmt::format(
        "takes start, now, a sequence from 1 on or a time such as "
        "2024-05-01T09:30:00Z, not {}",
        kind_of(value));
  return {};
}

Mistake read_length(const QueueField& field, const Json& value, std::optional<Duration>& to) {
  if (value.is_string())
    to = parse_duration(value.get<std::string>());
  else if (value == 0)
    to = Duration{0};
  if (!to)
    return fmt::format("takes a duration such as \"500ms\", \"30s\" or \"1h30m\", not {}",
                       kind_of(value));
  if (static_cast<std::uint64_t>(to->count()) < field.least)
    return fmt::format("takes at least {}",
                       format_duration(Duration{static_cast<Duration::rep>(field.least)}));
  return {};
}

Mistake read_number(const QueueField& field, const Json& value, std::optional<std::uint64_t>& to) {
  const bool whole = value.is_number_integer() && value >= 0;
  if (whole) to = value.get<std::uint64_t>();
  if (!whole || *to < field.least || *to > kMostCount)
    return fmt::format("takes a whole number from {} to {}, not {}", field.least, kMostCount,
                       kind_of(value));
  return {};
}

}  // namespace

const QueueField* find_queue_field(std::string_view name) {
  const auto fields = queue_fields();
  const auto field = std::find_if(fields.begin(), fields.end(),
                                  [&](const QueueField& each) { return name == each.name; });
  return field == fields.end() ? nullptr : &*field;
}

std::optional<std::string> read_queue_field(const QueueField& field, const Json& value,
                                            QueueOptions& options) {
  if (const auto* text = std::get_if<QueueField::Text>(&field.to))
    return read_text(field, value, options.*(*text));
  if (const auto* length = std::get_if<QueueField::Length>(&field.to))
    return read_length(field, value, options.*(*length));
  if (const auto* number = std::get_if<QueueField::Count>(&field.to))
    return read_number(field, value, options.*(*number));
  if (!value.is_boolean()) return fmt::format("takes true or false, not {}", kind_of(value));
  options.*std::get<QueueField::Switch>(field.to) = value.get<bool>();
  return {};
}

std::string option_as_field(std::string message) {
  if (!message.starts_with("--")) return message;
  message.erase(0, 2);
  std::replace(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(message.find(' ')),
               '-', '_');
  return message;
}

std::string kind_of(const Json& value) {
  if (value.is_string()) return fmt::format("\"{}\"", printable(value.get<std::string>()));
  if (value.is_array()) return "a list";
  if (value.is_object()) return "a table";
  return value.dump();
}

}  // namespace once::cli
