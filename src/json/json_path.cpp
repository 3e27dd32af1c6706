// Where in a JSON text an error is. The path is found by reading the text a second time: keeping
// one up to date would cost every good text something.
#include "json/json_path.h"

#include <algorithm>
#include <vector>

#include "core/utf8.h"

namespace once::encoding {
namespace {

constexpr std::size_t kPathShown = 160;

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
  };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

// Follows the parser to the failure, or past it for what only the end of an object shows (a
// repeated key): then the path is taken where that key stands.
class PathFinder {
 public:
  explicit PathFinder(std::size_t target) : target_(target) {}

  struct Mark {};
  void null() {}
  void boolean(bool) {}
  void number(const NumberToken&) {}
  void string(const StringToken&) {}
  Mark begin_array() {
    places_.push_back({.in_array = true, .index = 0, .name = {}, .named = false});
    return {};
  }
  Mark begin_object() {
    places_.push_back({.in_array = false, .index = 0, .name = {}, .named = false});
    return {};
  }
  void key(const StringToken& token, std::size_t offset) {
    places_.back().name = token.decoded;
    places_.back().named = true;
    if (offset == target_) at_target_ = current();
  }
  void comma() {
    ++places_.back().index;
    places_.back().named = false;
  }
  void end_array(Mark) { places_.pop_back(); }
  std::size_t end_object(Mark) {
    places_.pop_back();
    return kNowhere;
  }

  std::string path() const { return at_target_.empty() ? current() : at_target_; }

 private:
  struct Place {
    bool in_array;
    std::size_t index;
    std::string name;
    bool named;
  };

  std::string current() const {
    std::string path = "$";
    for (const Place& place : places_) {
      if (place.in_array) {
        append_path_index(place.index, path);
      } else if (place.named) {
        append_path_member(place.name, path);
      }
    }
    return path;
  }

  std::size_t target_;
  std::vector<Place> places_;
  std::string at_target_;
};

std::string shortened(const std::string& path) {
  if (path.size() <= kPathShown) return path;
  return core::excerpt(path, kPathShown / 2) + std::string(core::last_bytes(path, kPathShown / 2));
}

}  // namespace

void append_path_member(std::string_view name, std::string& path) {
  if (is_identifier(name)) {
    path += '.';
    path += name;
    return;
  }
  path += '[';
  append_canonical_string(name, path);
  path += ']';
}

void append_path_index(std::size_t index, std::string& path) {
  path += '[';
  path += std::to_string(index);
  path += ']';
}

Error refusal(std::string_view text, const JsonFailure& failure) {
  PathFinder finder(failure.offset);
  JsonParser<PathFinder> parser(text, finder);
  // Answers no where the first reading did, or yes when only a repeated key was wrong.
  static_cast<void>(parser.parse());

  const std::string_view before = text.substr(0, failure.offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);  // npos + 1 is 0
  const auto column = 1 + std::count_if(in_line.begin(), in_line.end(),
                                        [](char c) { return !core::continues_character(c); });
  return Error{.code = Code::invalid_input,
               .message = "JSON refused at " + std::to_string(line) + ":" + std::to_string(column) +
                          " (byte " + std::to_string(failure.offset) + ", " +
                          shortened(finder.path()) + "): " + failure.what};
}

}  // namespace once::encoding
