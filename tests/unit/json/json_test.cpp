// What the parser refuses, with which words, and what the tree gives.
#include "json/json.h"

#include <gtest/gtest.h>

#include "once/json.h"

namespace once::encoding {
namespace {

std::string refusal_of(std::string_view text) {
  const auto tree = parse_json(text);
  const auto direct = canonical_json(text);
  EXPECT_FALSE(tree) << text;
  EXPECT_FALSE(direct) << text;
  if (tree || direct) return "accepted";
  EXPECT_EQ(tree.error().message, direct.error().message);
  EXPECT_EQ(tree.error().code, Code::invalid_input);
  EXPECT_FALSE(tree.error().retryable);
  EXPECT_FALSE(tree.error().in_doubt);
  return tree.error().message;
}

TEST(Json, RefusalsNameThePlace) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {R"({"order":{"id":9007199254740993}})",
       "JSON refused at 1:16 (byte 15, $.order.id): the integer 9007199254740993 cannot be held "
       "exactly by a double; send it as a string"},
      {"{\n  \"a\": [1, {\"b c\": 1e400}]\n}",
       "JSON refused at 2:20 (byte 21, $.a[1][\"b c\"]): the number 1e400 is beyond a double; send "
       "it as a string"},
      {R"({"a":{"x":1,"y":2,"\u0078":3}})",
       "JSON refused at 1:19 (byte 18, $.a.x): duplicate key; keep one of them"},
      {"[\"\u00e9\u00e9\", \"\xff\"]",
       "JSON refused at 1:9 (byte 10, $[1]): the text is not valid UTF-8"},
      {R"(["\ud800"])", "JSON refused at 1:3 (byte 2, $[0]): a lone surrogate is no character"},
      {"{} {}", "JSON refused at 1:4 (byte 3, $): there is more text after the value"},
      {"", "JSON refused at 1:1 (byte 0, $): there is no value"},
      {R"({"a":1,)", "JSON refused at 1:8 (byte 7, $): the text ends in the middle of a value"},
      {R"({"a":1,})", "JSON refused at 1:8 (byte 7, $): a key in double quotes is missing here"},
      {"[1,]", "JSON refused at 1:4 (byte 3, $[1]): a value is missing here"},
  };
  for (const auto& [text, message] : kCases) EXPECT_EQ(refusal_of(text), message);
}

TEST(Json, RefusedTexts) {
  using namespace std::string_view_literals;
  constexpr std::string_view kTexts[] = {
      " ",
      "\xEF\xBB\xBF{}",
      "nul",
      "nulll",
      "True",
      "NaN",
      "Infinity",
      "-Infinity",
      "undefined",
      "'a'",
      "a",
      "\"a",
      "\"a\\",
      "\"a\\\"",
      "[",
      "]",
      "[1",
      "[1 2]",
      "[,]",
      "[,1]",
      "[1,,2]",
      "{",
      "}",
      "{]",
      "[}",
      "{\"a\"}",
      "{\"a\":}",
      "{\"a\" 1}",
      "{a:1}",
      "{1:1}",
      "{\"a\":1 \"b\":2}",
      "{,}",
      "{\"a\":1,,\"b\":2}",
      "// c\n1",
      "1 // c",
      "/* */ 1",
      "\"\t\"",
      "\"\n\"",
      "\"\x01\"",
      "\"\0\""sv,
      "\0"sv,
      "1\0"sv,
      "[1]\0"sv,
      "\v1",
      "\f1",
      "\u00a01",
      // numbers
      "-",
      "+1",
      "01",
      "-01",
      "00",
      "1.",
      ".5",
      "-.5",
      "1.e5",
      "1e",
      "1e+",
      "1E-",
      "0x10",
      "1_000",
      "1e5.5",
      "--1",
      "1e400",
      "-1e400",
      "1e99999999999999999999999",
      "123456789e301",
      "9007199254740993",
      "-9007199254740993",
      "12345678901234567890",
      "123456789012345678",
      "295147905179352830000",
      "18446744073709551615",
      // escapes and surrogates
      R"("\x")",
      R"("\u")",
      R"("\u12")",
      R"("\u12g4")",
      R"("\U0041")",
      R"("\u 041")",
      R"("\u-041")",
      R"("\ud800")",
      R"("\udc00")",
      R"("\ud800\ud800")",
      R"("\ud800\u0041")",
      R"("\ud800x")",
      R"("\ud83d\\ude02")",
      R"("\ude02\ud83d")",
      R"({"\udfff":1})",
      // UTF-8: continuation alone, overlong, surrogates, too high, cut short
      "\"\x80\"",
      "\"\xC0\x80\"",
      "\"\xC1\xBF\"",
      "\"\xE0\x80\x80\"",
      "\"\xE0\x9F\xBF\"",
      "\"\xED\xA0\x80\"",
      "\"\xED\xBF\xBF\"",
      "\"\xF0\x80\x80\x80\"",
      "\"\xF0\x8F\xBF\xBF\"",
      "\"\xF4\x90\x80\x80\"",
      "\"\xF5\x80\x80\x80\"",
      "\"\xC3\"",
      "\"\xE2\x82\"",
      "\"\xF0\x9F\x98\"",
      "\"\xC3",
      "\"\xF0\x9F",
      "\xC3\xA9",
      // duplicate keys
      R"({"a":1,"a":1})",
      R"({"a":1,"b":2,"a":3})",
      R"({"":1,"":2})",
      R"([{"a":{"b":1,"b":1}}])",
      R"({"\u00e9":1,"é":2})",
  };
  for (const std::string_view text : kTexts) {
    EXPECT_TRUE(refusal_of(text).starts_with("JSON refused at ")) << text;
  }
}

TEST(Json, DepthIsLimited) {
  const auto nested = [](std::size_t depth, std::string_view open, std::string_view close) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += open;
    text += "1";
    for (std::size_t i = 0; i < depth; ++i) text += close;
    return text;
  };
  EXPECT_TRUE(parse_json(nested(kMaxDepth, "[", "]")));
  EXPECT_TRUE(canonical_json(nested(kMaxDepth, "{\"a\":", "}")));
  EXPECT_NE(refusal_of(nested(kMaxDepth + 1, "[", "]")).find("deeper than 512 levels"),
            std::string::npos);
  EXPECT_NE(refusal_of(nested(kMaxDepth + 1, "{\"a\":", "}")).find("deeper than 512 levels"),
            std::string::npos);
  EXPECT_NE(refusal_of(std::string(2'000'000, '[')).find("(byte 512, "), std::string::npos);
}

TEST(Json, MessagesStayShortAndOnOneLine) {
  const std::string long_key(10'000, 'k');
  const std::string long_number(5'000, '7');
  const std::string message =
      refusal_of("{\"" + long_key + "\\n\":{\"\u00e9\":" + long_number + "}}");
  EXPECT_LT(message.size(), 400u);
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_NE(message.find("[\"\u00e9\"]"), std::string::npos) << "the end of the path is kept";
}

TEST(Json, Tree) {
  const auto parsed =
      parse_json(R"({"text":"a\nb","list":[1,-2.5,true,false,null],"none":null,"deep":{"x":{}}})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->kind(), Json::Kind::object);
  ASSERT_EQ(parsed->members().size(), 4u);
  EXPECT_EQ(parsed->members()[0].first, "deep");
  EXPECT_EQ(parsed->member("text")->string(), "a\nb");
  EXPECT_EQ(parsed->member("missing"), nullptr);
  EXPECT_EQ(parsed->member("tex"), nullptr);
  EXPECT_EQ(parsed->member("none")->kind(), Json::Kind::null);
  const auto& items = parsed->member("list")->items();
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[0].number(), 1);
  EXPECT_EQ(items[1].number(), -2.5);
  EXPECT_TRUE(items[2].boolean());
  EXPECT_EQ(items[3].kind(), Json::Kind::boolean);
  EXPECT_FALSE(items[3].boolean());
  EXPECT_EQ(*parsed, *parse_json(canonical(*parsed)));
  EXPECT_NE(*parse_json("0"), *parse_json("false"));
  EXPECT_NE(*parse_json("\"\""), *parse_json("[]"));
}

TEST(JsonIntegers, WhatAServerTellsOfItselfMayBeRounded) {
  const std::string text = R"({"pause_remaining":2207519999999999999})";
  EXPECT_FALSE(parse_json(text));
  const auto read = parse_json(text, Integers::rounded);
  ASSERT_TRUE(read);
  EXPECT_NEAR(read->member("pause_remaining")->number(), 2.20752e18, 1e12);
  EXPECT_FALSE(parse_json("[1e999]", Integers::rounded))
      << "what no double comes near is no number";
}

}  // namespace
}  // namespace once::encoding
