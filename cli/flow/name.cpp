#include "cli/flow/name.h"

#include <fmt/format.h>

#include <limits>

#include "shapes/values.h"

namespace once::cli {

Result<FlowName> flow_name_from(const std::string& text) {
  const std::size_t at = text.find('@');
  if (at == std::string::npos) return FlowName{.name = text};
  const auto version = parse_number(std::string_view(text).substr(at + 1));
  if (!version || *version == 0 || *version > std::numeric_limits<std::uint32_t>::max()) {
    return Error{
        .code = Code::invalid_input,
        .message = fmt::format("a version is a whole number from 1, as in payment@3, not \"{}\"",
                               text.substr(at + 1))};
  }
  return FlowName{.name = text.substr(0, at), .version = static_cast<std::uint32_t>(*version)};
}

}  // namespace once::cli
