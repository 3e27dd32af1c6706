// Bodies as the public API shows them, and dot paths into them.
#include <gtest/gtest.h>

#include "json/dot_path.h"
#include "once/task.h"

namespace once {
namespace {

TEST(Body, KeepsTheTextAsGiven) {
  const auto body = Body::json(" {\"b\" : 1, \"a\":2} ");
  ASSERT_TRUE(body);
  EXPECT_EQ(body->text(), " {\"b\" : 1, \"a\":2} ");
  EXPECT_TRUE(body->is_json());
  EXPECT_EQ(Body().text(), "null");
  EXPECT_TRUE(Body().is_json());
}

TEST(Body, RefusesWhatHasNoCanonicalForm) {
  for (const std::string_view text : {"", "{", R"({"a":1,"a":2})", R"("\ud800")", "1e400"}) {
    const auto body = Body::json(text);
    ASSERT_FALSE(body) << text;
    EXPECT_EQ(body.error().code, Code::invalid_input);
  }
}

TEST(Body, BytesAreNotLookedInto) {
  const Body body = Body::bytes(std::string("\0{\xff", 3));
  EXPECT_FALSE(body.is_json());
  EXPECT_EQ(body.text().size(), 3u);
  ASSERT_FALSE(body.at("a"));
  EXPECT_EQ(body.at("a").error().code, Code::invalid_input);
  EXPECT_NE(Body::bytes("null"), Body());
}

TEST(Body, ValuesAtDotPaths) {
  const Body body =
      Body::json(R"({"order":{"id":"A 1","lines":[{"sku":"x"},{"n":1.50}],"0":"zero"},"a.b":true,
                     "":{"":7},"back\\slash":8,"$topic":9})")
          .value();
  constexpr std::pair<std::string_view, std::string_view> kFound[] = {
      {"order.id", "A 1"},
      {"order.lines.0.sku", "x"},
      {"order.lines.1.n", "1.5"},
      {"order.lines.1", R"({"n":1.5})"},
      {"order.0", "zero"},
      {R"(a\.b)", "true"},
      {R"(\a\.\b)", "true"},
      {".", "7"},
      {R"(back\\slash)", "8"},
      {R"(back\slash)", "not found"},
      {R"(\$topic)", "9"},
      {"$topic", "9"},
      {"missing", "not found"},
      {"order.missing.id", "not found"},
      {"order.id.x", "not found"},
      {"order.lines.2", "not found"},
      {"order.lines.00", "not found"},
      {"order.lines.-1", "not found"},
      {"order.lines.1x", "not found"},
      {"order.lines.", "not found"},
      {"order.lines.99999999999999999999999", "not found"},
      {"order.", "not found"},
      {"a.b", "not found"},
  };
  for (const auto& [path, value] : kFound) {
    const auto found = body.at(path);
    if (!found) {
      EXPECT_EQ(found.error().code, Code::not_found);
    }
    EXPECT_EQ(found ? *found : "not found", value) << path;
  }
  EXPECT_EQ(*Body::json("[1, 2]").value().at(""), "[1,2]");
}

}  // namespace
}  // namespace once
