#include "flow/definition/definition.h"

#include <cstdio>
#include <utility>

#include "flow/definition/graph.h"
#include "flow/definition/reader.h"
#include "json/kept_json.h"

namespace once::encoding {
namespace {

constexpr std::string_view kKeyFormat = "key_format";

// `key_format` replaces the format in the text. An empty text removes it; nullopt keeps it.
std::string canonical_of(const Json& root, std::optional<std::string_view> key_format = {}) {
  std::string text = "{";
  const auto begin_member = [&](std::string_view name) {
    if (text.size() > 1) text += ',';
    append_canonical_string(name, text);
    text += ':';
  };
  bool written = !key_format || key_format->empty();
  const auto write_format = [&] {
    if (std::exchange(written, true)) return;
    begin_member(kKeyFormat);
    append_canonical_string(*key_format, text);
  };
  for (const auto& [name, value] : root.members()) {
    if (name == "$schema" || (key_format && name == kKeyFormat)) continue;
    if (name > kKeyFormat) write_format();
    begin_member(name);
    append_kept(value, text);
  }
  write_format();
  return text + '}';
}

// For a number out of range, the parser would advise a string. The finding of the field is better.
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
                          .key_format = read.key_format,
                          .hints = std::move(steps.hints),
                          .canonical = canonical_of(*root)};
}

ParsedDefinition with_key_format(ParsedDefinition parsed, KeyFormat format) {
  if (parsed.definition.key.empty()) return parsed;
  parsed.key_format = parsed.definition.key_format = format;
  const auto root = parse_json(parsed.canonical).value();
  const bool plain = format == KeyFormat::plain;
  parsed.canonical = canonical_of(root, plain ? to_string(format) : std::string_view{});
  return parsed;
}

Result<ParsedDefinition> parse_kept(std::string_view json) {
  auto parsed = parse_definition(json);
  if (parsed && !parsed->key_format && !parsed->definition.key.empty())
    parsed->definition.key_format = KeyFormat::escaped;
  return parsed;
}

}  // namespace once::encoding
