// Reads the fields of a definition from JSON and checks each one alone. graph.h checks the steps
// together.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "flow/definition/findings.h"
#include "flow/definition/input.h"
#include "flow/rules/facts.h"
#include "json/json.h"

namespace once::encoding {

// The objects that a definition is made of, and what they may contain.
enum class FlowPart { workflow, step, retry, rate, member, condition };
inline constexpr FlowPart kFlowParts[] = {FlowPart::workflow, FlowPart::step,
                                          FlowPart::retry,    FlowPart::rate,
                                          FlowPart::member,   FlowPart::condition};
std::string_view to_string(FlowPart part);
std::span<const std::string_view> fields_of(FlowPart part);

// A path in a mapping or condition of a step. It is checked when all steps are known.
struct UsedPath {
  std::string field;
  std::string text;
  FlowPath path;    // without its `rest`
  bool deep;        // the path had a `rest`: it reads a part of the value
  bool no_default;  // a value must exist
};

// A step with references by name. graph.h resolves them to indexes.
struct NamedStep {
  core::FlowStep step;
  std::string where;
  std::vector<std::string> depends_on;
  std::string on_failure;
  std::vector<UsedPath> paths;
};

struct ReadDefinition {
  core::FlowDefinition definition{};  // without its steps
  std::optional<KeyFormat> key_format{};
  std::vector<NamedStep> steps{};  // in the order of the text
  std::vector<UsedPath> output_paths{};
};
// A faulty field becomes a finding and is left out.
ReadDefinition read_definition(const Json& object, Findings& findings);

}  // namespace once::encoding
