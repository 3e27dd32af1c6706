// Fetches that wait, in real time and by the machine's clock: whatever makes a task ready ends the
// wait, and so does a stop.
#include <gmock/gmock.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "contract/contract.h"

namespace once::contract {
namespace {

using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A wait that nobody ends lasts this long, and shows by it.
constexpr Duration kForever = 30s;
constexpr Duration kSoon = 20s;

class WaitContract : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  WaitContract() : store_(GetParam().open(folder_.path(), nullptr)) { add("work", 1h); }

  void add(const std::string& name, Duration lease) {
    Queue queue = queue_of(name);
    queue.lease = lease;
    EXPECT_TRUE(store_->add_queue(queue).value().added);
  }
  void publish(const std::string& id) {
    const Append item = task(id);
    std::move(store_->append(std::span(&item, 1)).at(0)).value();
  }
  // What is handed over in the end; fails the test when it took too long.
  std::vector<Delivery> wait(const std::string& queue = "work", std::stop_token stop = {}) {
    const auto start = steady_clock::now();
    auto deliveries = store_->fetch({.queue = queue, .wait = kForever, .stop = stop}).value();
    EXPECT_LT(steady_clock::now() - start, kSoon);
    return deliveries;
  }
  static void set_paused(Store& store, bool paused) {
    Queue queue = queue_of("work");
    queue.lease = 1h;
    queue.paused = paused;
    store.set_queue(queue, store.queues().value().at(0)).value();
  }
  // One task after the other, each of them released by a resume.
  void resume_often(Store& person) {
    constexpr int kRounds = 40;
    std::atomic<int> taken{0};
    set_paused(person, true);
    const auto start = steady_clock::now();
    std::jthread consumer([&] {
      for (int i = 0; i < kRounds; ++i) {
        EXPECT_THAT(wait(), SizeIs(1));
        ++taken;
        taken.notify_all();
      }
    });
    for (int i = 0; i < kRounds && !HasFailure(); ++i) {
      publish("id-" + std::to_string(i));
      set_paused(person, false);
      taken.wait(i);
      set_paused(person, true);
    }
    consumer.join();
    EXPECT_LT(steady_clock::now() - start, kSoon) << "who only looks now and then is slower";
  }
  // How long this thread was at work while it waited.
  Duration busy_while_waiting(const std::string& queue, Duration wait) {
    const auto busy = [] {
      timespec spent{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
      return Duration{spent.tv_sec * 1000 + spent.tv_nsec / 1'000'000};
    };
    const Duration before = busy();
    EXPECT_THAT(store_->fetch({.queue = queue, .wait = wait}).value(), IsEmpty());
    return busy() - before;
  }
  void settle(const Delivery& delivery, std::optional<Duration> again) {
    const store::Settlement answer{.queue = "work",
                                   .sequence = delivery.entry.sequence,
                                   .handle = delivery.handle,
                                   .again = again};
    store_->settle(std::span(&answer, 1)).value();
  }
  Stored write(const Delivery& delivery, Revision expected, const Record& record) {
    const Swap item{.at = task_at("work", delivery.entry),
                    .expected = expected,
                    .record = record,
                    .handle = delivery.handle};
    return std::move(store_->swap(std::span(&item, 1)).at(0)).value().current.value();
  }

  testing::TempFolder folder_;
  std::unique_ptr<Store> store_;
};
ONCE_FOR_EVERY_STORE(WaitContract);

TEST_P(WaitContract, AWaitRunsOut) {
  const auto start = steady_clock::now();
  EXPECT_THAT(store_->fetch({.queue = "work", .wait = 30ms}).value(), IsEmpty());
  EXPECT_GE(steady_clock::now() - start, 25ms);
  EXPECT_LT(steady_clock::now() - start, kSoon);
}

TEST_P(WaitContract, WhatIsThereIsNotWaitedFor) {
  publish("a");
  EXPECT_THAT(wait(), SizeIs(1));
}

TEST_P(WaitContract, EveryAppendWakesAWaitingFetch) {
  constexpr int kRounds = 40;
  std::atomic<int> taken{0};
  std::jthread consumer([&] {
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_THAT(ids(wait()), ElementsAre("id-" + std::to_string(i)));
      ++taken;
      taken.notify_all();
    }
  });
  for (int i = 0; i < kRounds && !HasFailure(); ++i) {
    publish("id-" + std::to_string(i));
    taken.wait(i);
  }
}

TEST_P(WaitContract, ADeliverySettledForLaterEndsTheWaitByItself) {
  publish("a");
  settle(wait().at(0), 50ms);
  EXPECT_THAT(ids(wait()), ElementsAre("a"));
}

TEST_P(WaitContract, AnUnansweredDeliveryEndsTheWaitByItself) {
  add("quick", 50ms);
  publish("a");
  EXPECT_THAT(ids(wait("quick")), ElementsAre("a"));
  EXPECT_THAT(ids(wait("quick")), ElementsAre("a"));
}

TEST_P(WaitContract, ARetryEndsTheWaitByItself) {
  publish("a");
  const auto delivery = wait().at(0);
  Record record = record_of(delivery.entry, State::retrying);
  record.delay = 50ms;
  write(delivery, {}, record);
  EXPECT_THAT(ids(wait()), ElementsAre("a"));
}

TEST_P(WaitContract, AReleasedTaskWakesAWaitingFetch) {
  publish("a");
  const auto delivery = wait().at(0);
  Record record = record_of(delivery.entry, State::running);
  record.lease = 1h;
  const Stored running = write(delivery, {}, record);
  record.state = State::waiting;
  std::jthread other([&] { write(delivery, running.revision, record); });
  EXPECT_THAT(ids(wait()), ElementsAre("a"));
}

TEST_P(WaitContract, AWokenEntryWakesAWaitingFetch) {
  publish("a");
  const auto delivery = wait().at(0);
  settle(delivery, std::nullopt);
  const Wake one{.sequence = delivery.entry.sequence};
  std::jthread other([&] { store_->wake("work", std::span(&one, 1)).value(); });
  EXPECT_THAT(ids(wait()), ElementsAre("a"));
}

TEST_P(WaitContract, AWorkerThatLeavesWakesAWaitingFetch) {
  if (!GetParam().knows_who_left) GTEST_SKIP() << "this store goes by leases alone";
  auto leaves = store_->join("work", "worker").value();
  publish("a");
  const auto delivery = wait().at(0);
  Record record = record_of(delivery.entry, State::running);
  record.lease = 1h;
  record.member = leaves->number();
  write(delivery, {}, record);
  std::jthread other([&] { leaves.reset(); });
  EXPECT_THAT(ids(wait()), ElementsAre("a"));
}

TEST_P(WaitContract, AScheduledTaskEndsTheWaitWhenItsTimeComes) {
  for (const std::size_t again : {std::size_t{0}, SIZE_MAX}) {
    const auto start = steady_clock::now();
    const Append item = delayed_task("again-" + std::to_string(again), 50ms);
    std::move(store_->append(std::span(&item, 1)).at(0)).value();
    const auto deliveries =
        store_->fetch({.queue = "work", .again = again, .wait = kForever}).value();
    EXPECT_THAT(ids(deliveries), ElementsAre(item.id));
    EXPECT_GE(steady_clock::now() - start, 45ms);
    EXPECT_LT(steady_clock::now() - start, kSoon);
  }
}

TEST_P(WaitContract, AScheduledTaskWakesAFetchThatWaitedBeforeItCame) {
  std::jthread other([&] {
    const Append item = delayed_task("a", 30ms);
    std::move(store_->append(std::span(&item, 1)).at(0)).value();
  });
  EXPECT_THAT(ids(wait()), ElementsAre("a"));
}

TEST_P(WaitContract, AnOrderWakesAWaitingFetch) {
  publish("a");
  const auto delivery = wait().at(0);
  write(delivery, {}, record_of(delivery.entry, State::dead));
  const Wake one{.sequence = delivery.entry.sequence, .order = order_of("ann")};
  std::jthread other([&] { store_->wake("work", std::span(&one, 1)).value(); });
  EXPECT_EQ(wait().at(0).order, one.order);
}

TEST_P(WaitContract, AResumedQueueWakesAWaitingFetchAtOnce) { resume_often(*store_); }

TEST_P(WaitContract, AQueueThatAnotherStoreResumesWakesAWaitingFetchAtOnce) {
  if (!GetParam().persists) GTEST_SKIP() << "there is no other store on this zone";
  resume_often(*GetParam().open(folder_.path(), nullptr));
}

TEST_P(WaitContract, APausedQueueIsWaitedForAsIfItWereEmpty) {
  publish("a");
  set_paused(*store_, true);
  EXPECT_LT(busy_while_waiting("work", 400ms), 200ms);
}

TEST_P(WaitContract, ALedgerOnlyQueueIsWaitedForAsIfItWereEmpty) {
  store_->add_queue(ledger_of("ledger")).value();
  publish("a");
  auto worker = store_->join("ledger", "worker").value();
  std::vector<Swap> items;
  for (const State state : {State::waiting, State::retrying, State::running})
    items.push_back({.at = ledger_only_at("ledger", std::string(to_string(state))),
                     .record = {.state = state, .member = worker->number(), .lease = 1ms}});
  for (const auto& answer : store_->swap(items)) EXPECT_TRUE(answer->written);
  worker.reset();
  EXPECT_LT(busy_while_waiting("ledger", 400ms), 200ms);
}

TEST_P(WaitContract, OneAppendIsHandedToOneOfManyThatWait) {
  std::stop_source stop;
  std::atomic<int> handed{0};
  {
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 4; ++i)
      waiting.emplace_back([&] {
        if (wait("work", stop.get_token()).empty()) return;
        ++handed;
        stop.request_stop();
      });
    publish("a");
  }
  EXPECT_EQ(handed, 1);
}

TEST_P(WaitContract, AStopEndsTheWait) {
  for (int i = 0; i < 10; ++i) {
    std::stop_source stop;
    std::jthread other([&] { stop.request_stop(); });
    EXPECT_THAT(wait("work", stop.get_token()), IsEmpty());
  }
}

TEST_P(WaitContract, AStopThatWasAskedForBeforeEndsTheWaitToo) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(wait("work", stop.get_token()), IsEmpty());
}

}  // namespace
}  // namespace once::contract
