// A run's facts as JSON: the text, that nothing is lost in it, and what cannot be read.
#include <gtest/gtest.h>

#include "flow/definition/state.h"
#include "once/json.h"
#include "unit/flow/flow_words.h"

namespace once::encoding {
namespace {

using namespace core::flow_words;

core::RunState full() {
  auto events = events_from(
      "started, charge failed 1, signal paid, ended 1 failed, retried 2 charge=1, admit 2, "
      "rate_retry mail 3, charge completed 2, mail completed 1, ended 2 completed");
  events[0].version = 3;
  events[0].key = "o-\"1\"";
  events[0].value = R"({"order":"ü"})";
  events[8].elsewhere = true;
  events[8].value.clear();
  events[9].value = "[1]";
  return folded(events);
}

TEST(FlowState, IsCanonicalJson) {
  const std::string text = encode_state(full());
  EXPECT_EQ(
      text,
      R"({"admits":[2,6,6000],"input":"{\"order\":\"ü\"}","key":"o-\"1\"","rates":{"mail":[3,7,7000]},)"
      R"("rounds":[{"ended":{"o":"failed","s":4,"step":"charge","t":4000},"n":1,"s":1,"t":1000},)"
      R"({"ended":{"o":"completed","s":10,"t":10000,"v":"[1]"},"n":2,"s":5,"t":5000,"void":{"charge":1}}],)"
      R"("run":"r","signals":{"paid":{"id":"1","s":3,"t":3000,"v":"\"paid 1\""}},"started":[1,1000],)"
      R"("steps":{"charge":[{"e":"it broke","n":1,"o":"failed","s":2,"t":2000},)"
      R"({"n":2,"o":"completed","s":8,"t":8000,"v":"\"charge\""}],)"
      R"("mail":[{"n":1,"o":"completed","s":9,"t":9000,"x":true}]},"v":1,"version":3,"workflow":"payment"})");
  EXPECT_EQ(canonical_json(text).value(), text);
}

TEST(FlowState, NothingIsLost) {
  for (const core::RunState& state : {full(), folded(events_from("started")), core::RunState{},
                                      folded(events_from("ended 2 cancelled, charge failed 0"))}) {
    const auto read = decode_state(encode_state(state));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, state);
  }
}

TEST(FlowState, ValuesMayBeAsDeepAsAny) {
  std::string deep;
  for (int i = 0; i < 512; ++i) deep += '[';
  for (int i = 0; i < 512; ++i) deep += ']';
  ASSERT_TRUE(Body::json(deep));
  core::RunState state = full();
  state.input = deep;
  state.steps["charge"][2].value = deep;
  const auto read = decode_state(encode_state(state));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, state);
}

TEST(FlowState, WhatANewerVersionAddsIsIgnored) {
  std::string text = encode_state(full());
  text.insert(1, R"("a_new_one":{"x":[]},)");
  const auto read = decode_state(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, full());
}

TEST(FlowState, ANewerFormIsRefused) {
  std::string text = encode_state(full());
  text.replace(text.find("\"v\":1,"), 6, "\"v\":2,");
  const auto read = decode_state(text);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::store_unusable);
  EXPECT_NE(read.error().message.find("newer version"), std::string::npos);
}

TEST(FlowState, DamageIsNoticed) {
  const std::string text = encode_state(full());
  constexpr std::pair<std::string_view, std::string_view> kDamage[] = {
      {R"("run":"r")", R"("run":7)"},
      {R"("run":"r")", R"("ran":"r")"},
      {R"("started":[1,1000])", R"("started":[1])"},
      {R"("o":"failed","s":2)", R"("o":"lost","s":2)"},
      {R"("s":8)", R"("s":"8")"},
      {R"("admits":[2,6,6000])", R"("admits":[0,6,6000])"},
      {R"("mail":[3,7,7000])", R"("mail":3)"},
      {R"("id":"1")", R"("id":null)"},
      {R"("void":{"charge":1})", R"("void":{"charge":-1})"},
      {R"("o":"completed","s":10)", R"("o":"won","s":10)"},
      {R"("rounds":)", R"("round":)"},
      {R"("v":1,)", ""},
  };
  for (const auto& [good, bad] : kDamage) {
    std::string damaged = text;
    const auto place = damaged.find(good);
    ASSERT_NE(place, std::string::npos) << good;
    damaged.replace(place, good.size(), bad);
    const auto read = decode_state(damaged);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, Code::store_unusable);
  }
  EXPECT_FALSE(decode_state(""));
  EXPECT_FALSE(decode_state("[]"));
}

}  // namespace
}  // namespace once::encoding
