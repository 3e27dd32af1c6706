// The double a literal names and the text ECMAScript gives a double (Number::toString, which RFC
// 8785 prescribes): 1e+21, 1e-7, 0 for -0, otherwise the shortest digits that round-trip.
#include "json/json_number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace once::encoding {
namespace {

constexpr std::size_t kExactDigits = 15;  // every integer of so few digits is a double

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether the magnitude is above 1, for a literal that no double comes near: then it overflows,
// else it vanishes to zero.
bool is_large(std::string_view literal) {
  if (literal.front() == '-') literal.remove_prefix(1);
  const std::size_t exponent_at = std::min(literal.find_first_of("eE"), literal.size());
  const std::string_view mantissa = literal.substr(0, exponent_at);
  const std::size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const auto magnitude = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);

  std::int64_t exponent = 0;
  bool negative = false;
  for (const char c : literal.substr(exponent_at)) {
    if (c == '-') negative = true;
    // Capped far above any text's length, so that it cannot wrap and still outweighs the mantissa.
    if (is_digit(c)) exponent = std::min<std::int64_t>(exponent * 10 + (c - '0'), 1LL << 40);
  }
  return magnitude + (negative ? -exponent : exponent) > 0;
}

bool equals_exactly(double value, std::string_view integer) {
  char digits[320];  // the largest double has 309
  const auto end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, 0).ptr;
  return std::string_view(digits, static_cast<std::size_t>(end - digits)) == integer;
}

}  // namespace

NumberFault read_number(std::string_view literal, bool integral, NumberToken& token) {
  token.literal = literal;
  const char* const begin = literal.data();
  const char* const end = begin + literal.size();
  if (integral && literal.size() <= kExactDigits) {
    std::int64_t integer = 0;
    std::from_chars(begin, end, integer);
    token.value = static_cast<double>(integer);
    token.plain = literal != "-0";
    return NumberFault::none;
  }
  token.plain = false;
  double value = 0;
  const auto read = std::from_chars(begin, end, value);
  if (read.ec == std::errc::result_out_of_range || std::isinf(value)) {
    if (is_large(literal)) return NumberFault::overflow;
    value = 0;
  }
  token.value = value;
  if (integral && !equals_exactly(value, literal)) return NumberFault::inexact_integer;
  return NumberFault::none;
}

void append_number(double value, std::string& out) {
  if (value == 0) {
    out += '0';
    return;
  }
  // Gives [-]d[.ddd]e[+-]xx with the shortest digits that round-trip.
  char buffer[40];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const char* at = buffer;
  if (*at == '-') out += *at++;

  char digits[24];
  std::size_t count = 0;
  for (; *at != 'e'; ++at) {
    if (*at != '.') digits[count++] = *at;
  }
  ++at;
  const bool negative_exponent = *at++ == '-';
  int exponent = 0;
  std::from_chars(at, end, exponent);
  if (negative_exponent) exponent = -exponent;

  const int length = static_cast<int>(count);
  const int point = exponent + 1;  // digits before the decimal point
  if (length <= point && point <= 21) {
    out.append(digits, count);
    out.append(static_cast<std::size_t>(point - length), '0');
  } else if (0 < point && point <= 21) {
    out.append(digits, static_cast<std::size_t>(point));
    out += '.';
    out.append(digits + point, static_cast<std::size_t>(length - point));
  } else if (-6 < point && point <= 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-point), '0');
    out.append(digits, count);
  } else {
    out += digits[0];
    if (count > 1) {
      out += '.';
      out.append(digits + 1, count - 1);
    }
    out += negative_exponent ? "e-" : "e+";
    out += std::to_string(std::abs(exponent));
  }
}

}  // namespace once::encoding
