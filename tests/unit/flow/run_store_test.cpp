// What workflows keep: written over what was read, found again, and never changed by who came second.
#include "flow/run_store.h"

#include <gmock/gmock.h>

#include <thread>

#include "once/testing.h"
#include "store/memory/memory_store.h"
#include "support/faulty_store.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;
using core::Revision;
using core::RunOutcome;
using core::RunState;
using once::testing::Fault;
using once::testing::FaultPlan;
using once::testing::FaultyStore;
using once::testing::Seam;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

encoding::ParsedDefinition parsed(const std::string& name, std::uint32_t version,
                                  const std::string& topic = "pay.charge") {
  return encoding::parse_definition(R"({"name":")" + name + R"(","version":)" +
                                    std::to_string(version) +
                                    R"(,"steps":[{"id":"charge","task":")" + topic + R"("}]})")
      .value();
}

// A run of so many rounds, each with its end; none: it goes on.
RunState run_of(const std::string& run, std::vector<std::optional<RunOutcome>> rounds = {{}}) {
  RunState state{.run = run,
                 .workflow = "payment",
                 .version = 1,
                 .key = "order-17",
                 .input = R"({"order":17})",
                 .started = {3},
                 .started_at = Time{1h}};
  std::uint32_t number = 0;
  for (const auto& outcome : rounds) {
    core::FlowRound round{.sequence = {3 + 10 * number}, .at = Time{1h + number * 1min}};
    if (outcome)
      round.ended = core::EndFact{.outcome = *outcome,
                                  .error = *outcome == RunOutcome::completed ? "" : "no money",
                                  .sequence = {4 + 10 * number},
                                  .at = round.at + 30s};
    state.rounds[++number] = round;
  }
  return state;
}

class RunStoreTest : public ::testing::Test {
 protected:
  RunStoreTest() { run_store_.make_event_queue().value(); }

  std::shared_ptr<once::testing::VirtualClock> clock_ =
      std::make_shared<once::testing::VirtualClock>();
  FaultyStore store_{store::open_memory(clock_)};
  std::unique_ptr<Scheduler> scheduler_ = thread_scheduler();
  RunStore run_store_{store_, *scheduler_};
};

// --- Lost writes --------------------------------------------------------------------------------

TEST_F(RunStoreTest, AWriteThatWasLostIsSentAgain) {
  // Of a batch of one, half is nothing.
  const auto lost = store_.calls(Seam::write_values) + 1;
  store_.set_plan(FaultPlan{}.on(Seam::write_values, lost, Fault::half_done));
  ASSERT_TRUE(run_store_.put_value("payment-1.charge.1", R"({"paid":true})"));
  EXPECT_EQ(run_store_.value("payment-1.charge.1").value(), R"({"paid":true})");
}

TEST_F(RunStoreTest, AWriteThatIsLostAgainAndAgainStaysInDoubt) {
  FaultPlan plan;
  for (std::uint64_t call = 1; call < 20; ++call)
    plan.on(Seam::write_values, store_.calls(Seam::write_values) + call, Fault::half_done);
  store_.set_plan(plan);
  const auto put = run_store_.put_value("payment-1.charge.1", R"({"paid":true})");
  ASSERT_FALSE(put) << "a step would go on without its output";
  EXPECT_TRUE(put.error().in_doubt);
}

// --- Queues -------------------------------------------------------------------------------------

TEST_F(RunStoreTest, TheQueueOfEventsIsMadeOnceAndMayBeSet) {
  ASSERT_EQ(store_.queues()->size(), 1U);
  const Queue flow = store_.queues()->front();
  EXPECT_EQ(flow.name, "once-flow");
  Queue paused = flow;
  paused.paused = true;
  ASSERT_TRUE(store_.set_queue(paused, flow).value());
  EXPECT_TRUE(run_store_.make_event_queue());
  EXPECT_EQ(store_.queues()->front(), paused);
}

TEST_F(RunStoreTest, AQueueOfAnothersUnderItsNameIsNotTaken) {
  FaultyStore other(store::open_memory(clock_));
  ASSERT_TRUE(other.add_queue({.name = "once-flow", .topic = "runs.>"})->added);
  RunStore run_store(other, *scheduler_);
  const auto made = run_store.make_event_queue();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::queue_mismatch);
  EXPECT_THAT(made.error().message, HasSubstr("'once-flow'"));
}

// --- Definitions --------------------------------------------------------------------------------

TEST_F(RunStoreTest, ADefinitionIsAddedOnceAndDoesNotChange) {
  EXPECT_TRUE(run_store_.add(parsed("payment", 1)).value());
  EXPECT_FALSE(run_store_.add(parsed("payment", 1)).value()) << "the same again";
  const auto other = run_store_.add(parsed("payment", 1, "pay.later"));
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::conflicting_duplicate);
  EXPECT_EQ(other.error().message,
            "workflow 'payment' version 1 exists with another definition ($.steps.charge.task); "
            "nothing was added: give it version 2");
  ASSERT_TRUE(other.error().conflict);
  EXPECT_EQ(other.error().conflict->id, "payment@1");
  EXPECT_THAT(other.error().conflict->differs.value(), ElementsAre("$.steps.charge.task"));
  EXPECT_EQ(run_store_.definition("payment", 1).value()->steps.at(0).topic, "pay.charge");
}

TEST_F(RunStoreTest, TheVersionToTakeIsBehindTheNewest) {
  for (const std::uint32_t version : {1U, 7U}) run_store_.add(parsed("payment", version)).value();
  EXPECT_THAT(run_store_.add(parsed("payment", 1, "other")).error().message,
              HasSubstr("give it version 8"));
}

TEST_F(RunStoreTest, TheNewestIsTheHighestVersionOfThatVeryName) {
  for (const std::uint32_t version : {9U, 10U, 2U}) run_store_.add(parsed("pay", version)).value();
  for (const char* name : {"pa", "pay-2", "payment", "pay_"})
    run_store_.add(parsed(name, 4'000)).value();
  EXPECT_EQ(run_store_.newest("pay").value()->version, 10U);
  EXPECT_EQ(run_store_.newest("pa").value()->name, "pa");
  for (const char* name : {"p", "pay-", "paymen", "Pay"}) {
    const auto none = run_store_.newest(name);
    ASSERT_FALSE(none) << name;
    EXPECT_EQ(none.error().code, Code::not_found);
    EXPECT_EQ(none.error().reason, Reason::no_workflow);
    EXPECT_EQ(none.error().facts["workflow"], name);
  }
  EXPECT_EQ(run_store_.definition("pay", 3).error().code, Code::not_found);
  EXPECT_THAT(run_store_.definition("pay", 3).error().message, HasSubstr("'pay' of version 3"));
  EXPECT_EQ(run_store_.definitions()->size(), 7U);
}

TEST_F(RunStoreTest, WhatIsAddedHereIsTheNewestAtOnce) {
  run_store_.add(parsed("payment", 1)).value();
  EXPECT_EQ(run_store_.newest("payment").value()->version, 1U);
  run_store_.add(parsed("payment", 2)).value();
  EXPECT_EQ(run_store_.newest("payment").value()->version, 2U);
}

TEST_F(RunStoreTest, ADefinitionIsReadOnce) {
  run_store_.add(parsed("payment", 1)).value();
  const auto first = run_store_.definition("payment", 1).value();
  const auto calls = store_.calls(Seam::get_values);
  EXPECT_EQ(run_store_.definition("payment", 1).value(), first);
  EXPECT_EQ(store_.calls(Seam::get_values), calls);
}

// --- Runs ---------------------------------------------------------------------------------------

TEST_F(RunStoreTest, ARunIsReadBackAsItWasWritten) {
  EXPECT_FALSE(run_store_.run("r").value());
  const RunState state = run_of("r");
  EXPECT_TRUE(run_store_.write(state, {})->written);
  const auto known = run_store_.run("r").value().value();
  EXPECT_EQ(known.state, state);
  EXPECT_TRUE(run_store_.write(run_of("r", {RunOutcome::completed}), known.revision)->written);
  EXPECT_EQ(run_store_.run("r").value()->state, run_of("r", {RunOutcome::completed}));
}

TEST_F(RunStoreTest, WhoIsSecondIsToldWhatIsThere) {
  ASSERT_TRUE(run_store_.write(run_of("r"), {})->written);
  const Revision first = run_store_.run("r").value()->revision;
  ASSERT_TRUE(run_store_.write(run_of("r", {RunOutcome::completed}), first)->written);
  for (const Revision expected : {Revision{}, first}) {
    const auto refused = run_store_.write(run_of("r", {RunOutcome::cancelled}), expected).value();
    EXPECT_FALSE(refused.written);
    EXPECT_EQ(refused.current->state, run_of("r", {RunOutcome::completed}));
    EXPECT_EQ(refused.current->revision, run_store_.run("r").value()->revision);
  }
}

TEST_F(RunStoreTest, AnAnswerThatWasLostIsReadBack) {
  store_.set_plan(
      FaultPlan{}.on(Seam::write_values, store_.calls(Seam::write_values) + 1, Fault::answer_lost));
  EXPECT_TRUE(run_store_.write(run_of("r"), {})->written);
  EXPECT_EQ(store_.faults(), 1U);
  EXPECT_TRUE(run_store_.run("r").value());
}

TEST_F(RunStoreTest, ARunWhoseWriteWasLostIsWrittenAgain) {
  store_.set_plan(
      FaultPlan{}.on(Seam::write_values, store_.calls(Seam::write_values) + 1, Fault::half_done));
  EXPECT_TRUE(run_store_.write(run_of("r"), {})->written);
  EXPECT_EQ(store_.faults(), 1U);
  EXPECT_EQ(run_store_.run("r").value()->state, run_of("r"));
}

// Somebody was first, and the refusal got lost: what is there is not ours.
TEST_F(RunStoreTest, AnAnswerThatWasLostDoesNotStandForWhatAnotherWrote) {
  ASSERT_TRUE(run_store_.write(run_of("r"), {})->written);
  store_.set_plan(
      FaultPlan{}.on(Seam::write_values, store_.calls(Seam::write_values) + 1, Fault::answer_lost));
  const auto lost = run_store_.write(run_of("r", {RunOutcome::completed}), {}).value();
  EXPECT_EQ(store_.faults(), 1U);
  EXPECT_FALSE(lost.written);
  EXPECT_EQ(lost.current->state, run_of("r"));
}

TEST_F(RunStoreTest, AFailureIsAFailure) {
  store_.set_plan(
      FaultPlan{}.on(Seam::write_values, store_.calls(Seam::write_values) + 1, Fault::fails));
  const auto failed = run_store_.write(run_of("r"), {});
  ASSERT_FALSE(failed);
  EXPECT_TRUE(failed.error().retryable);
  EXPECT_FALSE(run_store_.run("r").value());
}

// As runners do it: read, add a fact, write over what was read.
TEST_F(RunStoreTest, ManyWriteToOneRunAndNoFactIsLost) {
  constexpr std::uint32_t kWriters = 8;
  constexpr std::uint32_t kFacts = 10;
  ASSERT_TRUE(run_store_.write(run_of("r"), {})->written);
  const auto add_facts = [&](std::uint32_t writer) {
    for (std::uint32_t n = 1; n <= kFacts; ++n) {
      auto known = run_store_.run("r").value().value();
      while (true) {
        known.state.steps["step-" + std::to_string(writer)][n] = {.sequence = {n}};
        auto answer = run_store_.write(known.state, known.revision).value();
        if (answer.written) break;
        known = std::move(*answer.current);
      }
    }
  };
  {
    std::vector<std::jthread> writers;
    for (std::uint32_t writer = 0; writer < kWriters; ++writer)
      writers.emplace_back([&, writer] { add_facts(writer); });
  }
  const auto known = run_store_.run("r").value().value();
  ASSERT_EQ(known.state.steps.size(), kWriters);
  for (const auto& [step, facts] : known.state.steps) EXPECT_EQ(facts.size(), kFacts) << step;
}

TEST_F(RunStoreTest, ARunThatCompletedOrWasCancelledExpiresAndAFailedOneStays) {
  const Duration kept = store_.retention()->records;
  for (const RunOutcome end :
       {RunOutcome::completed, RunOutcome::cancelled, RunOutcome::failed, RunOutcome::timed_out})
    ASSERT_TRUE(run_store_.write(run_of(std::string(to_string(end)), {end}), {})->written);
  ASSERT_TRUE(run_store_.write(run_of("active"), {})->written);
  const auto found = [&](RunStore::Which which) {
    std::vector<std::string> runs;
    const auto read = run_store_.each_run(
        which,
        [&](const KnownRun& known) -> Result<bool> {
          runs.push_back(known.state.run);
          return true;
        },
        [](const std::string& run, const Error& why) { ADD_FAILURE() << run << why.message; });
    EXPECT_TRUE(read);
    return runs;
  };
  EXPECT_EQ(found(RunStore::Which::all).size(), 5U);
  EXPECT_THAT(found(RunStore::Which::open), UnorderedElementsAre("active", "failed", "timed_out"));
  clock_->advance(kept - 1ms);
  EXPECT_TRUE(run_store_.run("completed").value());
  clock_->advance(1ms);
  EXPECT_FALSE(run_store_.run("completed").value());
  EXPECT_FALSE(run_store_.run("cancelled").value());
  EXPECT_THAT(found(RunStore::Which::all), UnorderedElementsAre("active", "failed", "timed_out"));
}

TEST_F(RunStoreTest, SaysWhetherAnyRunIsActive) {
  EXPECT_FALSE(run_store_.any_active().value());
  ASSERT_TRUE(run_store_.write(run_of("a"), {})->written);
  ASSERT_TRUE(run_store_.write(run_of("b"), {})->written);
  ASSERT_TRUE(run_store_.write(run_of("c", {RunOutcome::failed}), {})->written);
  EXPECT_TRUE(run_store_.any_active().value());
  for (const char* run : {"a", "b"}) {
    EXPECT_TRUE(run_store_.any_active().value()) << run;
    const auto known = run_store_.run(run).value().value();
    ASSERT_TRUE(run_store_.write(run_of(run, {RunOutcome::completed}), known.revision)->written);
  }
  EXPECT_FALSE(run_store_.any_active().value());
}

// --- Keys ---------------------------------------------------------------------------------------

TEST_F(RunStoreTest, AKeyHasOneRun) {
  const StartKey mine{.run = "payment-1", .version = 3, .input = R"({"order":17})"};
  EXPECT_FALSE(run_store_.key("payment", "order-17").value());
  EXPECT_TRUE(run_store_.write("payment", "order-17", mine, {})->written);
  const StartKey theirs{.run = "payment-2", .version = 4, .input = "[]"};
  const auto refused = run_store_.write("payment", "order-17", theirs, {}).value();
  EXPECT_FALSE(refused.written);
  EXPECT_EQ(refused.current->run, "payment-1");
  EXPECT_EQ(refused.current->version, 3U);
  EXPECT_EQ(refused.current->input, R"({"order":17})");
  EXPECT_FALSE(refused.current->ended);
  EXPECT_TRUE(run_store_.write("refund", "order-17", theirs, {})->written) << "of another workflow";
}

TEST_F(RunStoreTest, TheTimeOfAKeyBeginsWhenItsRunEnds) {
  const StartKey going{.run = "payment-1", .version = 1, .input = "null"};
  ASSERT_TRUE(run_store_.write("payment", "k", going, {})->written);
  const Revision first = run_store_.key("payment", "k").value()->revision;
  clock_->advance(1h);
  StartKey ended = going;
  ended.ended = core::StoreTime{};
  const core::StoreTime now = store_.now();
  ASSERT_TRUE(run_store_.write("payment", "k", ended, first)->written);
  clock_->advance(1h);
  EXPECT_EQ(run_store_.key("payment", "k").value()->ended, now)
      << "by the store, whatever is given";
  EXPECT_TRUE(run_store_.write("payment", "k", ended, first)->written) << "it says so already";
  EXPECT_EQ(run_store_.key("payment", "k").value()->ended, now) << "and since then";
  EXPECT_FALSE(run_store_.write("payment", "k", going, first)->written) << "it has ended";

  const Revision last = run_store_.key("payment", "k").value()->revision;
  const StartKey next{.run = "payment-2", .version = 1, .input = "null"};
  EXPECT_TRUE(run_store_.write("payment", "k", next, last)->written);
  EXPECT_FALSE(run_store_.write("payment", "k", ended, last)->written) << "it is another's by now";
  EXPECT_EQ(run_store_.key("payment", "k").value()->run, "payment-2");
}

TEST_F(RunStoreTest, AKeyWhoseAnswerWasLostIsKnownByItsRun) {
  store_.set_plan(
      FaultPlan{}.on(Seam::write_values, store_.calls(Seam::write_values) + 1, Fault::answer_lost));
  const StartKey mine{.run = "payment-1", .version = 3, .input = "{}"};
  EXPECT_TRUE(run_store_.write("payment", "k", mine, {})->written);
  EXPECT_EQ(store_.faults(), 1U);
}

TEST_F(RunStoreTest, AKeyExpiresWhenItsRunHasEndedLongAgo) {
  StartKey key{.run = "payment-1", .version = 1, .input = "null"};
  ASSERT_TRUE(run_store_.write("payment", "k", key, {})->written);
  clock_->advance(store_.retention()->records * 2);
  ASSERT_TRUE(run_store_.key("payment", "k").value()) << "while its run goes on it stays";
  key.ended = core::StoreTime{};
  const Revision revision = run_store_.key("payment", "k").value()->revision;
  ASSERT_TRUE(run_store_.write("payment", "k", key, revision)->written);
  clock_->advance(store_.retention()->records);
  EXPECT_FALSE(run_store_.key("payment", "k").value());
}

TEST_F(RunStoreTest, AKeyThatIsGivenBackIsFree) {
  const StartKey mine{.run = "payment-1", .version = 1, .input = "null"};
  ASSERT_TRUE(run_store_.write("payment", "k", mine, {})->written);
  const Revision revision = run_store_.key("payment", "k").value()->revision;
  ASSERT_TRUE(run_store_.free_key("payment", "k", revision));
  EXPECT_FALSE(run_store_.key("payment", "k").value());
  const StartKey next{.run = "payment-2", .version = 1, .input = "null"};
  ASSERT_TRUE(run_store_.write("payment", "k", next, {})->written);
  ASSERT_TRUE(run_store_.free_key("payment", "k", revision)) << "of an older revision";
  EXPECT_EQ(run_store_.key("payment", "k").value()->run, "payment-2");
}

}  // namespace
}  // namespace once::engine
