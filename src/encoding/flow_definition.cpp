#include "encoding/flow_definition.h"

#include <cstdio>

#include "encoding/flow_graph.h"
#include "encoding/flow_reader.h"
#include "encoding/kept_json.h"

namespace once::encoding {
namespace {

std::string canonical_of(const Json& root) {
  std::string text = "{";
  for (const auto& [name, value] : root.members()) {
    if (name == "$schema") continue;
    if (text.size() > 1) text += ',';
    append_canonical_string(name, text);
    text += ':';
    append_kept(value, text);
  }
  return text + '}';
}

// A number that its field does not take is told as such: the JSON parser would have it be a string.
Error unreadable(std::string_view json, const Error& error, std::string_view undone) {
  Findings findings;
  std::string name;
  const auto rounded = parse_json(json, Integers::rounded);
  if (rounded && rounded->kind() == Json::Kind::object)
    name = read_definition(*rounded, findings).definition.name;
  if (findings.empty()) findings.add("", error.message);
  return findings.error(name, undone);
}

}  // namespace

Result<ParsedDefinition> parse_definition(std::string_view json, std::string_view undone) {
  const auto root = parse_json(json);
  if (!root) return unreadable(json, root.error(), undone);
  Findings findings;
  if (root->kind() != Json::Kind::object) {
    findings.add("", "a definition is a JSON object");
    return findings.error({}, undone);
  }
  ReadDefinition read = read_definition(*root, findings);
  CheckedSteps steps = check_steps(read, findings);
  if (!findings.empty()) return findings.error(read.definition.name, undone);
  read.definition.steps = std::move(steps.ordered);
  return ParsedDefinition{.definition = std::move(read.definition),
                          .hints = std::move(steps.hints),
                          .canonical = canonical_of(*root)};
}

std::string definition_key(std::string_view name, std::uint32_t version) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "@%010u", version);
  return std::string(name) + digits;
}

}  // namespace once::encoding
