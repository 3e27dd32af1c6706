// Records and orders as bytes: one version byte, then fields as (tag, value), so that a newer field
// is skipped by an older reader of the same version, then a checksum. The grammar stands at the top
// of the .cpp.
#pragma once

#include <string>
#include <string_view>

#include "core/record.h"

namespace once::encoding {

// Decoding refuses what is damaged, cut off or of a newer version with Code::store_unusable.
std::string encode(const core::Record& record);
Result<core::Record> decode(std::string_view bytes);
std::string encode(const core::Order& order);
Result<core::Order> decode_order(std::string_view bytes);

// A queue's definition, as JSON text (canonical).
std::string encode_queue(const Queue& queue);
Result<Queue> decode_queue(std::string_view text);

}  // namespace once::encoding
