// The tree of a JSON text, and its canonical text.
#include "json/json.h"

#include <algorithm>
#include <cstring>

#include "core/hex.h"
#include "json/json_parser.h"
#include "json/json_path.h"

namespace once::encoding {

// Values wait on a stack until their container ends and takes them.
class JsonBuilder {
 public:
  struct Mark {
    std::size_t values;
    std::size_t keys;
  };

  void null() { values_.emplace_back(); }
  void boolean(bool value) {
    Json& json = add(Json::Kind::boolean);
    json.number_ = value ? 1 : 0;
  }
  void number(const NumberToken& token) {
    Json& json = add(Json::Kind::number);
    json.number_ = token.value;
  }
  void string(const StringToken& token) {
    Json& json = add(Json::Kind::string);
    json.string_ = token.decoded;
  }
  Mark begin_array() { return {values_.size(), keys_.size()}; }
  Mark begin_object() { return {values_.size(), keys_.size()}; }
  void key(const StringToken& token, std::size_t offset) {
    keys_.push_back({std::string(token.decoded), offset, keys_.size()});
  }
  void comma() {}
  void end_array(Mark mark) {
    Json array;
    array.kind_ = Json::Kind::array;
    const auto first = values_.begin() + static_cast<std::ptrdiff_t>(mark.values);
    array.items_.assign(std::make_move_iterator(first), std::make_move_iterator(values_.end()));
    values_.erase(first, values_.end());
    values_.push_back(std::move(array));
  }
  std::size_t end_object(Mark mark) {
    const auto first = keys_.begin() + static_cast<std::ptrdiff_t>(mark.keys);
    std::sort(first, keys_.end(), [](const Key& a, const Key& b) {
      const int order = compare_utf16(a.name, b.name);
      return order != 0 ? order < 0 : a.offset < b.offset;
    });
    std::size_t repeated = kNowhere;
    for (auto key = first; key != keys_.end(); ++key) {
      if (key != first && key->name == std::prev(key)->name) {
        repeated = std::min(repeated, key->offset);
      }
    }
    if (repeated != kNowhere) return repeated;

    Json object;
    object.kind_ = Json::Kind::object;
    object.members_.reserve(keys_.size() - mark.keys);
    for (auto key = first; key != keys_.end(); ++key) {
      Json& value = values_[mark.values + (key->order - mark.keys)];
      object.members_.emplace_back(std::move(key->name), std::move(value));
    }
    keys_.erase(first, keys_.end());
    values_.resize(mark.values);
    values_.push_back(std::move(object));
    return kNowhere;
  }

  Json take() { return std::move(values_.back()); }

 private:
  struct Key {
    std::string name;
    std::size_t offset;
    std::size_t order;  // among the keys that wait, before they were sorted
  };

  Json& add(Json::Kind kind) {
    Json& json = values_.emplace_back();
    json.kind_ = kind;
    return json;
  }

  std::vector<Json> values_;
  std::vector<Key> keys_;
};

const Json* Json::member(std::string_view name) const {
  const auto found = std::lower_bound(
      members_.begin(), members_.end(), name,
      [](const auto& member, auto wanted) { return compare_utf16(member.first, wanted) < 0; });
  return found != members_.end() && found->first == name ? &found->second : nullptr;
}

Result<Json> parse_json(std::string_view text, Integers integers) {
  JsonBuilder builder;
  JsonParser<JsonBuilder> parser(text, builder, integers);
  if (!parser.parse()) return refusal(text, parser.failure());
  return builder.take();
}

void append_canonical(const Json& value, std::string& out) {
  switch (value.kind()) {
    case Json::Kind::null: out += "null"; break;
    case Json::Kind::boolean: out += value.boolean() ? "true" : "false"; break;
    case Json::Kind::number: append_number(value.number(), out); break;
    case Json::Kind::string: append_canonical_string(value.string(), out); break;
    case Json::Kind::array: {
      char separator = '[';
      for (const Json& item : value.items()) {
        out += separator;
        append_canonical(item, out);
        separator = ',';
      }
      out += value.items().empty() ? "[]" : "]";
      break;
    }
    case Json::Kind::object: {
      char separator = '{';
      for (const auto& [name, member] : value.members()) {
        out += separator;
        append_canonical_string(name, out);
        out += ':';
        append_canonical(member, out);
        separator = ',';
      }
      out += value.members().empty() ? "{}" : "}";
      break;
    }
  }
}

std::string canonical(const Json& value) {
  std::string out;
  append_canonical(value, out);
  return out;
}

void append_canonical_string(std::string_view utf8, std::string& out) {
  out += '"';
  std::size_t copied = 0;
  for (std::size_t at = 0; at < utf8.size(); ++at) {
    const auto c = static_cast<unsigned char>(utf8[at]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(utf8, copied, at - copied);
    copied = at + 1;
    out += '\\';
    switch (c) {
      case '"':
      case '\\': out += static_cast<char>(c); break;
      case '\b': out += 'b'; break;
      case '\f': out += 'f'; break;
      case '\n': out += 'n'; break;
      case '\r': out += 'r'; break;
      case '\t': out += 't'; break;
      default:
        out += "u00";
        out += core::kHexDigits[c >> 4];
        out += core::kHexDigits[c & 15];
    }
  }
  out.append(utf8, copied, utf8.size() - copied);
  out += '"';
}

int compare_utf16(std::string_view a, std::string_view b) {
  const std::size_t common = std::min(a.size(), b.size());
  std::size_t at = 0;
  while (at < common && a[at] == b[at]) ++at;
  if (at == common) return a.size() == b.size() ? 0 : a.size() < b.size() ? -1 : 1;
  // UTF-8 orders as code points do, and UTF-16 differs from that in one thing: what takes a pair of
  // surrogates (lead bytes F0 to F4) comes before U+E000 to U+FFFF (EE and EF).
  const auto rank = [](char c) -> unsigned {
    const unsigned byte = static_cast<unsigned char>(c);
    return byte == 0xEE || byte == 0xEF ? byte + 0x10 : byte;
  };
  return rank(a[at]) < rank(b[at]) ? -1 : 1;
}

}  // namespace once::encoding
