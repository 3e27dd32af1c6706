// Checks the steps of a definition together: references, cycles, and steps that can never run.
#pragma once

#include <vector>

#include "flow/definition/findings.h"
#include "flow/definition/reader.h"
#include "flow/rules/facts.h"

namespace once::encoding {

struct CheckedSteps {
  // Each step comes after the steps that it depends on. Otherwise the order is that of the text.
  std::vector<core::FlowStep> ordered{};
  std::vector<std::string> hints{};  // warnings about what is allowed but may be a mistake
};
// The result is empty if there is a finding.
CheckedSteps check_steps(ReadDefinition& read, Findings& findings);

}  // namespace once::encoding
