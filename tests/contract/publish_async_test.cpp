// Zone::publish_async() on every store: results and their order, limits, a store that fails, and a
// Zone that is destroyed while publishes are in flight.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "api/access.h"
#include "contract/contract.h"
#include "once/once.h"
#include "support/eventually.h"
#include "support/faulty_store.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using testing::Fault;
using testing::FaultPlan;
using ::testing::HasSubstr;
using testing::Seam;
using ::testing::SizeIs;

constexpr std::size_t kBatch = 1024;  // of src/publish/async_publisher.cpp

// A store whose append() waits while the gate is shut.
class GatedStore final : public testing::FaultyStore {
 public:
  using FaultyStore::FaultyStore;

  std::vector<Result<AppendResult>> append(std::span<const Append> items) override {
    {
      std::unique_lock lock(mutex_);
      ++entered_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return open_; });
    }
    return FaultyStore::append(items);
  }
  void shut() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  void open_gate() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // Returns when an append() waits at the gate.
  void wait_for_append() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return entered_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int entered_ = 0;
};

class AsyncContract : public ::testing::TestWithParam<StoreUnderTest> {
 protected:
  void open(AsyncLimits limits = {}) {
    auto gated = std::make_unique<GatedStore>(GetParam().open(folder_.path(), clock_));
    store_ = gated.get();
    zone_ = detail::Access::zone_on(std::move(gated), limits);
  }
  static Task task_of(std::string id, std::string_view json = "null") {
    return {.topic = "t", .id = std::move(id), .body = Body::json(json).value()};
  }
  std::future<Result<Receipt>> publish(std::string id, std::string_view json = "null") {
    return zone_->publish_async(task_of(std::move(id), json));
  }
  std::size_t entries() { return zone_->tasks().log(0, 100'000).value().size(); }

  testing::TempFolder folder_;
  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  GatedStore* store_ = nullptr;  // of zone_
  std::optional<Zone> zone_;
};
ONCE_FOR_EVERY_STORE(AsyncContract);

// --- Results ----------------------------------------------------------------------------------

TEST_P(AsyncContract, AFutureGetsTheResultThatPublishReturns) {
  open();
  const Receipt first = publish("a", R"({"n":1})").get().value();
  EXPECT_EQ(first.id, "a");
  EXPECT_FALSE(first.duplicate);
  EXPECT_TRUE(first.unrouted);

  const Receipt again = publish("a", R"({"n":1})").get().value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.sequence, first.sequence);

  const auto changed = publish("a", R"({"n":2})").get();
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().code, Code::conflicting_duplicate);
  ASSERT_TRUE(changed.error().conflict);
  EXPECT_THAT(changed.error().conflict->differs.value(), ElementsAre("$.n"));

  EXPECT_EQ(zone_->publish_async({.topic = "no good", .id = "b"}).get().error().code,
            Code::invalid_input);
  EXPECT_EQ(entries(), 1U);
  const PublisherMetrics metrics = zone_->metrics();
  EXPECT_EQ(metrics.accepted, 1U);
  EXPECT_EQ(metrics.duplicates, 1U);
  EXPECT_EQ(metrics.conflicts, 1U);
  EXPECT_EQ(metrics.in_flight, 0U);
}

TEST_P(AsyncContract, ResultsArriveInTheOrderOfTheCalls) {
  open();
  constexpr std::size_t kCount = 2 * kBatch + 10;
  store_->shut();
  std::vector<std::string> order;  // only the publishing thread writes it
  std::uint64_t highest = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    zone_
        ->publish_async(task_of(std::to_string(i)),
                        [&](Result<Receipt> result) {
                          order.push_back(result.value().id);
                          highest = std::max(highest, result->sequence);
                        })
        .value();
  }
  store_->open_gate();
  EXPECT_EQ(publish("last").get().value().id, "last");
  EXPECT_GT(publish("after").get().value().sequence, highest);
  ASSERT_THAT(order, SizeIs(kCount));
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(order[i], std::to_string(i));
  EXPECT_LE(store_->calls(Seam::append), 5U) << "the tasks that gather are one batch";
}

TEST_P(AsyncContract, ManyThreadsPublishAndEachGetsItsOwnResults) {
  open();
  constexpr int kThreads = 8;
  constexpr int kEach = 100;
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = 0; i < kEach; ++i) {
          const std::string id = std::to_string(thread) + "." + std::to_string(i);
          const auto receipt = i % 2 == 0 ? publish(id).get() : zone_->publish(task_of(id));
          if (receipt && receipt->id == id && !receipt->duplicate) ++right;
        }
      });
    }
  }
  EXPECT_EQ(right, kThreads * kEach);
  EXPECT_EQ(entries(), static_cast<std::size_t>(kThreads * kEach));
}

TEST_P(AsyncContract, ACallbackCanPublishTheNextTask) {
  open({.publishes = 1});
  constexpr int kChain = 50;
  std::promise<void> done;
  std::function<void(int)> next = [&](int i) {
    const auto accepted =
        zone_->publish_async(task_of(std::to_string(i)), [&, i](Result<Receipt> result) {
          EXPECT_TRUE(result);
          i + 1 < kChain ? next(i + 1) : done.set_value();
        });
    if (!accepted) ADD_FAILURE() << accepted.error().message;
  };
  next(0);
  done.get_future().wait();
  EXPECT_EQ(entries(), static_cast<std::size_t>(kChain));
}

TEST_P(AsyncContract, AnEmptyCallbackIsRefused) {
  open();
  EXPECT_EQ(zone_->publish_async(task_of("a"), PublishCallback{}).error().code,
            Code::invalid_input);
  EXPECT_EQ(entries(), 0U);
}

// --- Limits -----------------------------------------------------------------------------------

TEST_P(AsyncContract, AboveTheLimitATaskIsRefusedAndTheCallerIsNotKeptWaiting) {
  open({.publishes = 3});
  store_->shut();
  std::vector<std::future<Result<Receipt>>> accepted;
  for (const char* id : {"a", "b", "c"}) accepted.push_back(publish(id));
  EXPECT_EQ(zone_->metrics().in_flight, 3U);

  const auto refused = publish("d").get();  // would hang if it waited: the gate is shut
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::overloaded);
  EXPECT_TRUE(refused.error().retryable);
  EXPECT_FALSE(refused.error().in_doubt);
  bool called = false;
  const auto by_callback =
      zone_->publish_async(task_of("d"), [&](Result<Receipt>) { called = true; });
  ASSERT_FALSE(by_callback);
  EXPECT_EQ(by_callback.error().code, Code::overloaded);

  store_->open_gate();
  for (auto& each : accepted) EXPECT_FALSE(each.get().value().duplicate);
  EXPECT_FALSE(publish("d").get().value().duplicate) << "the refused task was not published";
  EXPECT_FALSE(called);
}

TEST_P(AsyncContract, BytesAreLimitedAndALargeBodyIsAcceptedAlone) {
  open({.bytes = 8});
  store_->shut();
  auto large = publish("large", R"("0123456789")");
  EXPECT_EQ(publish("small", "1").get().error().code, Code::overloaded);
  store_->open_gate();
  EXPECT_TRUE(large.get());
  EXPECT_TRUE(publish("small", "1").get());
}

// --- A store that fails -----------------------------------------------------------------------

TEST_P(AsyncContract, AStoreThatFailsFailsThePublishAndLaterOnesSucceed) {
  open();
  store_->set_plan(FaultPlan{}.on(Seam::append, 1, Fault::fails));
  const auto failed = publish("a").get();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::store_unavailable);
  EXPECT_TRUE(failed.error().retryable);
  EXPECT_EQ(entries(), 0U);
  EXPECT_FALSE(publish("a").get().value().duplicate);
}

TEST_P(AsyncContract, APublishWhoseAnswerIsLostIsFoundAgain) {
  open();
  store_->set_plan(FaultPlan{}.on(Seam::append, 1, Fault::answer_lost));
  EXPECT_FALSE(publish("a").get().value().duplicate) << "its own entry is no duplicate";
  EXPECT_EQ(entries(), 1U);
}

// --- The end of the zone ----------------------------------------------------------------------

// Publishes "first" with a callback that returns only when the destructor of the zone runs. Tasks
// that are published meanwhile wait behind it.
class UntilDestroyed {
 public:
  UntilDestroyed(Zone& zone, PublishCallback each) : zone_(zone), each_(std::move(each)) {
    zone_
        .publish_async({.topic = "t", .id = "first"},
                       [this](Result<Receipt> result) {
                         each_(std::move(result));
                         answered_.set_value();
                         // The destructor refuses further publishes.
                         while (true) {
                           const auto more =
                               zone_.publish_async({.topic = "t", .id = "more"}, each_);
                           if (more) ++accepted_;
                           if (!more && more.error().code == Code::wrong_state) return;
                           std::this_thread::yield();
                         }
                       })
        .value();
  }
  void wait_for_first() { answered_.get_future().wait(); }
  // How many tasks were published meanwhile; call it after the end of the zone.
  std::size_t accepted() const { return accepted_; }

 private:
  Zone& zone_;
  const PublishCallback each_;
  std::promise<void> answered_;
  std::size_t accepted_ = 0;
};

TEST_P(AsyncContract, DestroyingTheZonePublishesWhatWaitsAndCallsEveryCallback) {
  open();
  std::size_t published = 0;
  const auto count = [&](Result<Receipt> result) { published += result ? 1 : 0; };
  UntilDestroyed first(*zone_, count);
  first.wait_for_first();
  constexpr std::size_t kCount = kBatch + 100;
  std::size_t waiting = 0;
  for (std::size_t i = 0; i < kCount; ++i)
    waiting += zone_->publish_async(task_of(std::to_string(i)), count) ? 1 : 0;
  auto future = publish("future");
  zone_.reset();
  EXPECT_EQ(published, 1 + first.accepted() + waiting);
  ASSERT_EQ(future.wait_for(0s), std::future_status::ready);
  const bool future_published = static_cast<bool>(future.get());
  if (!GetParam().persists) return;
  open();
  const std::size_t others = 1 + (first.accepted() > 0 ? 1 : 0) + (future_published ? 1 : 0);
  EXPECT_EQ(entries(), others + waiting);
}

TEST_P(AsyncContract, AZoneThatIsDestroyedWhileItsStoreFailsDoesNotTryTheRest) {
  open();
  store_->set_plan(FaultPlan{}
                       .on(Seam::append, 1, Fault::fails)
                       .on(Seam::append, 2, Fault::fails)
                       .on(Seam::append, 3, Fault::fails));
  store_->shut();
  std::vector<Code> codes;
  std::string last;
  const auto answer = [&](Result<Receipt> result) {
    codes.push_back(result.error().code);
    last = result.error().message;
  };
  UntilDestroyed first(*zone_, answer);
  store_->wait_for_append();  // the first task is a batch of its own
  constexpr std::size_t kCount = 3 * kBatch;
  for (std::size_t i = 0; i < kCount; ++i)
    zone_->publish_async(task_of(std::to_string(i)), answer).value();
  store_->open_gate();
  first.wait_for_first();
  zone_.reset();
  EXPECT_EQ(codes.size(), 1 + first.accepted() + kCount);
  EXPECT_THAT(codes, ::testing::Each(Code::store_unavailable));
  EXPECT_THAT(last, HasSubstr("was destroyed"));
  if (!GetParam().persists) return;
  open();
  EXPECT_EQ(entries(), 0U);
}

TEST_P(AsyncContract, AWorkerKeepsTheStoreOpenAfterTheZoneHasAnsweredEverything) {
  open();
  zone_->queues().add({.name = "q", .topic = "t"}).value();
  int ran = 0;
  Worker worker = zone_->worker("q", [&](Context&) { return ++ran, Outcome::completed(); }).value();
  auto future = publish("a");
  zone_.reset();
  EXPECT_TRUE(future.get());
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace once::contract
