// JSON that is written to be read again: canonical, but for integers beyond 2^53. Their canonical digits
// are not all their own, and would be refused as a number that no double equals; these are written with
// an exponent, and mean the same.
#pragma once

#include <string>

#include "json/json.h"

namespace once::encoding {

void append_kept(const Json& value, std::string& out);
std::string kept(const Json& value);

}  // namespace once::encoding
