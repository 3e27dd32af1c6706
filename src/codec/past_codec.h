// What retention took, as bytes: one version byte, fields, a checksum. The grammar stands at the top of
// the .cpp.
#pragma once

#include <string>
#include <string_view>

#include "core/audit.h"

namespace once::encoding {

std::string encode(const core::Past& past);
// What is damaged or cut off is an empty past that says so: statistics must not keep retention from its
// work. A newer version is refused with Code::store_unusable.
Result<core::Past> decode_past(std::string_view bytes);

}  // namespace once::encoding
