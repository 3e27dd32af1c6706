// The canonical form that content identity rests on.
#pragma once

#include <string>
#include <string_view>

#include "once/result.h"

namespace once::inline v1 {

// The RFC 8785 form of a JSON text, or what is wrong with it and where.
Result<std::string> canonical_json(std::string_view text);

}  // namespace once::inline v1
