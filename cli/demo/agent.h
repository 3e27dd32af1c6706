// What the demo's processes run: the same executable, called by names that no person types.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/demo/setting.h"

namespace once::cli::demo {

bool is_part(std::string_view argument);
int part_main(int argc, char** argv);

// The program that a worker of this name runs per task.
std::vector<std::string> agent_program(const Setting& setting, const std::string& worker);

}  // namespace once::cli::demo
