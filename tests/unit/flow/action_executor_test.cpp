// Acts of a runner that another overtook.
#include "flow/action_executor.h"

#include <gmock/gmock.h>

#include "codec/digest.h"
#include "flow/definition/definition.h"
#include "once/testing.h"
#include "store/memory/memory_store.h"
#include "support/faulty_store.h"
#include "work/task_row.h"
#include "work/worker.h"

namespace once::engine {
namespace {

// Somebody comes between a look and the next write.
class OvertakenStore : public once::testing::FaultyStore {
 public:
  using FaultyStore::FaultyStore;
  std::vector<Result<store::SwapResult>> swap(std::span<const store::Swap> items) override {
    if (const auto first = std::exchange(before_swap, {})) first();
    return FaultyStore::swap(items);
  }
  std::function<void()> before_swap{};
};

class ActionExecutorTest : public ::testing::Test {
 protected:
  ActionExecutorTest() {
    run_store_.make_event_queue().value();
    store_->add_queue(queue_).value();
    state_.run = "order-1";
    state_.workflow = "order";
    state_.version = 1;
    state_.input = "1";
    state_.started = {1};
    state_.rounds[1].sequence = {1};
    run_store_.write(state_, {}).value();
  }

  Result<void> try_to(core::FlowAction action) {
    std::vector<ActionExecutor::Caused> caused;
    caused.push_back({.definition = definition_, .state = state_, .actions = {action}});
    return executor_.perform(std::move(caused)).front();
  }
  void perform(core::FlowAction action) { try_to(std::move(action)).value(); }
  // Runs one task as dead; false: there was none.
  bool work() {
    auto worker = Worker::make(*store_, *scheduler_,
                               {.queue = queue_,
                                .handler = [](const TaskAttempt&) -> Report {
                                  return {.outcome = Outcome::dead("no")};
                                },
                                .name = "worker"})
                      .value();
    return worker->run_one().value();
  }
  store::Row row() {
    return row_of(*store_, store_->find("order-1.pay").value().value(), queue_).value().value();
  }
  State state_of_task() { return row().stored->record.state; }
  void set_state(State state) {
    store::Swap swap{.at = address_of(row()),
                     .expected = row().stored->revision,
                     .record = row().stored->record};
    swap.record.state = state;
    swap.record.lease = std::chrono::minutes{1};
    swap.record.member = {};  // nobody who could be seen to be gone
    ASSERT_TRUE(store_->inner().swap(std::span(&swap, 1)).front()->written);
  }

  std::shared_ptr<once::testing::VirtualClock> clock_ =
      std::make_shared<once::testing::VirtualClock>();
  std::unique_ptr<OvertakenStore> store_ =
      std::make_unique<OvertakenStore>(store::open_memory(clock_));
  std::unique_ptr<Scheduler> scheduler_ = thread_scheduler();
  RunStore run_store_{*store_, *scheduler_};
  EventLog log_{*store_, *scheduler_};
  ActionExecutor executor_{*store_, *scheduler_, run_store_, log_};
  const Queue queue_{.name = "q", .topic = "do.*"};
  core::FlowDefinition definition_ = encoding::parse_definition(R"({"name":"order","output":"input",
                                     "steps":[{"id":"pay","task":"do.pay"}]})")
                                         ->definition;
  core::RunState state_{};
};

// Its run was retried and cancelled, and who handles the retry comes last.
TEST_F(ActionExecutorTest, ADeadStepThatIsCalledOffIsNotRetriedAnyMore) {
  perform(core::StartTask{.step = 0, .tries = {}});
  ASSERT_TRUE(work());
  ASSERT_EQ(state_of_task(), State::dead);
  perform(core::CallOff{0});
  EXPECT_EQ(state_of_task(), State::cancelled);
  perform(core::RetryTask{.step = 0, .round = 2, .n = 1, .tries = {}});
  EXPECT_FALSE(work());
  EXPECT_EQ(state_of_task(), State::cancelled);
}

// A worker claims it by a retry's order just when it is to be dropped.
TEST_F(ActionExecutorTest, AStepThatBeginsWhileItIsCalledOffIsToldToStop) {
  perform(core::StartTask{.step = 0, .tries = {}});
  ASSERT_TRUE(work());
  store_->before_swap = [&] { set_state(State::running); };
  perform(core::CallOff{0});
  EXPECT_TRUE(row().stored->record.cancel_asked);
}

// It dies just when it is to be cancelled.
TEST_F(ActionExecutorTest, AStepThatDiesWhileItIsCalledOffIsNoDeadLetter) {
  perform(core::StartTask{.step = 0, .tries = {}});
  ASSERT_TRUE(work());
  set_state(State::running);
  store_->before_swap = [&] { set_state(State::dead); };
  perform(core::CallOff{0});
  EXPECT_EQ(state_of_task(), State::cancelled);
}

// One that does not fit any more takes the place of the one that is given.
TEST_F(ActionExecutorTest, ARetryThatIsNotHeardIsGivenAgain) {
  perform(core::StartTask{.step = 0, .tries = {}});
  ASSERT_TRUE(work());
  const store::Wake stale{.sequence = row().entry.sequence,
                          .order = core::Order{.kind = core::Order::Kind::retry,
                                               .nonce = encoding::nonce_of(core::Digest{}),
                                               .claims = 7}};
  store_->wake("q", std::span(&stale, 1)).value();
  const core::RetryTask retry{.step = 0, .round = 2, .n = 1, .tries = {}};
  EXPECT_TRUE(try_to(retry).error().retryable);
  work();  // sees that it does not fit
  ASSERT_TRUE(try_to(retry));
  EXPECT_TRUE(work());
  EXPECT_EQ(row().stored->record.claims, 2U);
}

TEST_F(ActionExecutorTest, WhatRunnersDoTwiceIsNoDuplicateOfAnybody) {
  perform(core::StartTask{.step = 0, .tries = {}});
  perform(core::StartTask{.step = 0, .tries = {}});
  perform(core::CallOff{0});
  EXPECT_EQ(store_->find("order-1.pay").value()->duplicates, 0U);
}

TEST_F(ActionExecutorTest, AStepWithoutAQueueTakesNobodysPlace) {
  definition_.steps[0].rate = RateLimit{.limit = 1, .per = std::chrono::hours{1}};
  definition_.max_runs = 1;
  definition_.steps[0].topic = "late.pay";
  const auto held = try_to(core::StartTask{.step = 0, .tries = {}});
  EXPECT_THAT(held.error().message, ::testing::HasSubstr("step 'pay' waits: no queue takes topic"));
  definition_.steps[0].topic = "do.pay";
  state_.run = "order-2";
  perform(core::StartTask{.step = 0, .tries = {}});
  EXPECT_TRUE(store_->find("order-2.pay").value());
}

// Its run was cancelled before it could say that it is completed.
TEST_F(ActionExecutorTest, AnOutputThatWasPutAwayForAnEndThatDoesNotCountAges) {
  core::FlowEvent cancelled = core::event_in(state_, core::FlowEvent::Kind::ended, 1);
  cancelled.run_outcome = core::RunOutcome::cancelled;
  log_.append(EventLog::entry_of(cancelled)).value();
  state_.input = '"' + std::string(8'000, 'x') + '"';
  perform(
      core::EndRun{.round = 1, .outcome = core::RunOutcome::completed, .step = {}, .error = {}});
  const store::Key key{"value", RunStore::output_key("order-1", 1)};
  const auto kept = store_->key_values().get(std::span(&key, 1)).front().value();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->lives, store_->retention()->records);
}

// Who handles the start comes last.
TEST_F(ActionExecutorTest, AStepThatIsCalledOffBeforeItsStartIsNeverBegun) {
  perform(core::CallOff{0});
  perform(core::StartTask{.step = 0, .tries = {}});
  EXPECT_FALSE(work());
  EXPECT_EQ(state_of_task(), State::cancelled);
}

}  // namespace
}  // namespace once::engine
