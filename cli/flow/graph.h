// `flow graph`: a workflow's steps and what leads to what, for a terminal and for Graphviz; of a run
// also how each step stands. Pure functions of what they are given.
#pragma once

#include <string>

#include "cli/app/table.h"
#include "once/flows.h"

namespace once::cli {

// `run` may be null. A graph that does not fit into `width` columns (zero: as if there were 120) is
// listed step by step.
std::string graph_text(const FlowView& flow, const RunView* run, const Style& style,
                       std::size_t width);

// A digraph in DOT; how a step stands is its fillcolor, and on_failure is dashed.
std::string graph_dot(const FlowView& flow, const RunView* run);

}  // namespace once::cli
