// The words of the command for what the library reports: what to type after a failure.
#pragma once

#include <string>

#include "once/flows.h"
#include "once/result.h"

namespace once::cli {

// Sentences; empty if there is nothing to type.
std::string advice_for(Reason reason, const Facts& facts);

// What happened, and then the advice.
std::string with_advice(const Error& error);
std::string with_advice(const FlowHint& hint);

}  // namespace once::cli
