// What a keeper lets begin: a claim whose lease ended before it was begun may be another's by now.
#include "work/lease_keeper.h"

#include <gtest/gtest.h>

#include <thread>

#include "core/decide.h"
#include "store/memory/memory_store.h"
#include "support/eventually.h"
#include "support/faulty_store.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;
using once::testing::Fault;
using once::testing::FaultPlan;
using once::testing::FaultyStore;
using once::testing::Seam;

class KeeperStart : public ::testing::Test {
 protected:
  explicit KeeperStart(Duration timeout = {}) : queue_(queue(timeout)) {
    store_.add_queue(queue_).value();
    running_.address = {.queue = queue_.name, .key = "a"};
    running_.nonce.bytes.fill(1);
    running_.stored = claim(running_.nonce).value();
    running_.claimed_for = queue_.lease;
    running_.renewed_at = scheduler_->now();
  }

  std::optional<core::Stored> claim(const core::Nonce& nonce) {
    auto written =
        writer_.write({.at = running_.address,
                       .known = writer_.read(std::span(&running_.address, 1)).front().value(),
                       .command = core::Claim{.worker = "w", .nonce = nonce}});
    return written.value().stored;
  }
  core::Stored stored() {
    return writer_.read(std::span(&running_.address, 1)).front().value().value();
  }
  // As if the answer to its claim had taken longer than the lease.
  void let_the_lease_end() { running_.renewed_at = scheduler_->now() - queue_.lease; }

  static Queue queue(Duration timeout) {
    return {.name = "q", .lease = 1h, .timeout = timeout, .ledger = true};
  }

  const Queue queue_;
  FaultyStore store_{store::open_memory(nullptr)};
  std::unique_ptr<Scheduler> scheduler_ = thread_scheduler();
  LedgerWriter writer_{store_, core::policy_of(queue_)};
  LeaseKeeper keeper_{*scheduler_, writer_, 1s};
  RunningTask running_;
};

TEST_F(KeeperStart, BeginsWhatIsHeldWithoutAWrite) {
  const core::Revision before = running_.stored.revision;
  EXPECT_TRUE(keeper_.start(running_));
  EXPECT_EQ(stored().revision, before);
}

TEST_F(KeeperStart, LetsOneThatHasStartedRunOnlyWhileItIsItsOwn) {
  ASSERT_TRUE(keeper_.start(running_));
  EXPECT_TRUE(keeper_.may_run(running_));
  core::Stored taken = stored();
  taken.record.nonce.bytes.fill(2);
  const store::Swap swap{
      .at = running_.address, .expected = taken.revision, .record = taken.record};
  ASSERT_TRUE(store_.inner().swap(std::span(&swap, 1)).front().value().written);
  let_the_lease_end();
  EXPECT_FALSE(keeper_.may_run(running_));
  EXPECT_EQ(running_.stopped, Stopped::lost);
}

TEST_F(KeeperStart, RenewsALeaseThatIsOverBeforeItBegins) {
  const core::Revision before = running_.stored.revision;
  let_the_lease_end();
  EXPECT_TRUE(keeper_.start(running_));
  EXPECT_GT(stored().revision, before);
  EXPECT_EQ(stored().record.nonce, running_.nonce);
}

TEST_F(KeeperStart, DoesNotBeginWhatAnotherHasByNow) {
  core::Stored other = stored();
  other.record.nonce.bytes.fill(2);
  const store::Swap swap{
      .at = running_.address, .expected = other.revision, .record = other.record};
  ASSERT_TRUE(store_.swap(std::span(&swap, 1)).front().value().written);
  let_the_lease_end();
  EXPECT_FALSE(keeper_.start(running_));
  EXPECT_EQ(keeper_.stopped(running_), Stopped::lost);
}

TEST_F(KeeperStart, DoesNotBeginWhatItCannotRenew) {
  store_.set_plan(FaultPlan{}.randomly(Seam::swap, 1.0, Fault::fails, 1));
  let_the_lease_end();
  EXPECT_FALSE(keeper_.start(running_));
  store_.set_plan({});
}

class KeeperTimeout : public KeeperStart {
 protected:
  KeeperTimeout() : KeeperStart(100ms) {}
};

TEST_F(KeeperTimeout, LetsNothingRunWhoseTimeIsUp) {
  ASSERT_TRUE(keeper_.start(running_));
  running_.started_at = scheduler_->now() - 2h;
  let_the_lease_end();
  EXPECT_FALSE(keeper_.may_run(running_));
  EXPECT_EQ(running_.stopped, Stopped::timed_out);
}

TEST_F(KeeperTimeout, LetsATaskHaveATimeOfItsOwn) {
  running_.own = core::TaskPolicy{.timeout = 4h};
  ASSERT_TRUE(keeper_.start(running_));
  running_.started_at = scheduler_->now() - 2h;
  EXPECT_TRUE(keeper_.may_run(running_));
  EXPECT_EQ(keeper_.timeout(running_), 4h);
  running_.own->timeout = 1h;
  let_the_lease_end();
  EXPECT_FALSE(keeper_.may_run(running_));
  EXPECT_EQ(running_.stopped, Stopped::timed_out);
}

TEST_F(KeeperTimeout, RenewsALeaseThatItCutShortBeforeItBegins) {
  let_the_lease_end();
  ASSERT_TRUE(keeper_.start(running_));
  running_.started_at.reset();
  const core::Stored before = stored();
  ASSERT_LT(before.record.lease, 2s);
  running_.renewed_at -= before.record.lease;
  EXPECT_TRUE(keeper_.start(running_));
  EXPECT_GT(stored().revision, before.revision);
}

TEST_F(KeeperTimeout, KeepsALeaseThatItCutShortUntilTheHandlerBegins) {
  const core::Revision before = running_.stored.revision;
  let_the_lease_end();
  keeper_.watch(running_);
  EXPECT_TRUE(testing::eventually([&] { return stored().revision.value >= before.value + 3; }));
  RunningTask* const watched = &running_;
  keeper_.unwatch(std::span(&watched, 1));
}

}  // namespace
}  // namespace once::engine
