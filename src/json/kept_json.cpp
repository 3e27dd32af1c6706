#include "json/kept_json.h"

#include <charconv>
#include <cmath>

namespace once::encoding {
namespace {

constexpr double kExact = 9007199254740992.0;

void append_number(const Json& value, std::string& out) {
  if (std::abs(value.number()) <= kExact) return append_canonical(value, out);
  char text[32];
  const auto end =
      std::to_chars(text, text + sizeof text, value.number(), std::chars_format::scientific);
  out.append(text, end.ptr);
}

void append_members(const Json::Members& members, std::string& out) {
  bool first = true;
  for (const auto& [name, value] : members) {
    out += first ? '{' : ',';
    first = false;
    append_canonical_string(name, out);
    out += ':';
    append_kept(value, out);
  }
  out += first ? "{}" : "}";
}

void append_items(const std::vector<Json>& items, std::string& out) {
  bool first = true;
  for (const Json& value : items) {
    out += first ? '[' : ',';
    first = false;
    append_kept(value, out);
  }
  out += first ? "[]" : "]";
}

}  // namespace

void append_kept(const Json& value, std::string& out) {
  switch (value.kind()) {
    case Json::Kind::number: return append_number(value, out);
    case Json::Kind::object: return append_members(value.members(), out);
    case Json::Kind::array: return append_items(value.items(), out);
    default: return append_canonical(value, out);
  }
}

std::string kept(const Json& value) {
  std::string out;
  append_kept(value, out);
  return out;
}

}  // namespace once::encoding
