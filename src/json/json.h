// JSON as content identity needs it: strict RFC 8259 in, RFC 8785 out. Refused, with the place:
// duplicate keys, lone surrogates, invalid UTF-8, integer literals that no double equals, numbers
// beyond a double, nesting deeper than kMaxDepth.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "once/result.h"

namespace once::encoding {

inline constexpr int kMaxDepth = 512;

class Json {
 public:
  enum class Kind { null, boolean, number, string, array, object };
  using Members = std::vector<std::pair<std::string, Json>>;  // sorted by UTF-16 units

  Kind kind() const { return kind_; }
  bool boolean() const { return number_ != 0; }
  double number() const { return number_; }
  const std::string& string() const { return string_; }
  const std::vector<Json>& items() const { return items_; }
  const Members& members() const { return members_; }
  const Json* member(std::string_view name) const;  // null: none

  friend bool operator==(const Json&, const Json&) = default;

 private:
  friend class JsonBuilder;
  Kind kind_ = Kind::null;
  double number_ = 0;
  std::string string_;
  std::vector<Json> items_;
  Members members_;
};

// Of what people and programs give us every integer must be exact: two different orders must not look
// alike. What a server tells of itself may be rounded.
enum class Integers { exact, rounded };
Result<Json> parse_json(std::string_view text, Integers integers = Integers::exact);
void append_canonical(const Json& value, std::string& out);  // RFC 8785
std::string canonical(const Json& value);
void append_canonical_string(std::string_view utf8, std::string& out);  // quoted and escaped

// Appends the RFC 8785 form of a text without building a tree: the way of every publish. After an
// error, `out` is as it was.
Result<void> canonicalise(std::string_view text, std::string& out);

// The order of RFC 8785 for two UTF-8 texts: by UTF-16 units. Below zero: a comes first.
int compare_utf16(std::string_view a, std::string_view b);

}  // namespace once::encoding
