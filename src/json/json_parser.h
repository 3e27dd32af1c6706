// The one grammar of JSON here (RFC 8259, strict), told to a Sink in document order. What the sink
// makes of it is its own: a tree (JsonBuilder), the canonical text (Canonicaliser), the path of an
// error (PathFinder).
//
// A Sink has
//   null(), boolean(bool), number(NumberToken), string(StringToken)
//   Mark begin_array(), Mark begin_object()   what it wants to have back at the end
//   key(StringToken, offset)                  of the member whose value comes next
//   comma()                                   between two elements or members
//   end_array(Mark)
//   std::size_t end_object(Mark)              where a key is repeated, or kNowhere
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/utf8.h"
#include "json/json.h"
#include "json/json_number.h"

namespace once::encoding {

inline constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

struct StringToken {
  std::string_view decoded{};  // when escaped, valid only until the next string is read
  std::string_view raw{};      // with its quotes, as in the text
  bool escaped{};
};

struct JsonFailure {
  std::size_t offset{};
  std::string what{};
};

template <class Sink>
class JsonParser {
 public:
  JsonParser(std::string_view text, Sink& sink, Integers integers = Integers::exact)
      : text_(text), sink_(sink), integers_(integers) {}

  // False: see failure().
  bool parse() {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") {
      return fail("the text begins with a byte order mark; remove it");
    }
    skip_space();
    if (at_ == text_.size()) return fail("there is no value");
    if (!value(0)) return false;
    skip_space();
    if (at_ != text_.size()) return fail("there is more text after the value");
    return true;
  }

  const JsonFailure& failure() const { return failure_; }

 private:
  bool fail(std::string what) { return fail_at(at_, std::move(what)); }
  bool fail_at(std::size_t offset, std::string what) {
    failure_ = {offset, std::move(what)};
    return false;
  }
  // At the end of the text nothing else than its end is wrong.
  bool unexpected(const char* what) { return fail(at_ == text_.size() ? kEnds : what); }

  // NUL at the end; a NUL in the text is no token either, so that both fall through to an error.
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
      ++at_;
    }
  }

  bool value(int depth) {
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': {
        StringToken token;
        if (!string(token)) return false;
        sink_.string(token);
        return true;
      }
      case 't':
        if (!word("true")) return false;
        sink_.boolean(true);
        return true;
      case 'f':
        if (!word("false")) return false;
        sink_.boolean(false);
        return true;
      case 'n':
        if (!word("null")) return false;
        sink_.null();
        return true;
      default: return number();
    }
  }

  bool word(std::string_view name) {
    if (text_.substr(at_, name.size()) != name) return fail(kNoValue);
    at_ += name.size();
    return true;
  }

  bool enter(int depth) {
    if (depth == kMaxDepth) {
      return fail("nesting is deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    ++at_;
    skip_space();
    return true;
  }

  bool array(int depth) {
    if (!enter(depth)) return false;
    const auto mark = sink_.begin_array();
    if (peek() != ']') {
      while (true) {
        if (!value(depth + 1)) return false;
        skip_space();
        if (peek() != ',') break;
        ++at_;
        sink_.comma();
        skip_space();
      }
      if (peek() != ']') return unexpected("a comma or ] is missing here");
    }
    ++at_;
    sink_.end_array(mark);
    return true;
  }

  bool object(int depth) {
    if (!enter(depth)) return false;
    const auto mark = sink_.begin_object();
    if (peek() != '}') {
      while (true) {
        if (peek() != '"') return unexpected("a key in double quotes is missing here");
        const std::size_t offset = at_;
        StringToken token;
        if (!string(token)) return false;
        sink_.key(token, offset);
        skip_space();
        if (peek() != ':') return unexpected("a colon is missing here");
        ++at_;
        skip_space();
        if (!value(depth + 1)) return false;
        skip_space();
        if (peek() != ',') break;
        ++at_;
        sink_.comma();
        skip_space();
      }
      if (peek() != '}') return unexpected("a comma or } is missing here");
    }
    ++at_;
    const std::size_t repeated = sink_.end_object(mark);
    if (repeated != kNowhere) return fail_at(repeated, "duplicate key; keep one of them");
    return true;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  bool digits() {
    if (!is_digit(peek())) return unexpected("a digit is missing here");
    while (is_digit(peek())) ++at_;
    return true;
  }

  bool number() {
    const std::size_t begin = at_;
    bool integral = true;
    if (peek() == '-') {
      ++at_;
      if (!is_digit(peek())) return unexpected("a digit is missing here");
    } else if (!is_digit(peek())) {
      return unexpected(kNoValue);
    }
    if (peek() == '0') {
      ++at_;
      if (is_digit(peek())) return fail_at(begin, "a number must not begin with a zero");
    } else {
      while (is_digit(peek())) ++at_;
    }
    if (peek() == '.') {
      integral = false;
      ++at_;
      if (!digits()) return false;
    }
    if (peek() == 'e' || peek() == 'E') {
      integral = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return false;
    }
    NumberToken token;
    switch (read_number(text_.substr(begin, at_ - begin), integral, token)) {
      case NumberFault::none: sink_.number(token); return true;
      case NumberFault::inexact_integer:
        if (integers_ == Integers::rounded) {
          sink_.number(token);
          return true;
        }
        return fail_at(begin, "the integer " + core::excerpt(token.literal, 40) +
                                  " cannot be held exactly by a double; send it as a string");
      case NumberFault::overflow:
        return fail_at(begin, "the number " + core::excerpt(token.literal, 40) +
                                  " is beyond a double; send it as a string");
    }
    return false;
  }

  // Moves over characters that need no look of their own, eight at a time.
  void skip_plain() {
    constexpr std::uint64_t kOnes = 0x0101010101010101;
    constexpr std::uint64_t kHighs = 0x8080808080808080;
    const auto has_zero = [](std::uint64_t word) { return (word - kOnes) & ~word; };
    while (at_ + 8 <= text_.size()) {
      std::uint64_t word;
      std::memcpy(&word, text_.data() + at_, 8);
      const std::uint64_t below_space = (word - kOnes * 0x20) & ~word;
      const std::uint64_t special =
          below_space | word | has_zero(word ^ kOnes * '"') | has_zero(word ^ kOnes * '\\');
      if ((special & kHighs) != 0) break;
      at_ += 8;
    }
    while (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\') return;
      ++at_;
    }
  }

  bool string(StringToken& token) {
    const std::size_t begin = at_++;
    std::size_t copied =
        at_;  // up to here the text stands decoded in scratch_, once there was a \.
    while (true) {
      skip_plain();
      if (at_ == text_.size()) return fail_at(begin, "the string that begins here does not end");
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c == '"') break;
      if (c == '\\') {
        if (!token.escaped) scratch_.clear();
        token.escaped = true;
        scratch_.append(text_, copied, at_ - copied);
        if (!escape()) return false;
        copied = at_;
      } else if (c < 0x20) {
        return fail("a control character in a string must be escaped");
      } else {
        const std::size_t length = core::utf8_sequence(text_, at_);
        if (length == 0) return fail("the text is not valid UTF-8");
        at_ += length;
      }
    }
    if (token.escaped) {
      scratch_.append(text_, copied, at_ - copied);
      token.decoded = scratch_;
    } else {
      token.decoded = text_.substr(begin + 1, at_ - begin - 1);
    }
    ++at_;
    token.raw = text_.substr(begin, at_ - begin);
    return true;
  }

  bool escape() {
    const std::size_t begin = at_++;
    const char c = peek();
    switch (c) {
      case '"':
      case '\\':
      case '/': scratch_ += c; break;
      case 'b': scratch_ += '\b'; break;
      case 'f': scratch_ += '\f'; break;
      case 'n': scratch_ += '\n'; break;
      case 'r': scratch_ += '\r'; break;
      case 't': scratch_ += '\t'; break;
      case 'u': return unicode_escape(begin);
      default: return fail_at(begin, "this is no escape of JSON");
    }
    ++at_;
    return true;
  }

  // At the u of \uXXXX, or of a pair of them.
  bool unicode_escape(std::size_t begin) {
    unsigned unit = 0;
    if (!hex4(unit)) return false;
    if (unit >= 0xDC00 && unit <= 0xDFFF) return fail_at(begin, kLoneSurrogate);
    if (unit >= 0xD800 && unit <= 0xDBFF) {
      if (text_.substr(at_, 2) != "\\u") return fail_at(begin, kLoneSurrogate);
      ++at_;
      unsigned low = 0;
      if (!hex4(low)) return false;
      if (low < 0xDC00 || low > 0xDFFF) return fail_at(begin, kLoneSurrogate);
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    core::append_utf8(unit, scratch_);
    return true;
  }

  bool hex4(unsigned& unit) {
    const std::size_t digits = ++at_;
    unit = 0;
    for (; at_ < digits + 4; ++at_) {
      const char c = peek();
      const char lower = static_cast<char>(c | 0x20);
      if (is_digit(c)) {
        unit = unit * 16 + static_cast<unsigned>(c - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        unit = unit * 16 + static_cast<unsigned>(lower - 'a' + 10);
      } else {
        return unexpected("four hexadecimal digits must follow \\u");
      }
    }
    return true;
  }

  static constexpr const char* kEnds = "the text ends in the middle of a value";
  static constexpr const char* kNoValue = "a value is missing here";
  static constexpr const char* kLoneSurrogate = "a lone surrogate is no character";

  std::string_view text_;
  Sink& sink_;
  const Integers integers_;
  std::size_t at_ = 0;
  std::string scratch_;
  JsonFailure failure_;
};

}  // namespace once::encoding
