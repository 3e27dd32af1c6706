// A commit with records: the store writes the records and claims the next tasks. A store that cannot do
// both hands over nothing, and a later fetch() is not affected.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CommitContract : public Contract {
 protected:
  store::Fetch wanted(std::size_t limit = 1) {
    return {.queue = "work", .limit = limit, .claimer = &claimer_};
  }
  Swap completion(const Held& held) {
    Record record = held.stored.record;
    record.state = State::completed;
    return {
        .at = held.at, .expected = held.stored.revision, .record = record, .handle = held.handle};
  }
  Store::CommitResult commit(const Swap& item, const store::Fetch& request) {
    return store().commit(std::span(&item, 1), request);
  }
  // Everything else, and then all of it in the order of the log.
  std::vector<std::string> with_the_rest(std::vector<Delivery> handed) {
    for (Delivery& delivery : drain("work")) handed.push_back(std::move(delivery));
    return ids(handed);
  }

  Queue queue_ = add("work");
  TestClaimer claimer_{queue_};
};
ONCE_FOR_EVERY_STORE(CommitContract);

TEST_P(CommitContract, RecordsWhatWasDoneAndHandsOverWhatIsNext) {
  for (const char* id : {"a", "b", "c"}) publish(id);
  const Held first = claim_one(queue_).value();
  auto committed = commit(completion(first), wanted());
  ASSERT_TRUE(committed.swapped.at(0).value().written);
  EXPECT_EQ(committed.swapped.at(0)->current->record.state, State::completed);
  EXPECT_EQ(get(first.at)->record.state, State::completed);
  auto handed = std::move(committed.delivered).value();
  ASSERT_LE(handed.size(), 1U);
  for (const Delivery& delivery : handed) {
    EXPECT_TRUE(delivery.claimed);
    EXPECT_EQ(get(task_at("work", delivery.entry))->record.state, State::running);
  }
  EXPECT_THAT(with_the_rest(std::move(handed)), ElementsAre("b", "c"));
}

TEST_P(CommitContract, ARefusedRecordKeepsNobodyFromTheNext) {
  for (const char* id : {"a", "b"}) publish(id);
  const Held first = claim_one(queue_).value();
  Swap late = completion(first);
  complete(first);
  auto committed = commit(late, wanted());
  EXPECT_FALSE(committed.swapped.at(0).value().written);
  EXPECT_EQ(committed.swapped.at(0)->current->record.state, State::completed);
  EXPECT_THAT(with_the_rest(std::move(committed.delivered).value()), ElementsAre("b"));
}

TEST_P(CommitContract, ATaskThatIsReleasedCanBeTheNext) {
  publish("a");
  const Held first = claim_one(queue_).value();
  Swap released = completion(first);
  released.record.state = State::retrying;
  released.record.delay = Duration{0};
  auto committed = commit(released, wanted());
  ASSERT_TRUE(committed.swapped.at(0).value().written);
  EXPECT_THAT(with_the_rest(std::move(committed.delivered).value()), ElementsAre("a"));
}

TEST_P(CommitContract, DoesNotWaitForWhatIsNext) {
  publish("a");
  const Held first = claim_one(queue_).value();
  store::Fetch patient = wanted();
  patient.wait = 1h;
  auto committed = commit(completion(first), patient);
  EXPECT_TRUE(committed.swapped.at(0).value().written);
  EXPECT_THAT(committed.delivered.value(), IsEmpty());
}

TEST_P(CommitContract, NothingIsHandedOverOnceAStopIsRequestedOrTheQueueIsPaused) {
  for (const char* id : {"a", "b"}) publish(id);
  const Held first = claim_one(queue_).value();
  std::stop_source stop;
  stop.request_stop();
  store::Fetch stopped = wanted();
  stopped.stop = stop.get_token();
  const Held second = claim_one(queue_).value();
  publish("c");
  auto committed = commit(completion(first), stopped);
  EXPECT_TRUE(committed.swapped.at(0).value().written);
  EXPECT_THAT(committed.delivered.value(), IsEmpty());

  Queue paused = queue_;
  paused.paused = true;
  ASSERT_TRUE(store().set_queue(paused, queue_).value());
  committed = commit(completion(second), wanted());
  EXPECT_TRUE(committed.swapped.at(0).value().written);
  EXPECT_THAT(committed.delivered.value(), IsEmpty());
}

TEST_P(CommitContract, OfARemovedQueueNothingIsRecordedAndNothingHandedOver) {
  publish("a");
  publish("b");
  const Held first = claim_one(queue_).value();
  store().remove_queue("work").value();
  auto committed = commit(completion(first), wanted());
  ASSERT_FALSE(committed.swapped.at(0));
  EXPECT_EQ(committed.swapped.at(0).error().code, Code::not_found);
  if (committed.delivered) {
    EXPECT_THAT(*committed.delivered, IsEmpty());
  }
}

}  // namespace
}  // namespace once::contract
