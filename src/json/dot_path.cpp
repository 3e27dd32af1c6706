// One part of the path at a time, from the root down.
#include "json/dot_path.h"

#include <charconv>

namespace once::encoding {
namespace {

const Json* child(const Json& value, std::string_view part) {
  if (value.kind() == Json::Kind::object) return value.member(part);
  if (value.kind() != Json::Kind::array || part.empty()) return nullptr;
  if (part.size() > 1 && part.front() == '0') return nullptr;
  std::size_t index = 0;
  const char* const end = part.data() + part.size();
  const auto read = std::from_chars(part.data(), end, index);
  if (read.ec != std::errc() || read.ptr != end || index >= value.items().size()) return nullptr;
  return &value.items()[index];
}

}  // namespace

const Json* at(const Json& root, std::string_view dot_path) {
  if (dot_path.empty()) return &root;
  const Json* value = &root;
  std::string part;
  for (std::size_t i = 0; i < dot_path.size(); ++i) {
    char c = dot_path[i];
    if (c == '.') {
      value = child(*value, part);
      if (value == nullptr) return nullptr;
      part.clear();
      continue;
    }
    if (c == '\\' && i + 1 < dot_path.size()) c = dot_path[++i];
    part += c;
  }
  return child(*value, part);
}

std::string_view dot_path_fault(std::string_view dot_path) {
  if (dot_path.empty()) return {};
  std::size_t begin = 0;  // of the part
  for (std::size_t i = 0; i <= dot_path.size(); ++i) {
    if (i == dot_path.size() || dot_path[i] == '.') {
      if (i == begin) return "it has an empty part";
      begin = i + 1;
    } else if (dot_path[i] == '\\') {
      if (++i == dot_path.size()) return "a backslash at the end escapes nothing";
    } else if (dot_path[i] == '[') {
      return "an index is a part of its own, as in lines.0, and a member's bracket is written \\[";
    }
  }
  return {};
}

}  // namespace once::encoding
