// Facts: named values, and texts that name them.
#include <gtest/gtest.h>

#include <string>

#include "once/result.h"

namespace once {
namespace {

TEST(Facts, AreFoundByName) {
  const Facts facts{{"queue", "mail"}, {"tasks", "3"}};
  EXPECT_EQ(facts["queue"], "mail");
  EXPECT_EQ(facts["tasks"], "3");
  EXPECT_EQ(facts["run"], "");
  EXPECT_FALSE(facts.empty());
  EXPECT_TRUE(Facts{}.empty());
  EXPECT_EQ(Facts{}["queue"], "");
}

TEST(Facts, AreSharedByCopies) {
  const Error error{.reason = Reason::no_queue, .facts = {{"queue", "mail"}}};
  const Error copy = error;
  EXPECT_EQ(error.facts["queue"].data(), copy.facts["queue"].data());
}

TEST(Facts, StandInTheText) {
  const Facts facts{{"queue", "mail"}, {"age", "3 s"}, {"odd", "[{queue}]"}, {"none", ""}};
  EXPECT_EQ(facts.fill("queue {queue} for {age}"), "queue mail for 3 s");
  EXPECT_EQ(facts.fill("{queue}{queue}"), "mailmail");
  EXPECT_EQ(facts.fill("a value is taken as it is: {odd}"), "a value is taken as it is: [{queue}]");
  EXPECT_EQ(facts.fill("nothing to name"), "nothing to name");
  EXPECT_EQ(facts.fill(""), "");
}

TEST(Facts, LeaveOutAPartWithoutItsFact) {
  const Facts facts{{"tasks", "2 tasks"}, {"age", "3 s"}, {"none", ""}};
  EXPECT_EQ(facts.fill("{tasks}[, for {age}]."), "2 tasks, for 3 s.");
  EXPECT_EQ(facts.fill("{tasks}[, for {none}]."), "2 tasks.");
  EXPECT_EQ(facts.fill("{tasks}[, for {age} of {unknown}][ at {age}]"), "2 tasks at 3 s");
  EXPECT_EQ(facts.fill("[{none}]{tasks}"), "2 tasks");
}

TEST(Facts, TakeAnUnfinishedTextAsFarAsItGoes) {
  const Facts facts{{"queue", "mail"}};
  EXPECT_EQ(facts.fill("to {queue"), "to mail");
  EXPECT_EQ(facts.fill("a] [b {queue}"), "a] b mail");
}

TEST(Reason, HasAName) {
  EXPECT_EQ(to_string(Reason::none), "none");
  EXPECT_EQ(to_string(Reason::claim_not_started), "claim_not_started");
  EXPECT_EQ(to_string(Reason::step_under_way), "step_under_way");
  EXPECT_EQ(to_string(Reason::step_cannot_repeat), "step_cannot_repeat");
  EXPECT_EQ(to_string(Reason::no_valid_token), "no_valid_token");
  EXPECT_EQ(to_string(Reason::not_permitted), "not_permitted");
}

}  // namespace
}  // namespace once
