// Parses and checks a workflow's definition, and writes the form that is stored. The schema in
// docs/workflow.schema.json describes the same form for editors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flow/rules/facts.h"
#include "once/result.h"

namespace once::encoding {

struct ParsedDefinition {
  core::FlowDefinition definition{};
  std::optional<KeyFormat> key_format{};  // nullopt if the definition does not say
  std::vector<std::string> hints{};       // warnings about what is allowed but may be a mistake
  std::string canonical{};                // as kept_json.h writes it, without "$schema"
};

// Code::invalid_input: the message lists everything that is wrong. It ends with `undone`.
Result<ParsedDefinition> parse_definition(std::string_view json,
                                          std::string_view undone = "nothing was added");

// The same definition with that format of its keys. The text of the plain format has a field for
// it. Version 0.1 refuses unknown fields, so it cannot compute another key.
ParsedDefinition with_key_format(ParsedDefinition parsed, KeyFormat format);

// Parses a stored definition. If it does not name the format of its keys, version 0.1 wrote it.
Result<ParsedDefinition> parse_kept(std::string_view json);

// JSON that is equal for definitions with the same meaning. Its steps are members by their ids.
std::string meaning_of(const core::FlowDefinition& definition);

}  // namespace once::encoding
