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
  EXPECT_TRUE(starts(R"({"order":{"id":"7","total":2}})")) << "a text is no number";
  EXPECT_EQ(runs(), 3U);
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

}  // namespace
}  // namespace once::contract
