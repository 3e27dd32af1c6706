#include "server/openapi.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "once/version.h"
#include "server/api.h"
#include "server/schema_notation.h"

namespace once::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPath = "/openapi.json";

template <class Table>
auto find_named(const Table& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& each) { return each.name == name; });
  if (found == table.end()) throw std::invalid_argument("no description of " + std::string(name));
  return *found;
}

Json schema(std::string_view text, bool closed) {
  return schema_of(
      text, {.find = [](std::string_view name) { return find_named(named_schemas(), name).schema; },
             .closed = closed});
}

Json parameter(std::string_view name, std::string_view in) {
  const DescribedParameter described = find_named(described_parameters(), name);
  Json json{{"name", name}, {"in", in}, {"description", described.summary}};
  if (in == "path") json["required"] = true;
  json["schema"] = schema(described.schema, true);
  return json;
}

// The names in braces, in their order.
std::vector<std::string_view> names_in(std::string_view pattern) {
  std::vector<std::string_view> names;
  for (std::size_t open = 0; (open = pattern.find('{', open)) != pattern.npos; ++open)
    names.push_back(pattern.substr(open + 1, pattern.find('}', open) - open - 1));
  return names;
}

Json content(std::string_view type, std::string_view text, bool closed) {
  return {{std::string(type), {{"schema", schema(text, closed)}}}};
}

// The first word after /v1 groups the paths.
std::string tag_of(std::string_view pattern) {
  if (!pattern.starts_with("/v1/")) return "server";
  pattern.remove_prefix(4);
  return std::string(pattern.substr(0, pattern.find_first_of("/:")));
}

Json answers_of(const Operation& operation) {
  Json answers = Json::object();
  for (const DescribedAnswer& each : operation.answers)
    answers[std::to_string(each.status)] = {{"description", phrase(each.status)},
                                            {"content", content(each.type, each.schema, false)}};
  answers["default"] = {{"$ref", "#/components/responses/Problem"}};
  return answers;
}

Json described(const Route& route, const Operation& operation) {
  Json json{{"operationId", operation.name},
            {"summary", operation.summary},
            {"tags", Json::array({tag_of(route.pattern)})}};
  Json parameters = Json::array();
  for (const std::string_view name : names_in(route.pattern))
    parameters.push_back(parameter(name, "path"));
  for (const std::string& name : route.queries) parameters.push_back(parameter(name, "query"));
  for (const std::string_view name : operation.headers)
    parameters.push_back(parameter(name, "header"));
  if (!parameters.empty()) json["parameters"] = parameters;
  if (!operation.body.empty())
    json["requestBody"] = {{"content", content(operation.body_type, operation.body, true)}};
  if (operation.bytes) json["requestBody"]["content"]["*/*"] = Json::object();
  json["responses"] = answers_of(operation);
  return json;
}

Operation operation_of(const Route& route) {
  for (const Operation& each : operations())
    if (each.method == route.method && each.pattern == route.pattern) return each;
  return {.method = route.method, .pattern = route.pattern};
}

std::string in_lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text;
}

}  // namespace

std::string openapi_document(const std::vector<Route>& routes) {
  Json paths = Json::object();
  for (const Route& route : routes)
    paths[route.pattern][in_lower_case(route.method)] = described(route, operation_of(route));
  Json schemas = Json::object();
  for (const NamedSchema& each : named_schemas())
    schemas[std::string(each.name)] = schema(each.schema, false);
  const Json problem{{"description", "A failure, as RFC 9457 describes it"},
                     {"content", content("application/problem+json", "Problem", false)}};
  const Json document{
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Once"},
        {"version", version()},
        {"description", "Runs every task exactly once. docs/http.md describes each path."}}},
      {"servers", Json::array({{{"url", "/"}}})},
      {"paths", paths},
      {"components", {{"schemas", schemas}, {"responses", {{"Problem", problem}}}}}};
  return document.dump();
}

Route openapi_route(const std::vector<Route>& routes) {
  Route route{"GET", std::string(kPath), {}, {}};
  std::vector<Route> all = routes;
  all.push_back(route);
  route.handler = [text = openapi_document(all)](const Call&) { return json_response(text); };
  return route;
}

}  // namespace once::server
