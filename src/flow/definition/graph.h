// The steps of a definition together: what one says of another, and what could never run.
#pragma once

#include <vector>

#include "flow/definition/findings.h"
#include "flow/definition/reader.h"
#include "flow/rules/facts.h"

namespace once::encoding {

struct CheckedSteps {
  // In an order in which each comes after what it depends on, and else as they were written.
  std::vector<core::FlowStep> ordered{};
  std::vector<std::string> hints{};  // what is allowed, and perhaps not meant
};
// After a finding: nothing.
CheckedSteps check_steps(ReadDefinition& read, Findings& findings);

}  // namespace once::encoding
