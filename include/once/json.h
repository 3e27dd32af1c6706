// Canonical JSON. Once compares the content of tasks in this form.
#pragma once

#include <string>
#include <string_view>

#include "once/result.h"

namespace once::inline v1 {

// Returns the RFC 8785 form of a JSON text. The error names the fault and its position.
Result<std::string> canonical_json(std::string_view text);

}  // namespace once::inline v1
