// The steps of a workflow in layers: a step's layer is the longest way to it from one without
// dependencies, so every line goes from a layer to the next. A line that skips layers passes through
// them as an item without a step.
#pragma once

#include <optional>
#include <vector>

#include "once/flows.h"

namespace once::cli {

struct FlowItem {
  std::optional<std::size_t> step{};  // place in FlowView::steps; none: a line that passes
  std::size_t layer{};
};

// Lines between two layers that are drawn as one: each of `from` leads to each of `to`.
struct FlowNet {
  std::vector<std::size_t> from{}, to{};  // items
  bool dashed{};                          // on failure
};

struct FlowLayers {
  std::vector<FlowItem> items{};
  std::vector<std::vector<std::size_t>> layers{};  // items, in an order in which few lines cross
  std::vector<std::vector<FlowNet>> nets{};        // [i]: from layer i to the next
};

FlowLayers layers_of(const FlowView& flow);

}  // namespace once::cli
