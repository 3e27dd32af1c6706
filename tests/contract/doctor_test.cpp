// What once doctor says of tasks: the same on every store.
#include "inspect/doctor.h"

#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DoctorContract : public Contract {
 protected:
  // Hazards and warnings. Where the test's own folder is in memory, a file in it is a hazard.
  std::vector<std::string> serious() {
    std::vector<std::string> codes;
    for (const Finding& finding : engine::diagnose(store(), {}).value().findings)
      if (finding.severity <= Severity::warning && finding.code != "volatile_file_system")
        codes.push_back(finding.code);
    return codes;
  }
  Finding finding(std::string_view code) {
    for (Finding& each : engine::diagnose(store(), {}).value().findings)
      if (each.code == code) return each;
    ADD_FAILURE() << code << " was not found";
    return {};
  }
  Held hold(const std::string& id) {
    publish(id);
    return claim_one(queue_).value();
  }

  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(DoctorContract);

TEST_P(DoctorContract, AHealthyZone) {
  add(ledger_of("alone"));
  EXPECT_THAT(serious(), IsEmpty());
  for (const char* id : {"a", "b", "c"}) completed_task(queue_, id);
  const Held running = hold("d");
  publish("e");
  EXPECT_THAT(serious(), IsEmpty());
}

TEST_P(DoctorContract, AnUnknownQueue) {
  const auto answer = engine::diagnose(store(), {.queue = "other"});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::not_found);
}

TEST_P(DoctorContract, AnAttemptThatNobodyTakesOver) {
  hold("a");
  pass(queue_.lease + 1s);
  EXPECT_THAT(serious(), IsEmpty()) << "the next worker may be on its way";
  pass(queue_.lease);
  EXPECT_THAT(serious(), Contains("abandoned_attempt"));
  EXPECT_THAT(finding("abandoned_attempt").what, HasSubstr("(a)"));
}

TEST_P(DoctorContract, ARetryThatNobodyBegins) {
  settle_as(hold("a"), State::retrying, 10s);
  pass(20s);
  EXPECT_THAT(serious(), IsEmpty());
  pass(queue_.lease);
  EXPECT_THAT(serious(), Contains("overdue_retry"));
}

TEST_P(DoctorContract, ADoubtThatNobodyLooksAt) {
  settle_as(hold("a"), State::in_doubt);
  EXPECT_EQ(finding("in_doubt").severity, Severity::note);
  EXPECT_THAT(serious(), IsEmpty());
  pass(25h);
  EXPECT_THAT(serious(), Contains("doubt_unattended"));
}

TEST_P(DoctorContract, ManyAreCountedAndAFewNamed) {
  for (int i = 0; i < 7; ++i) settle_as(hold("dead-" + std::to_string(i)), State::dead);
  EXPECT_EQ(finding("dead_letters").what, "7 dead letters (dead-0, dead-1, dead-2 and 4 more)");
  EXPECT_THAT(serious(), IsEmpty());
}

TEST_P(DoctorContract, TasksThatNobodyWorksOn) {
  publish("a");
  EXPECT_EQ(finding("nobody_works").severity, Severity::note);
  pass(queue_.lease);
  EXPECT_THAT(serious(), Contains("nobody_works"));
  const auto worker = store().join("work", "w").value();
  EXPECT_THAT(serious(), IsEmpty());
}

TEST_P(DoctorContract, ATopicThatNoQueueTakes) {
  store().remove_queue("work").value();
  add("orders", "orders.>");
  publish("a", "mail.welcome");
  EXPECT_THAT(serious(), Contains("unrouted"));
  EXPECT_EQ(finding("unrouted").what, "1 task that no queue takes: mail.welcome (1)");
}

TEST_P(DoctorContract, AClockThatWasSetBack) {
  completed_task(queue_, "a");
  set_back(1h);
  EXPECT_THAT(serious(), Contains("clock_jumped"));
}

TEST_P(DoctorContract, ADeliveryThatWasAnsweredWithoutARecord) {
  publish("a");
  const auto deliveries = fetch("work");
  settle(deliveries.at(0), "work");
  // On JetStream a claim comes before every acknowledgement, so the record must have been lost.
  const bool on_nats = std::string_view(GetParam().name).starts_with("nats");
  EXPECT_THAT(serious(), Contains(on_nats ? "record_lost" : "overlooked"));
}

}  // namespace
}  // namespace once::contract
