// What to type about a finding of the doctor.
#pragma once

#include <string>

#include "once/doctor.h"

namespace once::cli {

// The commands that mend the condition; the fix of the library if there is nothing to type.
std::string fix_for(const Finding& finding);

}  // namespace once::cli
