// One JSON object on one line, fields in the order they are given.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "once/task.h"
#include "once/view.h"

namespace once::cli {

std::string json_array(const std::vector<std::string>& values);  // of JSON texts
std::string json_object(const std::map<std::string, std::string>& members);

class JsonLine {
 public:
  JsonLine& text(std::string_view name, std::string_view value);
  JsonLine& text_or_null(std::string_view name, std::string_view value);  // empty: null
  JsonLine& number(std::string_view name, std::uint64_t value);
  JsonLine& boolean(std::string_view name, bool value);
  JsonLine& null(std::string_view name);
  JsonLine& time(std::string_view name, Time value);
  JsonLine& time_or_null(std::string_view name, const std::optional<Time>& value);
  JsonLine& time_if(std::string_view name, const std::optional<Time>& value);  // none: no field
  JsonLine& json(std::string_view name, std::string_view value);  // a JSON text on one line
  // JSON under `name`. Bytes that are UTF-8 are a string under `name`, with "text":true after it.
  // Other bytes are in base64 under `raw_name`.
  JsonLine& body(std::string_view name, std::string_view raw_name, const Body& value);
  JsonLine& body_or_null(std::string_view name, std::string_view raw_name,
                         const std::optional<Body>& value);

  std::string str() const { return text_ + '}'; }

 private:
  void start(std::string_view name);
  std::string text_ = "{";
};

// The fields `body` (or `raw`, or `retired`) and `headers`.
JsonLine& add_content(JsonLine& line, const LogEntry& entry);

// A JSON body on one line, otherwise as it was given.
std::string one_line(const Body& body);
// For people: JSON without white space, bytes as they are.
std::string compact(const Body& body);

}  // namespace once::cli
