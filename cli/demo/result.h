// The table at the end, for people and for scripts.
#pragma once

#include <string>

#include "cli/app/table.h"
#include "cli/demo/count.h"

namespace once::cli::demo {

std::string result_table(const Counted& counted, const Setting& setting, const Style& style);
std::string result_lines(const Counted& counted, const Setting& setting);  // JSON, a row each

}  // namespace once::cli::demo
