// Acts of a runner that another overtook.
#include "engine/flow_acts.h"

#include <gmock/gmock.h>

#include "encoding/flow_definition.h"
#include "engine/task_row.h"
#include "engine/worker.h"
#include "once/testing.h"
#include "store/memory/memory_store.h"

namespace once::engine {
namespace {

class FlowActsTest : public ::testing::Test {
 protected:
  FlowActsTest() {
    book_.make_queues().value();
    store_->add_queue(queue_).value();
    state_.run = "order-1";
    state_.workflow = "order";
    state_.version = 1;
    state_.input = "1";
    state_.started = {1};
    state_.rounds[1].sequence = {1};
    book_.write(state_, {}).value();
  }

  void perform(core::FlowAction action) {
    acts_.perform(definition_, state_, {action}, true).value();
  }
  // Runs one task as dead; false: there was none.
  bool work() {
    auto worker = Worker::make(*store_, *scheduler_,
                               {.queue = queue_,
                                .handler = [](const Assignment&) -> Report {
                                  return {.outcome = Outcome::dead("no")};
                                },
                                .name = "worker"})
                      .value();
    return worker->run_one().value();
  }
  State state_of_task() {
    const auto entry = store_->find("order-1.pay").value();
    return row_of(*store_, *entry, queue_).value()->stored->record.state;
  }

  std::shared_ptr<once::testing::VirtualClock> clock_ =
      std::make_shared<once::testing::VirtualClock>();
  std::unique_ptr<store::Store> store_ = store::open_memory(clock_);
  std::unique_ptr<Scheduler> scheduler_ = thread_scheduler();
  FlowBook book_{*store_, *scheduler_};
  FlowLog log_{*store_, *scheduler_};
  FlowActs acts_{*store_, *scheduler_, book_, log_};
  const Queue queue_{.name = "q", .topic = "do.*"};
  const core::FlowDefinition definition_ =
      encoding::parse_definition(R"({"name":"order","steps":[{"id":"pay","task":"do.pay"}]})")
          ->definition;
  core::RunState state_{};
};

// Its run was retried and cancelled, and who handles the retry comes last.
TEST_F(FlowActsTest, ADeadStepThatIsCalledOffIsNotRetriedAnyMore) {
  perform(core::StartTask{.step = 0, .tries = {}});
  ASSERT_TRUE(work());
  ASSERT_EQ(state_of_task(), State::dead);
  perform(core::CallOff{0});
  EXPECT_EQ(state_of_task(), State::cancelled);
  perform(core::RetryTask{.step = 0, .round = 2, .n = 1, .tries = {}});
  EXPECT_FALSE(work());
  EXPECT_EQ(state_of_task(), State::cancelled);
}

// Who handles the start comes last.
TEST_F(FlowActsTest, AStepThatIsCalledOffBeforeItsStartIsNeverBegun) {
  perform(core::CallOff{0});
  perform(core::StartTask{.step = 0, .tries = {}});
  EXPECT_FALSE(work());
  EXPECT_EQ(state_of_task(), State::cancelled);
}

}  // namespace
}  // namespace once::engine
