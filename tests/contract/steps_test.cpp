// Durable steps: what is done stays done over every attempt, and what was cut off is known to be.
#include "contract/effects.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using StepsContract = Effects;
ONCE_FOR_EVERY_STORE(StepsContract);

TEST_P(StepsContract, AStepRunsOnceAndItsResultIsRememberedByLaterAttempts) {
  add({.attempts = 3});
  publish("a");
  int runs = 0;
  const auto handler = [&](Context& context) -> Outcome {
    const auto text = context.step("text", [&] { return ++runs, std::string("a\0b", 3); });
    const auto number = context.step("number", [&] { return ++runs, -7; });
    const auto real = context.step("real", [&] { return ++runs, 0.1; });
    const auto truth = context.step("truth", [&] { return ++runs, true; });
    context.step("nothing", [&] { ++runs; });
    EXPECT_EQ(text, std::string("a\0b", 3));
    EXPECT_EQ(number, -7);
    EXPECT_EQ(real, 0.1);
    EXPECT_TRUE(truth);
    if (context.attempt() < 3) return Outcome::failed("later");
    return Outcome::completed();
  };
  for (int attempt = 0; attempt < 3; ++attempt, pass(2s)) EXPECT_TRUE(run(handler));
  EXPECT_EQ(runs, 5);
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(step("number").state, StepView::State::done);
  EXPECT_EQ(step("number").runs, 1);
  EXPECT_EQ(step("number").result->text(), "-7");
}

TEST_P(StepsContract, AStepThatThrowsIsRunAgain) {
  add({});
  publish("a");
  int runs = 0;
  const auto handler = [&](Context& context) {
    context.step("push", [&] {
      if (++runs == 1) throw std::runtime_error("no network");
    });
    return Outcome::completed();
  };
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(state(), State::retrying);
  EXPECT_EQ(view().error, "no network");
  ASSERT_EQ(view().steps.size(), 1U);
  EXPECT_EQ(view().steps[0].state, StepView::State::failed);
  EXPECT_EQ(view().steps[0].failed, 1);
  EXPECT_EQ(view().steps[0].error, "no network");
  pass(2s);
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(view().steps.at(0).state, StepView::State::done);
  EXPECT_EQ(view().steps.at(0).error, "no network") << "the trace of the failed try stays";
}

TEST_P(StepsContract, ANameUsedTwiceInOneAttemptIsAnError) {
  add({});
  publish("a");
  int runs = 0;
  EXPECT_TRUE(run([&](Context& context) {
    context.step("push", [&] { ++runs; });
    context.step("push", [&] { ++runs; });
    return Outcome::completed();
  }));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(state(), State::retrying);
  EXPECT_THAT(view().error, HasSubstr("'push' was used before in this attempt"));
}

TEST_P(StepsContract, AStepsNameIsChecked) {
  add({.backoff = {0ms}});
  publish("a");
  EXPECT_TRUE(run([&](Context& context) {
    for (const std::string& name : {std::string(), std::string("a\nb"), std::string(129, 'x')})
      EXPECT_THROW(context.step(name, [] {}), Failure);
    context.step(std::string(128, 'x'), [] {});
    return Outcome::completed();
  }));
  EXPECT_EQ(state(), State::completed);
}

TEST_P(StepsContract, AFencedWorkerCantBeginAStep) {
  add({});
  publish("a");
  int effects = 0;
  EXPECT_TRUE(run([&](Context& context) {
    hang([&] { EXPECT_TRUE(run_ok()); });
    context.step("push", [&] { ++effects; });
    ADD_FAILURE() << "the step did not throw";
    return Outcome::completed();
  }));
  EXPECT_EQ(effects, 0);
  EXPECT_EQ(state(), State::completed);
  EXPECT_TRUE(view().steps.empty());
}

TEST_P(StepsContract, AFencedWorkerCantRecordWhatItsStepDid) {
  add({});
  publish("a");
  EXPECT_TRUE(run([&](Context& context) {
    context.step("push", [&] {
      hang([&] {
        EXPECT_TRUE(run([&](Context& other) {
          EXPECT_TRUE(other.in_doubt());
          return Outcome::completed(
              Body::json(other.step("push", [] { return std::string("2"); })).value());
        }));
      });
      return std::string("1");
    });
    ADD_FAILURE() << "the step did not throw";
    return Outcome::completed();
  }));
  EXPECT_EQ(step("push").result->text(), "2");
  EXPECT_EQ(step("push").runs, 2);
  EXPECT_EQ(view().result->text(), "2");
}

TEST_P(StepsContract, WhatAHandlerSaysAfterItsAttemptIsOverIsNotRecorded) {
  add({.in_doubt = InDoubt::hold});
  publish("a");
  EXPECT_TRUE(run([&](Context& context) {
    try {
      hang([&] { EXPECT_FALSE(run_ok()) << "it is held"; });
      context.step("push", [] {});
    } catch (...) {
    }
    return Outcome::completed();
  }));
  EXPECT_EQ(state(), State::in_doubt);
}

TEST_P(StepsContract, NoStepBeginsOnceTheTaskIsCancelled) {
  add({});
  publish("a");
  int effects = 0;
  EXPECT_TRUE(run([&](Context& context) {
    context.step("write", [&] { ++effects; });
    zone.tasks().cancel("a", "q", by).value();
    context.step("push", [&] { ++effects; });
    ADD_FAILURE() << "the step did not throw";
    return Outcome::completed();
  }));
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(state(), State::cancelled);
}

TEST_P(StepsContract, FinishedStepsAreSkippedAndACutOffOneIsRunAgainWhenItsPolicySaysSo) {
  add({.in_doubt = InDoubt::steps});
  publish("a");
  std::map<std::string, int> runs;
  const std::function<Outcome(Context&)> handler = [&](Context& context) {
    context.step("write", [&] { ++runs["write"]; });
    context.step(
        "push",
        [&] {
          if (++runs["push"] == 1) hang([&] { EXPECT_TRUE(run(handler)); });
        },
        InDoubt::retry);
    context.step("deploy", [&] { ++runs["deploy"]; });
    return Outcome::completed();
  };
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(runs, (std::map<std::string, int>{{"write", 1}, {"push", 2}, {"deploy", 1}}));
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(step("push").runs, 2);
  EXPECT_EQ(step("push").policy, InDoubt::retry);
}

TEST_P(StepsContract, ACutOffStepIsHeldWhenItsPolicySaysSo) {
  for (const auto& [queue, own] :
       std::vector<std::pair<InDoubt, std::optional<InDoubt>>>{{InDoubt::steps, {}},
                                                               {InDoubt::retry, InDoubt::hold},
                                                               {InDoubt::steps, InDoubt::hold}}) {
    const std::string id = "task-" + std::string(to_string(queue)) + (own ? "-own" : "");
    zone.queues().add({.name = id, .topic = id, .in_doubt = queue}).value();
    zone.publish({.topic = id, .id = id}).value();
    auto other = zone.worker(id, [](Context&) { return Outcome::completed(); }).value();
    auto worker = zone.worker(id, [&](Context& context) {
      context.step("write", [] {});
      context.step(
          "push", [&] { hang([&] { EXPECT_FALSE(other.run_one().value()); }); }, own);
      return Outcome::completed();
    });
    EXPECT_TRUE(worker.value().run_one().value());
    EXPECT_EQ(state(id), State::in_doubt);
    EXPECT_EQ(view(id).reason, "step 'push' was cut off");
    EXPECT_EQ(step("write", id).state, StepView::State::done);
    EXPECT_EQ(step("push", id).state, StepView::State::in_doubt);
    EXPECT_THAT(story(id), ElementsAre("held"));
  }
}

TEST_P(StepsContract, AnAttemptThatFailsWithACutOffStepIsHeldToo) {
  add({.in_doubt = InDoubt::steps});
  publish("a");
  EXPECT_TRUE(run([&](Context& context) -> Outcome {
    struct NoException {};
    try {
      context.step("push", []() -> int { throw NoException{}; });
    } catch (const NoException&) {
    }
    return Outcome::failed("the program said that it did not finish");
  }));
  EXPECT_EQ(state(), State::in_doubt) << "the step's own word is missing";
}

TEST_P(StepsContract, AStepThatIsToBeHeldIsHeldThoughItsHandlerSaysCompleted) {
  add({.in_doubt = InDoubt::steps});
  publish("a");
  EXPECT_TRUE(run([&](Context& context) {
    struct NoException {};
    try {
      context.step("push", []() -> int { throw NoException{}; });
    } catch (const NoException&) {
    }
    return Outcome::completed();
  }));
  EXPECT_EQ(state(), State::in_doubt);
  EXPECT_EQ(step("push").state, StepView::State::in_doubt);
}

TEST_P(StepsContract, AStepThatIsToBeProbedAndHasNoProbeIsHeld) {
  add({});
  publish("a");
  int runs = 0;
  const std::function<Outcome(Context&)> handler = [&](Context& context) {
    context.step(
        "push",
        [&] {
          ++runs;
          hang([&] { EXPECT_TRUE(run(handler)); });
        },
        InDoubt::probe);
    return Outcome::completed();
  };
  EXPECT_TRUE(run(handler));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(state(), State::in_doubt);
}

TEST_P(StepsContract, AResultThatIsNoSuchValueIsAnError) {
  EXPECT_EQ(Codec<bool>::decode("true"), true);
  EXPECT_EQ(Codec<bool>::decode("0"), false);
  EXPECT_EQ(Codec<int>::decode("-7"), -7);
  EXPECT_THROW(Codec<bool>::decode("yes"), std::invalid_argument);
  EXPECT_THROW(Codec<int>::decode("abc"), std::invalid_argument);
  EXPECT_THROW(Codec<int>::decode("1e3"), std::invalid_argument);
  EXPECT_THROW(Codec<std::uint8_t>::decode("300"), std::invalid_argument);
  EXPECT_EQ(Codec<char>::decode(Codec<char>::encode('x')), 'x');
}

// --- A step's probe -------------------------------------------------------------------------

class StepProbeContract : public Effects {
 protected:
  // The first attempt is cut off in its step; the second one asks `probe`.
  template <class Probe>
  void cut_off_and_ask(Probe probe) {
    add({.in_doubt = InDoubt::steps});
    publish("a");
    const std::function<Outcome(Context&)> handler = [&](Context& context) {
      const auto commit = context.step(
          "push",
          [&] {
            if (++runs == 1) hang([&] { EXPECT_TRUE(run(handler)); });
            return std::string("run ") + std::to_string(runs);
          },
          probe);
      return Outcome::completed(Body::bytes(commit));
    };
    EXPECT_TRUE(run(handler));
  }
  int runs = 0;
};
ONCE_FOR_EVERY_STORE(StepProbeContract);

TEST_P(StepProbeContract, SaysThatItHappened) {
  cut_off_and_ask([] { return std::optional(std::string("found")); });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(view().result->text(), "found");
  EXPECT_EQ(step("push").result->text(), "found");
  EXPECT_THAT(story(), ElementsAre("happened"));
  EXPECT_EQ(view().story.at(0).step, "push");
}

TEST_P(StepProbeContract, SaysThatItDidNot) {
  cut_off_and_ask([] { return std::optional<std::string>(); });
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(view().result->text(), "run 2");
  EXPECT_EQ(step("push").runs, 2);
  EXPECT_THAT(story(), ElementsAre("did_not_happen"));
}

TEST_P(StepProbeContract, ThrowsSomethingElse) {
  cut_off_and_ask([]() -> std::optional<std::string> { throw 7; });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(state(), State::in_doubt);
}

TEST_P(StepProbeContract, DoesNotKnow) {
  cut_off_and_ask([]() -> std::optional<std::string> { throw std::runtime_error("host is down"); });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(state(), State::in_doubt);
  EXPECT_EQ(view().reason, "host is down");
}

// --- People and held steps ------------------------------------------------------------------

class HeldStepContract : public Effects {
 protected:
  void hold() {
    add({.in_doubt = InDoubt::steps});
    publish("a");
    EXPECT_TRUE(run([&](Context& context) {
      context.step("write", [&] { ++writes; });
      context.step("push", [&] {
        ++pushes;
        hang([&] { EXPECT_FALSE(run_ok()); });
        return std::string("lost");
      });
      return Outcome::completed();
    }));
    ASSERT_EQ(state(), State::in_doubt);
  }
  bool finish() {
    return run([&](Context& context) {
      context.step("write", [&] { ++writes; });
      pushed = context.step("push", [&] { return ++pushes, std::string("again"); });
      return Outcome::completed();
    });
  }
  int writes = 0;
  int pushes = 0;
  std::string pushed;
};
ONCE_FOR_EVERY_STORE(HeldStepContract);

TEST_P(HeldStepContract, APersonWhoSaysThatTheStepHappenedLetsTheTaskGoOnAfterIt) {
  hold();
  zone.tasks().complete_step("a", "q", "push", Body::bytes("4711"), by).value();
  EXPECT_EQ(state(), State::waiting);
  EXPECT_TRUE(finish());
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(pushed, "4711");
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(pushes, 1);
  EXPECT_THAT(story(), ElementsAre("held", "step_completed"));
  EXPECT_EQ(view().story.back().by, "ann");
  EXPECT_EQ(view().story.back().why, "she looked");
  EXPECT_EQ(view().story.back().step, "push");
}

TEST_P(HeldStepContract, TheResultOfAStepThatAPersonGivesIsTextToTheProgram) {
  hold();
  zone.tasks().complete_step("a", "q", "push", Body::json(R"("47\u00e911")").value(), by).value();
  EXPECT_TRUE(finish());
  EXPECT_EQ(pushed, "47\u00e911");
}

TEST_P(HeldStepContract, APersonWhoSaysRetryHasTheStepRunAgain) {
  hold();
  zone.tasks().retry("a", "q", by).value();
  EXPECT_TRUE(finish());
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(pushed, "again");
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(pushes, 2);
}

TEST_P(HeldStepContract, OnlyAStepThatIsInDoubtCanBeCompletedByHand) {
  hold();
  EXPECT_EQ(zone.tasks().complete_step("a", "q", "write", {}, by).error().code, Code::wrong_state);
  EXPECT_EQ(zone.tasks().complete_step("a", "q", "nobody", {}, by).error().code, Code::not_found);
  EXPECT_EQ(state(), State::in_doubt);
}

}  // namespace
}  // namespace once::contract
