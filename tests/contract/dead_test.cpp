// Dead letters: how tasks get there, that their whole story stays, and how they leave.
#include "contract/effects.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DeadContract : public Effects {
 protected:
  bool fail() {
    return run([](Context&) { return Outcome::failed("no"); });
  }
  void kill_task() {
    while (state() != State::dead) {
      ASSERT_TRUE(fail());
      pass(2s);
    }
  }
};
ONCE_FOR_EVERY_STORE(DeadContract);

TEST_P(DeadContract, AfterTheLastAttempt) {
  add({.attempts = 2});
  publish("a");
  kill_task();
  EXPECT_EQ(view().attempts.size(), 2U);
  EXPECT_THAT(listed(State::dead), ElementsAre("a"));
  EXPECT_FALSE(run_ok());
}

TEST_P(DeadContract, AtOnceWhenTheHandlerSaysSo) {
  add({});
  publish("a");
  EXPECT_TRUE(run([](Context&) { return Outcome::dead("not for us"); }));
  EXPECT_EQ(state(), State::dead);
  EXPECT_EQ(view().error, "not for us");
}

TEST_P(DeadContract, ATaskThatLosesEveryWorkerIsCountedOutByItsClaims) {
  add({.attempts = 3});
  publish("poison");
  publish("good");
  int claims = 0;
  const std::function<Outcome(Context&)> handler = [&](Context& context) {
    if (context.task().id == "poison") {
      ++claims;
      hang([&] {
        while (run(handler)) {
        }
      });
    }
    return Outcome::completed();
  };
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(claims, 3);
  EXPECT_EQ(state("poison"), State::dead);
  EXPECT_EQ(view("poison").reason, "the last attempt ended without a verdict");
  EXPECT_EQ(state("good"), State::completed) << "the queue goes on";
}

TEST_P(DeadContract, ARetriedOneRunsWithAllItsAttemptsAndLeavesTheListWhenItCompletes) {
  add({.attempts = 2});
  publish("a");
  kill_task();
  zone.tasks().retry("a", "q", by).value();
  EXPECT_EQ(state(), State::waiting);
  EXPECT_THAT(listed(State::dead), IsEmpty());
  EXPECT_EQ(count(State::dead), 0U);
  EXPECT_EQ(count(State::waiting), 1U);
  EXPECT_TRUE(fail());
  EXPECT_EQ(state(), State::retrying) << "one more is left";
  pass(2s);
  EXPECT_TRUE(run_ok());
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(count(State::completed), 1U);
  EXPECT_EQ(count(State::waiting), 0U);
}

TEST_P(DeadContract, TheWholeStoryIsKeptOverManyDeaths) {
  add({.attempts = 2});
  publish("a");
  for (int death = 1; death <= 10; ++death) {
    kill_task();
    const By person{.who = "person " + std::to_string(death), .why = "try again"};
    zone.tasks().retry("a", "q", person).value();
  }
  EXPECT_TRUE(run_ok());
  const QueueView after = view();
  EXPECT_EQ(after.state, State::completed);
  EXPECT_EQ(after.attempts.size(), 21U);
  EXPECT_EQ(after.attempts.back().attempt, 21);
  ASSERT_EQ(after.story.size(), 10U);
  EXPECT_EQ(after.story.front().by, "person 1");
  EXPECT_EQ(after.story.back().by, "person 10");
}

TEST_P(DeadContract, ADroppedOneIsCancelled) {
  add({});
  publish("a");
  EXPECT_TRUE(run([](Context&) { return Outcome::dead("not for us"); }));
  zone.tasks().drop("a", "q", by).value();
  EXPECT_EQ(state(), State::cancelled);
  EXPECT_EQ(view().reason, "dropped by ann: she looked");
  EXPECT_THAT(listed(State::dead), IsEmpty());
  EXPECT_EQ(zone.tasks().drop("a", "q", by).error().code, Code::wrong_state);
}

TEST_P(DeadContract, OneThatIsNotDeadCanBeNeitherRetriedNorDropped) {
  add({});
  publish("a");
  EXPECT_EQ(zone.tasks().retry("a", "q", by).error().code, Code::wrong_state);
  EXPECT_EQ(zone.tasks().drop("a", "q", by).error().code, Code::wrong_state);
  EXPECT_EQ(zone.tasks().retry("nobody", "q", by).error().code, Code::not_found);
  EXPECT_EQ(zone.tasks().retry("a", "nowhere", by).error().code, Code::not_found);
  EXPECT_TRUE(run_ok());
  EXPECT_EQ(zone.tasks().retry("a", "q", by).error().code, Code::wrong_state);
}

TEST_P(DeadContract, AConflictingDuplicateCantBeRetriedButDropped) {
  add({.key = "{doc}"});
  publish("a", R"({"doc":1})");
  publish("b", R"({"doc":1,"other":true})");
  EXPECT_TRUE(run_ok());
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state("b"), State::dead);
  const auto refused = zone.tasks().retry("b", "q", by);
  EXPECT_EQ(refused.error().code, Code::wrong_state);
  EXPECT_THAT(refused.error().message, HasSubstr("conflicting_duplicate"));
  zone.tasks().drop("b", "q", by).value();
  EXPECT_EQ(state("b"), State::cancelled);
  EXPECT_EQ(state("a"), State::completed);
}

TEST_P(DeadContract, ARetryThatDiesWithItsWorkerIsAppliedOnce) {
  add({.attempts = 5});
  publish("a");
  EXPECT_TRUE(run([](Context&) { return Outcome::dead("no"); }));
  zone.tasks().retry("a", "q", by).value();
  EXPECT_TRUE(run([&](Context&) {
    hang([&] { EXPECT_TRUE(run([](Context&) { return Outcome::dead("no again"); })); });
    return Outcome::completed();
  }));
  EXPECT_EQ(state(), State::dead);
  EXPECT_FALSE(run_ok()) << "the order was carried out; another one is needed";
  EXPECT_THAT(story(), ElementsAre("retried"));
}

// Two people ask at once. The second word was about the death that the first one ended.
TEST_P(DeadContract, AnOrderIsNotAboutALaterDeath) {
  add({.attempts = 5});
  publish("a");
  EXPECT_TRUE(run([](Context&) { return Outcome::dead("no"); }));
  zone.tasks().retry("a", "q", by).value();
  core::Order late{.claims = 1, .by = "late"};
  late.nonce.bytes.fill(7);
  EXPECT_TRUE(run([&](Context& context) {
    const store::Wake wake{.sequence = {context.sequence()}, .order = late};
    impl->store->wake("q", std::span(&wake, 1)).value();
    return Outcome::dead("no again");
  }));
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state(), State::dead);
  EXPECT_THAT(story(), ElementsAre("retried"));
  zone.tasks().retry("a", "q", by).value();
  EXPECT_TRUE(run_ok());
}

}  // namespace
}  // namespace once::contract
