// What happens to runs, written to the log: an event is one entry, whoever writes it and however often.
#include "flow/event_log.h"

#include <gmock/gmock.h>

#include <thread>

#include "once/testing.h"
#include "store/memory/memory_store.h"
#include "support/faulty_store.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;
using core::AppendVerdict;
using core::FlowEvent;
using once::testing::Fault;
using once::testing::FaultPlan;
using once::testing::FaultyStore;
using once::testing::Seam;

FlowEvent ended(const std::string& run, const std::string& output) {
  return {.kind = FlowEvent::Kind::step,
          .run = run,
          .workflow = "payment",
          .step = "charge",
          .n = 1,
          .value = output};
}

class EventLogTest : public ::testing::Test {
 protected:
  AppendVerdict append(const FlowEvent& event) {
    return log_.append(EventLog::entry_of(event)).value().verdict;
  }

  std::shared_ptr<once::testing::VirtualClock> clock_ =
      std::make_shared<once::testing::VirtualClock>();
  FaultyStore store_{store::open_memory(clock_)};
  std::unique_ptr<Scheduler> scheduler_ = thread_scheduler();
  EventLog log_{store_, *scheduler_};
};

TEST_F(EventLogTest, AnEventIsOneEntryAndTheFirstIsRight) {
  EXPECT_EQ(append(ended("r", R"({"paid":12})")), AppendVerdict::accepted);
  EXPECT_EQ(append(ended("r", R"({"paid":12})")), AppendVerdict::duplicate);
  EXPECT_EQ(append(ended("r", R"({"paid":13})")), AppendVerdict::conflict);
  EXPECT_EQ(append(ended("s", R"({"paid":13})")), AppendVerdict::accepted);
  EXPECT_EQ(store_.read({}, 10, {})->size(), 2U);
}

TEST_F(EventLogTest, AnEventIsFoundAsItWasWrittenWithItsPlaceAndTime) {
  EXPECT_FALSE(log_.find("r.charge.ended.1").value());
  const Time at = store_.wall();
  FlowEvent event = ended("r", R"({"paid":12})");
  ASSERT_EQ(append(event), AppendVerdict::accepted);
  clock_->advance(1h);
  event.sequence = {1};
  event.at = at;
  EXPECT_EQ(log_.find("r.charge.ended.1").value(), event);
}

TEST_F(EventLogTest, ATimerWaitsInTheLog) {
  const FlowEvent timer{
      .kind = FlowEvent::Kind::timer, .run = "r", .workflow = "payment", .step = "cool", .n = 1};
  ASSERT_TRUE(log_.append(EventLog::entry_of(timer, 10min)));
  const auto entry = store_.find("r.cool.timer.1").value().value();
  EXPECT_EQ(entry.topic, "$once.flow.payment.timer");
  EXPECT_EQ(entry.delay, 10min);
}

TEST_F(EventLogTest, AnAppendWhoseAnswerWasLostIsSentAgain) {
  store_.set_plan(FaultPlan{}.on(Seam::append, 1, Fault::answer_lost));
  EXPECT_EQ(append(ended("r", "1")), AppendVerdict::accepted) << "its own entry is no duplicate";
  EXPECT_EQ(store_.faults(), 1U);
  EXPECT_EQ(store_.read({}, 10, {})->size(), 1U);
}

TEST_F(EventLogTest, ABatchIsAnsweredItemByItem) {
  std::vector<store::Append> items;
  for (const char* output : {"1", "1", "2"})
    items.push_back(EventLog::entry_of(ended("r", output)));
  items.push_back({.id = "r.charge", .topic = "pay.charge"});
  const auto answers = log_.append(std::move(items));
  std::vector<AppendVerdict> verdicts;
  for (const auto& answer : answers) verdicts.push_back(answer.value().verdict);
  EXPECT_THAT(verdicts, ::testing::ElementsAre(AppendVerdict::accepted, AppendVerdict::duplicate,
                                               AppendVerdict::conflict, AppendVerdict::accepted));
  EXPECT_TRUE(log_.append(std::vector<store::Append>{}).empty());
}

TEST_F(EventLogTest, OfManyWhoEndARunOneDoes) {
  constexpr int kEnders = 8;
  std::atomic<int> accepted = 0;
  std::atomic<int> refused = 0;
  {
    std::vector<std::jthread> enders;
    for (int i = 0; i < kEnders; ++i)
      enders.emplace_back([&, i] {
        const FlowEvent end{.kind = FlowEvent::Kind::ended,
                            .run = "r",
                            .workflow = "payment",
                            .n = 1,
                            .value = std::to_string(i)};
        ++(append(end) == AppendVerdict::accepted ? accepted : refused);
      });
  }
  EXPECT_EQ(accepted, 1);
  EXPECT_EQ(refused, kEnders - 1);
}

}  // namespace
}  // namespace once::engine
