#include "server/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "server/access.h"
#include "server/problem.h"
#include "shapes/queue_fields.h"
#include "shapes/values.h"

namespace once::server {

using Json = nlohmann::ordered_json;

std::string media_type(const Request& request) {
  std::string type(request.header("Content-Type").value_or(""));
  type.erase(std::min(type.find(';'), type.size()));
  type.erase(type.find_last_not_of(" \t") + 1);
  std::transform(type.begin(), type.end(), type.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  });
  return type;
}

Response unsupported_media_type(const std::string& given, std::string_view wanted) {
  return problem(
      415,
      invalid_input(given.empty() ? fmt::format("the body needs a Content-Type: {}", wanted)
                                  : fmt::format("the body must be {}, not {}", wanted, given)));
}

Result<std::optional<Duration>> duration_query(const Call& call, const std::string& name) {
  const auto text = call.query(name);
  if (!text) return std::optional<Duration>{};
  const auto duration = cli::parse_duration(*text);
  if (!duration)
    return invalid_input(
        fmt::format("\"{}\" takes a duration such as 30s or 1h30m, not \"{}\"", name, *text));
  return duration;
}

Result<std::uint64_t> number_query(const Call& call, const std::string& name,
                                   std::uint64_t otherwise, std::uint64_t least,
                                   std::uint64_t most) {
  const auto text = call.query(name);
  if (!text) return otherwise;
  const auto number = cli::parse_number(*text);
  if (!number || *number < least || *number > most)
    return invalid_input(fmt::format("\"{}\" takes a whole number from {} to {}, not \"{}\"", name,
                                     least, most, *text));
  return *number;
}

Result<bool> switch_query(const Call& call, const std::string& name) {
  const auto text = call.query(name);
  if (!text || *text == "false") return false;
  if (*text == "true") return true;
  return invalid_input(fmt::format("\"{}\" takes true or false, not \"{}\"", name, *text));
}

Result<std::optional<Time>> past_query(const Call& call, const std::string& name) {
  const auto text = call.query(name);
  if (!text) return std::optional<Time>{};
  const auto time = cli::parse_past(*text, cli::now());
  if (!time)
    return invalid_input(
        fmt::format("\"{}\" takes a time such as 2024-05-01T09:30:00Z, a date, or 2h for so long "
                    "ago, not \"{}\"",
                    name, *text));
  return time;
}

std::optional<Response> not_json(const Request& request) {
  const std::string type = media_type(request);
  if (request.body.empty() || type == "application/json") return {};
  return unsupported_media_type(type, "application/json");
}

Result<Fields> Fields::read(const Request& request, const std::vector<std::string>& known) {
  if (request.body.empty()) return Fields(std::make_shared<const Json>(Json::object()));
  // Body::json() also refuses a field that is there twice.
  if (auto body = Body::json(request.body); !body)
    return invalid_input(fmt::format("the body is no JSON: {}", body.error().message));
  auto json = std::make_shared<const Json>(Json::parse(request.body, nullptr, false));
  if (!json->is_object()) return invalid_input("the body must be a JSON object");
  for (const auto& [name, value] : json->items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return invalid_input(
          fmt::format("unknown field \"{}\" (known: {})", name, fmt::join(known, ", ")));
  }
  return Fields(std::move(json));
}

bool Fields::has(const std::string& name) const { return json_->contains(name); }

Result<std::optional<std::string>> Fields::text(const std::string& name) const {
  const auto found = json_->find(name);
  if (found == json_->end()) return std::optional<std::string>{};
  if (!found->is_string())
    return invalid_input(fmt::format("\"{}\" takes a text, not {}", name, cli::kind_of(*found)));
  return std::optional(found->get<std::string>());
}

Result<std::optional<Duration>> Fields::duration(const std::string& name) const {
  const auto given = text(name);
  if (!given) return given.error();
  if (!*given) return std::optional<Duration>{};
  const auto duration = cli::parse_duration(**given);
  if (!duration)
    return invalid_input(
        fmt::format("\"{}\" takes a duration such as 30s or 1h30m, not \"{}\"", name, **given));
  return duration;
}

Result<std::optional<std::uint64_t>> Fields::number(const std::string& name) const {
  const auto found = json_->find(name);
  if (found == json_->end()) return std::optional<std::uint64_t>{};
  if (!found->is_number_unsigned())
    return invalid_input(
        fmt::format("\"{}\" takes a whole number, not {}", name, cli::kind_of(*found)));
  return std::optional(found->get<std::uint64_t>());
}

Result<bool> Fields::flag(const std::string& name) const {
  const auto found = json_->find(name);
  if (found == json_->end()) return false;
  if (!found->is_boolean())
    return invalid_input(
        fmt::format("\"{}\" takes true or false, not {}", name, cli::kind_of(*found)));
  return found->get<bool>();
}

Result<Body> Fields::body(const std::string& name) const {
  const auto found = json_->find(name);
  return found == json_->end() ? Result<Body>(Body{}) : Body::json(found->dump());
}

Result<By> Fields::by(const Request& request) const {
  auto who = text("who");
  if (!who) return who.error();
  auto why = text("why");
  if (!why) return why.error();
  auto decides = who_of(request, *who);
  if (!decides) return decides.error();
  if (decides->empty())
    return invalid_input("\"who\" must name the person who decides; nothing was done");
  return By{.who = std::move(*decides), .why = why->value_or("")};
}

}  // namespace once::server
