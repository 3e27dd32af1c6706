// JSON paths for people: "$", "$.order.id", "$.lines[2]", "$[\"a b\"]".
#pragma once

#include <string>
#include <string_view>

#include "json/json_parser.h"
#include "once/result.h"

namespace once::encoding {

// `.name`, or `["na me"]` when the name is no identifier.
void append_path_member(std::string_view name, std::string& path);
void append_path_index(std::size_t index, std::string& path);

// What a person needs to mend a refused text: line, column, byte, path and what is wrong there.
Error refusal(std::string_view text, const JsonFailure& failure);

}  // namespace once::encoding
