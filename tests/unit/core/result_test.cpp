// Result: values, errors, defaults and chains.
#include "once/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace once {
namespace {

const Error kNoSuch{.code = Code::not_found, .message = "no such thing"};

Result<int> parse(const std::string& text) {
  if (text.empty()) return Error{.code = Code::invalid_input, .message = "empty"};
  return std::stoi(text);
}
Result<void> check(int number) {
  if (number < 0) return Error{.code = Code::wrong_state, .message = "negative"};
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  const Result<int> value = 3;
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, 3);
  EXPECT_EQ(value.value(), 3);
  const Result<int> error = kNoSuch;
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code, Code::not_found);
  try {
    error.value();
    FAIL() << "value() must throw";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.error().code, Code::not_found);
    EXPECT_STREQ(failure.what(), "no such thing");
  }
}

TEST(Result, ValueOrGivesTheDefaultForAnError) {
  EXPECT_EQ(parse("7").value_or(1), 7);
  EXPECT_EQ(parse("").value_or(1), 1);
  const Result<std::string> text = kNoSuch;
  EXPECT_EQ(text.value_or("none"), "none");
  Result<std::unique_ptr<int>> owned = std::make_unique<int>(5);
  EXPECT_EQ(*std::move(owned).value_or(nullptr), 5);
}

TEST(Result, AndThenCallsTheNextFunctionOnlyWithAValue) {
  EXPECT_EQ(Result<std::string>("12").and_then(parse).value(), 12);
  EXPECT_EQ(Result<std::string>("").and_then(parse).error().message, "empty");
  int calls = 0;
  const Result<std::string> missing = kNoSuch;
  const Result<int> chained = missing.and_then([&](const std::string& text) {
    ++calls;
    return parse(text);
  });
  EXPECT_EQ(chained.error().code, Code::not_found);
  EXPECT_EQ(calls, 0);
}

TEST(Result, AndThenGoesFromAndToAResultWithoutAValue) {
  EXPECT_TRUE(parse("1").and_then(check));
  EXPECT_EQ(parse("-1").and_then(check).error().code, Code::wrong_state);
  EXPECT_EQ(check(1).and_then([] { return parse("4"); }).value(), 4);
  EXPECT_EQ(check(-1).and_then([] { return parse("4"); }).error().code, Code::wrong_state);
}

TEST(Result, AndThenMovesAValueThatCannotBeCopied) {
  Result<std::unique_ptr<int>> owned = std::make_unique<int>(5);
  const auto next = [](std::unique_ptr<int> taken) { return Result<int>(*taken + 1); };
  EXPECT_EQ(std::move(owned).and_then(next).value(), 6);
}

TEST(Result, TransformConvertsAValueAndPassesAnErrorOn) {
  const auto twice = [](int number) { return number * 2; };
  EXPECT_EQ(parse("21").transform(twice).value(), 42);
  EXPECT_EQ(parse("").transform(twice).error().code, Code::invalid_input);
  const Result<int> kept = 5;
  EXPECT_EQ(kept.transform([](int number) { return std::to_string(number); }).value(), "5");
}

}  // namespace
}  // namespace once
