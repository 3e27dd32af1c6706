// Keys of a ledger-only queue as JSON.
#pragma once

#include <string>
#include <string_view>

#include "once/ledger.h"

namespace once::cli {

// `until` is when a key that is held or not due may be claimed.
std::string key_claimed_json(std::string_view queue, std::string_view key, const ClaimResult& claim,
                             Time until);
// The outcome of a renewal or of a verdict, or the state of a key that was settled otherwise.
std::string_view key_outcome(std::string_view outcome, State state);
std::string key_settled_json(std::string_view queue, std::string_view key, std::string_view outcome,
                             State state);

}  // namespace once::cli
