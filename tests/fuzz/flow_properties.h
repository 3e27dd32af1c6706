// What must hold for any text that is given as a workflow or found as the state of a run. Answers what
// is wrong, or nothing.
#pragma once

#include <string>
#include <string_view>

#include "flow/definition/definition.h"
#include "flow/definition/input.h"
#include "flow/definition/state.h"

namespace once::fuzz {

inline std::string definition_complaint(std::string_view text) {
  const auto parsed = encoding::parse_definition(text);
  if (!parsed) {
    const Error& error = parsed.error();
    if (error.code != Code::invalid_input) return "a definition is refused with another code";
    if (!error.message.starts_with("workflow") || !error.message.ends_with("; nothing was added"))
      return "it is not said that nothing was added: " + error.message;
    return {};
  }
  const auto again = encoding::parse_definition(parsed->canonical);
  if (!again) return "the canonical form is refused: " + again.error().message;
  if (again->definition != parsed->definition) return "the canonical form means something else";
  const core::FlowDefinition& flow = parsed->definition;
  for (std::size_t i = 0; i < flow.steps.size(); ++i) {
    for (const std::size_t before : flow.steps[i].depends_on)
      if (before >= i) return "a step comes before one that it depends on";
    for (const std::size_t before : flow.steps[i].handles)
      if (before >= i) return "a step comes before one whose failure it handles";
  }
  return {};
}

// Whatever a definition says, a run of it has something to do or is over.
inline std::string run_complaint(std::string_view text) {
  const auto parsed = encoding::parse_definition(text);
  if (!parsed) return {};
  core::FlowEvent started;
  started.run = "r";
  started.value = R"({"order":{"id":1,"total":0}})";
  started.sequence = core::Sequence{1};
  core::RunState state;
  core::fold(state, started);
  const core::Judge judge = encoding::judge();
  const auto actions = core::plan(parsed->definition, state, started, judge);
  const auto standing = core::stand(parsed->definition, state, judge);
  if (actions.empty() && standing.phase != RunPhase::waiting)
    return "nothing is to be done, and nothing is waited for";
  return {};
}

inline std::string state_complaint(std::string_view text) {
  const auto state = encoding::decode_state(text);
  if (!state) {
    if (state.error().code != Code::store_unusable) return "a state is refused with another code";
    return {};
  }
  const auto again = encoding::decode_state(encoding::encode_state(*state));
  if (!again) return "what was encoded cannot be decoded: " + again.error().message;
  if (*again != *state) return "the state changed on its way";
  return {};
}

inline std::string flow_complaint(std::string_view text) {
  for (auto* complaint : {definition_complaint, run_complaint, state_complaint})
    if (const std::string what = complaint(text); !what.empty()) return what;
  return {};
}

}  // namespace once::fuzz
