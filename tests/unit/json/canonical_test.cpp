// The canonical form against what others published: RFC 8785's test data, its table of numbers, and
// ECMAScript's rules.
#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "json/json.h"
#include "once/json.h"

namespace once::encoding {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

std::string canonical_of(std::string_view text) {
  const auto direct = canonical_json(text);
  if (!direct) return direct.error().message;
  const auto tree = parse_json(text);
  EXPECT_TRUE(tree);
  if (tree) {
    EXPECT_EQ(canonical(*tree), *direct) << "by way of the tree";
  }
  return *direct;
}

TEST(Canonical, PublishedVectors) {
  const auto vectors =
      std::filesystem::path(__FILE__).parent_path().parent_path().parent_path() / "vectors" / "jcs";
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(vectors / "input")) {
    const auto name = entry.path().filename();
    EXPECT_EQ(canonical_of(contents(entry.path())), contents(vectors / "output" / name)) << name;
    ++seen;
  }
  EXPECT_EQ(seen, 6);
}

struct NumberCase {
  std::uint64_t bits;
  std::string_view printed;
};

// RFC 8785, appendix B.
constexpr NumberCase kNumbers[] = {
    {0x0000000000000000, "0"},
    {0x8000000000000000, "0"},
    {0x0000000000000001, "5e-324"},
    {0x8000000000000001, "-5e-324"},
    {0x7fefffffffffffff, "1.7976931348623157e+308"},
    {0xffefffffffffffff, "-1.7976931348623157e+308"},
    {0x4340000000000000, "9007199254740992"},
    {0xc340000000000000, "-9007199254740992"},
    {0x4430000000000000, "295147905179352830000"},
    {0x44b52d02c7e14af5, "9.999999999999997e+22"},
    {0x44b52d02c7e14af6, "1e+23"},
    {0x44b52d02c7e14af7, "1.0000000000000001e+23"},
    {0x444b1ae4d6e2ef4e, "999999999999999700000"},
    {0x444b1ae4d6e2ef4f, "999999999999999900000"},
    {0x444b1ae4d6e2ef50, "1e+21"},
    {0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
    {0x3eb0c6f7a0b5ed8d, "0.000001"},
    {0x41b3de4355555553, "333333333.3333332"},
    {0x41b3de4355555554, "333333333.33333325"},
    {0x41b3de4355555555, "333333333.3333333"},
    {0x41b3de4355555556, "333333333.3333334"},
    {0x41b3de4355555557, "333333333.33333343"},
    {0xbecbf647612f3696, "-0.0000033333333333333333"},
    {0x43143ff3c1cb0959, "1424953923781206.2"},
};

TEST(Canonical, NumbersOfTheRfc) {
  for (const auto& [bits, printed] : kNumbers) {
    char literal[64];
    const auto end = std::to_chars(literal, literal + sizeof literal, std::bit_cast<double>(bits),
                                   std::chars_format::scientific, 20);
    EXPECT_EQ(canonical_of({literal, end.ptr}), printed);
  }
}

TEST(Canonical, NumberSpellings) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"-0", "0"},
      {"-0.0", "0"},
      {"0e999", "0"},
      {"0E-0", "0"},
      {"1E0", "1"},
      {"100e-2", "1"},
      {"1e21", "1e+21"},
      {"1e20", "100000000000000000000"},
      {"1e-7", "1e-7"},
      {"0.0000001", "1e-7"},
      {"1e-6", "0.000001"},
      {"-123.4560", "-123.456"},
      {"1e-400", "0"},
      {"-1e-400", "0"},
      {"0.00000000000000000000000000000000000001e+38", "1"},
      {"123456789012345", "123456789012345"},
      {"-99999999999999", "-99999999999999"},
      {"1000000000000000", "1000000000000000"},
      {"9007199254740992", "9007199254740992"},
      {"9007199254740994", "9007199254740994"},
      {"1000000000000000000000", "1e+21"},
      {"10000000000000000000000", "1e+22"},
      {"1e308", "1e+308"},
  };
  for (const auto& [text, printed] : kCases) EXPECT_EQ(canonical_of(text), printed) << text;
  // The exact decimal expansion of the largest double is an integer literal that a double equals.
  char largest[400];
  const auto end = std::to_chars(largest, largest + sizeof largest, 1.7976931348623157e308,
                                 std::chars_format::fixed, 0);
  EXPECT_EQ(canonical_of({largest, end.ptr}), "1.7976931348623157e+308");
}

TEST(Canonical, StringsKeepTheirCharactersAndFewEscapes) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {R"("\u0041\/")", R"("A/")"},
      {R"("\u0000\u001F\b\f\n\r\t\"\\")", R"("\u0000\u001f\b\f\n\r\t\"\\")"},
      {R"("\u0008\u000c\u000A\u000d\u0009")", R"("\b\f\n\r\t")"},
      {R"("\u007f\u0080\u2028")", "\"\x7f\u0080\u2028\""},
      {R"("\ud83d\uDE02")", "\"\U0001F602\""},
      {"\"\U0001F602\u00e9\"", "\"\U0001F602\u00e9\""},
      {R"("twelve chars")", R"("twelve chars")"},
      {R"("")", R"("")"},
  };
  for (const auto& [text, printed] : kCases) EXPECT_EQ(canonical_of(text), printed) << text;
}

TEST(Canonical, MembersSortByUtf16Units) {
  // U+1F602 is D83D DE02 in UTF-16 and so comes before U+FB33, though its code point is higher.
  EXPECT_EQ(canonical_of(R"({"\ufb33":1,"\ud83d\ude02":2,"\ud7ff":3})"),
            "{\"\ud7ff\":3,\"\U0001F602\":2,\"\ufb33\":1}");
  EXPECT_EQ(canonical_of(R"({"b":1,"ab":2,"a":3,"":4,"a\u0000":5})"),
            R"({"":4,"a":3,"a\u0000":5,"ab":2,"b":1})");
  // An escape is a spelling: it neither changes the order nor hides a key.
  EXPECT_EQ(canonical_of(R"({"\u0062":1,"a":{"z":[],"\u0079":{}}})"),
            R"({"a":{"y":{},"z":[]},"b":1})");
}

TEST(Canonical, SpaceIsNoContent) {
  EXPECT_EQ(canonical_of(" \r\n\t[ 1 ,\t{ } , [\n] ] "), "[1,{},[]]");
  EXPECT_EQ(canonical_of(R"({ "a" : 1 , "b" : { "c" : 2 } })"), R"({"a":1,"b":{"c":2}})");
}

TEST(Canonical, AppendsAndLeavesAsItWasOnError) {
  std::string out = "before:";
  ASSERT_TRUE(canonicalise(R"({"b":1,"a":2})", out));
  EXPECT_EQ(out, R"(before:{"a":2,"b":1})");
  ASSERT_FALSE(canonicalise(R"({"b":1,"a":2,)", out));
  EXPECT_EQ(out, R"(before:{"a":2,"b":1})");
}

TEST(Canonical, LargeObjectsInReverse) {
  const auto object = [](int first, int last, int step) {
    std::string text;
    for (int i = first; i != last; i += step) {
      text += (text.empty() ? "{\"" : ",\"") + std::to_string(i) + "\":" + std::to_string(i);
    }
    return text + "}";
  };
  EXPECT_EQ(canonical_of(object(199'999, 99'999, -1)), object(100'000, 200'000, 1));
}

}  // namespace
}  // namespace once::encoding
