// TOML as a JSON value. The one place that sees a TOML parser.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "once/result.h"

namespace once::cli {

struct TomlFile {
  nlohmann::ordered_json value{};
  std::map<std::string, std::uint32_t> lines{};  // by path, such as queue[1].lease
};

// Dates and times become text as they are written.
Result<TomlFile> parse_toml(const std::string& text);

}  // namespace once::cli
