// Keys as NATS writes them: base32 of a prefix, 32 bytes of Ed25519 and a check sum.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace once::encoding {

// The public key ("U...") that belongs to a user's seed ("SU..."). None: it is no such seed.
std::optional<std::string> nkey_user(std::string_view seed);

}  // namespace once::encoding
