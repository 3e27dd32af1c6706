// A workflow's layers as a picture of characters: labels, and lines that lead from layer to layer.
//
//   charge ─┬─▶ pack ─┬─▶ ship        lines that meet belong together; ─│─ is one that passes
//           ├─▶ mail ─┘               under another; ┄ leads to a step that handles a failure
//           └┄▶ refund
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/flow/layers.h"

namespace once::cli {

struct FlowLabel {
  std::string text{};    // what counts for the width
  std::string styled{};  // what is printed
};

struct FlowPicture {
  std::string text{};
  std::size_t width{};
};

enum class FlowWay {
  right,       // layers beside each other, a step on each row
  right_wide,  // the same with a free row below each, where lines can pass
  down,        // layers below each other
};

// `labels`: one per step. None: lines would meet that do not belong together.
std::optional<FlowPicture> picture_of(const FlowLayers& layers,
                                      const std::vector<FlowLabel>& labels, FlowWay way);

}  // namespace once::cli
