// What a person is told of two contents under one id: the places that differ.
#include <algorithm>

#include "codec/digest.h"
#include "json/json.h"
#include "json/json_path.h"

namespace once::encoding {
namespace {

constexpr std::size_t kMostPlaces = 16;

class Comparison {
 public:
  explicit Comparison(std::vector<std::string>& places) : places_(places) {}

  void compare(const Json& a, const Json& b) {
    if (places_.size() == kMostPlaces) return;
    if (a.kind() == Json::Kind::object && b.kind() == Json::Kind::object) {
      members(a.members(), b.members());
    } else if (a.kind() == Json::Kind::array && b.kind() == Json::Kind::array) {
      items(a.items(), b.items());
    } else if (a != b) {
      differs();
    }
  }

 private:
  void differs() {
    if (places_.size() < kMostPlaces) places_.push_back(path_);
  }

  template <class Do>
  void below_member(std::string_view name, Do&& look) {
    const std::size_t above = path_.size();
    append_path_member(name, path_);
    look();
    path_.resize(above);
  }

  // Both sides are sorted: walk them side by side.
  void members(const Json::Members& a, const Json::Members& b) {
    auto left = a.begin();
    auto right = b.begin();
    while (left != a.end() || right != b.end()) {
      if (places_.size() == kMostPlaces) return;
      const int order = left == a.end()    ? 1
                        : right == b.end() ? -1
                                           : compare_utf16(left->first, right->first);
      if (order == 0) {
        below_member(left->first, [&] { compare(left->second, right->second); });
        ++left;
        ++right;
      } else {
        const auto only = order < 0 ? left++ : right++;
        below_member(only->first, [&] { differs(); });
      }
    }
  }

  void items(const std::vector<Json>& a, const std::vector<Json>& b) {
    const std::size_t longer = std::max(a.size(), b.size());
    for (std::size_t i = 0; i < longer && places_.size() < kMostPlaces; ++i) {
      const std::size_t above = path_.size();
      append_path_index(i, path_);
      if (i < a.size() && i < b.size()) {
        compare(a[i], b[i]);
      } else {
        differs();
      }
      path_.resize(above);
    }
  }

  std::vector<std::string>& places_;
  std::string path_ = "$";
};

}  // namespace

std::vector<std::string> differing(std::string_view topic, const Body& body,
                                   std::string_view other_topic, const Body& other_body) {
  std::vector<std::string> places;
  if (topic != other_topic) places.emplace_back("topic");
  if (body == other_body) return places;
  if (body.is_json() && other_body.is_json()) {
    const auto a = parse_json(body.text());
    const auto b = parse_json(other_body.text());
    if (a && b) {
      Comparison(places).compare(*a, *b);
      return places;
    }
  }
  places.emplace_back("$");
  return places;
}

}  // namespace once::encoding
