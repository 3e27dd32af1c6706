// Requests that wait: each is looked at until it has an answer, its time is up, or its client leaves.
#include "server/watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>

namespace once::server {
namespace {

using namespace std::chrono_literals;

Response text(std::string body) { return {.body = std::move(body)}; }

AnswerWith into(std::promise<std::string>& promise) {
  return [&promise](Response response) { promise.set_value(std::move(response.body)); };
}

std::string answer_of(std::promise<std::string>& promise) {
  auto future = promise.get_future();
  return future.wait_for(30s) == std::future_status::ready ? future.get() : "no answer";
}

TEST(Watch, LooksUntilThereIsAnAnswer) {
  std::atomic<int> looks = 0;
  Watch watch;
  std::promise<std::string> answer;
  const auto wait = watch
                        .parked(60s,
                                [&](bool last) -> std::optional<Response> {
                                  EXPECT_FALSE(last);
                                  return ++looks == 4 ? std::optional(text("done")) : std::nullopt;
                                })
                        .begin(into(answer));
  EXPECT_EQ(answer_of(answer), "done");
  EXPECT_EQ(looks, 4);
}

TEST(Watch, LooksForTheLastTimeWhenTheTimeIsUp) {
  Watch watch;
  std::promise<std::string> answer;
  const auto wait =
      watch.parked(60s, [](bool last) { return last ? std::optional(text("late")) : std::nullopt; })
          .begin(into(answer));
  wait->finish();
  EXPECT_EQ(answer_of(answer), "late");
}

TEST(Watch, ForgetsAClientThatLeftDuringALook) {
  std::promise<void> looking, left;
  std::atomic<int> looks = 0;
  Watch watch;
  auto wait = watch
                  .parked(60s,
                          [&](bool) -> std::optional<Response> {
                            if (++looks == 1) {
                              looking.set_value();
                              left.get_future().wait();
                            }
                            return std::nullopt;
                          })
                  .begin([](Response) { FAIL() << "nobody is there"; });
  looking.get_future().wait();
  wait.reset();
  left.set_value();
  // Later requests are looked at after the first one would have been put back.
  for (int round = 0; round < 3; ++round) {
    std::promise<std::string> answer;
    const auto next =
        watch.parked(60s, [&](bool) { return std::optional(text("next")); }).begin(into(answer));
    EXPECT_EQ(answer_of(answer), "next");
  }
  EXPECT_EQ(looks, 1);
}

TEST(Watch, AnswersALookThatThrowsWithAProblem) {
  Watch watch;
  std::promise<std::string> answer;
  const auto wait =
      watch
          .parked(60s,
                  [](bool) -> std::optional<Response> { throw std::runtime_error("no memory"); })
          .begin(into(answer));
  EXPECT_NE(answer_of(answer).find("no memory"), std::string::npos);
}

}  // namespace
}  // namespace once::server
