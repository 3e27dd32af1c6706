// Starting runs: one per key, however often and from wherever it is started.
#include <atomic>

#include "contract/flows.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr std::string_view kOne = R"({"id":"a","task":"do.a"})";
constexpr std::string_view kGo = R"({"id":"go","signal":"go"})";
constexpr std::string_view kByOrder = R"("idempotency_key":"order.id")";

class FlowStartContract : public FlowZone {
 protected:
  Result<Started> try_start(std::string_view input, StartOptions options = {}) {
    return flows.start("w", json(input), options);
  }
  // True: it was a run of its own.
  bool starts(std::string_view input) { return !try_start(input).value().duplicate; }
  void finish(const std::string& run) {
    flows.signal(run, "go", {}, "go").value();
    settle();
    EXPECT_EQ(phase(run), RunPhase::completed);
  }
};
ONCE_FOR_EVERY_STORE(FlowStartContract);

TEST_P(FlowStartContract, AWorkflowThatWasRemovedIsNotStartedAndItsRunsGoOn) {
  add_flow(kGo);
  const std::string run = start();
  flows.remove("w", 1).value();
  EXPECT_THAT(flows.list().value(), SizeIs(0));
  EXPECT_EQ(try_start("{}").error().code, Code::not_found);
  EXPECT_EQ(try_start("{}", {.version = 1}).error().code, Code::not_found);
  EXPECT_EQ(flows.remove("w", 1).error().code, Code::not_found);
  EXPECT_EQ(flows.remove("other", 1).error().code, Code::not_found);
  finish(run);
  EXPECT_EQ(flows.show(run).value().steps.size(), 1U);
}

TEST_P(FlowStartContract, AWorkflowThatWasRemovedComesBackAsItWasAndNotAsAnother) {
  add_flow(kGo);
  flows.remove("w", 1).value();
  EXPECT_EQ(flows.add(workflow(kOne)).error().code, Code::conflicting_duplicate);
  EXPECT_THAT(flows.list().value(), SizeIs(0));
  EXPECT_TRUE(add_flow(kGo).added);
  EXPECT_FALSE(add_flow(kGo).added);
  EXPECT_THAT(flows.list().value(), SizeIs(1));
  finish(start());
}

TEST_P(FlowStartContract, ADuplicateStartNamesTheFirstRun) {
  add_flow(kOne, kByOrder);
  const Started first = try_start(R"({"order":{"id":7},"at":1})").value();
  EXPECT_FALSE(first.duplicate);
  EXPECT_THAT(first.run, ::testing::StartsWith("w-"));
  const auto same = R"({ "at": 1.0, "order": {"id": 7} })";
  EXPECT_EQ(try_start(same).value().run, first.run);
  EXPECT_TRUE(try_start(same).value().duplicate);
  settle();
  EXPECT_EQ(try_start(same).value().run, first.run) << "also when it is over";
  settle();
  EXPECT_THAT(ran, SizeIs(1));
  EXPECT_EQ(runs(), 1U);
  EXPECT_THAT(show(first.run).info.key.value(), HasSubstr("7"));
}

TEST_P(FlowStartContract, AnotherInputUnderTheKeyIsAConflictThatSaysWhatDiffers) {
  add_flow(kOne, kByOrder);
  const std::string run = try_start(R"({"order":{"id":7,"total":1}})").value().run;
  const auto refused = try_start(R"({"order":{"id":7,"total":2}})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::conflicting_duplicate);
  ASSERT_TRUE(refused.error().conflict);
  EXPECT_EQ(refused.error().conflict->id, run);
  EXPECT_THAT(refused.error().conflict->key, HasSubstr("7"));
  EXPECT_THAT(refused.error().conflict->differs.value(), ElementsAre("$.order.total"));
  EXPECT_THAT(refused.error().message, HasSubstr("nothing was started"));
  EXPECT_TRUE(starts(R"({"order":{"id":8,"total":2}})")) << "another key";
  EXPECT_EQ(try_start(R"({"order":{"id":"7","total":2}})").error().code,
            Code::conflicting_duplicate)
      << "a text is the same key as its number";
  EXPECT_EQ(runs(), 2U);
}

TEST_P(FlowStartContract, AnInputWithoutTheKeyIsRefused) {
  add_flow(kOne, kByOrder);
  const auto refused = try_start(R"({"order":{}})");
  EXPECT_EQ(refused.error().code, Code::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr("order.id"));
  EXPECT_EQ(flows.start("w", Body::bytes("order 7")).error().code, Code::invalid_input);
  EXPECT_EQ(runs(), 0U);
}

TEST_P(FlowStartContract, AnInputWithoutTheKeyMakesARunOfItsOwnWhereThatIsWanted) {
  add_flow(kOne, R"("idempotency_key":"order.id","on_missing_key":"run_unprotected")");
  EXPECT_TRUE(starts("{}"));
  EXPECT_TRUE(starts("{}"));
  EXPECT_TRUE(starts(R"({"order":{"id":7}})"));
  EXPECT_FALSE(starts(R"({"order":{"id":7}})"));
  settle();
  EXPECT_THAT(ran, SizeIs(3));
}

TEST_P(FlowStartContract, NullIsNoKey) {
  add_flow(kOne, kByOrder);
  const auto refused = try_start(R"({"order":{"id":null}})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr("there is null"));
  EXPECT_EQ(runs(), 0U);
  add_flow(kOne, R"("version":2,"idempotency_key":"order.id","on_missing_key":"run_unprotected")");
  EXPECT_TRUE(try_start(R"({"order":{"id":null}})", {.version = 2}).value().run !=
              try_start(R"({"order":{"id":null}})", {.version = 2}).value().run);
}

TEST_P(FlowStartContract, ANameThatIsNoneIsRefusedAndOneThatIsNearlyRightIsSuggested) {
  flows.add(R"({"name":"payment","steps":[{"id":"a","task":"do.a"}]})").value();
  for (const char* name : {"", "a b", "payment@1"}) {
    EXPECT_EQ(flows.start(name, json("{}")).error().code, Code::invalid_input) << name;
    EXPECT_EQ(flows.definition(name).error().code, Code::invalid_input) << name;
    EXPECT_EQ(flows.definition(name, 1).error().code, Code::invalid_input) << name;
  }
  EXPECT_EQ(flows.show("").error().code, Code::invalid_input);
  EXPECT_EQ(flows.events("").error().code, Code::invalid_input);
  EXPECT_EQ(flows.wait("", 1s).error().code, Code::invalid_input);
  EXPECT_EQ(flows.signal("", "go", {}, "1").error().code, Code::invalid_input);
  EXPECT_EQ(flows.approve("", "a", true, by).error().code, Code::invalid_input);
  EXPECT_EQ(flows.cancel("", by).error().code, Code::invalid_input);
  EXPECT_EQ(flows.retry("", by).error().code, Code::invalid_input);

  const auto unknown = flows.start("paymnt", json("{}"));
  EXPECT_EQ(unknown.error().code, Code::not_found);
  EXPECT_THAT(unknown.error().message, HasSubstr("did you mean 'payment'?"));
  EXPECT_THAT(flows.definition("paymnt", 1).error().message, HasSubstr("'payment'?"));
  EXPECT_EQ(flows.start("elsewhere", json("{}")).error().reason, Reason::no_workflow);
  EXPECT_THAT(flows.definition("payment", 7).error().message,
              ::testing::Not(HasSubstr("did you mean")))
      << "it is the version that is not there";
  EXPECT_EQ(runs(), 0U);
}

TEST_P(FlowStartContract, WithoutAKeyTheSameInputIsTheSameRun) {
  add_flow(kOne);
  EXPECT_TRUE(starts(R"({"a":1,"b":2})"));
  EXPECT_FALSE(starts(R"({"b":2,"a":1})"));
  EXPECT_TRUE(starts(R"({"a":1})"));
}

TEST_P(FlowStartContract, AUniqueStartIsARunOfItsOwn) {
  add_flow(kOne, kByOrder);
  const auto input = R"({"order":{"id":7}})";
  const std::string run = try_start(input).value().run;
  const Started unique = try_start(input, {.unique = true}).value();
  EXPECT_FALSE(unique.duplicate);
  EXPECT_NE(unique.run, run);
  EXPECT_FALSE(show(unique.run).info.key);
  EXPECT_EQ(try_start(input).value().run, run) << "the key is whose it was";
  settle();
  EXPECT_THAT(ran, SizeIs(2));
}

TEST_P(FlowStartContract, WorkflowsDoNotShareKeys) {
  add_flow(kOne, kByOrder);
  flows.add(R"({"name":"v","idempotency_key":"order.id","steps":[{"id":"a","task":"do.a"}]})")
      .value();
  const Body input = json(R"({"order":{"id":7}})");
  EXPECT_FALSE(flows.start("w", input).value().duplicate);
  EXPECT_FALSE(flows.start("v", input).value().duplicate);
}

TEST_P(FlowStartContract, AKeyStandsForItsRunUntilItsTimeHasPassedSinceTheFinish) {
  add_flow(kGo);
  const std::string run = start();
  settle();
  pass(24h * 3);
  EXPECT_FALSE(starts("{}")) << "it goes on";
  finish(run);
  pass(23h);
  EXPECT_FALSE(starts("{}"));
  pass(2h);
  const Started next = try_start("{}").value();
  EXPECT_FALSE(next.duplicate);
  EXPECT_NE(next.run, run);
  EXPECT_EQ(try_start("{}").value().run, next.run);
}

TEST_P(FlowStartContract, TheTimeOfAKeyIsTheWorkflows) {
  add_flow(kGo, R"("key_ttl":"1m")");
  const std::string run = start();
  settle();
  finish(run);
  pass(59s);
  EXPECT_FALSE(starts("{}"));
  pass(2s);
  EXPECT_TRUE(starts("{}"));
  const Duration records = zone.retention().value().records;
  const auto longer = R"("version":2,"key_ttl":")" + duration_text(records + 1h) + '"';
  EXPECT_EQ(flows.add(workflow(kGo, longer)).error().code, Code::invalid_input)
      << "the key would be forgotten before";
}

TEST_P(FlowStartContract, RecordsAreKeptAsLongAsAnyKey) {
  add_flow(kGo, R"("version":2,"key_ttl":"3h")");
  add_flow(kGo, R"("key_ttl":"1h")");
  Retention ages = zone.retention().value();
  const Retention before = ages;
  ages.records = 3h - 1ms;
  const auto refused = zone.set_retention(ages);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_input);
  EXPECT_THAT(refused.error().message, HasSubstr("workflow 'w' (version 2)"));
  EXPECT_THAT(refused.error().message, HasSubstr("nothing was changed"));
  EXPECT_EQ(zone.retention().value(), before);
  ages = {.bodies = 1h, .records = 3h, .ids = 1h};
  zone.set_retention(ages).value();

  const std::string run = start();
  settle();
  finish(run);
  pass(3h - 1min);
  zone.retire().value();
  EXPECT_FALSE(starts("{}"));
}

// A definition that is added later may rely on the longer age.
TEST_P(FlowStartContract, ALongerAgeOfRecordsHoldsForRunsThatHaveEnded) {
  zone.set_retention({.bodies = 1h, .records = 2h, .ids = 1h}).value();
  add_flow(kGo, R"("key_ttl":"1h")");
  const std::string run = start();
  settle();
  finish(run);
  pass(10min);
  zone.set_retention({.bodies = 1h, .records = 100h, .ids = 1h}).value();
  add_flow(kGo, R"("version":2,"key_ttl":"50h")");
  pass(49h);
  zone.retire().value();
  EXPECT_FALSE(starts("{}"));
  EXPECT_EQ(phase(run), RunPhase::completed);
  pass(1h);
  EXPECT_TRUE(starts("{}")) << "the key's time is counted from the end of its run";
}

// Of a workflow that is added and a retention that is shortened at the same moment one hears of the
// other, whoever comes second.
TEST_P(FlowStartContract, AKeyIsNotForgottenForARace) {
  for (int hours = 10; hours < 14; ++hours) {
    Retention ages = zone.retention().value();
    ages.records = 100h;
    zone.set_retention(ages).value();
    ages.records = hours * 1h + 30min;
    bool added = false;
    bool shortened = false;
    at_once(2, [&](int thread) {
      if (thread == 0)
        shortened = static_cast<bool>(zone.set_retention(ages));
      else
        added = static_cast<bool>(
            flows.add(workflow(kGo, R"("version":)" + std::to_string(hours) + R"(,"key_ttl":")" +
                                        std::to_string(hours + 1) + "h\"")));
    });
    EXPECT_FALSE(added && shortened);
    if (!added) return;  // every later one would be longer still
  }
}

TEST_P(FlowStartContract, AConflictWithARunThatFailedSaysHowItGoesOn) {
  add_flow(kOne, kByOrder);
  const std::string run = try_start(R"({"order":{"id":7}})").value().run;
  const auto other = R"({"order":{"id":7},"n":1})";
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  EXPECT_EQ(try_start(other).error().reason, Reason::none);
  settle();
  const Error failed = try_start(other).error();
  EXPECT_EQ(failed.reason, Reason::run_failed);
  EXPECT_EQ(failed.facts["run"], run);
  EXPECT_THAT(failed.message, HasSubstr("a retry lets it go on"));
  flows.cancel(run, by).value();
  settle();
  EXPECT_EQ(try_start(other).error().reason, Reason::none);
}

TEST_P(FlowStartContract, AFailedRunIsFinishedAndARetriedOneGoesOn) {
  add_flow(R"({"id":"a","task":"do.a"},{"id":"go","signal":"go","depends_on":["a"]})");
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  const std::string run = start();
  settle();
  pass(23h);
  does.clear();
  flows.retry(run, by).value();
  settle();
  pass(48h);
  EXPECT_EQ(try_start("{}").value().run, run);
  finish(run);
  pass(25h);
  EXPECT_TRUE(starts("{}"));
}

// Everybody starts all keys, in another order each.
TEST_P(FlowStartContract, OfManyWhoStartOneKeyAtOnceEachHasTheSameRun) {
  constexpr int kThreads = 8;
  constexpr int kKeys = 5;
  add_flow(kOne, kByOrder);
  const auto start_all = [&] {
    std::vector<std::vector<std::string>> found(kThreads, std::vector<std::string>(kKeys));
    std::atomic<int> first{0};
    at_once(kThreads, [&](int thread) {
      for (int i = 0; i < kKeys; ++i) {
        const int key = (thread + i) % kKeys;
        const auto input = R"({"order":{"id":)" + std::to_string(key) + "}}";
        const Started started = try_start(input).value();
        found[static_cast<std::size_t>(thread)][static_cast<std::size_t>(key)] = started.run;
        if (!started.duplicate) ++first;
      }
    });
    EXPECT_EQ(first, kKeys);
    for (const auto& each : found) EXPECT_EQ(each, found[0]);
    return found[0];
  };
  const auto before = start_all();
  settle();
  EXPECT_THAT(ran, SizeIs(kKeys));
  EXPECT_EQ(runs(), static_cast<std::size_t>(kKeys));
  pass(25h);
  EXPECT_NE(start_all(), before) << "the same when a key's time has passed";
  settle();
  EXPECT_THAT(ran, SizeIs(2 * kKeys));
}

TEST_P(FlowStartContract, OfManyInputsUnderOneKeyOneWinsAndTheOthersHearWhich) {
  constexpr int kThreads = 6;
  add_flow(kOne, kByOrder);
  std::atomic<int> won{0};
  std::vector<std::string> told(kThreads);
  at_once(kThreads, [&](int thread) {
    const auto started = try_start(R"({"order":{"id":7},"from":)" + std::to_string(thread) + "}");
    std::string& run = told[static_cast<std::size_t>(thread)];
    if (started) {
      ++won;
      run = started->run;
    } else if (started.error().conflict) {
      EXPECT_THAT(started.error().conflict->differs.value(), ElementsAre("$.from"));
      run = started.error().conflict->id;
    }
  });
  EXPECT_EQ(won, 1);
  EXPECT_THAT(told, ::testing::Each(told[0]));
  EXPECT_EQ(runs(), 1U);
}

using FlowStartTooLargeContract = FlowStartContract;
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FlowStartTooLargeContract);
INSTANTIATE_TEST_SUITE_P(SmallMessages, FlowStartTooLargeContract,
                         ::testing::ValuesIn(stores_of_small_messages()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(FlowStartTooLargeContract, ARunThatTheStoreCannotTakeLeavesItsKeyFree) {
  add_flow(kOne, kByOrder);
  const auto refused =
      try_start(R"({"order":{"id":7},"text":")" + std::string(100'000, 'x') + "\"}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_FALSE(refused.error().in_doubt);
  EXPECT_THAT(refused.error().message, HasSubstr("nothing was started"));
  EXPECT_EQ(runs(), 0U);
  EXPECT_TRUE(starts(R"({"order":{"id":7}})"));
  settle();
  EXPECT_THAT(ran, SizeIs(1));
}

}  // namespace
}  // namespace once::contract
