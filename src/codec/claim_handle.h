// The text that stands for a claim outside of the process that made it. Any process with the zone
// open can use the claim by it. The text contains the claim's nonce, so nobody can guess it. It is
// not signed: a changed text names a claim that does not exist.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/types.h"
#include "once/result.h"

namespace once::encoding {

struct ClaimHandle {
  std::string zone{};  // its UUID
  std::string queue{};
  std::string key{};
  core::Sequence sequence{};
  core::Nonce nonce{};
  std::string delivery{};               // the store's handle of the delivery
  std::optional<std::uint32_t> slot{};  // of the claim, in a queue with max_running

  friend bool operator==(const ClaimHandle&, const ClaimHandle&) = default;
};

// Only the characters A to Z, a to z, 0 to 9, - and _, so that it can be a part of a URL.
std::string text(const ClaimHandle& handle);
Result<ClaimHandle> claim_handle(std::string_view text);

}  // namespace once::encoding
