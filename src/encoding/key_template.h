// What a queue remembers by: the task id, or a template of dot paths.
//
//   template := "header:" NAME | ( literal | "{" value "}" )+    with at least one value
//   value    := dot-path | "$topic" | "$id" | "header:" NAME
//
// A backslash takes the next character as it is, in literals (`\{`) and in values (`{\$topic}` is
// the member "$topic").
//
// Injective: the same template gives two tasks the same key only when all its values are the same.
// Strings are percent-escaped (every byte outside [A-Za-z0-9_.~/-]); other scalars are canonical
// JSON prefixed with "=", so that 1 and "1" differ. Between two values there must be something that
// no value contains: any other character, such as ":"; or one of theirs, such as the "-" in
// `{year}-{month}`, that is then escaped in the values too. An object, an array, a missing path or
// header, or an empty key is an error that names it; so is null where it stands for nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "once/task.h"

namespace once::encoding {

class Json;

// Whether null is a value like others, or the same as none at all.
enum class NullIs : std::uint8_t { value, missing };

// What errors call the key, what it is taken from, and whose it is.
struct KeyWords {
  std::string key = "the queue's key";
  std::string source = "the body";
  std::string owner = "this task";
  std::string all = "every task";
  bool paths_only = false;  // there is no topic, id or header
};

class KeyTemplate {
 public:
  // An empty text is the template that gives the id.
  static Result<KeyTemplate> parse(std::string_view text, KeyWords words = {},
                                   NullIs null = NullIs::value);

  bool is_id() const { return parts_.empty(); }
  std::vector<std::string_view> paths() const;
  Result<std::string> key(std::string_view id, std::string_view topic, const Body& body,
                          const std::map<std::string, std::string>& headers) const;
  // The key of a task in which the template's only value is this string; none: it has several.
  std::optional<std::string> key_of(std::string_view value) const;

 private:
  struct Part {
    enum class Kind { literal, path, topic, id, header } kind;
    std::string text;
  };

  Result<Part> value_part(std::string_view text) const;
  Result<void> separate_values();
  void append_string(std::string_view value, std::string& key) const;
  Result<void> append_path(const Part& part, const Json& root, std::string& key) const;

  std::vector<Part> parts_;
  KeyWords words_;
  NullIs null_ = NullIs::value;
  std::string separators_;  // characters that values would contain, but for this template
};

}  // namespace once::encoding
