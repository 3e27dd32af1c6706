#include "server/schema_notation.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace once::server {
namespace {

using Json = nlohmann::ordered_json;

struct Simple {
  std::string_view name{};
  std::string_view type{};
  std::string_view format{};  // may be empty
};
constexpr std::array kSimple{
    Simple{"string", "string"}, Simple{"integer", "integer"},
    Simple{"number", "number"}, Simple{"boolean", "boolean"},
    Simple{"null", "null"},     Simple{"object", "object"},
    Simple{"array", "array"},   Simple{"time", "string", "date-time"},
};

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_name(char c) {
  return is_upper(c) || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

class Notation {
 public:
  Notation(std::string_view text, const SchemaOptions& options)
      : all_(text), rest_(text), options_(options) {}

  Json whole() {
    Json schema = alternatives();
    skip();
    if (!rest_.empty()) fail();
    return schema;
  }

 private:
  [[noreturn]] void fail() const {
    throw std::invalid_argument("no schema: " + std::string(all_) + " at: " + std::string(rest_));
  }

  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }

  bool take(std::string_view text) {
    skip();
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }

  void need(std::string_view text) {
    if (!take(text)) fail();
  }

  std::string name() {
    skip();
    std::size_t size = 0;
    while (size < rest_.size() && is_name(rest_[size])) ++size;
    if (size == 0) fail();
    std::string found(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return found;
  }

  // Texts become one `enum`, and a single type that may be null one list of types.
  Json alternatives() {
    std::vector<Json> all;
    Json texts = Json::array();
    do {
      if (take("'")) {
        const std::size_t end = rest_.find('\'');
        if (end == rest_.npos) fail();
        texts.push_back(std::string(rest_.substr(0, end)));
        rest_.remove_prefix(end + 1);
      } else {
        all.push_back(array_of(single()));
      }
    } while (take("|"));
    if (!texts.empty()) all.insert(all.begin(), Json{{"type", "string"}, {"enum", texts}});
    if (all.size() == 1) return all.front();
    const bool plain = all.size() == 2 && all[1] == Json{{"type", "null"}} &&
                       !all[0].contains("enum") && all[0].contains("type");
    if (!plain) return {{"anyOf", all}};
    all[0]["type"] = Json::array({all[0]["type"], "null"});
    return all[0];
  }

  Json array_of(Json item) {
    while (take("[]")) item = {{"type", "array"}, {"items", item}};
    return item;
  }

  Json single() {
    if (take("{")) return object();
    if (take("(")) {
      Json inner = alternatives();
      need(")");
      return inner;
    }
    const std::string type = name();
    if (is_upper(type.front())) {
      options_.find(type);
      return {{"$ref", "#/components/schemas/" + type}};
    }
    if (type == "any") return Json::object();
    if (type == "true") return {{"type", "boolean"}, {"const", true}};
    const auto* const found = std::find_if(kSimple.begin(), kSimple.end(),
                                           [&](const Simple& each) { return each.name == type; });
    if (found == kSimple.end()) fail();
    Json schema{{"type", found->type}};
    if (!found->format.empty()) schema["format"] = found->format;
    return schema;
  }

  Json object() {
    Json schema{{"type", "object"}};
    if (take("*")) {
      need(":");
      schema["additionalProperties"] = alternatives();
      need("}");
      return schema;
    }
    schema["properties"] = Json::object();
    schema["required"] = Json::array();
    while (!take("}")) {
      field(schema);
      if (!take(",")) {
        need("}");
        break;
      }
    }
    if (schema["required"].empty()) schema.erase("required");
    if (options_.closed) schema["additionalProperties"] = false;
    return schema;
  }

  void field(Json& schema) {
    if (take("...")) {
      const Json other = Notation(options_.find(name()), options_).whole();
      schema["properties"].update(other.at("properties"));
      for (const Json& each : other.value("required", Json::array()))
        schema["required"].push_back(each);
      return;
    }
    const std::string named = name();
    const bool optional = take("?");
    need(":");
    schema["properties"][named] = alternatives();
    if (!optional) schema["required"].push_back(named);
  }

  const std::string_view all_;
  std::string_view rest_;
  const SchemaOptions& options_;
};

}  // namespace

Json schema_of(std::string_view text, const SchemaOptions& options) {
  return Notation(text, options).whole();
}

}  // namespace once::server
