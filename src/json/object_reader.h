// Reads the members of a JSON object that was written by a program, and remembers the first that is
// missing or not of its kind.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "json/json.h"

namespace once::encoding {

class ObjectReader {
 public:
  explicit ObjectReader(const Json& object) : object_(object) {}

  const Json* find(std::string_view name) const { return object_.member(name); }  // null: none
  bool is_null(std::string_view name) const {
    const Json* const value = find(name);
    return value != nullptr && value->kind() == Json::Kind::null;
  }

  void string(std::string_view name, std::string& into) {
    if (!read(find(name), into)) misfits(name);
  }
  template <class Number>
  void number(std::string_view name, std::type_identity_t<Number> least, Number& into) {
    if (!read(find(name), least, into)) misfits(name);
  }

  void misfits(std::string_view name) {
    if (misfit_.empty()) misfit_ = name;
  }
  const std::string& misfit() const { return misfit_; }  // empty: all fit

  static bool read(const Json* value, std::string& into) {
    if (value == nullptr || value->kind() != Json::Kind::string) return false;
    into = value->string();
    return true;
  }
  // Whole, and not more than a double holds exactly.
  template <class Number>
  static bool read(const Json* value, std::type_identity_t<Number> least, Number& into) {
    constexpr double kMost = sizeof(Number) < 8 ? 4294967295.0 : 9007199254740992.0;
    if (value == nullptr || value->kind() != Json::Kind::number) return false;
    const double number = value->number();
    if (number != std::floor(number) || number < static_cast<double>(least) || number > kMost)
      return false;
    into = static_cast<Number>(number);
    return true;
  }

 private:
  const Json& object_;
  std::string misfit_;
};

}  // namespace once::encoding
