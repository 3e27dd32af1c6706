// The steps of a definition together: what one says of another, and what could never run.
#pragma once

#include <vector>

#include "core/flow.h"
#include "encoding/flow_findings.h"
#include "encoding/flow_reader.h"

namespace once::encoding {

// In an order in which each comes after what it depends on, and else as they were written. After a
// finding: none.
std::vector<core::FlowStep> ordered_steps(ReadDefinition& read, Findings& findings);

}  // namespace once::encoding
