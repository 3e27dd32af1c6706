// Mappings and conditions of a workflow: the input of a step, and whether it is skipped. Pure
// functions of the run's facts.
//
//   mapping   := path | { name: path | {"value": J} | {"path": path, "default": J} ... }
//   condition := path | {"path": path, "equals": J | "not_equals": J | "exists": boolean}
//   path      := "input" ["." dot-path] | "steps." ID ["." dot-path] | "errors." ID | "run"
//
// A path alone is true if its value exists and is not null, false, 0 or "". The output of a skipped
// step is null. The output of a step that failed or was not reached is missing. The caller must
// fill in large outputs first.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "codec/key_template.h"
#include "flow/rules/facts.h"
#include "json/json.h"
#include "once/result.h"

namespace once::encoding {

// A path and where it begins.
struct FlowPath {
  enum class Root { input, steps, errors, run };
  Root root = Root::input;
  std::string step{};       // steps, errors
  std::string_view rest{};  // the dot path from there
};
// nullopt if the path has no such root, or has parts that its root does not have.
std::optional<FlowPath> flow_path(std::string_view text);

// The input of the step's task, or the run's output, as kept_json.h writes it. Code::invalid_input:
// a needed value is missing. A later call would have the same result.
Result<std::string> task_input(const core::FlowStep& step, const core::RunState& state,
                               const core::Judge::Unreached& unreached);
Result<std::string> run_output(const core::FlowDefinition& definition, const core::RunState& state,
                               const core::Judge::Unreached& unreached);
// Whether a step is not reached. The definition and the state must outlive the result.
core::Judge::Unreached unreached_in(const core::FlowDefinition& definition,
                                    const core::RunState& state);

// Adds the steps whose outputs a mapping or a condition reads.
void add_steps_of(std::string_view mapping, std::set<std::string>& steps);

// Evaluates skip_if, which is canonical JSON from parse_definition(). For a state, the run's input
// and each output are parsed at most once.
core::Judge judge();

// Code::invalid_input: no input can match the definition's key.
Result<KeyTemplate> key_template_of(const core::FlowDefinition& definition);

// The key of a run with this input: by the definition's template, or else the digest of the input.
// Code::invalid_input: the input has no such key. The message says that nothing was started.
Result<std::string> run_key(const core::FlowDefinition& definition, const Body& input);

}  // namespace once::encoding
