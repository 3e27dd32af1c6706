// A text as a JSON string.
#pragma once

#include <string>
#include <string_view>

#include "json/json.h"

namespace once::encoding {

inline std::string json_string(std::string_view utf8) {
  std::string out;
  append_canonical_string(utf8, out);
  return out;
}

}  // namespace once::encoding
