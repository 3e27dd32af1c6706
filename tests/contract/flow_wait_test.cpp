// Steps that wait: for a time, a signal, a person; and how long a run may take.
#include <atomic>

#include "contract/flows.h"
#include "flow/definition/event.h"
#include "flow/event_log.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::string_view kNap =
    R"({"id":"nap","sleep":"10m"},{"id":"a","task":"do.a","depends_on":["nap"]})";
constexpr std::string_view kLate =
    R"({"id":"go","signal":"go","timeout":"1h"},{"id":"a","task":"do.a","depends_on":["go"]})";
constexpr std::string_view kAsk =
    R"({"id":"ok","approval":"Send it?"},)"
    R"({"id":"a","task":"do.a","depends_on":["ok"],"input":"steps.ok"})";

class FlowWaitContract : public FlowZone {
 protected:
  Result<SignalResult> signal(const std::string& run, std::string_view body = "null",
                              std::string_view id = "1", std::string_view name = "go") {
    return flows.signal(run, name, json(body), id);
  }
};
ONCE_FOR_EVERY_STORE(FlowWaitContract);

// --- Sleep ----------------------------------------------------------------------------------

TEST_P(FlowWaitContract, ASleepIsOverWhenItsTimeHasPassed) {
  add_flow(kNap);
  const std::string run = start();
  settle();
  EXPECT_EQ(phase(run), RunPhase::waiting);
  pass(10min - 1s);
  settle();
  EXPECT_THAT(ran, IsEmpty());
  pass(2s);
  settle();
  EXPECT_THAT(ran, ElementsAre("a"));
  EXPECT_EQ(phase(run), RunPhase::completed);
}

// --- Signals --------------------------------------------------------------------------------

TEST_P(FlowWaitContract, ASignalEndsTheStepThatWaitsForIt) {
  add_flow(kGoThenA);
  const std::string run = start();
  settle();
  EXPECT_EQ(phase(run), RunPhase::waiting);
  EXPECT_EQ(status(run, "go"), StepStatus::active);
  const auto unknown = signal(run, "1", "other", "stop");
  EXPECT_EQ(unknown.error().code, Code::not_found);
  EXPECT_THAT(unknown.error().message, HasSubstr("it waits for: go"));
  EXPECT_FALSE(signal(run, R"({"n":1})").value().receipt.duplicate);
  settle();
  EXPECT_EQ(given["a"], R"({"n":1})");
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowWaitContract, ASignalThatComesBeforeItsStepIsKeptForIt) {
  add_flow(R"({"id":"a","task":"do.a"},{"id":"go","signal":"go","depends_on":["a"]},)"
           R"({"id":"b","task":"do.b","depends_on":["go"],"input":"steps.go"})");
  const std::string run = start();
  signal(run, "1", "first").value();
  settle();
  EXPECT_THAT(ran, ElementsAre("a", "b"));
  EXPECT_EQ(given["b"], "1");
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowWaitContract, OfSeveralSignalsTheFirstOneCounts) {
  add_flow(kGoThenA);
  const std::string run = start();
  const SignalResult first = signal(run, "1", "first").value();
  EXPECT_TRUE(first.counts);
  const SignalResult second = signal(run, "2", "second").value();
  EXPECT_FALSE(second.counts) << "also before a runner has looked";
  EXPECT_EQ(second.first.id, "first");
  EXPECT_EQ(second.first.by, first.first.by);
  EXPECT_EQ(second.first.sequence, first.receipt.sequence);
  settle();
  EXPECT_EQ(given["a"], "1");
}

TEST_P(FlowWaitContract, ASignalHearsWhichOneOfItsNameCounts) {
  add_flow(R"({"id":"go","signal":"go"},{"id":"on","signal":"on"})");
  const std::string run = start();
  EXPECT_TRUE(flows.signal(run, "go", json("1"), "first", by).value().counts);
  settle();
  EXPECT_TRUE(signal(run, "1", "first").value().counts);
  const SignalResult later = signal(run, "2", "second").value();
  EXPECT_FALSE(later.counts);
  EXPECT_EQ(later.first.id, "first");
  EXPECT_EQ(later.first.by, "ann");
  EXPECT_TRUE(signal(run, "2", "on", "on").value().counts);
}

// Each sends its own body under its own id. The log is read afterwards, and says who was first.
TEST_P(FlowWaitContract, OfManyWhoSendASignalAtOnceOnlyTheFirstInTheLogIsToldThatItCounts) {
  constexpr int kSenders = 8;
  add_flow(kGoThenA);
  for (int round = 0; round < 5; ++round) {
    const std::string run = start(std::to_string(round));
    std::vector<SignalResult> told(kSenders);
    at_once(kSenders, [&](int i) {
      const std::string n = std::to_string(i);
      told[static_cast<std::size_t>(i)] = signal(run, n, n).value();
    });
    std::string first;
    std::uint64_t sequence = 0;
    for (const store::Entry& entry : impl->store->read({}, 1000, "$once.flow.w.signal").value()) {
      const auto event = encoding::decode_event(entry.id, entry.topic, *entry.body, entry.sequence,
                                                entry.published_at);
      if (event->run != run || !first.empty()) continue;
      first = event->signal_id;
      sequence = entry.sequence.value;
    }
    for (int i = 0; i < kSenders; ++i) {
      const SignalResult& answer = told[static_cast<std::size_t>(i)];
      EXPECT_EQ(answer.counts, first == std::to_string(i)) << first;
      EXPECT_EQ(answer.first.id, first);
      EXPECT_EQ(answer.first.sequence, sequence);
    }
    settle();
    EXPECT_EQ(given["a"], first);
  }
}

// Version 0.1 wrote each signal under an id of its own.
TEST_P(FlowWaitContract, ASignalOfVersion01CountsAndIsKnown) {
  add_flow(kGoThenA);
  const std::string run = start();
  core::FlowEvent old;
  old.kind = core::FlowEvent::Kind::signal;
  old.run = run;
  old.workflow = "w";
  old.signal = "go";
  old.signal_id = "old";
  old.value = "1";
  engine::EventLog(*impl->store, *impl->scheduler).append(engine::EventLog::entry_of(old)).value();
  settle();
  EXPECT_EQ(given["a"], "1");
  EXPECT_TRUE(signal(run, "1", "old").value().receipt.duplicate);
  EXPECT_EQ(signal(run, "2", "old").error().code, Code::conflicting_duplicate);
}

TEST_P(FlowWaitContract, AVerdictOrSignalAfterTheEndOfItsRunIsNotSaidToCount) {
  add_flow(R"({"id":"go","signal":"go"},{"id":"ok","approval":"Send it?"})");
  const std::string run = start();
  settle();
  flows.cancel(run, by).value();  // no runner has looked
  EXPECT_EQ(signal(run, "1").error().code, Code::wrong_state);
  EXPECT_EQ(flows.approve(run, "ok", true, by).error().code, Code::wrong_state);
}

TEST_P(FlowWaitContract, ASignalIsKnownByItsId) {
  add_flow(kGoThenA);
  const std::string run = start();
  EXPECT_FALSE(signal(run, "1").value().receipt.duplicate);
  EXPECT_TRUE(signal(run, "1").value().receipt.duplicate);
  const auto other = signal(run, "2");
  EXPECT_EQ(other.error().code, Code::conflicting_duplicate);
  settle();
  EXPECT_EQ(given["a"], "1");
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_TRUE(signal(run, "1").value().receipt.duplicate)
      << "who asks again hears that it was taken";
  EXPECT_EQ(signal(run, "1", "late").error().code, Code::wrong_state);
  EXPECT_EQ(flows.signal(run, "go", {}, "").error().code, Code::invalid_input);
}

TEST_P(FlowWaitContract, SignalsOfOtherNamesAreOtherSignals) {
  add_flow(R"({"id":"go","signal":"go"},{"id":"on","signal":"on"})");
  const std::string run = start();
  EXPECT_TRUE(signal(run, "1", "id", "on").value().counts);
  settle();
  EXPECT_EQ(status(run, "on"), StepStatus::completed);
  EXPECT_EQ(status(run, "go"), StepStatus::active);
  EXPECT_TRUE(signal(run, "2", "id", "go").value().counts);
}

TEST_P(FlowWaitContract, OfManyWhoSendOneSignalAtOnceOneIsTheFirst) {
  add_flow(kGoThenA);
  const std::string run = start();
  std::atomic<int> first{0};
  at_once(6, [&](int) {
    if (!signal(run, "1").value().receipt.duplicate) ++first;
  });
  EXPECT_EQ(first, 1);
  settle();
  EXPECT_THAT(ran, ElementsAre("a"));
}

TEST_P(FlowWaitContract, ASignalThatDoesNotComeInTimeFailsItsStep) {
  add_flow(kLate);
  const std::string run = start();
  settle();
  pass(1h + 1s);
  settle();
  EXPECT_EQ(status(run, "go"), StepStatus::failed);
  EXPECT_THAT(step_of(run, "go").why, HasSubstr("no signal 'go' within"));
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_THAT(ran, IsEmpty());

  EXPECT_THAT(flows.retry(run, by).value(), ElementsAre("go"));
  settle();
  EXPECT_EQ(phase(run), RunPhase::waiting) << "it waits anew";
  pass(30min);
  signal(run).value();
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowWaitContract, ASignalThatComesInTimeCallsItsTimerOff) {
  add_flow(kLate);
  const std::string run = start();
  settle();
  EXPECT_EQ(timers(), 1U);
  signal(run).value();
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_EQ(timers(), 0U);
}

TEST_P(FlowWaitContract, ASignalThatIsInTheLogBeforeARunnerSeesThatTheTimeIsUpCounts) {
  add_flow(kLate);
  const std::string run = start();
  settle();
  pass(1h + 1s);  // and no runner looks
  EXPECT_TRUE(signal(run).value().counts);
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed) << "as its sender was told";
  EXPECT_EQ(timers(), 0U);
}

TEST_P(FlowWaitContract, ASignalThatNoStepWaitsForAnyMoreIsRefused) {
  add_flow(R"({"id":"go","signal":"go","timeout":"1h","on_failure":"ok"},)"
           R"({"id":"ok","approval":"Go on without?"})");
  const std::string run = start();
  settle();
  pass(1h + 1s);
  settle();
  EXPECT_EQ(status(run, "go"), StepStatus::failed);
  EXPECT_EQ(phase(run), RunPhase::waiting) << "the run goes on";
  const auto late = signal(run);
  ASSERT_FALSE(late) << "it was told that it counts";
  EXPECT_EQ(late.error().code, Code::wrong_state);
  EXPECT_THAT(late.error().message,
              HasSubstr("no step of run '" + run + "' waits for signal 'go' any more"));
  EXPECT_THAT(late.error().message, HasSubstr("step 'go': no signal 'go' within"));
  EXPECT_THAT(late.error().message, HasSubstr("nothing was changed"));
  EXPECT_THAT(impl->store->read({}, 1000, "$once.flow.w.signal").value(), IsEmpty());
}

TEST_P(FlowWaitContract, ASignalForAStepThatIsSkippedIsRefused) {
  add_flow(R"({"id":"go","signal":"go","skip_if":{"path":"input.quick","equals":true}},)"
           R"({"id":"ok","approval":"Send it?"})");
  const std::string run = start(R"({"quick":true})");
  settle();
  EXPECT_EQ(status(run, "go"), StepStatus::skipped);
  EXPECT_EQ(signal(run).error().code, Code::wrong_state);
}

// Two steps wait for one name. The signal counts while one of them does.
TEST_P(FlowWaitContract, ASignalCountsWhileAnyStepWaitsForItsName) {
  add_flow(R"({"id":"go","signal":"go","timeout":"1h","on_failure":"late"},)"
           R"({"id":"late","signal":"go"})");
  const std::string run = start();
  settle();
  pass(1h + 1s);
  settle();
  EXPECT_EQ(status(run, "go"), StepStatus::failed);
  EXPECT_TRUE(signal(run).value().counts);
  settle();
  EXPECT_EQ(status(run, "late"), StepStatus::completed);
}

// --- Approval -------------------------------------------------------------------------------

TEST_P(FlowWaitContract, AnApprovedStepIsCompleted) {
  add_flow(kAsk);
  const std::string run = start();
  settle();
  EXPECT_EQ(phase(run), RunPhase::waiting);
  EXPECT_FALSE(flows.approve(run, "ok", true, by).value().duplicate);
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_EQ(json(given["a"]).at("approved").value(), "true");
  EXPECT_EQ(json(given["a"]).at("by").value(), "ann");
  EXPECT_EQ(json(given["a"]).at("why").value(), "she looked");
}

TEST_P(FlowWaitContract, ARejectedStepHasFailed) {
  add_flow(kAsk);
  const std::string run = start();
  settle();
  EXPECT_FALSE(flows.approve(run, "ok", false, by).value().approved);
  const Approved again = flows.approve(run, "ok", false, {.who = "bob"}).value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.by, "ann") << "who was first";
  settle();
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_THAT(step_of(run, "ok").why, HasSubstr("rejected by ann"));
  EXPECT_THAT(step_of(run, "ok").why, HasSubstr("she looked"));
  EXPECT_THAT(ran, IsEmpty());
}

TEST_P(FlowWaitContract, TheFirstVerdictStands) {
  add_flow(kAsk);
  const std::string run = start();
  settle();
  const Approved first = flows.approve(run, "ok", true, by).value();
  EXPECT_TRUE(first.approved);
  EXPECT_EQ(first.by, "ann");
  for (int i = 0; i < 2; ++i) {
    const Approved again = flows.approve(run, "ok", true, {.who = "bob"}).value();
    EXPECT_TRUE(again.duplicate);
    EXPECT_EQ(again.by, "ann");
    EXPECT_EQ(flows.approve(run, "ok", false, {.who = "bob"}).error().code,
              Code::conflicting_duplicate);
    settle();  // and the same when the run went on from it
  }
  EXPECT_EQ(phase(run), RunPhase::completed);
}

TEST_P(FlowWaitContract, OfTwoVerdictsAtOnceOneStands) {
  add_flow(kAsk);
  const std::string run = start();
  settle();
  std::atomic<int> yes{0};
  std::atomic<int> no{0};
  at_once(6, [&](int thread) {
    const bool verdict = thread % 2 == 0;
    const auto said =
        flows.approve(run, "ok", verdict, {.who = "person " + std::to_string(thread)});
    if (said && !said->duplicate) ++(verdict ? yes : no);
    EXPECT_TRUE(said || said.error().code == Code::conflicting_duplicate);
  });
  EXPECT_EQ(yes + no, 1);
  settle();
  EXPECT_EQ(phase(run), yes == 1 ? RunPhase::completed : RunPhase::failed);
}

TEST_P(FlowWaitContract, OnlyAStepThatWaitsForItIsApproved) {
  add_flow(R"({"id":"a","task":"do.a"},{"id":"ok","approval":"Send it?","depends_on":["a"]})");
  const std::string run = start();
  EXPECT_TRUE(drive());
  EXPECT_EQ(flows.approve(run, "ok", true, by).error().code, Code::wrong_state) << "not yet";
  EXPECT_EQ(flows.approve(run, "a", true, by).error().code, Code::wrong_state) << "a task";
  EXPECT_EQ(flows.approve(run, "nowhere", true, by).error().code, Code::not_found);
  flows.cancel(run, by).value();
  settle();
  EXPECT_EQ(flows.approve(run, "ok", true, by).error().code, Code::wrong_state) << "it is over";
}

TEST_P(FlowWaitContract, AnApprovalThatNobodyGivesInTimeHasFailed) {
  add_flow(R"({"id":"ok","approval":"Send it?","timeout":"3d"})");
  const std::string run = start();
  settle();
  pass(24h * 3 + 1s);
  settle();
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_THAT(step_of(run, "ok").why, HasSubstr("nobody approved or rejected it"));
}

// --- The run's own time ---------------------------------------------------------------------

TEST_P(FlowWaitContract, ARunThatTakesTooLongHasFailedAndNothingMoreIsBegun) {
  add_flow(R"({"id":"a","task":"do.a"},{"id":"b","task":"do.b","depends_on":["a"]})",
           R"("timeout":"1h")");
  const std::string run = start();
  while (drive()) continue;
  pass(1h + 1s);
  while (drive()) continue;
  EXPECT_EQ(phase(run), RunPhase::failed);
  EXPECT_THAT(show(run).info.error, HasSubstr("not finished within"));
  EXPECT_EQ(status(run, "b"), StepStatus::unreached);
  settle();
  EXPECT_THAT(ran, IsEmpty());
  EXPECT_EQ(flows.retry(run, by).error().code, Code::wrong_state) << "its steps were called off";
}

TEST_P(FlowWaitContract, ARunThatEndsInTimeCallsItsTimerOff) {
  add_flow(kGoThenA, R"("timeout":"1h")");
  const std::string run = start();
  settle();
  EXPECT_EQ(timers(), 1U);
  signal(run).value();
  settle();
  EXPECT_EQ(timers(), 0U);
  pass(2h);
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
}

}  // namespace
}  // namespace once::contract
