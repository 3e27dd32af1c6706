// Which runs of workflows `doctor --deep` says nothing will move.
#include <gmock/gmock.h>

#include "api/access.h"
#include "codec/step_headers.h"
#include "flow/run_store.h"
#include "once/testing.h"
#include "store/memory/memory_store.h"

namespace once {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kPayment = R"({"name":"payment","steps":[
    {"id":"charge","task":"pay.charge"}, {"id":"nap","sleep":"1h","depends_on":["charge"]}]})";
constexpr const char* kReview =
    R"({"name":"review","steps":[{"id":"read","approval":"Is it good?"}]})";

class StuckRuns : public ::testing::Test {
 protected:
  StuckRuns() {
    engine::RunStore run_store(*impl_->store, *impl_->scheduler);
    run_store.make_event_queue().value();
    for (const char* definition : {kPayment, kReview})
      run_store.add(encoding::parse_definition(definition).value()).value();
    zone_.queues().add({.name = "pay", .topic = "pay.>"}).value();
  }

  void started(const std::string& workflow) {
    core::RunState state{.run = workflow + "-1",
                         .workflow = workflow,
                         .version = 1,
                         .input = "null",
                         .started = {3},
                         .started_at = clock_->now()};
    state.rounds[1] = {.sequence = {3}, .at = clock_->now()};
    engine::RunStore run_store(*impl_->store, *impl_->scheduler);
    ASSERT_TRUE(run_store.write(state, {})->written);
  }
  void append(const std::string& id, const std::string& topic) {
    append({.id = id, .topic = topic, .body = Body::json("null").value()});
  }
  void append_charge() {
    append({.id = "payment-1.charge",
            .topic = "pay.charge",
            .body = Body::json("null").value(),
            .headers = encoding::step_headers({.run = "payment-1",
                                               .step = "charge",
                                               .reply = "$once.flow.payment.step",
                                               .queue = "pay"})});
  }
  void append(const store::Append& item) {
    ASSERT_EQ(impl_->store->append(std::span(&item, 1)).front()->verdict,
              core::AppendVerdict::accepted);
  }
  // Someone who does not know that steps owe a reply.
  void charge_as_an_older_worker(State end = State::completed) {
    const auto entry = impl_->store->find("payment-1.charge").value();
    store::Swap swap{.at = {.queue = "pay", .key = entry->id, .sequence = entry->sequence}};
    swap.record.sequence = entry->sequence;
    swap.record.state = end;
    ASSERT_TRUE(impl_->store->swap(std::span(&swap, 1)).front()->written);
  }
  std::vector<std::string> stuck(bool deep = true) { return found("stuck_run", deep); }
  std::vector<std::string> found(const std::string& code, bool deep = true,
                                 Duration later = 11min) {
    clock_->advance(later);
    std::vector<std::string> all;
    const Diagnosis diagnosis = zone_.doctor({.deep = deep}).value();
    for (const Finding& finding : diagnosis.findings)
      if (finding.code == code) all.push_back(finding.what);
    return all;
  }

  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  std::shared_ptr<detail::ZoneState> impl_ =
      std::make_shared<detail::ZoneState>(store::open_memory(clock_));
  Zone zone_ = detail::Access::make<Zone>(impl_);
};

TEST_F(StuckRuns, NothingOfItIsOpen) {
  started("payment");
  EXPECT_THAT(stuck(false), IsEmpty()) << "it is asked for";
  EXPECT_THAT(stuck(), ElementsAre(HasSubstr("1 run (payment-1)")));
}

TEST_F(StuckRuns, ItsTaskWasCompletedAndNobodySaidSo) {
  started("payment");
  append_charge();
  EXPECT_THAT(stuck(), IsEmpty()) << "its task is open";
  charge_as_an_older_worker();
  EXPECT_THAT(stuck(), ElementsAre(HasSubstr("payment-1")));
}

// Another queue that takes the topic says nothing to the run.
TEST_F(StuckRuns, OnlyTheQueueThatRepliesCounts) {
  zone_.queues().add({.name = "copy", .topic = "pay.>"}).value();
  started("payment");
  append_charge();
  charge_as_an_older_worker();
  EXPECT_THAT(stuck(), ElementsAre(HasSubstr("payment-1")));
}

// As version 0.1 let it be retried: the task is completed, and the step failed for want of its output.
TEST_F(StuckRuns, ItWasRetriedAndItsStepCanNeverRunAgain) {
  append_charge();
  charge_as_an_older_worker();
  core::RunState state{.run = "payment-1",
                       .workflow = "payment",
                       .version = 1,
                       .input = "null",
                       .started = {3},
                       .started_at = clock_->now()};
  state.steps["charge"][1] = {.outcome = core::StepOutcome::failed, .sequence = {4}};
  state.rounds[1] = {.sequence = {3}, .ended = core::EndFact{.outcome = core::RunOutcome::failed}};
  state.rounds[2] = {.sequence = {6}, .voided = {{"charge", 1}}};
  engine::RunStore run_store(*impl_->store, *impl_->scheduler);
  ASSERT_TRUE(run_store.write(state, {})->written);
  EXPECT_THAT(found("hopeless_run", true, 0s),
              ElementsAre(AllOf(HasSubstr("1 run (payment-1)"),
                                HasSubstr("step 'charge': its task is completed"))));
  EXPECT_THAT(stuck(), IsEmpty()) << "no other version is to blame";
}

TEST_F(StuckRuns, AnEventOfItFailsAgainAndAgain) {
  started("review");
  append("review-1.started", "$once.flow.review.started");
  const auto entry = impl_->store->find("review-1.started").value();
  store::Swap swap{.at = {.queue = "once-flow", .key = entry->id, .sequence = entry->sequence}};
  swap.record.sequence = entry->sequence;
  swap.record.state = State::retrying;
  swap.record.claims = 3;
  swap.record.error = "the disk is full";
  ASSERT_TRUE(impl_->store->swap(std::span(&swap, 1)).front()->written);
  EXPECT_THAT(found("run_event_fails"),
              ElementsAre(AllOf(HasSubstr("review-1"), HasSubstr("the disk is full"))));
}

TEST_F(StuckRuns, ItsTaskIsInDoubtWhichIsForAPerson) {
  started("payment");
  append_charge();
  charge_as_an_older_worker(State::in_doubt);
  EXPECT_THAT(stuck(), IsEmpty());
}

TEST_F(StuckRuns, AStepHasNoQueue) {
  started("payment");
  append("payment-1.started", "$once.flow.payment.started");
  EXPECT_THAT(found("run_without_queue"), IsEmpty());
  zone_.queues().remove("pay").value();
  EXPECT_THAT(found("run_without_queue"),
              ElementsAre(AllOf(HasSubstr("1 run (payment-1)"),
                                HasSubstr("no queue takes topic 'pay.charge' as yet"))));
  append_charge();
  EXPECT_THAT(found("run_without_queue"), IsEmpty()) << "it is in the log, for a queue that comes";
}

TEST_F(StuckRuns, ItsTaskIsTakenByNobodyYet) {
  zone_.queues().remove("pay").value();
  started("payment");
  append_charge();
  EXPECT_THAT(stuck(), IsEmpty());
}

TEST_F(StuckRuns, AnEventOfItIsOpen) {
  started("payment");
  append("payment-1.charge.ended.1", "$once.flow.payment.step");
  EXPECT_THAT(stuck(), IsEmpty());
}

TEST_F(StuckRuns, APersonIsAsked) {
  started("review");
  EXPECT_THAT(stuck(), IsEmpty());
}

}  // namespace
}  // namespace once
