// What a queue remembers by: the task id, or a template of dot paths.
//
//   template := "header:" NAME | ( literal | "{" value "}" )+    with at least one value
//   value    := dot-path | "$topic" | "$id" | "header:" NAME
//
// A backslash takes the next character as it is, in literals (`\{`) and in values (`{\$topic}` is
// the member "$topic").
//
// KeyFormat::plain: values as people write them, so 17 and "17" give one key. Numbers have their RFC 8785
// form. A missing, null or empty value, an object and an array are errors that name the path; so is a key
// over kMaxId bytes or with a control character. Not injective: `{a}-{b}` is x-y-z for "x-y" and "z", and
// for "x" and "y-z". Where the ledger compares content that is a conflict, and told. Where it would not be
// told (headers and ids are no content; SameKey::ignore) a value that makes it possible is an error.
//
// KeyFormat::escaped: injective. Strings are percent-escaped (every byte outside [A-Za-z0-9_.~/-]);
// other scalars are canonical JSON prefixed with "=", so that 1 and "1" differ. Between two values there
// must be something that no value contains: any other character, such as ":"; or one of theirs, such as
// the "-" in `{year}-{month}`, that is then escaped in the values too. An object, an array, a missing
// path or header, or an empty key is an error that names it; so is null where it stands for nothing.
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

// What errors call the key, what it is taken from, and whose it is.
struct KeyWords {
  std::string key = "the queue's key";
  std::string source = "the body";
  std::string owner = "this task";
  std::string all = "every task";
  bool paths_only = false;       // there is no topic, id or header
  bool null_is_missing = false;  // escaped: null is no value
};

struct KeyRules {
  KeyFormat format = KeyFormat::plain;
  bool content_counts = true;  // tasks of one key and other content conflict, and that is told
};
KeyRules rules_of(const Queue& queue);

class KeyTemplate {
 public:
  // An empty text is the template that gives the id.
  static Result<KeyTemplate> parse(std::string_view text, KeyWords words = {}, KeyRules rules = {});
  static Result<KeyTemplate> of(const Queue& queue) {
    return parse(queue.key, {}, rules_of(queue));
  }

  bool is_id() const { return parts_.empty(); }
  bool one_value() const;  // at most
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
  bool plain() const { return rules_.format == KeyFormat::plain; }
  // What errors call the value of a part.
  std::string where(const Part& part) const;
  // Where two sets of values with the same content could silently give the same key.
  bool must_be_injective() const;
  Result<void> append_value(const Part& part, std::string_view id, std::string_view topic,
                            const std::map<std::string, std::string>& headers, const Json* root,
                            std::string& key) const;
  Result<void> append_path(const Part& part, const Json& root, std::string& key) const;
  void append_string(std::string_view value, std::string& key) const;
  Result<void> check_plain(std::size_t part, std::string_view value) const;
  Error no_key(std::string_view why) const;

  std::vector<Part> parts_;
  KeyWords words_;
  KeyRules rules_;
  std::string separators_;  // escaped: characters that values would contain, but for this template
};

}  // namespace once::encoding
