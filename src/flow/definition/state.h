// The facts of a run as the JSON of its value. The grammar is at the top of state.cpp.
#pragma once

#include <string>
#include <string_view>

#include "flow/rules/facts.h"

namespace once::encoding {

std::string encode_state(const core::RunState& state);
// Members that it does not know are ignored. Code::store_unusable: written by a newer version, or
// damaged.
Result<core::RunState> decode_state(std::string_view json);

}  // namespace once::encoding
