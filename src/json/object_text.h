// A JSON object, written member by member. Canonical when the members come in canonical order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "json/json.h"

namespace once::encoding {

class ObjectText {
 public:
  void json(std::string_view name, std::string_view text) {
    begin(name);
    text_ += text;
  }
  void string(std::string_view name, std::string_view value) {
    begin(name);
    append_canonical_string(value, text_);
  }
  void number(std::string_view name, std::int64_t value) { json(name, std::to_string(value)); }
  void boolean(std::string_view name, bool value) { json(name, value ? "true" : "false"); }

  bool empty() const { return text_.size() == 1; }
  std::string take() && { return std::move(text_) + '}'; }

 private:
  void begin(std::string_view name) {
    if (!empty()) text_ += ',';
    append_canonical_string(name, text_);
    text_ += ':';
  }

  std::string text_ = "{";
};

}  // namespace once::encoding
