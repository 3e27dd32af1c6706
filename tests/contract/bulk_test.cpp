// Large results: what a handler or a step gives is kept whole up to its bound, whatever one message
// or page of the store holds.
#include "contract/effects.h"

namespace once::contract {
namespace {

using ::testing::HasSubstr;
using BulkContract = Effects;
ONCE_FOR_EVERY_STORE(BulkContract);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BulkContract);
INSTANTIATE_TEST_SUITE_P(SmallMessages, BulkContract,
                         ::testing::ValuesIn(stores_of_small_messages()),
                         [](const auto& tested) { return tested.param.name; });

constexpr std::size_t kMebibyte = 1 << 20;

std::string text_of(std::size_t size, char first) {
  std::string text(size, first);
  for (std::size_t i = 1; i < size; i += 997) text[i] = static_cast<char>(first + i % 7);
  return text;
}

TEST_P(BulkContract, AResultOfAMebibyteIsCompletedAndKeptWhole) {
  add({});
  publish("a");
  const std::string text = text_of(kMebibyte, 'r');
  EXPECT_TRUE(run([&](Context&) { return Outcome::completed(Body::bytes(text)); }));
  EXPECT_EQ(state(), State::completed);
  EXPECT_FALSE(view().result_cut);
  EXPECT_TRUE(view().result->text() == text);
  EXPECT_FALSE(run_ok()) << "it is completed";
}

TEST_P(BulkContract, AResultAsJsonComesBackAsJson) {
  add({});
  publish("a");
  const std::string json = '"' + text_of(kMebibyte - 2, 'j') + '"';
  EXPECT_TRUE(run([&](Context&) { return Outcome::completed(Body::json(json).value()); }));
  EXPECT_TRUE(view().result->is_json());
  EXPECT_TRUE(view().result->text() == json);
}

TEST_P(BulkContract, StepsWithLargeResultsAreRememberedByLaterAttempts) {
  add({.attempts = 3});
  publish("a");
  constexpr int kSteps = 5;
  int runs = 0;
  const auto handler = [&](Context& context) -> Outcome {
    for (int i = 0; i < kSteps; ++i) {
      const std::string text = text_of(kMebibyte, static_cast<char>('a' + i));
      const auto given = context.step("step " + std::to_string(i), [&] { return ++runs, text; });
      EXPECT_TRUE(given == text);
    }
    if (context.attempt() == 1) return Outcome::failed("later");
    return Outcome::completed(Body::bytes(text_of(kMebibyte, 'z')));
  };
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(state(), State::retrying);
  pass(2s);
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(runs, kSteps);
  EXPECT_EQ(state(), State::completed);
  EXPECT_TRUE(view().result->text() == text_of(kMebibyte, 'z'));
  EXPECT_TRUE(step("step 4").result->text() == text_of(kMebibyte, 'e'));
}

constexpr std::size_t kLimit = 16 << 20;

TEST_P(BulkContract, AResultOfSixteenMebibytesIsKeptWholeAndAStepToo) {
  add({.attempts = 2});
  publish("a");
  const std::string text = text_of(kLimit, 'r');
  const auto handler = [&](Context& context) -> Outcome {
    EXPECT_TRUE(context.step("large", [&] { return text; }) == text);
    if (context.attempt() == 1) return Outcome::failed("later");
    return Outcome::completed(Body::bytes(text));
  };
  EXPECT_TRUE(run(handler));
  pass(2s);
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(state(), State::completed);
  EXPECT_TRUE(view().result->text() == text);
  EXPECT_TRUE(step("large").result->text() == text);
}

TEST_P(BulkContract, AResultAboveTheLimitMakesTheTaskDeadAndIsNotRunAgain) {
  add({.attempts = 3});
  publish("a");
  int runs = 0;
  const auto handler = [&](Context&) {
    ++runs;
    return Outcome::completed(Body::bytes(std::string(kLimit + 1, 'x')));
  };
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(state(), State::dead);
  EXPECT_EQ(view().result, std::nullopt);
  EXPECT_THAT(view().error, HasSubstr("result of 16777217 bytes is above the queue's max_result of "
                                      "16777216 and was not kept"));
  EXPECT_FALSE(run(handler));
  EXPECT_EQ(runs, 1);
}

TEST_P(BulkContract, AStepWithAResultAboveTheLimitIsHeldAndAPersonCompletesIt) {
  add({.attempts = 3, .max_result = 1000});
  publish("a");
  int runs = 0;
  const auto handler = [&](Context& context) -> Outcome {
    const auto given = context.step("large", [&] { return ++runs, std::string(1001, 'x'); });
    return Outcome::completed(Body::bytes(given));
  };
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(state(), State::in_doubt);
  EXPECT_THAT(view().reason, HasSubstr("step 'large' happened, but its result of 1001 bytes"));
  EXPECT_FALSE(run(handler));
  const auto more =
      zone.tasks().complete_step("a", "q", "large", Body::bytes(std::string(1001, 'x')), {});
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::too_large);
  zone.tasks().complete_step("a", "q", "large", Body::bytes("in the bucket"), {}).value();
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(view().result->text(), "in the bucket");
}

}  // namespace
}  // namespace once::contract
