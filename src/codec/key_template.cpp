// Reading a template, and filling it. In the escaped format no two sets of values give the same key. Why
// they cannot: between two values stands a character that never occurs in a value (by nature, or because
// separators_ escapes it), so all such characters of a key come from the literals, in the
// template's order; their places show where each value begins and ends; and a value has one escaped
// form only.
#include "codec/key_template.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "core/names.h"
#include "core/utf8.h"
#include "json/dot_path.h"
#include "json/json.h"

namespace once::encoding {
namespace {

constexpr std::string_view kHeader = "header:";
constexpr std::size_t kShown = 100;

Error refused(std::string_view text, std::string_view why) {
  return Error{
      .code = Code::invalid_input,
      .message = "key template \"" + core::excerpt(text, kShown) + "\": " + std::string(why)};
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// What a string keeps as it is.
bool is_unescaped(char c) {
  return is_alphanumeric(c) || std::string_view("_.~/-").find(c) != std::string_view::npos;
}

// What can stand in a filled-in value: the above, escapes, and canonical scalars after "=".
bool occurs_in_values(char c) {
  return is_unescaped(c) || std::string_view("%=+").find(c) != std::string_view::npos;
}

// What can be escaped besides: not what escapes themselves are made of.
bool can_separate(char c) {
  const bool in_escapes = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || c == '%' || c == '=';
  return !in_escapes;
}

void append_escape(char c, std::string& out) {
  constexpr char kHex[] = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  out += '%';
  out += kHex[byte >> 4];
  out += kHex[byte & 15];
}

std::string without_backslashes(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    out += text[i];
  }
  return out;
}

// What is wrong with the text before its structure is looked at.
std::optional<std::string> unreadable(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = core::utf8_sequence(text, i);
    if (length == 0) return "it is not valid UTF-8";
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return "it contains a control character";
    i += length;
  }
  return std::nullopt;
}

}  // namespace

KeyRules rules_of(const Queue& queue) {
  return {.format = queue.key_format, .content_counts = queue.same_key == SameKey::duplicate};
}

Result<KeyTemplate> KeyTemplate::parse(std::string_view text, KeyWords words, KeyRules rules) {
  KeyTemplate result;
  result.words_ = std::move(words);
  result.rules_ = rules;
  if (text.empty()) return result;
  if (const auto why = unreadable(text)) return refused(text, *why);

  const bool braces = text.find_first_of("{}") != std::string_view::npos;
  if (text.starts_with(kHeader) && !result.words_.paths_only) {
    if (braces) return refused(text, "among other text a header is written {header:NAME}");
    auto part = result.value_part(text);
    if (!part) return refused(text, part.error().message);
    result.parts_.push_back(*part);
    return result;
  }
  if (!braces) {
    return refused(text, "it has no value in braces, so " + result.words_.all +
                             " would have the same key; for the value at a path write {" +
                             core::excerpt(text, kShown) + "}");
  }

  std::string literal;
  const auto end_literal = [&] {
    if (!literal.empty()) result.parts_.push_back({Part::Kind::literal, std::move(literal)});
    literal.clear();
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      if (++i == text.size()) return refused(text, "a backslash at the end escapes nothing");
      literal += text[i];
    } else if (text[i] == '}') {
      return refused(text, "a } has no { before it; a literal one is written \\}");
    } else if (text[i] == '{') {
      end_literal();
      const std::size_t begin = ++i;
      while (i < text.size() && text[i] != '}' && text[i] != '{') i += text[i] == '\\' ? 2 : 1;
      if (i >= text.size() || text[i] == '{') {
        return refused(text, "a { has no } after it; a literal one is written \\{");
      }
      auto part = result.value_part(text.substr(begin, i - begin));
      if (!part) return refused(text, part.error().message);
      result.parts_.push_back(*part);
    } else {
      literal += text[i];
    }
  }
  end_literal();
  if (std::all_of(result.parts_.begin(), result.parts_.end(),
                  [](const Part& part) { return part.kind == Part::Kind::literal; })) {
    return refused(
        text, "it has no value in braces, so " + result.words_.all + " would have the same key");
  }
  if (const auto separated = result.separate_values(); !separated) {
    return refused(text, separated.error().message);
  }
  return result;
}

Result<KeyTemplate::Part> KeyTemplate::value_part(std::string_view text) const {
  const auto fail = [](std::string why) {
    return Error{.code = Code::invalid_input, .message = std::move(why)};
  };
  if (text.empty())
    return fail(words_.paths_only
                    ? "{} names nothing; write {path}"
                    : "{} names nothing; write {path}, {$topic}, {$id} or {header:NAME}");
  if (words_.paths_only && (text.front() == '$' || text.starts_with(kHeader)))
    return fail("{" + core::excerpt(text, kShown) + "} is no path into " + words_.source +
                ", and there is no topic, id or header" +
                (text.front() == '$' ? "; a member of that name is written {\\$...}" : ""));
  if (text == "$topic") return Part{Part::Kind::topic, {}};
  if (text == "$id") return Part{Part::Kind::id, {}};
  if (text.front() == '$') {
    return fail("{" + core::excerpt(text, kShown) +
                "} is not known; write {$topic}, {$id}, or {\\$...} for a member of that name");
  }
  if (text.starts_with(kHeader)) {
    std::string name = without_backslashes(text.substr(kHeader.size()));
    if (name.empty()) return fail("header: needs a name after it");
    return Part{Part::Kind::header, std::move(name)};
  }
  return Part{Part::Kind::path, std::string(text)};
}

Result<void> KeyTemplate::separate_values() {
  bool after_value = false;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].kind != Part::Kind::literal) {
      if (after_value) {
        return Error{.code = Code::invalid_input,
                     .message =
                         "nothing tells where one value ends and the next begins; put a "
                         "character such as : between them"};
      }
      after_value = true;
      continue;
    }
    if (!after_value || i + 1 == parts_.size()) continue;
    const std::string& between = parts_[i].text;
    if (plain() || !std::all_of(between.begin(), between.end(), occurs_in_values)) {
      after_value = false;
      continue;
    }
    // Punctuation first: escaping it hurts the eye least.
    auto chosen = std::find_if(between.begin(), between.end(),
                               [](char c) { return can_separate(c) && !is_alphanumeric(c); });
    if (chosen == between.end())
      chosen = std::find_if(between.begin(), between.end(), can_separate);
    if (chosen == between.end()) continue;
    separators_ += *chosen;
    after_value = false;
  }
  return {};
}

Error KeyTemplate::no_key(std::string_view why) const {
  return {.code = Code::invalid_input,
          .message = "no key: " + std::string(why) + ", which " + words_.key + " needs"};
}

std::string KeyTemplate::where(const Part& part) const {
  switch (part.kind) {
    case Part::Kind::literal: break;
    case Part::Kind::topic: return "the topic";
    case Part::Kind::id: return "the id";
    case Part::Kind::header: return "the header " + core::excerpt(part.text, kShown);
    case Part::Kind::path: return core::excerpt(part.text, kShown) + " in " + words_.source;
  }
  return {};
}

void KeyTemplate::append_string(std::string_view value, std::string& key) const {
  if (plain()) {
    key += value;
    return;
  }
  for (const char c : value) {
    if (is_unescaped(c) && separators_.find(c) == std::string::npos) {
      key += c;
    } else {
      append_escape(c, key);
    }
  }
}

Result<void> KeyTemplate::append_path(const Part& part, const Json& root, std::string& key) const {
  const auto fail = [&](std::string_view what) {
    return no_key(std::string(what) + " at " + where(part));
  };
  const Json* const value = at(root, part.text);
  if (value == nullptr) return fail("there is nothing");
  const bool null_counts = !plain() && !words_.null_is_missing;
  const auto not_a = [&](std::string_view what) {
    return fail("there is " + std::string(what) + ", not a string, number, true" +
                (null_counts ? ", false or null," : " or false,"));
  };
  switch (value->kind()) {
    case Json::Kind::object: return not_a("an object");
    case Json::Kind::array: return not_a("an array");
    case Json::Kind::string: append_string(value->string(), key); return {};
    case Json::Kind::null:
      if (!null_counts) return not_a("null");
      [[fallthrough]];
    default: break;
  }
  if (plain()) {
    key += canonical(*value);
    return {};
  }
  key += '=';
  for (const char c : canonical(*value)) {
    if (separators_.find(c) == std::string::npos) {
      key += c;
    } else {
      append_escape(c, key);
    }
  }
  return {};
}

Result<void> KeyTemplate::append_value(const Part& part, std::string_view id,
                                       std::string_view topic,
                                       const std::map<std::string, std::string>& headers,
                                       const Json* root, std::string& key) const {
  switch (part.kind) {
    case Part::Kind::literal: key += part.text; break;
    case Part::Kind::topic: append_string(topic, key); break;
    case Part::Kind::id: append_string(id, key); break;
    case Part::Kind::header: {
      const auto header = headers.find(part.text);
      if (header == headers.end())
        return no_key("the task has no header " + core::excerpt(part.text, kShown));
      append_string(header->second, key);
      break;
    }
    case Part::Kind::path: return append_path(part, *root, key);
  }
  return {};
}

bool KeyTemplate::must_be_injective() const {
  return !rules_.content_counts || std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return part.kind == Part::Kind::header || part.kind == Part::Kind::id;
  });
}

Result<void> KeyTemplate::check_plain(std::size_t part, std::string_view value) const {
  if (value.empty()) return no_key("there is an empty string at " + where(parts_[part]));
  if (part + 2 >= parts_.size() || !must_be_injective()) return {};
  // The first separator after the value's beginning must be the one that ends it.
  const std::string& separator = parts_[part + 1].text;
  if ((std::string(value) + separator).find(separator) == value.size()) return {};
  return Error{.code = Code::invalid_input,
               .message = "no key: the value at " + where(parts_[part]) + " runs into \"" +
                          core::excerpt(separator, kShown) +
                          "\", which separates it from the next in " + words_.key +
                          "; other values would silently give the same key"};
}

Result<std::string> KeyTemplate::key(std::string_view id, std::string_view topic, const Body& body,
                                     const std::map<std::string, std::string>& headers) const {
  std::string key;
  std::optional<Json> root;
  if (is_id()) key = id;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    if (part.kind == Part::Kind::path && !root) {
      if (!body.is_json()) {
        return Error{.code = Code::invalid_input,
                     .message = "no key: " + words_.source + " is bytes, and " + words_.key +
                                " needs " + core::excerpt(part.text, kShown) + " of JSON"};
      }
      auto parsed = parse_json(body.text());
      if (!parsed) return parsed.error();
      root = std::move(*parsed);
    }
    const std::size_t begin = key.size();
    const auto appended = append_value(part, id, topic, headers, root ? &*root : nullptr, key);
    if (!appended) return appended.error();
    if (!plain() || part.kind == Part::Kind::literal) continue;
    if (const auto ok = check_plain(i, std::string_view(key).substr(begin)); !ok) return ok.error();
  }
  if (key.empty()) {
    return Error{
        .code = Code::invalid_input,
        .message = "no key: every value of " + words_.key + " is empty for " + words_.owner};
  }
  if (plain() && !is_id())
    if (const auto ok = core::check_key(key); !ok)
      return Error{.code = Code::invalid_input, .message = "no key: " + ok.error().message};
  return key;
}

bool KeyTemplate::one_value() const {
  return std::count_if(parts_.begin(), parts_.end(),
                       [](const Part& part) { return part.kind != Part::Kind::literal; }) <= 1;
}

std::vector<std::string_view> KeyTemplate::paths() const {
  std::vector<std::string_view> all;
  for (const Part& part : parts_)
    if (part.kind == Part::Kind::path) all.push_back(part.text);
  return all;
}

std::optional<std::string> KeyTemplate::key_of(std::string_view value) const {
  const auto literal = [](const Part& part) { return part.kind == Part::Kind::literal; };
  if (std::count_if(parts_.begin(), parts_.end(), std::not_fn(literal)) != 1) return std::nullopt;
  std::string key;
  for (const Part& part : parts_)
    if (literal(part))
      key += part.text;
    else
      append_string(value, key);
  return key;
}

}  // namespace once::encoding
