// max_running of a queue with consumers: claims and workers together never run more tasks, and a slot
// is free again after its claim, whatever is lost.
#include "contract/effects.h"
#include "core/slot.h"
#include "support/faulty_store.h"

namespace once::contract {
namespace {

using testing::Fault;
using testing::FaultPlan;
using testing::FaultyStore;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Seam;
using ::testing::SizeIs;

class ConsumerSlotsContract : public Effects {
 protected:
  static constexpr Duration kOffer = 10s;
  static constexpr Duration kMore = 1s;  // a slot ends this long after its claim

  void add_limited(int most, Queue queue = {}) {
    queue.max_running = most;
    add(std::move(queue));
  }
  void publish_some(int count) {
    for (int i = 0; i < count; ++i) publish("t" + std::to_string(i));
  }
  Consumer consumer(const std::string& name = "puller") {
    return zone.consumer("q", {.name = name}).value();
  }
  void limit(int most) {
    zone.queues().change("q", [&](Queue& queue) { queue.max_running = most; }).value();
  }
  static std::vector<std::string> claims(Consumer& from, std::size_t most = 10) {
    std::vector<std::string> all;
    for (const Offer& offer : from.offer(most).value()) all.push_back(offer.claim);
    return all;
  }
  static Result<State> settle(Consumer& by, const std::string& claim, bool release = false) {
    return by.settle({{.claim = claim, .release = release}}).states.at(0);
  }
  static Result<RenewResult> renew(Consumer& by, const std::string& claim) {
    return by.renew(std::span(&claim, 1)).at(0);
  }
  std::optional<Stored> slot(std::size_t number) {
    const Address at = lone_at("q", core::slot_name(number));
    return impl->store->get(std::span(&at, 1)).at(0).value();
  }
  std::size_t slots_held() {
    std::size_t held = 0;
    for (std::size_t i = 0; i < 8; ++i) {
      const auto stored = slot(i);
      held += stored && stored->record.state == State::running &&
              impl->store->now() < stored->stamp + stored->record.lease;
    }
    return held;
  }
  // Another claim takes the slot, as it may after the slot's lease.
  Stored take_over(std::size_t number) {
    const auto before = slot(number);
    Record taken = before->record;
    taken.nonce = fresh_nonce();
    taken.lease = 3600s;
    const Swap swap{
        .at = lone_at("q", core::slot_name(number)), .expected = before->revision, .record = taken};
    EXPECT_TRUE(impl->store->swap(std::span(&swap, 1)).at(0).value().written);
    return *slot(number);
  }
};
ONCE_FOR_EVERY_STORE(ConsumerSlotsContract);

TEST_P(ConsumerSlotsContract, TwoConsumersAndAWorkerKeepTheLimitTogether) {
  add_limited(3);
  publish_some(8);
  Consumer ann = consumer("ann");
  Consumer bob = consumer("bob");
  std::vector<std::string> of_ann = claims(ann, 2);
  ASSERT_THAT(of_ann, SizeIs(2));
  const std::vector<std::string> of_bob = claims(bob);
  ASSERT_THAT(of_bob, SizeIs(1)) << "one slot is left";
  EXPECT_THAT(claims(ann), IsEmpty());
  EXPECT_FALSE(run_ok()) << "the worker needs a slot too";
  for (const std::string& claim : of_ann) ann.start(claim).value();
  bob.start(of_bob[0]).value();
  EXPECT_THAT(claims(bob), IsEmpty());

  EXPECT_EQ(settle(ann, of_ann[0]).value(), State::completed);
  EXPECT_EQ(slots_held(), 2U);
  bool alone = true;
  EXPECT_TRUE(run([&](Context&) {
    alone = claims(ann).empty() && claims(bob).empty();
    return Outcome::completed();
  }));
  EXPECT_TRUE(alone) << "the worker had the third slot";
  EXPECT_THAT(claims(bob), SizeIs(1));
  EXPECT_THAT(claims(ann), IsEmpty());
}

TEST_P(ConsumerSlotsContract, ASettledOrReleasedClaimGivesItsSlotBack) {
  add_limited(1, {.attempts = 3});
  publish_some(3);
  Consumer puller = consumer();
  for (int i = 0; i < 2; ++i) {
    const std::vector<std::string> got = claims(puller);
    ASSERT_THAT(got, SizeIs(1));
    puller.start(got[0]).value();
    EXPECT_EQ(settle(puller, got[0]).value(), State::completed);
    EXPECT_EQ(slots_held(), 0U);
  }
  const std::string offer = claims(puller).at(0);
  EXPECT_EQ(settle(puller, offer, true).value(), State::waiting);
  const std::string started = claims(puller).at(0);
  puller.start(started).value();
  EXPECT_EQ(settle(puller, started, true).value(), State::retrying);
  EXPECT_EQ(slots_held(), 0U);
}

TEST_P(ConsumerSlotsContract, ASettlementThatDoesNotEndTheClaimKeepsItsSlot) {
  add_limited(1, {.attempts = 3, .in_doubt = InDoubt::probe});
  publish_some(1);
  Consumer puller = zone.consumer("q", {.name = "puller", .can_probe = true}).value();
  const std::string first = claims(puller).at(0);
  EXPECT_EQ(settle(puller, first).error().reason, Reason::claim_not_started);
  EXPECT_EQ(slots_held(), 1U) << "it is still offered";
  puller.start(first).value();
  pass(kLease + kMore);
  const std::string probing = claims(puller).at(0);
  EXPECT_TRUE(puller.start(probing).value().probing);
  publish("later");
  EXPECT_EQ(puller.settle({{.claim = probing, .probe = Settlement::Probe::did_not_happen}})
                .states.at(0)
                .value(),
            State::running);
  EXPECT_EQ(slots_held(), 1U);
  EXPECT_THAT(claims(puller), IsEmpty());
}

TEST_P(ConsumerSlotsContract, AStepThatHoldsTheTaskGivesTheSlotBack) {
  add_limited(1);
  publish_some(1);
  Consumer puller = consumer();
  const std::string claim = claims(puller).at(0);
  puller.start(claim).value();
  EXPECT_TRUE(puller.begin_step(claim, "pay"));
  EXPECT_EQ(slots_held(), 1U);
  EXPECT_TRUE(puller.hold_step(claim, "pay", "nobody knows"));
  EXPECT_EQ(slots_held(), 0U);
}

TEST_P(ConsumerSlotsContract, TheSlotOfALapsedOfferIsFreeSoonAfterIt) {
  add_limited(1);
  publish_some(2);
  Consumer puller = consumer();
  const std::string lost = claims(puller).at(0);
  pass(kOffer);
  EXPECT_THAT(claims(puller), IsEmpty()) << "a slot ends no earlier than its claim";
  pass(kMore);
  const std::vector<std::string> got = claims(puller);
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(puller.start(lost).error().code, Code::fenced);
  EXPECT_TRUE(puller.start(got[0]));
  EXPECT_EQ(view("t0").attempts.size() + view("t1").attempts.size(), 1U);
}

TEST_P(ConsumerSlotsContract, TheSlotOfADeadClientIsFreeSoonAfterItsLease) {
  add_limited(1);
  publish_some(1);
  std::string lost;
  {
    Consumer puller = consumer("dies");
    lost = claims(puller).at(0);
    puller.start(lost).value();
  }
  Consumer other = consumer();
  EXPECT_EQ(slots_held(), 1U) << "the claim outlives its process, and so does its slot";
  pass(kLease);
  EXPECT_THAT(claims(other), IsEmpty());
  EXPECT_FALSE(run_ok());
  pass(kMore);
  const std::string taken = claims(other).at(0);
  EXPECT_EQ(other.start(taken).value().attempt, 2);
  EXPECT_EQ(renew(other, lost).error().code, Code::fenced);
  EXPECT_EQ(settle(other, lost).error().code, Code::fenced);
  EXPECT_EQ(slots_held(), 1U) << "the late settlement leaves the slot alone";
  EXPECT_THAT(renew(other, taken).value().lease, kLease);
}

TEST_P(ConsumerSlotsContract, RenewalsKeepTheSlot) {
  add_limited(1);
  publish_some(2);
  Consumer puller = consumer();
  Consumer other = consumer("other");
  const std::string claim = claims(puller).at(0);
  for (int i = 0; i < 4; ++i) {
    pass(9s);
    EXPECT_EQ(renew(puller, claim).value().lease, kOffer);
    EXPECT_THAT(claims(other), IsEmpty());
  }
  EXPECT_EQ(puller.start(claim).value().lease, kLease);
  for (int i = 0; i < 4; ++i) {
    pass(29s);
    EXPECT_EQ(renew(puller, claim).value().lease, kLease);
    EXPECT_THAT(claims(other), IsEmpty());
    EXPECT_FALSE(run_ok());
  }
  EXPECT_EQ(settle(puller, claim).value(), State::completed);
  EXPECT_THAT(claims(other), SizeIs(1));
}

TEST_P(ConsumerSlotsContract, AStartMakesTheSlotLastAsLongAsTheTask) {
  add_limited(1);
  publish_some(2);
  Consumer puller = consumer();
  const std::string claim = claims(puller).at(0);
  pass(8s);
  puller.start(claim).value();
  pass(kLease - 1s);
  EXPECT_EQ(slots_held(), 1U);
  EXPECT_THAT(claims(puller), IsEmpty());
}

TEST_P(ConsumerSlotsContract, AClaimWithoutItsSlotIsFencedAndCanBeSettled) {
  add_limited(1);
  publish_some(1);
  Consumer puller = consumer();
  const std::string claim = claims(puller).at(0);
  puller.start(claim).value();
  const Stored taken = take_over(0);
  const Error renewed = renew(puller, claim).error();
  EXPECT_EQ(renewed.code, Code::fenced);
  EXPECT_THAT(renewed.message, HasSubstr("max_running"));
  EXPECT_EQ(puller.start(claim).error().code, Code::fenced);
  EXPECT_EQ(settle(puller, claim).value(), State::completed) << "the task has run";
  EXPECT_EQ(settle(puller, claim).value(), State::completed);
  EXPECT_EQ(slot(0), taken) << "the slot belongs to another claim";
}

TEST_P(ConsumerSlotsContract, AnOfferWithoutItsSlotDoesNotStart) {
  add_limited(1);
  publish_some(1);
  Consumer puller = consumer();
  const std::string claim = claims(puller).at(0);
  const Stored taken = take_over(0);
  EXPECT_EQ(puller.start(claim).error().code, Code::fenced);
  EXPECT_THAT(view("t0").attempts, IsEmpty());
  EXPECT_EQ(settle(puller, claim, true).value(), State::waiting);
  EXPECT_EQ(slot(0), taken);
}

TEST_P(ConsumerSlotsContract, ARepeatedSettlementLeavesTheNextClaimItsSlot) {
  add_limited(1);
  publish_some(3);
  Consumer puller = consumer();
  const std::string first = claims(puller).at(0);
  puller.start(first).value();
  EXPECT_EQ(settle(puller, first).value(), State::completed);
  const std::string second = claims(puller).at(0);
  puller.start(second).value();
  EXPECT_EQ(settle(puller, first).value(), State::completed) << "its repeat comes late";
  EXPECT_EQ(slots_held(), 1U);
  EXPECT_THAT(claims(puller), IsEmpty());
  EXPECT_TRUE(renew(puller, second));
}

TEST_P(ConsumerSlotsContract, ASettlementHandsItsSlotToTheNextOffer) {
  add_limited(1);
  publish_some(4);
  Consumer puller = consumer();
  Consumer other = consumer("other");
  std::vector<std::string> next = claims(puller);
  int ran = 0;
  while (!next.empty()) {
    ASSERT_THAT(next, SizeIs(1));
    EXPECT_THAT(claims(other), IsEmpty());
    puller.start(next[0]).value();
    const Settled settled = puller.settle({{.claim = next[0]}}, 5);
    EXPECT_EQ(settled.states.at(0).value(), State::completed);
    next.clear();
    for (const Offer& offer : settled.next) next.push_back(offer.claim);
    ++ran;
  }
  EXPECT_EQ(ran, 4);
  EXPECT_EQ(slots_held(), 0U) << "slots without a task are given back";
}

TEST_P(ConsumerSlotsContract, AnOfferWaitsForASlotAndForATask) {
  add_limited(1);
  publish_some(1);
  Consumer puller = consumer();
  const std::string first = claims(puller).at(0);
  puller.start(first).value();
  publish("later");
  std::optional<Result<std::vector<Offer>>> got;
  std::thread waiting([&] { got = puller.offer(4, 60s); });
  EXPECT_EQ(settle(puller, first).value(), State::completed);
  waiting.join();
  ASSERT_THAT(got->value(), SizeIs(1));
  EXPECT_EQ(got->value().at(0).id, "later");

  std::stop_source stop;
  std::thread full([&] { got = puller.offer(4, 60s, stop.get_token()); });
  stop.request_stop();
  full.join();
  EXPECT_THAT(got->value(), IsEmpty());
}

TEST_P(ConsumerSlotsContract, ALimitThatIsNewLeavesTheClaimsThatAreOut) {
  add({});
  publish_some(3);
  Consumer before = consumer("before");
  const std::string claim = claims(before, 1).at(0);
  limit(1);
  Consumer puller = consumer();
  EXPECT_TRUE(renew(puller, claim));
  puller.start(claim).value();
  EXPECT_THAT(claims(puller), SizeIs(1)) << "the claim without a slot is not counted";
  EXPECT_THAT(claims(puller), IsEmpty());
  EXPECT_EQ(settle(puller, claim).value(), State::completed);
  EXPECT_EQ(slots_held(), 1U);
}

TEST_P(ConsumerSlotsContract, ALowerLimitLeavesTheClaimsThatAreOut) {
  add_limited(3);
  publish_some(6);
  Consumer before = consumer("before");
  const std::vector<std::string> out = claims(before);
  ASSERT_THAT(out, SizeIs(3));
  for (const std::string& each : out) before.start(each).value();
  limit(1);
  Consumer puller = consumer();
  for (const std::string& each : out) EXPECT_TRUE(renew(puller, each));
  EXPECT_THAT(claims(puller), IsEmpty());
  for (const std::string& each : out) EXPECT_EQ(settle(puller, each).value(), State::completed);
  EXPECT_THAT(claims(puller), SizeIs(1));
  limit(0);
  Consumer after = consumer("after");
  EXPECT_THAT(claims(after), SizeIs(2));
}

TEST_P(ConsumerSlotsContract, ManyCallersNeverRunMoreThanTheLimit) {
  add_limited(2);
  publish_some(30);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  std::mutex mutex;
  std::multiset<std::string> ran;
  at_once(4, [&](int caller) {
    Consumer puller = consumer("p" + std::to_string(caller));
    while (count(State::completed) < 30) {
      for (const Offer& offer : puller.offer(3).value()) {
        const StartedTask task = puller.start(offer.claim).value();
        const int now = ++running;
        for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) continue;
        {
          const std::lock_guard lock(mutex);
          ran.insert(task.task.id);
        }
        --running;
        EXPECT_EQ(settle(puller, offer.claim).value(), State::completed);
      }
    }
  });
  EXPECT_LE(most, 2);
  EXPECT_THAT(ran, SizeIs(30));
  EXPECT_THAT(std::set<std::string>(ran.begin(), ran.end()), SizeIs(30));
  EXPECT_EQ(slots_held(), 0U);
}

// Each call of the store fails once, or its answer is lost once.
TEST_P(ConsumerSlotsContract, LostAnswersLeaveNoSlotForLongerThanALease) {
  for (const Seam seam : {Seam::get, Seam::swap, Seam::fetch}) {
    for (const Fault fault : {Fault::fails, Fault::answer_lost}) {
      for (std::uint64_t call = 1; call <= 4; ++call) {
        SCOPED_TRACE(::testing::Message()
                     << testing::kSeamNames[static_cast<std::size_t>(seam)] << " " << call << " "
                     << (fault == Fault::fails ? "fails" : "answer lost"));
        testing::TempFolder own;
        auto faulty = std::make_unique<FaultyStore>(GetParam().open(own.path(), clock));
        FaultyStore& store = *faulty;
        Zone broken =
            detail::Access::make<Zone>(std::make_shared<detail::ZoneState>(std::move(faulty)));
        broken.queues().add({.name = "q", .topic = "t", .max_running = 1}).value();
        for (const char* id : {"a", "b"}) broken.publish({.topic = "t", .id = id}).value();
        Consumer puller = broken.consumer("q", {.name = "puller"}).value();
        FaultPlan plan;
        plan.on(seam, store.calls(seam) + call, fault);
        store.set_plan(plan);
        // What a client does that repeats nothing.
        if (const auto offers = puller.offer(1); offers && !offers->empty()) {
          static_cast<void>(puller.start(offers->at(0).claim));
          static_cast<void>(puller.settle({{.claim = offers->at(0).claim}}, 1));
        }
        store.set_plan({});
        std::size_t held = 0;
        for (const char* id : {"a", "b"})
          for (const QueueView& view : broken.tasks().inspect(id).value().queues)
            held += view.state == State::running;
        EXPECT_LE(held, 1U);
        pass(kLease + kMore);
        // A call without a wait may meet a delivery of a settled task first.
        std::size_t offered = 0;
        for (int i = 0; i < 3 && offered == 0; ++i) offered = puller.offer(1).value().size();
        const std::uint64_t done = broken.status().value().queues.at(0).tasks.at(State::completed);
        EXPECT_EQ(offered, done < 2 ? 1U : 0U);
      }
    }
  }
}

}  // namespace
}  // namespace once::contract
