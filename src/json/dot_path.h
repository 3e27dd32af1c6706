// Dot paths into JSON: `metadata.request_id`, `lines.0.sku`. A backslash takes the next character
// as it is, so that `a\.b` names the member "a.b".
#pragma once

#include <string_view>

#include "json/json.h"

namespace once::encoding {

// Null when some part of the path is missing. The empty path is the root itself. In an array a part
// is an index written in decimal without leading zeros.
const Json* at(const Json& root, std::string_view dot_path);

// What a person who wrote this did not mean, as in "a[0]" and "a..b"; empty: nothing.
std::string_view dot_path_fault(std::string_view dot_path);

}  // namespace once::encoding
