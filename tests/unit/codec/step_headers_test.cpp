// How a task says that it is a workflow's step, and what its queue makes of it.
#include "codec/step_headers.h"

#include <gtest/gtest.h>

namespace once::encoding {
namespace {

StepTask charge() {
  return {.run = "payment-1",
          .step = "charge",
          .reply = "$once.flow.payment.step",
          .queue = "pay",
          .policy = core::TaskPolicy{.attempts = 5,
                                     .backoff = {Duration{2000}, Duration{4000}},
                                     .jitter_permille = 0,
                                     .timeout = Duration{60'000},
                                     .in_doubt = InDoubt::hold}};
}

TEST(StepHeaders, AreReadAsTheyWereWritten) {
  EXPECT_EQ(read_step(step_headers(charge()), "pay"), charge());
  StepTask plain = charge();
  plain.queue.clear();
  plain.policy.reset();
  EXPECT_EQ(read_step(step_headers(plain), "whichever"), plain);
  EXPECT_EQ(step_headers(plain).size(), 3U) << "what is not said is not there";
  StepTask patient = charge();
  patient.policy = core::TaskPolicy{.timeout = Duration{1}};
  EXPECT_EQ(read_step(step_headers(patient), "pay"), patient);
  EXPECT_EQ(step_headers(patient).at("Once-Policy"), R"({"timeout":1})");
}

TEST(StepHeaders, HaveNamesThatOnlyWeMaySet) {
  for (const auto& [name, value] : step_headers(charge()))
    EXPECT_TRUE(name.starts_with("Once-")) << name;
  EXPECT_EQ(step_headers(charge()).at("Once-Policy"),
            R"({"attempts":5,"backoff":[2000,4000],"in_doubt":"hold","jitter":0,"timeout":60000})");
}

TEST(StepHeaders, SayNothingToAnotherQueue) {
  EXPECT_EQ(read_step(step_headers(charge()), "mail"), std::nullopt);
}

TEST(StepHeaders, ATaskWithoutThemIsATaskLikeAnyOther) {
  EXPECT_EQ(read_step({}, "pay"), std::nullopt);
  EXPECT_EQ(read_step({{"Trace", "1"}}, "pay"), std::nullopt);
  for (const char* missing : {"Once-Run", "Once-Step", "Once-Reply"}) {
    Headers headers = step_headers(charge());
    headers.erase(missing);
    EXPECT_EQ(read_step(headers, "pay"), std::nullopt) << missing;
  }
}

// Nobody but us writes them; whatever is damaged, the queue's own policy holds.
TEST(StepHeaders, OfADamagedPolicyTheQueuesHolds) {
  Headers headers = step_headers(charge());
  for (const char* text :
       {"", "{", "[]", "null", "{}", R"({"attempts":-1,"backoff":7,"in_doubt":"x","jitter":0.5})",
        R"({"attempts":1e30,"timeout":"1m"})"}) {
    headers["Once-Policy"] = text;
    const auto read = read_step(headers, "pay");
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->policy.value_or(core::TaskPolicy{}), core::TaskPolicy{}) << text;
  }
}

TEST(StepHeaders, ReplyUnderTheNameOfRunAndStep) {
  EXPECT_EQ(reply_to(charge()),
            (core::ReplyTo{.topic = "$once.flow.payment.step", .id = "payment-1.charge"}));
}

}  // namespace
}  // namespace once::encoding
