// Random documents, read by nlohmann::json beside us: the canonical text must mean the same.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "json/json.h"
#include "once/json.h"
#include "support/random_json.h"

namespace once::encoding {
namespace {

std::u16string utf16(std::string_view utf8) {
  std::u16string out;
  for (std::size_t i = 0; i < utf8.size();) {
    const unsigned lead = static_cast<unsigned char>(utf8[i++]);
    const int more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    char32_t c = more == 0 ? lead : lead & (0x3Fu >> more);
    for (int k = 0; k < more; ++k) c = c << 6 | (static_cast<unsigned char>(utf8[i++]) & 0x3Fu);
    if (c >= 0x10000) {
      out += static_cast<char16_t>(0xD800 + ((c - 0x10000) >> 10));
      c = 0xDC00 + ((c - 0x10000) & 0x3FF);
    }
    out += static_cast<char16_t>(c);
  }
  return out;
}

// Every object's members strictly ascending by UTF-16 units.
void expect_order(const Json& value) {
  for (const Json& item : value.items()) expect_order(item);
  for (std::size_t i = 0; i < value.members().size(); ++i) {
    expect_order(value.members()[i].second);
    if (i > 0) {
      EXPECT_LT(utf16(value.members()[i - 1].first), utf16(value.members()[i].first));
    }
  }
}

TEST(JsonDifferential, CanonicalMeansTheSame) {
  RandomJson random(20240521);
  int again = 0;
  constexpr int kDocuments = 20'000;
  for (int i = 0; i < kDocuments; ++i) {
    const std::string text = random.document();
    const auto first = canonical_json(text);
    ASSERT_TRUE(first) << first.error().message << "\n" << text;
    ASSERT_EQ(nlohmann::json::parse(*first), nlohmann::json::parse(text)) << text;
    const auto tree = parse_json(text);
    ASSERT_TRUE(tree) << text;
    ASSERT_EQ(canonical(*tree), *first) << text;
    expect_order(*tree);

    // ECMAScript prints 2^68 as the integer 295147905179352830000, which it is not; such a literal
    // is refused, so a canonical text with one is not read again.
    const auto second = canonical_json(*first);
    if (second) {
      ASSERT_EQ(*second, *first) << text;
      ++again;
    } else {
      ASSERT_NE(second.error().message.find("cannot be held exactly"), std::string::npos) << text;
    }
  }
  EXPECT_GT(again, kDocuments * 9 / 10);
}

// Broken at random: what nlohmann refuses, we refuse.
TEST(JsonDifferential, NothingMoreIsAccepted) {
  RandomJson random(7);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = random.document();
    static constexpr std::string_view kBytes = "{}[],:\"\\0159.eE+-ntfu \n\x80\xC3";
    text[random.below(text.size())] = kBytes[random.below(kBytes.size())];
    if (nlohmann::json::accept(text)) continue;
    ++refused;
    ASSERT_FALSE(canonical_json(text)) << text;
    ASSERT_FALSE(parse_json(text)) << text;
  }
  EXPECT_GT(refused, 5'000);
}

}  // namespace
}  // namespace once::encoding
