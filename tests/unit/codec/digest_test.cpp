// SHA-256's known answers, what a content digest covers, and where contents differ.
#include "codec/digest.h"

#include <gtest/gtest.h>

#include <thread>

namespace once::encoding {
namespace {

Body json(std::string_view text) { return Body::json(text).value(); }

std::string digest(std::string_view topic, const Body& body) {
  return hex(content_digest(topic, body).value());
}

TEST(Digest, KnownAnswers) {
  // FIPS 180-2, appendix B, and the empty text.
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1'000'000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Digest, EveryThreadHasItsOwnContext) {
  const std::string expected = hex(sha256(std::string(10'000, 'x')));
  std::vector<std::string> seen(4);
  {
    std::vector<std::jthread> threads;
    for (std::string& result : seen) {
      threads.emplace_back([&result] {
        for (int i = 0; i < 200; ++i) result = hex(sha256(std::string(10'000, 'x')));
      });
    }
  }
  for (const std::string& result : seen) EXPECT_EQ(result, expected);
}

TEST(Digest, TextAndBack) {
  const core::Digest abc = sha256("abc");
  EXPECT_EQ(text(abc), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_from(text(abc)), abc);
  EXPECT_EQ(digest_from(hex(abc)), std::nullopt);
  EXPECT_EQ(digest_from("sha256:"), std::nullopt);
  EXPECT_EQ(digest_from(text(abc) + "0"), std::nullopt);
  EXPECT_EQ(digest_from(text(abc).substr(0, 70)), std::nullopt);
  EXPECT_EQ(digest_from("sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"),
            std::nullopt);
  EXPECT_EQ(digest_from("sha256:g" + hex(abc).substr(1)), std::nullopt);
  EXPECT_EQ(digest_from(""), std::nullopt);
}

TEST(Digest, IsTakenOverTheCanonicalContent) {
  EXPECT_EQ(digest("orders.created", json(R"( {"b": 1.0, "a": "\u0041"} )")),
            hex(sha256(R"({"attachments":[],"body":{"a":"A","b":1},"topic":"orders.created"})")));
  EXPECT_EQ(digest("t", Body()), hex(sha256(R"({"attachments":[],"body":null,"topic":"t"})")));
  EXPECT_EQ(digest("a\"b", Body()),
            hex(sha256(R"({"attachments":[],"body":null,"topic":"a\"b"})")));
  EXPECT_EQ(digest("t", Body::bytes("abc")),
            hex(sha256(R"({"attachments":[],"raw":")" + hex(sha256("abc")) + R"(","topic":"t"})")));
  EXPECT_EQ(digest("t", Body::bytes("")),
            hex(sha256(R"({"attachments":[],"raw":")" + hex(sha256("")) + R"(","topic":"t"})")));
}

TEST(Digest, SpellingDoesNotMatterAndContentDoes) {
  const std::string one = digest("t", json(R"({"a":1,"b":[true,"x"]})"));
  EXPECT_EQ(one, digest("t", json("{\"b\" : [true, \"\\u0078\"],\n\"a\":1e0}")));
  EXPECT_NE(one, digest("u", json(R"({"a":1,"b":[true,"x"]})")));
  EXPECT_NE(one, digest("t", json(R"({"a":"1","b":[true,"x"]})")));
  EXPECT_NE(one, digest("t", json(R"({"a":1,"b":["x",true]})")));
  EXPECT_NE(digest("t", json("null")), digest("t", Body::bytes("null")));
}

using Places = std::vector<std::string>;

Places between(std::string_view a, std::string_view b) {
  const Places there = differing("t", json(a), "t", json(b));
  EXPECT_EQ(there, differing("t", json(b), "t", json(a))) << "from the other side";
  return there;
}

TEST(Differing, NamesTheDeepestPlaces) {
  EXPECT_EQ(between(R"({"a":1})", R"({ "a": 1.0 })"), Places());
  EXPECT_EQ(between(R"({"amount":1,"b":2})", R"({"amount":2,"b":2})"), Places{"$.amount"});
  EXPECT_EQ(between(R"({"lines":[{"sku":"a"},{"sku":"b"},{"sku":"c"}]})",
                    R"({"lines":[{"sku":"a"},{"sku":"b"},{"sku":"d"}]})"),
            Places{"$.lines[2].sku"});
  EXPECT_EQ(between(R"({"a b":1,"":2,"1x":3,"ok_1":4,"q\"":5,"$x":6})",
                    R"({"a b":0,"":0,"1x":0,"ok_1":0,"q\"":0,"$x":0})"),
            (Places{R"($[""])", "$.$x", R"($["1x"])", R"($["a b"])", "$.ok_1", R"($["q\""])"}));
}

TEST(Differing, MissingMembersAndElements) {
  EXPECT_EQ(between(R"({"a":1,"c":3,"d":null})", R"({"b":2,"c":3})"),
            (Places{"$.a", "$.b", "$.d"}));
  EXPECT_EQ(between("[1,2,3]", "[1,5]"), (Places{"$[1]", "$[2]"}));
  EXPECT_EQ(between(R"({"a":{}})", R"({"a":{"b":{"c":1}}})"), Places{"$.a.b"});
}

TEST(Differing, WholeBodies) {
  EXPECT_EQ(between("1", "2"), Places{"$"});
  EXPECT_EQ(between("{}", "[]"), Places{"$"});
  EXPECT_EQ(between("0", "false"), Places{"$"});
  EXPECT_EQ(between(R"({"a":[]})", R"({"a":{}})"), Places{"$.a"});
  EXPECT_EQ(differing("t", Body::bytes("1"), "t", json("1")), Places{"$"});
  EXPECT_EQ(differing("t", Body::bytes("1"), "t", Body::bytes("2")), Places{"$"});
  EXPECT_EQ(differing("t", Body::bytes("1"), "t", Body::bytes("1")), Places());
}

TEST(Differing, TopicComesFirst) {
  EXPECT_EQ(differing("t", json("1"), "u", json("1")), Places{"topic"});
  EXPECT_EQ(differing("t", json(R"({"topic":1})"), "u", json(R"({"topic":2})")),
            (Places{"topic", "$.topic"}));
}

TEST(Differing, StopsAtSixteen) {
  std::string zeros = "[0";
  std::string ones = "[1";
  for (int i = 1; i < 40; ++i) {
    zeros += ",0";
    ones += ",1";
  }
  const Places places = between(zeros + "]", ones + "]");
  ASSERT_EQ(places.size(), 16u);
  EXPECT_EQ(places.back(), "$[15]");
  EXPECT_EQ(differing("t", json(zeros + "]"), "u", json(ones + "]")).size(), 16u);
}

}  // namespace
}  // namespace once::encoding
