// The facts of a run as the JSON of its value. The grammar is at the top of state.cpp.
#pragma once

#include <string>
#include <string_view>

#include "flow/rules/facts.h"

namespace once::encoding {

std::string encode_state(const core::RunState& state);
// Ignores unknown members. Code::store_unusable: a newer version wrote the state, or it is damaged.
Result<core::RunState> decode_state(std::string_view json);

}  // namespace once::encoding
