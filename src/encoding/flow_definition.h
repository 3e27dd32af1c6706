// A workflow's definition: JSON in, checked, and the form that is kept. docs/workflow.schema.json says
// the same to editors.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/flow.h"
#include "once/result.h"

namespace once::encoding {

struct ParsedDefinition {
  core::FlowDefinition definition{};
  std::string canonical{};  // RFC 8785, without "$schema"
};

// Code::invalid_input: everything that is wrong with it in one message, which says that nothing was
// added.
Result<ParsedDefinition> parse_definition(std::string_view json);

// The objects that a definition is made of, and what they may contain.
enum class FlowPart { workflow, step, retry, rate, member, condition };
inline constexpr FlowPart kFlowParts[] = {FlowPart::workflow, FlowPart::step,
                                          FlowPart::retry,    FlowPart::rate,
                                          FlowPart::member,   FlowPart::condition};
std::string_view to_string(FlowPart part);
std::span<const std::string_view> fields_of(FlowPart part);

// "payment@0000000003": the newest version of a name comes last.
std::string definition_key(std::string_view name, std::uint32_t version);

}  // namespace once::encoding
