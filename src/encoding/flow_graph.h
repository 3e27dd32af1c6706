// The steps of a definition together: what one says of another, and what could never run.
#pragma once

#include <vector>

#include "core/flow.h"
#include "encoding/flow_findings.h"
#include "encoding/flow_reader.h"

namespace once::encoding {

struct CheckedSteps {
  // In an order in which each comes after what it depends on, and else as they were written.
  std::vector<core::FlowStep> ordered{};
  std::vector<std::string> hints{};  // what is allowed, and perhaps not meant
};
// After a finding: nothing.
CheckedSteps check_steps(ReadDefinition& read, Findings& findings);

}  // namespace once::encoding
