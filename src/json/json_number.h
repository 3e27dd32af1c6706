// Numbers of JSON: from a literal to the double it names, and back as ECMAScript prints it.
#pragma once

#include <string>
#include <string_view>

namespace once::encoding {

// A number as it stands in a JSON text.
struct NumberToken {
  std::string_view literal{};
  double value{};
  bool plain{};  // the literal is already what ECMAScript prints
};

enum class NumberFault { none, inexact_integer, overflow };  // inexact: `value` is the nearest

// `literal` follows JSON's grammar; `integral`: it has neither fraction nor exponent.
NumberFault read_number(std::string_view literal, bool integral, NumberToken& token);

void append_number(double value, std::string& out);  // finite

}  // namespace once::encoding
