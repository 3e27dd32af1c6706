// Retention: bodies, then records, then ids, each only after the one before, and nothing that
// somebody still waits for.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Retention kAges{.bodies = 7h, .records = 30h, .ids = 40h};

class RetentionContract : public Contract {
 protected:
  RetentionContract() { store().set_retention(kAges).value(); }
  void expect_retired(std::uint64_t bodies, std::uint64_t records, std::uint64_t ids) {
    const Retired retired = retire();
    EXPECT_EQ(retired.bodies, bodies);
    EXPECT_EQ(retired.records, records);
    EXPECT_EQ(retired.ids, ids);
  }
  void expect_nothing_retired() { expect_retired(0, 0, 0); }
  // Lets everything that may be forgotten go, stage by stage.
  void forget_all() {
    for (int stage = 0; stage < 3; ++stage) {
      pass(24h * 365);
      retire();
    }
  }

  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(RetentionContract);

TEST_P(RetentionContract, AgesAreKept) {
  EXPECT_EQ(store().retention().value(), kAges);
  store().set_retention(Retention{}).value();
  EXPECT_EQ(store().retention().value(), Retention{});
}

TEST_P(RetentionContract, ABodyGoesWhenItHasBeenSettledLongEnough) {
  const Held done = completed_task(queue_, "a");
  pass(kAges.bodies - 1ms);
  expect_nothing_retired();
  EXPECT_TRUE(entry("a").body);
  pass(1ms);
  expect_retired(1, 0, 0);
  expect_nothing_retired();

  const Entry kept = entry("a");
  EXPECT_FALSE(kept.body);
  EXPECT_EQ(kept.sequence, done.entry.sequence);
  EXPECT_EQ(kept.topic, done.entry.topic);
  EXPECT_EQ(kept.digest, done.entry.digest);
  EXPECT_THAT(ids_in_log(), ElementsAre("a"));
  EXPECT_EQ(get(done.at)->record.state, State::completed) << "its record is still there";
  EXPECT_EQ(count("work", State::completed), 1U);
}

TEST_P(RetentionContract, ADuplicateIsStillADuplicateWhenTheBodyIsGone) {
  const Held done = completed_task(queue_, "a");
  pass(kAges.bodies);
  expect_retired(1, 0, 0);
  const AppendResult again = append(task("a"));
  EXPECT_EQ(again.verdict, AppendVerdict::duplicate);
  EXPECT_EQ(again.sequence, done.entry.sequence);
  const AppendResult other = append(task("a", "orders.new", "[1]"));
  EXPECT_EQ(other.verdict, AppendVerdict::conflict);
  EXPECT_EQ(other.digest, done.entry.digest);
  EXPECT_EQ(entry("a").duplicates, 1U);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(RetentionContract, RecordsGoAfterTheBody) {
  const Held done = completed_task(queue_, "a");
  pass(kAges.bodies);
  expect_retired(1, 0, 0);
  pass(kAges.records - 1ms);
  expect_nothing_retired();
  EXPECT_TRUE(get(done.at));
  pass(1ms);
  expect_retired(0, 1, 0);

  EXPECT_FALSE(get(done.at));
  EXPECT_EQ(count("work", State::completed), 0U);
  EXPECT_EQ(count("work", State::waiting), 0U) << "it must not look as if it waited";
  EXPECT_THAT(rows({}), IsEmpty());
  EXPECT_THAT(overlooked("work"), IsEmpty());
  EXPECT_EQ(unrouted(), 0U);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(RetentionContract, ADuplicateIsStillADuplicateWhenTheRecordsAreGone) {
  const Held done = completed_task(queue_, "a");
  pass(kAges.bodies);
  retire();
  pass(kAges.records);
  expect_retired(0, 1, 0);
  const AppendResult again = append(task("a"));
  EXPECT_EQ(again.verdict, AppendVerdict::duplicate);
  EXPECT_EQ(again.sequence, done.entry.sequence);
  EXPECT_EQ(append(task("a", "orders.new", "[1]")).verdict, AppendVerdict::conflict);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(RetentionContract, AnIdGoesLastAndMayThenBeUsedAgain) {
  const Held done = completed_task(queue_, "a");
  pass(kAges.bodies);
  retire();
  pass(kAges.records);
  retire();
  pass(kAges.ids - 1ms);
  expect_nothing_retired();
  EXPECT_EQ(append(task("a")).verdict, AppendVerdict::duplicate);
  pass(1ms);
  expect_retired(0, 0, 1);
  EXPECT_FALSE(store().find("a").value());
  EXPECT_THAT(ids_in_log(), IsEmpty());

  const AppendResult anew = append(task("a", "orders.new", "[1]"));
  EXPECT_EQ(anew.verdict, AppendVerdict::accepted);
  EXPECT_GT(anew.sequence, done.entry.sequence) << "sequences are never reused";
  const Held held = claim_one(queue_).value();
  EXPECT_EQ(held.stored.record.claims, 1U);
  EXPECT_GT(held.stored.revision, done.stored.revision) << "tokens are never reused";
}

TEST_P(RetentionContract, OneLongPauseDoesNotSkipAStage) {
  completed_task(queue_, "a");
  pass(24h * 365);
  expect_retired(1, 0, 0);
  EXPECT_EQ(append(task("a")).verdict, AppendVerdict::duplicate);
  pass(24h * 365);
  expect_retired(0, 1, 0);
  EXPECT_EQ(append(task("a")).verdict, AppendVerdict::duplicate);
  pass(24h * 365);
  expect_retired(0, 0, 1);
}

TEST_P(RetentionContract, UnroutedTasksDoNotAge) {
  store().remove_queue("work").value();
  publish("a");
  forget_all();
  EXPECT_TRUE(entry("a").body);
  EXPECT_EQ(unrouted(), 1U);
}

TEST_P(RetentionContract, UnsettledDeadAndDoubtfulTasksDoNotAge) {
  for (const State state :
       {State::running, State::retrying, State::in_doubt, State::dead, State::waiting}) {
    const Entry each = publish(std::string(to_string(state)));
    write(task_at("work", each), {}, record_of(each, state));
  }
  publish("never-claimed");
  forget_all();
  EXPECT_EQ(ids_in_log().size(), 6U);
  for (const std::string& id : ids_in_log()) EXPECT_TRUE(entry(id).body) << id;
  EXPECT_EQ(rows({}).size(), 6U);
}

TEST_P(RetentionContract, CancelledAndDuplicateTasksAgeAsCompletedOnesDo) {
  const Entry cancelled = publish("cancelled");
  write(task_at("work", cancelled), {}, record_of(cancelled, State::cancelled));
  const Entry aside = publish("aside");
  write(entry_at("work", aside.sequence), {}, record_of(aside, State::duplicate));
  pass(kAges.bodies);
  expect_retired(2, 0, 0);
  pass(kAges.records);
  expect_retired(0, 2, 0);
  EXPECT_FALSE(get(task_at("work", cancelled)));
  EXPECT_FALSE(get(entry_at("work", aside.sequence)));
  EXPECT_THAT(rows({}), IsEmpty());
}

TEST_P(RetentionContract, ATaskAgesFromWhenTheLastQueueSettledIt) {
  const Queue slow = add("slow");
  completed_task(queue_, "a");
  pass(kAges.bodies * 2);
  expect_nothing_retired();
  complete(claim_one(slow).value());
  pass(kAges.bodies - 1ms);
  expect_nothing_retired();
  pass(1ms);
  expect_retired(1, 0, 0);
}

TEST_P(RetentionContract, AQueueThatCameLaterKeepsWhatItStillWaitsFor) {
  completed_task(queue_, "a");
  add("late");
  forget_all();
  EXPECT_TRUE(entry("a").body);
  EXPECT_THAT(handed_over("late"), ElementsAre("a"));
}

TEST_P(RetentionContract, AQueueThatComesAfterTheBodyWentIsNotHandedTheTask) {
  completed_task(queue_, "a");
  pass(kAges.bodies);
  expect_retired(1, 0, 0);
  publish("b");
  EXPECT_EQ(store().add_queue(queue_of("late")).value().found, 1U);
  EXPECT_EQ(count("late", State::waiting), 1U);
  EXPECT_THAT(handed_over("late"), ElementsAre("b"));
  pass(kAges.records);
  expect_retired(0, 1, 0);
}

TEST_P(RetentionContract, PagesRetireAllThereIs) {
  for (int i = 0; i < 7; ++i) completed_task(queue_, "id-" + std::to_string(i));
  publish("waits");
  pass(kAges.bodies);
  EXPECT_EQ(retire(2).bodies, 7U);
  pass(kAges.records);
  EXPECT_EQ(retire(3).records, 7U);
  pass(kAges.ids);
  EXPECT_EQ(retire(1).ids, 7U);
  EXPECT_THAT(ids_in_log(), ElementsAre("waits"));
}

}  // namespace
}  // namespace once::contract
