#pragma once

#include <string_view>

namespace once::inline v1 {

std::string_view version();  // "0.2.0"

}  // namespace once::inline v1
