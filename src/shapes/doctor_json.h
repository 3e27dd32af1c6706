// The doctor's findings as JSON.
#pragma once

#include <string>
#include <string_view>

#include "once/doctor.h"

namespace once::cli {

// About the failure window that no software can detect or close.
inline constexpr std::string_view kOpenWindow =
    "One window no software can close: a process that dies after an effect outside (a mail, a "
    "payment) and before its record. docs/effects.md says how to make it small, and how the other "
    "side closes it.";

std::string finding_json(const Finding& finding);
// The checks as a JSON array.
std::string checked_json(const Diagnosis& diagnosis);

}  // namespace once::cli
