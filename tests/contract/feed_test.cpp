// The feed: every entry of a queue is handed over, to one at a time, until its record says that it
// is done with.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class FeedContract : public Contract {
 protected:
  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(FeedContract);

// --- Handing over -----------------------------------------------------------------------------

TEST_P(FeedContract, AnEmptyQueueHandsOverNothing) { EXPECT_THAT(fetch("work"), IsEmpty()); }

TEST_P(FeedContract, AnUnknownQueueIsAnError) {
  const auto answer = store().fetch({.queue = "no-such-queue"});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::not_found);
}

TEST_P(FeedContract, FreshTasksAreHandedOverInTheOrderOfTheLog) {
  const auto entries = publish_many(250);
  const auto deliveries = drain("work");
  ASSERT_EQ(deliveries.size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i)
    EXPECT_EQ(deliveries[i].entry.sequence, entries[i].sequence);
}

TEST_P(FeedContract, ADeliveryCarriesTheWholeEntry) {
  Append given = task("a", "orders.new", R"({"amount":12})");
  given.headers = {{"Trace", "1"}};
  append(given);
  const auto deliveries = fetch("work");
  ASSERT_THAT(deliveries, SizeIs(1));
  const Entry& handed = deliveries.front().entry;
  EXPECT_EQ(handed.id, "a");
  EXPECT_EQ(handed.topic, "orders.new");
  EXPECT_EQ(handed.body, given.body);
  EXPECT_EQ(handed.headers, given.headers);
  EXPECT_EQ(handed.digest, given.digest);
  EXPECT_EQ(handed.sequence, entry("a").sequence);
  EXPECT_EQ(handed.published_at, entry("a").published_at);
  EXPECT_FALSE(deliveries.front().handle.empty());
}

TEST_P(FeedContract, NoMoreAreHandedOverThanAskedFor) {
  publish_many(10);
  for (const std::size_t limit : {1U, 3U, 5U}) {
    const auto deliveries = fetch("work", limit);
    EXPECT_FALSE(deliveries.empty());
    EXPECT_LE(deliveries.size(), limit);
  }
}

TEST_P(FeedContract, OnlyMatchingTopicsAreHandedOver) {
  add("paid", "orders.paid");
  publish("1", "orders.new");
  publish("2", "orders.paid");
  publish("3", "orders.paid.twice");
  publish("4", "orders.paid");
  EXPECT_THAT(handed_over("paid"), ElementsAre("2", "4"));
}

TEST_P(FeedContract, EveryQueueIsHandedTheTask) {
  add("second");
  publish("a");
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
  EXPECT_THAT(handed_over("second"), ElementsAre("a"));
}

TEST_P(FeedContract, ADuplicateAppendIsNotHandedOver) {
  publish("a");
  append(task("a"));
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
  append(task("a"));
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(FeedContract, WhatWasHandedToOneIsNotHandedToAnother) {
  publish_many(20);
  std::set<std::string> seen;
  while (true) {
    const auto deliveries = fetch("work", 3);
    if (deliveries.empty()) break;
    for (const Delivery& each : deliveries)
      EXPECT_TRUE(seen.insert(each.entry.id).second) << each.entry.id;
  }
  EXPECT_THAT(seen, SizeIs(20));
}

TEST_P(FeedContract, TasksThatComeLaterAreHandedOverLater) {
  publish("a");
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
  publish("b");
  EXPECT_THAT(handed_over("work"), ElementsAre("b"));
}

// --- Claiming ---------------------------------------------------------------------------------

TEST_P(FeedContract, AClaimedTaskIsRecordedAndHeld) {
  const Entry a = publish("a");
  const auto held = claim_one(queue_);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->entry.id, "a");
  EXPECT_EQ(held->stored.record.state, State::running);
  EXPECT_EQ(held->stored.record.sequence, a.sequence);
  EXPECT_EQ(held->stored.stamp, store().now());
  EXPECT_EQ(get(task_at("work", a)), held->stored);
  EXPECT_EQ(count("work", State::running), 1U);
  EXPECT_FALSE(claim_one(queue_));
}

TEST_P(FeedContract, AClaimerIsAskedAboutTheEntryAndWhatIsStored) {
  class Recorder final : public store::Claimer {
   public:
    explicit Recorder(Queue queue) : inner_(std::move(queue)) {}
    std::optional<Address> address(const Entry& entry) override { return inner_.address(entry); }
    std::optional<Record> claim(const Entry& entry, const Stored* stored, const core::Order* order,
                                core::Now now) override {
      asked.push_back(entry.id);
      bodies.push_back(entry.body);
      seen.push_back(stored ? std::optional(*stored) : std::nullopt);
      time = now.store;
      return inner_.claim(entry, stored, order, now);
    }
    std::vector<std::string> asked;
    std::vector<std::optional<Body>> bodies;
    std::vector<std::optional<Stored>> seen;
    StoreTime time{};

   private:
    TestClaimer inner_;
  };
  Recorder recorder(queue_);
  publish("a", "orders.new", R"({"amount":12})");
  auto first = store().fetch({.queue = "work", .claimer = &recorder}).value();
  ASSERT_THAT(first, SizeIs(1));
  if (!first.front().claimed) GTEST_SKIP() << "this store leaves claims to the caller";
  EXPECT_THAT(recorder.asked, ElementsAre("a"));
  EXPECT_EQ(recorder.bodies.at(0), entry("a").body);
  EXPECT_FALSE(recorder.seen.at(0));
  EXPECT_EQ(recorder.time, store().now());

  const Held held{first.front().entry, first.front().handle, task_at("work", first.front().entry),
                  first.front().stored.value()};
  const Stored retrying = settle_as(held, State::retrying, 10s);
  pass(10s);
  EXPECT_TRUE(store().fetch({.queue = "work", .claimer = &recorder}).value().at(0).claimed);
  EXPECT_EQ(recorder.seen.at(1), retrying);
}

TEST_P(FeedContract, WhatTheClaimerDeclinesIsHandedOverUnclaimed) {
  class Decliner final : public store::Claimer {
   public:
    std::optional<Address> address(const Entry& entry) override { return task_at("work", entry); }
    std::optional<Record> claim(const Entry&, const Stored*, const core::Order*,
                                core::Now) override {
      return {};
    }
  } decliner;
  const Entry a = publish("a");
  const Stored stored = settle_as(claim_one(queue_).value(), State::retrying, 1s);
  pass(1s);
  const auto deliveries = store().fetch({.queue = "work", .claimer = &decliner}).value();
  ASSERT_THAT(deliveries, SizeIs(1));
  EXPECT_FALSE(deliveries.front().claimed);
  EXPECT_EQ(deliveries.front().stored.value_or(stored), stored) << "if it was read";
  EXPECT_EQ(get(task_at("work", a)), stored);
}

TEST_P(FeedContract, AnEntryWithoutAKeyIsHandedOverUnclaimedAndCanBeSetAside) {
  TestClaimer claimer(queue_);
  claimer.key = [](const Entry&) { return std::nullopt; };
  const Entry a = publish("a");
  const auto deliveries = store().fetch({.queue = "work", .claimer = &claimer}).value();
  ASSERT_THAT(deliveries, SizeIs(1));
  EXPECT_FALSE(deliveries.front().claimed);
  EXPECT_FALSE(deliveries.front().stored);
  write(entry_at("work", a.sequence), {}, record_of(a, State::dead), deliveries.front().handle);
  pass(24h * 365);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_THAT(overlooked("work"), IsEmpty());
  EXPECT_EQ(count("work", State::dead), 1U);
  EXPECT_EQ(count("work", State::waiting), 0U);
}

TEST_P(FeedContract, ATaskWhoseKeyBelongsToAnotherIsHandedOverWithThatRecordAndSetAside) {
  Queue keyed = queue_of("keyed");
  keyed.key = "{document}";
  add(keyed);
  const Entry first = publish("a");
  const Entry second = publish("b");
  TestClaimer claimer(keyed);
  claimer.key = [](const Entry&) { return "d1"; };
  std::vector<Delivery> deliveries;
  while (deliveries.size() < 2) {
    auto some = store().fetch({.queue = "keyed", .limit = 2, .claimer = &claimer}).value();
    ASSERT_FALSE(some.empty());
    std::move(some.begin(), some.end(), std::back_inserter(deliveries));
  }
  Stored of_key{};
  if (deliveries[0].claimed)
    of_key = deliveries[0].stored.value();
  else
    of_key = write(task_at("keyed", first, "d1"), {}, record_of(first, State::running),
                   deliveries[0].handle);
  EXPECT_FALSE(deliveries[1].claimed) << "the key is the first task's";
  EXPECT_EQ(get(task_at("keyed", second, "d1")), of_key);

  write(entry_at("keyed", second.sequence), {}, record_of(second, State::duplicate),
        deliveries[1].handle);
  Record done = of_key.record;
  done.state = State::completed;
  write(task_at("keyed", first, "d1"), of_key.revision, done, deliveries[0].handle);
  EXPECT_EQ(count("keyed", State::completed), 1U);
  EXPECT_EQ(count("keyed", State::duplicate), 1U);
  EXPECT_EQ(count("keyed", State::waiting), 0U);
  pass(24h);
  EXPECT_THAT(handed_over("keyed"), IsEmpty());
  EXPECT_THAT(overlooked("keyed"), IsEmpty());
}

// --- Coming again -----------------------------------------------------------------------------

TEST_P(FeedContract, WhatIsNotAnsweredComesAgainAfterTheQueuesLease) {
  Queue quick = queue_of("quick");
  quick.lease = 5s;
  add(quick);
  publish("a");
  EXPECT_THAT(handed_over("quick"), ElementsAre("a"));
  pass(5s - 1ms);
  EXPECT_THAT(handed_over("quick"), IsEmpty());
  pass(1ms);
  EXPECT_THAT(handed_over("quick"), ElementsAre("a"));
  pass(5s);
  EXPECT_THAT(handed_over("quick"), ElementsAre("a")) << "as often as it takes";
}

TEST_P(FeedContract, AClaimThatFallsSilentIsHandedOverWhenItsLeaseEnds) {
  publish("a");
  const Held lost = claim_one(queue_).value();
  pass(queue_.lease - 1ms);
  EXPECT_FALSE(claim_one(queue_));
  pass(1ms);
  const auto again = claim_one(queue_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stored.record.claims, 2U);
  EXPECT_TRUE(again->stored.record.in_doubt);
  EXPECT_GT(again->stored.revision, lost.stored.revision);

  const SwapResult fenced =
      swap(lost.at, lost.stored.revision, record_of(lost.entry, State::completed), lost.handle);
  EXPECT_FALSE(fenced.written);
  EXPECT_EQ(fenced.current, again->stored);
}

TEST_P(FeedContract, ARenewedClaimIsHandedOverOnlyALeaseAfterTheRenewal) {
  publish("a");
  const Held held = claim_one(queue_).value();
  pass(20s);
  const Stored renewed = write(held.at, held.stored.revision, held.stored.record, held.handle);
  pass(20s);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(10s - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_EQ(store().now(), renewed.stamp + queue_.lease);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(FeedContract, ALeaseIsAsLongAsTheRecordSays) {
  publish("a");
  Held held = claim_one(queue_).value();
  held.stored.record.lease = 4s;
  write(held.at, held.stored.revision, held.stored.record, held.handle);
  pass(4s - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(FeedContract, ARetryIsHandedOverExactlyWhenItIsDue) {
  publish("a");
  const Held held = claim_one(queue_).value();
  pass(7s);
  const Stored failed = settle_as(held, State::retrying, 2min);
  pass(2min - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_EQ(store().now(), failed.stamp + 2min);
  const auto again = claim_one(queue_);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->stored.record.claims, 2U);
}

TEST_P(FeedContract, ARetryWithoutDelayIsHandedOverAtOnce) {
  publish("a");
  settle_as(claim_one(queue_).value(), State::retrying, 0s);
  EXPECT_TRUE(claim_one(queue_));
}

TEST_P(FeedContract, AReleasedTaskIsHandedOverAtOnce) {
  publish("a");
  settle_as(claim_one(queue_).value(), State::waiting);
  EXPECT_TRUE(claim_one(queue_));
}

TEST_P(FeedContract, ARetryIsNotOvertakenForEverByFreshTasks) {
  publish("retried");
  settle_as(claim_one(queue_).value(), State::retrying, 10s);
  publish_many(5, "before");
  pass(10s);
  publish_many(200, "after");
  std::size_t place = 0;
  while (true) {
    const auto held = claim_one(queue_);
    ASSERT_TRUE(held) << "it never came";
    if (held->entry.id == "retried") break;
    ++place;
    publish("more-" + std::to_string(place));
    ASSERT_LT(place, 400U) << "fresh tasks are always first";
  }
}

TEST_P(FeedContract, WhatHasSettledIsNeverHandedOverAgain) {
  const std::vector<State> settled{State::completed, State::dead, State::in_doubt, State::cancelled,
                                   State::duplicate};
  for (const State state : settled) {
    publish(std::string(to_string(state)));
    settle_as(claim_one(queue_).value(), state);
  }
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(24h * 365);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  for (const State state : settled) EXPECT_EQ(count("work", state), 1U) << to_string(state);
}

TEST_P(FeedContract, ARefusedSwapDoesNotAnswerItsDelivery) {
  const Entry a = publish("a");
  const Held held = claim_one(queue_).value();
  const SwapResult refused =
      swap(held.at, {held.stored.revision.value + 7}, record_of(a, State::completed), held.handle);
  ASSERT_FALSE(refused.written);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(queue_.lease);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(FeedContract, ASettledDeliveryIsDoneWith) {
  const Entry a = publish("a");
  const auto delivery = fetch("work").at(0);
  write(task_at("work", a), {}, record_of(a, State::completed));
  settle(delivery, "work");
  pass(24h * 365);
  EXPECT_THAT(handed_over("work"), IsEmpty());
}

TEST_P(FeedContract, ADeliverySettledForLaterComesAgainExactlyThen) {
  publish("a");
  settle(fetch("work").at(0), "work", 45s);
  pass(45s - 1ms);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  pass(1ms);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(FeedContract, ADeliverySettledForNowComesAgainAtOnce) {
  publish("a");
  settle(fetch("work").at(0), "work", 0s);
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(FeedContract, ABatchOfSettlementsAnswersEachOfThem) {
  publish_many(30);
  std::vector<store::Settlement> answers;
  for (const Delivery& each : drain("work"))
    answers.push_back({.queue = "work",
                       .sequence = each.entry.sequence,
                       .handle = each.handle,
                       .again = answers.size() % 3 == 0 ? std::optional<Duration>(1s)
                                                        : std::optional<Duration>()});
  store().settle(answers).value();
  pass(1h);
  EXPECT_THAT(handed_over("work"), SizeIs(10));
}

TEST_P(FeedContract, AnsweringInOneQueueLeavesTheOtherAlone) {
  Queue other = add("other");
  publish("a");
  complete(claim_one(queue_).value());
  const auto held = claim_one(other);
  ASSERT_TRUE(held);
  EXPECT_EQ(held->stored.record.claims, 1U);
  settle_as(*held, State::retrying, 1s);
  pass(1s);
  EXPECT_THAT(handed_over("work"), IsEmpty());
  EXPECT_THAT(handed_over("other"), ElementsAre("a"));
}

TEST_P(FeedContract, AClockThatIsSetBackLosesNothing) {
  publish("a");
  const Held held = claim_one(queue_).value();
  const StoreTime before = store().now();
  set_back(1h);
  EXPECT_GE(store().now(), before);
  EXPECT_FALSE(claim_one(queue_)) << "the lease still runs";
  pass(1h + queue_.lease);
  const auto again = claim_one(queue_);
  ASSERT_TRUE(again);
  complete(*again);
  EXPECT_FALSE(
      swap(held.at, held.stored.revision, record_of(held.entry, State::completed)).written);
}

TEST_P(FeedContract, NoMoreOfThoseHandedOverBeforeComeThanAreAskedFor) {
  publish_many(3, "before");
  EXPECT_THAT(drain("work"), SizeIs(3));
  pass(queue_.lease);
  publish_many(3, "fresh");
  std::vector<std::string> seen;
  while (true) {
    const auto some = ids(store().fetch({.queue = "work", .limit = 10, .again = 0}).value());
    if (some.empty()) break;
    seen.insert(seen.end(), some.begin(), some.end());
  }
  EXPECT_THAT(seen, ElementsAre("fresh-1", "fresh-2", "fresh-3"));
  EXPECT_THAT(store().fetch({.queue = "work", .limit = 10, .again = 1}).value(), SizeIs(1));
  EXPECT_THAT(drain("work"), SizeIs(2)) << "the others are still there";
}

// --- What was overlooked ----------------------------------------------------------------------

TEST_P(FeedContract, NothingIsOverlookedWhileTheFeedStillHasIt) {
  publish("done");
  complete(claim_one(queue_).value());
  publish("running");
  ASSERT_TRUE(claim_one(queue_));
  publish("retrying");
  settle_as(claim_one(queue_).value(), State::retrying, 1h);
  publish("handed-over");
  fetch("work");
  publish("never-handed-over");
  EXPECT_THAT(overlooked("work"), IsEmpty());
}

TEST_P(FeedContract, WhatIsDoneWithWithoutARecordIsOverlooked) {
  const auto entries = publish_many(3);
  for (const Delivery& each : drain("work")) settle(each, "work");
  EXPECT_THAT(overlooked("work"),
              ElementsAre(entries[0].sequence, entries[1].sequence, entries[2].sequence));
  EXPECT_EQ(count("work", State::waiting), 3U) << "nothing vanishes";
}

TEST_P(FeedContract, WhatIsDoneWithWhileItsRecordIsUnsettledIsOverlooked) {
  const Entry running = publish("running");
  const auto first = fetch("work").at(0);
  write(task_at("work", running), {}, record_of(running, State::running));
  settle(first, "work");
  const Entry held = publish("in-doubt");
  const auto second = fetch("work").at(0);
  write(task_at("work", held), {}, record_of(held, State::in_doubt));
  settle(second, "work");
  EXPECT_THAT(overlooked("work"), ElementsAre(running.sequence));
}

TEST_P(FeedContract, OverlookedEntriesComeInPages) {
  publish_many(7);
  for (const Delivery& each : drain("work")) settle(each, "work");
  publish("later");
  const auto all = overlooked("work");
  EXPECT_THAT(all, SizeIs(7));
  for (const std::size_t page : {1U, 2U, 3U, 7U, 8U}) EXPECT_EQ(overlooked("work", page), all);
}

TEST_P(FeedContract, UpToWhereEverythingIsSettledIsKnown) {
  const Entry first = completed_task(queue_, "1").entry;
  const Entry second = completed_task(queue_, "2").entry;
  const auto settled = [&](Sequence after) {
    return store().overlooked("work", after, 100).value().settled;
  };
  EXPECT_GE(settled({}), second.sequence);

  const Entry third = publish("3");
  const Held held = claim_one(queue_).value();
  const Entry fourth = completed_task(queue_, "4").entry;
  EXPECT_GE(settled({}), second.sequence);
  EXPECT_LT(settled({}), third.sequence) << "it still runs";
  EXPECT_GE(settled(first.sequence), second.sequence);
  EXPECT_LT(settled(first.sequence), third.sequence);
  EXPECT_EQ(settled(second.sequence), second.sequence);
  EXPECT_GE(settled(third.sequence), fourth.sequence);

  settle_as(held, State::dead);
  const Entry fifth = publish("5");
  EXPECT_GE(settled({}), fourth.sequence);
  EXPECT_LT(settled({}), fifth.sequence) << "nobody has been handed it";
}

TEST_P(FeedContract, AWokenEntryIsHandedOverAgain) {
  const auto entries = publish_many(3);
  for (const Delivery& each : drain("work")) settle(each, "work");
  const std::vector<Wake> both{{.sequence = entries[0].sequence},
                               {.sequence = entries[2].sequence}};
  store().wake("work", both).value();
  EXPECT_THAT(handed_over("work"), UnorderedElementsAre("task-1", "task-3"));
  EXPECT_THAT(overlooked("work"), ElementsAre(entries[1].sequence)) << "the others are back";
}

TEST_P(FeedContract, AWokenDeadTaskIsHandedOverWithItsRecord) {
  const Entry a = publish("a");
  const Stored dead = settle_as(claim_one(queue_).value(), State::dead);
  wake("work", a.sequence);
  TestClaimer claimer(queue_);
  const auto deliveries = store().fetch({.queue = "work", .claimer = &claimer}).value();
  ASSERT_THAT(deliveries, SizeIs(1));
  EXPECT_FALSE(deliveries.front().claimed);
  EXPECT_EQ(get(task_at("work", a)), dead);
}

TEST_P(FeedContract, WakingWhatIsNotThereDoesNoHarm) {
  publish("a");
  const Wake unknown{.sequence = {987'654'321}};
  static_cast<void>(store().wake("work", std::span(&unknown, 1)));
  EXPECT_THAT(handed_over("work"), ElementsAre("a"));
}

TEST_P(FeedContract, OnceAStopIsRequestedNothingIsHandedOver) {
  publish("a");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(store().fetch({.queue = "work", .wait = 1h, .stop = stop.get_token()}).value(),
              IsEmpty());
  EXPECT_THAT(store().fetch({.queue = "work"}).value(), SizeIs(1));
}

}  // namespace
}  // namespace once::contract
