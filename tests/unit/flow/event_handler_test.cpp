// Batches of events: how many store calls they make, and that one event or one failure does not hold up the
// others.
#include "flow/event_handler.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "flow/definition/definition.h"
#include "flow/definition/event.h"
#include "flow/starter.h"
#include "once/testing.h"
#include "store/memory/memory_store.h"
#include "support/faulty_store.h"

namespace once::engine {
namespace {

using once::testing::Fault;
using once::testing::FaultPlan;
using once::testing::Seam;
using ::testing::Each;
using ::testing::ElementsAre;
using Kind = Outcome::Kind;

class EventHandlerTest : public ::testing::Test {
 protected:
  EventHandlerTest() {
    run_store_.make_event_queue().value();
    store_.add_queue({.name = "steps", .topic = "do.*"}).value();
    run_store_
        .add(
            encoding::parse_definition(
                R"({"name":"w","idempotency_key":"n","steps":[{"id":"a","task":"do.a"},)"
                R"({"id":"b","task":"do.b"},)"
                R"({"id":"c","task":"do.c","depends_on":["a","b"],"rate":{"limit":1,"per":"1m"}}]})")
                .value())
        .value();
  }

  std::string start(int n) {
    const std::string input = "{\"n\":" + std::to_string(n) + "}";
    return starter_.start({.workflow = "w", .input = Body::json(input).value()}).value().run;
  }
  // The event that a step has ended.
  store::Append ended(const std::string& run, const std::string& step, std::string value = "1") {
    core::FlowEvent event;
    event.kind = core::FlowEvent::Kind::step;
    event.run = run;
    event.workflow = "w";
    event.step = step;
    event.n = 1;
    event.value = std::move(value);
    return EventLog::entry_of(event);
  }
  void append(std::vector<store::Append> items) {
    for (const auto& answer : log_.append(std::move(items))) answer.value();
  }
  // Handles all events of the log that were not handled yet, as one batch.
  std::vector<Kind> handle(std::stop_token stop = {}) {
    std::vector<Task> tasks;
    const auto entries = store_.inner().read(handled_, 1000, "$once.flow.>").value();
    for (const store::Entry& entry : entries)
      tasks.push_back({.topic = entry.topic, .id = entry.id, .body = *entry.body});
    std::vector<TaskAttempt> attempts;
    for (std::size_t i = 0; i < tasks.size(); ++i)
      attempts.push_back({.task = tasks[i], .sequence = entries[i].sequence, .stop = stop});
    std::vector<Kind> kinds;
    for (const Report& report : handler_.handle(attempts)) kinds.push_back(report.outcome.kind());
    if (std::count(kinds.begin(), kinds.end(), Kind::completed) == std::ssize(kinds))
      handled_ = entries.back().sequence;
    return kinds;
  }
  std::uint64_t calls(Seam seam) { return store_.calls(seam); }
  bool is_in_log(const std::string& id) { return store_.inner().find(id).value().has_value(); }

  std::shared_ptr<once::testing::VirtualClock> clock_ =
      std::make_shared<once::testing::VirtualClock>();
  once::testing::FaultyStore store_{store::open_memory(clock_)};
  std::unique_ptr<Scheduler> scheduler_ = thread_scheduler();
  RunStore run_store_{store_, *scheduler_};
  EventLog log_{store_, *scheduler_};
  FlowStarter starter_{store_, *scheduler_, run_store_, log_};
  EventHandler handler_{store_, *scheduler_, run_store_, log_};
  core::Sequence handled_{};
};

TEST_F(EventHandlerTest, ABatchIsOneWriteOfFactsAndOneAppend) {
  std::vector<store::Append> ends;
  for (int n = 0; n < 20; ++n) {
    const std::string run = start(n);
    ends.push_back(ended(run, "a"));
  }
  EXPECT_THAT(handle(), Each(Kind::completed));
  append(std::move(ends));
  const std::uint64_t writes = calls(Seam::write_values);
  const std::uint64_t appends = calls(Seam::append);
  EXPECT_THAT(handle(), Each(Kind::completed));
  EXPECT_EQ(calls(Seam::write_values) - writes, 1U);
  EXPECT_EQ(calls(Seam::append) - appends, 0U) << "nothing can start before b has ended";
}

TEST_F(EventHandlerTest, TwoEventsOfOneRunStartTheStepThatNeedsBothOnce) {
  const std::string run = start(1);
  EXPECT_THAT(handle(), ElementsAre(Kind::completed));
  append({ended(run, "a"), ended(run, "b")});
  const std::uint64_t appends = calls(Seam::append);
  EXPECT_THAT(handle(), ElementsAre(Kind::completed, Kind::completed));
  EXPECT_EQ(calls(Seam::append) - appends, 1U);
  EXPECT_TRUE(is_in_log(run + ".c"));
  EXPECT_EQ(store_.inner().find(run + ".c").value()->duplicates, 0U);
}

// Each of them would take a permit of a later window.
TEST_F(EventHandlerTest, TwoEventsOfOneRunAreSentAwayByARateOnce) {
  const std::string first = start(1);
  const std::string second = start(2);
  EXPECT_THAT(handle(), Each(Kind::completed));
  append({ended(first, "a"), ended(first, "b")});
  EXPECT_THAT(handle(), Each(Kind::completed));
  append({ended(second, "a"), ended(second, "b")});
  EXPECT_THAT(handle(), Each(Kind::completed));
  EXPECT_FALSE(is_in_log(second + ".c"));
  const auto note = run_store_.note("rate.w.c.60000").value();
  ASSERT_TRUE(note);
  const std::string& json = note->json;
  EXPECT_EQ(json.find(second), json.rfind(second)) << json;
}

TEST_F(EventHandlerTest, AStoreThatIsAwayFailsAllEventsWithOneCall) {
  for (int n = 0; n < 10; ++n) append({ended(start(n), "a")});
  store_.set_plan(FaultPlan{}.randomly(Seam::write_values, 1.0, Fault::fails, 1));
  const std::uint64_t writes = calls(Seam::write_values);
  EXPECT_THAT(handle(), Each(Kind::failed));
  EXPECT_EQ(calls(Seam::write_values) - writes, 1U);
  store_.set_plan({});
  EXPECT_THAT(handle(), Each(Kind::completed));
}

TEST_F(EventHandlerTest, AnAnswerThatIsLostIsFoundOut) {
  for (int n = 0; n < 10; ++n) append({ended(start(n), "a")});
  store_.set_plan(FaultPlan{}
                      .on(Seam::write_values, calls(Seam::write_values) + 1, Fault::half_done)
                      .on(Seam::append, calls(Seam::append) + 1, Fault::answer_lost));
  handle();
  EXPECT_EQ(store_.faults(), 2U);
  store_.set_plan({});
  handled_ = {};
  EXPECT_THAT(handle(), Each(Kind::completed));
  for (int n = 0; n < 10; ++n) {
    const std::string run = start(n);
    EXPECT_TRUE(is_in_log(run + ".b")) << run;
    EXPECT_EQ(run_store_.run(run).value()->state.steps.size(), 1U);
  }
}

// A large output is stored before the facts, with store calls of its own.
TEST_F(EventHandlerTest, EventsThatAreHandledAloneEndWhenTheRunnerMustStop) {
  append({ended(start(1), "a", '"' + std::string(8 << 10, 'x') + '"')});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(handle(stop.get_token()), Each(Kind::failed));
  EXPECT_THAT(handle(), Each(Kind::completed));
}

}  // namespace
}  // namespace once::engine
