// Templates that are read and refused, the keys they give, and that no two differ-and-collide.
#include "codec/key_template.h"

#include <gtest/gtest.h>

#include <random>

#include "json/json.h"

namespace once::encoding {
namespace {

using Headers = std::map<std::string, std::string>;

constexpr KeyRules kEscaped{.format = KeyFormat::escaped};
constexpr KeyRules kPlain{.format = KeyFormat::plain};

std::string key_of(std::string_view text, std::string_view body, const Headers& headers = {},
                   KeyRules rules = kEscaped) {
  const auto parsed = KeyTemplate::parse(text, {}, rules);
  if (!parsed) return "refused: " + parsed.error().message;
  const auto key = parsed->key("task/1", "orders.created", Body::json(body).value(), headers);
  if (key) return *key;
  EXPECT_EQ(key.error().code, Code::invalid_input);
  return "error: " + key.error().message;
}

TEST(KeyTemplate, EmptyTextIsTheId) {
  const auto parsed = KeyTemplate::parse("", {}, kEscaped);
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(parsed->is_id());
  EXPECT_EQ(*parsed->key("any id: ü%", "t", Body(), {}), "any id: ü%");
  EXPECT_FALSE(parsed->key("", "t", Body(), {}));
  EXPECT_FALSE(KeyTemplate::parse("{$id}")->is_id());
}

TEST(KeyTemplate, Keys) {
  constexpr std::string_view kBody =
      R"({"documentId":"d-1","objectKey":"in/a b.pdf","metadata":{"request_id":"r:1"},"n":1,"s":"1",
          "big":1e30,"yes":true,"none":null,"lines":[{"sku":"x"}],"$topic":"mine","header:A":"odd",
          "a}b":"brace","empty":"","utf":"é","eq":"=1"})";
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"{documentId}:{objectKey}", "d-1:in/a%20b.pdf"},
      {"{metadata.request_id}:ocr", "r%3A1:ocr"},
      {"{$topic}", "orders.created"},
      {"{$topic}:{$id}", "orders.created:task/1"},
      {"{n}", "=1"},
      {"{s}", "1"},
      {"{big}", "=1e+30"},
      {"{yes}|{none}", "=true|=null"},
      {"{lines.0.sku}", "x"},
      {R"({\$topic})", "mine"},
      {R"({\header:A})", "odd"},
      {R"({a\}b})", "brace"},
      {R"(\{{n}\}\\)", R"({=1}\)"},
      {"{utf}:{eq}", "%C3%A9:%3D1"},
      {"x{empty}", "x"},
      {"{documentId}-{n}", "d%2D1-=1"},
      {"{documentId}e{big}", "d-1e=1%65+30"},
      {"header:Tenant", "acme%20inc"},
      {"{header:Tenant}:{s}", "acme%20inc:1"},
  };
  for (const auto& [text, key] : kCases) {
    EXPECT_EQ(key_of(text, kBody, {{"Tenant", "acme inc"}}), key) << text;
  }
}

TEST(KeyTemplate, ErrorsNameThePath) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"{order.id}",
       "error: no key: there is nothing at order.id in the body, which the queue's key needs"},
      {"{o}",
       "error: no key: there is an object, not a string, number, true, false or null, at o in the "
       "body, which the queue's key needs"},
      {"{l}",
       "error: no key: there is an array, not a string, number, true, false or null, at l in the "
       "body, which the queue's key needs"},
      {"header:Tenant",
       "error: no key: the task has no header Tenant, which the queue's key needs"},
      {"{e}", "error: no key: every value of the queue's key is empty for this task"},
  };
  for (const auto& [text, message] : kCases) {
    EXPECT_EQ(key_of(text, R"({"o":{},"l":[],"e":""})", {{"tenant", "lower case"}}), message);
  }
  const auto raw = KeyTemplate::parse("{a}")->key("i", "t", Body::bytes("{}"), {});
  ASSERT_FALSE(raw);
  EXPECT_NE(raw.error().message.find("the body is bytes"), std::string::npos);
  EXPECT_EQ(*KeyTemplate::parse("{$topic}")->key("i", "t", Body::bytes("{"), {}), "t");
}

TEST(KeyTemplate, Refused) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"documentId", "for the value at a path write {documentId}"},
      {R"(\{a\})", "no value in braces"},
      {"{a", "a { has no } after it"},
      {"{a}:{", "a { has no } after it"},
      {"{a{b}}", "a { has no } after it"},
      {R"({a\})", "a { has no } after it"},
      {"a}", "a } has no { before it"},
      {"{a}}", "a } has no { before it"},
      {"{}", "{} names nothing"},
      {"{a}:\\", "a backslash at the end"},
      {"{$Topic}", "{$Topic} is not known"},
      {"{$}", "{$} is not known"},
      {"header:", "header: needs a name"},
      {"{header:}", "header: needs a name"},
      {"header:{a}", "written {header:NAME}"},
      {"{a}{b}", "put a character such as : between"},
      {"{a}2{b}", "put a character such as : between"},
      {"{a}={b}", "put a character such as : between"},
      {"{a}:{b}{c}", "put a character such as : between"},
      {"{a}\n{b}", "control character"},
      {"{a}\xff{b}", "not valid UTF-8"},
  };
  for (const auto& [text, hint] : kCases) {
    const std::string answer = key_of(text, R"({"a":1,"b":2,"c":3})");
    EXPECT_TRUE(answer.starts_with("refused: key template \"")) << text << " gave " << answer;
    EXPECT_NE(answer.find(hint), std::string::npos) << answer;
  }
}

// Values that look like each other, like literals and like escapes.
std::string random_value(std::mt19937_64& random) {
  static const std::string kScalars[] = {"null", "true",  "false", "0",     "1",   "-1",
                                         "12",   "1.5",   "1e30",  "-1e-9", "1e3", "21",
                                         "2",    "0.001", "10",    "-12",   "1.2", "11"};
  if (random() % 4 == 0) return kScalars[random() % std::size(kScalars)];
  static const std::string kPieces[] = {"a", "x", "e", "1", "2",   "-", ".",    "/", "_", "~",
                                        "=", "%", "+", ":", "%2D", "D", "true", " ", "é", "\\\\"};
  std::string out = "\"";
  for (std::uint64_t i = 0, n = random() % 4; i < n; ++i) {
    out += kPieces[random() % std::size(kPieces)];
  }
  return out + "\"";
}

TEST(KeyTemplate, DifferentValuesNeverGiveTheSameKey) {
  constexpr std::string_view kTemplates[] = {
      "{a}:{b}",   "{a}-{b}",     "{a}.{b}",     "{a}x{b}",  "{a}/{b}/{c}", "p{a}--{b}s",
      "{a}=:{b}",  "{a}true{b}",  "{a}e{b}-{c}", "{a}-e{b}", "{a}+{b}",     "{a}%_{b}",
      "{a}12.{b}", "-{a}-1-{b}-", "{a}é{b}",     "{a} {b}",  "{a}:{b}:{c}", "{a}/-/{b}",
  };
  std::mt19937_64 random(42);
  for (const std::string_view text : kTemplates) {
    const auto parsed = KeyTemplate::parse(text, {}, kEscaped);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    const bool three = text.find("{c}") != std::string_view::npos;
    std::map<std::string, std::string> values_of;
    std::size_t different = 0;
    for (int i = 0; i < 6'000; ++i) {
      std::string body = R"({"a":)" + random_value(random) + R"(,"b":)" + random_value(random);
      if (three) body += R"(,"c":)" + random_value(random);
      body += "}";
      const auto key = parsed->key("id", "topic", Body::json(body).value(), {});
      ASSERT_TRUE(key) << key.error().message;
      const std::string values = canonical(*parse_json(body));
      const auto [known, added] = values_of.try_emplace(*key, values);
      ASSERT_EQ(known->second, values) << text << " gives both the key " << *key;
      if (added) ++different;
    }
    EXPECT_GT(different, 1'000u);
  }
}

TEST(PlainKeys, ReadAsPeopleWriteThem) {
  constexpr std::string_view kBody =
      R"({"id":17,"text":"17","name":"a b/ü","half":0.50,"big":1e21,"yes":true,"date":"2026-03-01"})";
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"order-{id}", "order-17"},
      {"order-{text}", "order-17"},
      {"{name}", "a b/ü"},
      {"{half}", "0.5"},
      {"{big}", "1e+21"},
      {"{yes}:{$topic}", "true:orders.created"},
      {"{date}-{id}", "2026-03-01-17"},
      {"header:Tenant", "acme inc"},
      {"{id}2{text}", "17217"},
      {R"(\{{id}\})", "{17}"},
  };
  for (const auto& [text, key] : kCases)
    EXPECT_EQ(key_of(text, kBody, {{"Tenant", "acme inc"}}, kPlain), key) << text;
}

TEST(PlainKeys, AMissingNullOrEmptyValueIsNoKey) {
  constexpr std::string_view kBody = R"({"n":null,"e":"","o":{},"l":[],"c":"a\u0001b","x":1})";
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"{m.n}", "error: no key: there is nothing at m.n in the body, which the queue's key needs"},
      {"x-{n}",
       "error: no key: there is null, not a string, number, true or false, at n in the body, which "
       "the queue's key needs"},
      {"{x}:{e}",
       "error: no key: there is an empty string at e in the body, which the queue's key needs"},
      {"{o}",
       "error: no key: there is an object, not a string, number, true or false, at o in the body, "
       "which the queue's key needs"},
      {"{l}",
       "error: no key: there is an array, not a string, number, true or false, at l in the body, "
       "which the queue's key needs"},
      {"header:H",
       "error: no key: there is an empty string at the header H, which the queue's key needs"},
      {"{c}", "error: no key: key 'a?b' has a control character"},
  };
  for (const auto& [text, message] : kCases)
    EXPECT_EQ(key_of(text, kBody, {{"H", ""}}, kPlain), message) << text;
  const std::string longest = R"({"a":")" + std::string(1024, 'a') + R"("})";
  EXPECT_EQ(key_of("{a}", longest, {}, kPlain).size(), 1024u);
  EXPECT_NE(key_of("x{a}", longest, {}, kPlain).find("has 1025 bytes"), std::string::npos);
}

TEST(PlainKeys, TwoValuesNeedSomethingBetweenThem) {
  EXPECT_NE(key_of("{a}{b}", R"({"a":1,"b":2})", {}, kPlain).find("put a character such as :"),
            std::string::npos);
}

// Content that is compared tells of a clash; headers, ids and SameKey::ignore would hide it.
TEST(PlainKeys, AClashIsPossibleOnlyWhereItIsTold) {
  EXPECT_EQ(key_of("{a}-{b}", R"({"a":"x-y","b":"z"})", {}, kPlain), "x-y-z");
  EXPECT_EQ(key_of("{a}-{b}", R"({"a":"x","b":"y-z"})", {}, kPlain), "x-y-z");
  constexpr KeyRules kIgnore{.format = KeyFormat::plain, .content_counts = false};
  EXPECT_EQ(
      key_of("{a}-{b}", R"({"a":"x-y","b":"z"})", {}, kIgnore),
      "error: no key: the value at a in the body runs into \"-\", which separates it from the "
      "next in the queue's key; other values would silently give the same key");
  EXPECT_EQ(key_of("{a}-{b}", R"({"a":"x","b":"y-z"})", {}, kIgnore), "x-y-z");
  EXPECT_NE(key_of("{header:A}-{header:B}", "{}", {{"A", "x-y"}, {"B", "z"}}, kPlain)
                .find("the header A runs into"),
            std::string::npos);
  EXPECT_NE(key_of("{a}aa{$id}", R"({"a":"xa"})", {}, kPlain).find("runs into"), std::string::npos)
      << "xa-aa and x-aa-a begin alike";
  EXPECT_EQ(key_of("{a}-", R"({"a":"x-y"})", {}, kIgnore), "x-y-") << "one value is no clash";
}

TEST(KeyTemplate, AKeyWithOneValueFollowsFromThatValue) {
  const auto key_of_value = [](std::string_view text, std::string_view value,
                               KeyRules rules = kEscaped) {
    return KeyTemplate::parse(text, {}, rules)->key_of(value).value_or("none");
  };
  EXPECT_EQ(key_of_value("header:Order", "a b"), "a%20b");
  EXPECT_EQ(key_of_value("header:Order", "a b", kPlain), "a b");
  EXPECT_EQ(key_of_value("order-{id}", "7"), "order-7");
  EXPECT_EQ(key_of_value("{tenant}:{id}", "7"), "none");
  EXPECT_EQ(key_of_value("", "7"), "none");
}

}  // namespace
}  // namespace once::encoding
