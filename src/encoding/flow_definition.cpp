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

}  // namespace

Result<ParsedDefinition> parse_definition(std::string_view json) {
  Findings findings;
  const auto root = parse_json(json);
  if (!root) {
    findings.add("", root.error().message);
    return findings.error("");
  }
  if (root->kind() != Json::Kind::object) {
    findings.add("", "a definition is a JSON object");
    return findings.error("");
  }
  ReadDefinition read = read_definition(*root, findings);
  read.definition.steps = ordered_steps(read, findings);
  if (!findings.empty()) return findings.error(read.definition.name);
  return ParsedDefinition{.definition = std::move(read.definition),
                          .canonical = canonical_of(*root)};
}

std::string definition_key(std::string_view name, std::uint32_t version) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "@%010u", version);
  return std::string(name) + digits;
}

}  // namespace once::encoding
