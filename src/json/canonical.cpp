// The canonical text straight from the text. Most bodies come from serialisers that leave members
// in order and need no rewriting: for them this is one pass and one copy; only an object whose
// members are out of order is put together again.
#include <algorithm>
#include <memory>

#include "json/json_parser.h"
#include "json/json_path.h"

namespace once::encoding {
namespace {

class Canonicaliser {
 public:
  explicit Canonicaliser(std::string& out) : out_(out) { members_.reserve(32); }

  using Mark = std::size_t;  // how many members waited when the container began

  void null() { out_ += "null"; }
  void boolean(bool value) { out_ += value ? "true" : "false"; }
  void number(const NumberToken& token) {
    if (token.plain) {
      out_ += token.literal;
    } else {
      append_number(token.value, out_);
    }
  }
  void string(const StringToken& token) {
    if (token.escaped) {
      append_canonical_string(token.decoded, out_);
    } else {
      out_ += token.raw;
    }
  }
  Mark begin_array() {
    out_ += '[';
    return 0;
  }
  void end_array(Mark) { out_ += ']'; }
  Mark begin_object() {
    out_ += '{';
    return members_.size();
  }
  void key(const StringToken& token, std::size_t offset) {
    members_.push_back({kept(token), offset, out_.size(), 0});
    string(token);
    out_ += ':';
  }
  void comma() { out_ += ','; }
  std::size_t end_object(Mark mark) {
    const auto first = members_.begin() + static_cast<std::ptrdiff_t>(mark);
    const auto unordered = std::adjacent_find(
        first, members_.end(),
        [](const Member& a, const Member& b) { return compare_utf16(a.key, b.key) >= 0; });
    if (unordered != members_.end()) {
      const std::size_t repeated = reorder(mark);
      if (repeated != kNowhere) return repeated;
    }
    members_.resize(mark);
    out_ += '}';
    return kNowhere;
  }

 private:
  struct Member {
    std::string_view key;
    std::size_t offset;  // of the key in the text
    std::size_t begin;   // of the member in out_
    std::size_t end;     // known only when its object ends
  };

  // A key that had escapes must outlive the parser's scratch.
  std::string_view kept(const StringToken& token) {
    if (!token.escaped) return token.decoded;
    return *escaped_keys_.emplace_back(std::make_unique<std::string>(token.decoded));
  }

  // Sorts the members from `mark` on; where a key is repeated, says so and leaves it at that.
  std::size_t reorder(Mark mark) {
    const auto first = members_.begin() + static_cast<std::ptrdiff_t>(mark);
    const std::size_t begin = first->begin;
    for (auto member = first; member != members_.end(); ++member) {
      const auto next = std::next(member);
      member->end = next == members_.end() ? out_.size() : next->begin - 1;
    }
    std::sort(first, members_.end(), [](const Member& a, const Member& b) {
      const int order = compare_utf16(a.key, b.key);
      return order != 0 ? order < 0 : a.offset < b.offset;
    });
    std::size_t repeated = kNowhere;
    ordered_.clear();
    for (auto member = first; member != members_.end(); ++member) {
      if (member != first) {
        ordered_ += ',';
        if (member->key == std::prev(member)->key) repeated = std::min(repeated, member->offset);
      }
      ordered_.append(out_, member->begin, member->end - member->begin);
    }
    out_.replace(begin, std::string::npos, ordered_);
    return repeated;
  }

  std::string& out_;
  std::vector<Member> members_;
  std::vector<std::unique_ptr<std::string>> escaped_keys_;
  std::string ordered_;
};

}  // namespace

Result<void> canonicalise(std::string_view text, std::string& out) {
  const std::size_t before = out.size();
  out.reserve(before + text.size() + 8);
  Canonicaliser canonicaliser(out);
  JsonParser<Canonicaliser> parser(text, canonicaliser);
  if (parser.parse()) return {};
  out.resize(before);
  return refusal(text, parser.failure());
}

}  // namespace once::encoding
