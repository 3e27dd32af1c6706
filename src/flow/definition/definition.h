// A workflow's definition: JSON in, checked, and the form that is kept. docs/workflow.schema.json says
// the same to editors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "flow/rules/facts.h"
#include "once/result.h"

namespace once::encoding {

struct ParsedDefinition {
  core::FlowDefinition definition{};
  std::optional<KeyFormat> key_format{};  // none: it does not say
  std::vector<std::string> hints{};       // what is allowed, and perhaps not meant
  std::string canonical{};                // as kept_json.h writes it, without "$schema"
};

// Code::invalid_input: everything that is wrong with it in one message, which ends with what was not
// done.
Result<ParsedDefinition> parse_definition(std::string_view json,
                                          std::string_view undone = "nothing was added");

// The same definition with that format of its keys. In the plain format its text says so: version 0.1
// refuses a field that it does not know, and never computes another key.
ParsedDefinition with_key_format(ParsedDefinition parsed, KeyFormat format);

// A definition as it was kept: without a word on the format of its keys it is of version 0.1.
Result<ParsedDefinition> parse_kept(std::string_view json);

// JSON that is the same for definitions that mean the same, however they are written. Its steps are
// members by their ids.
std::string meaning_of(const core::FlowDefinition& definition);

}  // namespace once::encoding
