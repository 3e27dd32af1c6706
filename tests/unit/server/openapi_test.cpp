// The description of the server agrees with its routes.
#include "server/openapi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "once/zone.h"
#include "server/api.h"
#include "server/schema_notation.h"
#include "shapes/queue_definition.h"

namespace once::server {
namespace {

using Json = nlohmann::ordered_json;
using testing::UnorderedElementsAreArray;

std::vector<Route> routes() {
  static Zone zone = Zone::open("memory:").value();
  return all_routes(zone);
}

Json document() { return Json::parse(openapi_document(routes())); }

TEST(OpenApi, DescribesEveryRouteOnceAndNothingElse) {
  std::vector<std::string> described;
  for (const Operation& each : operations())
    described.push_back(std::string(each.method) + ' ' + std::string(each.pattern));
  std::vector<std::string> routed;
  for (const Route& each : routes()) routed.push_back(each.method + ' ' + each.pattern);
  EXPECT_THAT(described, UnorderedElementsAreArray(routed));
}

TEST(OpenApi, DescribesEveryParameterOnceAndNothingElse) {
  std::set<std::string> used;
  for (const Route& route : routes()) {
    used.insert(route.queries.begin(), route.queries.end());
    for (std::size_t at = 0; (at = route.pattern.find('{', at)) != std::string::npos; ++at)
      used.insert(route.pattern.substr(at + 1, route.pattern.find('}', at) - at - 1));
  }
  for (const Operation& each : operations()) used.insert(each.headers.begin(), each.headers.end());
  std::vector<std::string> described;
  for (const DescribedParameter& each : described_parameters()) described.emplace_back(each.name);
  EXPECT_THAT(described, UnorderedElementsAreArray(used));
}

TEST(OpenApi, NamesEveryOperationDifferentlyAndSaysWhatItDoes) {
  std::set<std::string_view> names;
  for (const Operation& each : operations()) {
    EXPECT_TRUE(names.insert(each.name).second) << each.name;
    EXPECT_FALSE(each.summary.empty()) << each.name;
    EXPECT_FALSE(each.answers.empty()) << each.name;
  }
}

TEST(OpenApi, HasPathsParametersAndBodies) {
  const Json all = document();
  EXPECT_EQ(all["openapi"], "3.1.0");
  const Json publish = all["paths"]["/v1/topics/{topic}"]["post"];
  EXPECT_EQ(publish["operationId"], "publish");
  std::vector<std::string> names;
  for (const Json& each : publish["parameters"])
    names.push_back(each["in"].get<std::string>() + ' ' + each["name"].get<std::string>());
  EXPECT_THAT(names, testing::IsSupersetOf({"path topic", "query id", "header Idempotency-Key"}));
  EXPECT_TRUE(publish["responses"].contains("201"));
  EXPECT_TRUE(publish["responses"].contains("default"));
  EXPECT_TRUE(all["paths"].contains("/openapi.json"));
}

TEST(OpenApi, KnowsTheFieldsOfAQueue) {
  std::vector<std::string> fixed, changeable;
  for (const cli::QueueField& field : cli::queue_fields()) {
    fixed.emplace_back(field.name);
    if (!field.fixed) changeable.emplace_back(field.name);
  }
  const auto named = [schemas = document()["components"]["schemas"]](const std::string& name) {
    std::vector<std::string> fields;
    for (const auto& [field, schema] : schemas[name]["properties"].items()) fields.push_back(field);
    return fields;
  };
  EXPECT_THAT(named("QueueFields"), UnorderedElementsAreArray(fixed));
  EXPECT_THAT(named("ChangeableQueueFields"), UnorderedElementsAreArray(changeable));
}

TEST(OpenApi, UsesEverySchema) {
  const std::string text = document().dump();
  for (const NamedSchema& each : named_schemas()) {
    bool spread = text.find("#/components/schemas/" + std::string(each.name) + '"') != text.npos;
    const std::string spread_text = "..." + std::string(each.name);
    for (const NamedSchema& other : named_schemas())
      spread = spread || other.schema.find(spread_text) != other.schema.npos;
    EXPECT_TRUE(spread) << each.name;
  }
}

// --- The notation of schemas

Json schema(std::string_view text, bool closed = false) {
  return schema_of(text, {.find = [](std::string_view name) -> std::string_view {
                            if (name == "Point") return "{x: integer, y?: integer}";
                            throw std::invalid_argument("no schema");
                          },
                          .closed = closed});
}

TEST(SchemaNotation, WritesJsonSchema) {
  for (
      const auto& [text, expected] : std::vector<std::pair<std::string, std::string>>{
          {"string", R"({"type":"string"})"},
          {"any", "{}"},
          {"time | null", R"({"type":["string","null"],"format":"date-time"})"},
          {"'a' | 'b'", R"({"type":"string","enum":["a","b"]})"},
          {"'a' | null", R"({"anyOf":[{"type":"string","enum":["a"]},{"type":"null"}]})"},
          {"Point[]", R"({"type":"array","items":{"$ref":"#/components/schemas/Point"}})"},
          {"(string | integer)[]",
           R"({"type":"array","items":{"anyOf":[{"type":"string"},{"type":"integer"}]}})"},
          {"{*: string}", R"({"type":"object","additionalProperties":{"type":"string"}})"},
          {"{a: true, b?: number}",
           R"({"type":"object","properties":{"a":{"type":"boolean","const":true},"b":{"type":"number"}},"required":["a"]})"},
          {"{...Point, z?: any}",
           R"({"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"},"z":{}},"required":["x"]})"},
      })
    EXPECT_EQ(schema(text).dump(), expected) << text;
  EXPECT_EQ(schema("{a?: null}", true).dump(),
            R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":false})");
}

TEST(SchemaNotation, RefusesAnythingElse) {
  for (const char* text : {"", "text", "{", "{a}", "{a: }", "{a: string", "string string", "'a",
                           "Line", "{...Line}", "(string", "string |"})
    EXPECT_THROW(schema(text), std::invalid_argument) << text;
}

}  // namespace
}  // namespace once::server
