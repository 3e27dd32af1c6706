// Mappings and conditions of a workflow: what a step is given, and whether it is skipped. Pure
// functions of the run's facts.
//
//   mapping   := path | { name: path | {"value": J} | {"path": path, "default": J} ... }
//   condition := path | {"path": path, "equals": J | "not_equals": J | "exists": boolean}
//   path      := "input" ["." dot-path] | "steps." ID ["." dot-path] | "errors." ID | "run"
//
// A path alone is true when there is a value other than null, false, 0 and "". The output of a step
// that was skipped is null; that of one that failed or was not reached is missing. Outputs that are kept
// elsewhere must have been put into the state before.
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

// Where a path begins.
struct FlowPath {
  enum class Root { input, steps, errors, run };
  Root root = Root::input;
  std::string step{};       // steps, errors
  std::string_view rest{};  // the dot path from there
};
// None: it begins with none of these, or has parts where there are none.
std::optional<FlowPath> flow_path(std::string_view text);

// What the step's task is given, or the run's output, as kept_json.h writes it. Code::invalid_input: there
// is no value where one is needed; it would be the same the next time.
Result<std::string> task_input(const core::FlowStep& step, const core::RunState& state,
                               const core::Judge::Unreached& unreached);
Result<std::string> run_output(const core::FlowDefinition& definition, const core::RunState& state,
                               const core::Judge::Unreached& unreached);
// Which steps are not reached. The definition and the state must outlive the answer.
core::Judge::Unreached unreached_in(const core::FlowDefinition& definition,
                                    const core::RunState& state);

// Adds the steps whose outputs a mapping or a condition looks at.
void add_steps_of(std::string_view mapping, std::set<std::string>& steps);

// By skip_if, which is canonical JSON that parse_definition() took. The run's input and each output are
// read at most once for a state.
core::Judge judge();

// Code::invalid_input: the definition's key could fit no input.
Result<KeyTemplate> key_template_of(const core::FlowDefinition& definition);

// By what a run of this input is known: the definition's template, or without one the digest of the
// input. Code::invalid_input: the input has no such key, and nothing was started.
Result<std::string> run_key(const core::FlowDefinition& definition, const Body& input);

}  // namespace once::encoding
