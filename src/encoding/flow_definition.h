// A workflow's definition: JSON in, checked, and the form that is kept. docs/workflow.schema.json says
// the same to editors.
#pragma once

#include <string>
#include <string_view>

#include "core/flow.h"
#include "once/result.h"

namespace once::encoding {

struct ParsedDefinition {
  core::FlowDefinition definition{};
  std::string canonical{};  // as kept_json.h writes it, without "$schema"
};

// Code::invalid_input: everything that is wrong with it in one message, which says that nothing was
// added.
Result<ParsedDefinition> parse_definition(std::string_view json);

// "payment@0000000003": the newest version of a name comes last.
std::string definition_key(std::string_view name, std::uint32_t version);

}  // namespace once::encoding
