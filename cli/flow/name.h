// A workflow as people name it: NAME, or NAME@VERSION.
#pragma once

#include <cstdint>
#include <string>

#include "once/result.h"

namespace once::cli {

struct FlowName {
  std::string name{};
  std::uint32_t version{};  // zero: the newest
};

Result<FlowName> flow_name_from(const std::string& text);

}  // namespace once::cli
