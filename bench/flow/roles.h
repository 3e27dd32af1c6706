// Once as one of the peers of bench/flow: the roles that bench/compare/role.py describes.
#pragma once

#include <string_view>

#include "../peers/role.h"

namespace bench {

// True if `name` is a role. play_flow_role() then takes the part of that role until its input ends.
bool is_flow_role(std::string_view name);
void play_flow_role(std::string_view name, const Options& options);

}  // namespace bench
