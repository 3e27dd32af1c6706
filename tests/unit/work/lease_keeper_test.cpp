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
    flight_.address = {.queue = queue_.name, .key = "a"};
    flight_.nonce.bytes.fill(1);
    flight_.stored = claim(flight_.nonce).value();
    flight_.claimed_for = queue_.lease;
    flight_.renewed_at = scheduler_->now();
  }

  std::optional<core::Stored> claim(const core::Nonce& nonce) {
    auto written =
        scribe_.write({.at = flight_.address,
                       .known = scribe_.read(std::span(&flight_.address, 1)).front().value(),
                       .command = core::Claim{.worker = "w", .nonce = nonce}});
    return written.value().stored;
  }
  core::Stored stored() {
    return scribe_.read(std::span(&flight_.address, 1)).front().value().value();
  }
  // As if the answer to its claim had taken longer than the lease.
  void let_the_lease_end() { flight_.renewed_at = scheduler_->now() - queue_.lease; }

  static Queue queue(Duration timeout) {
    return {.name = "q", .lease = 1h, .timeout = timeout, .ledger = true};
  }

  const Queue queue_;
  FaultyStore store_{store::open_memory(nullptr)};
  std::unique_ptr<Scheduler> scheduler_ = thread_scheduler();
  LedgerWriter scribe_{store_, core::policy_of(queue_)};
  LeaseKeeper keeper_{*scheduler_, scribe_, 1s};
  RunningTask flight_;
};

TEST_F(KeeperStart, BeginsWhatIsHeldWithoutAWrite) {
  const core::Revision before = flight_.stored.revision;
  EXPECT_TRUE(keeper_.start(flight_));
  EXPECT_EQ(stored().revision, before);
}

TEST_F(KeeperStart, LetsOneThatHasStartedRunOnlyWhileItIsItsOwn) {
  ASSERT_TRUE(keeper_.start(flight_));
  EXPECT_TRUE(keeper_.may_run(flight_));
  core::Stored taken = stored();
  taken.record.nonce.bytes.fill(2);
  const store::Swap swap{.at = flight_.address, .expected = taken.revision, .record = taken.record};
  ASSERT_TRUE(store_.inner().swap(std::span(&swap, 1)).front().value().written);
  let_the_lease_end();
  EXPECT_FALSE(keeper_.may_run(flight_));
  EXPECT_EQ(flight_.stopped, Stopped::lost);
}

TEST_F(KeeperStart, RenewsALeaseThatIsOverBeforeItBegins) {
  const core::Revision before = flight_.stored.revision;
  let_the_lease_end();
  EXPECT_TRUE(keeper_.start(flight_));
  EXPECT_GT(stored().revision, before);
  EXPECT_EQ(stored().record.nonce, flight_.nonce);
}

TEST_F(KeeperStart, DoesNotBeginWhatAnotherHasByNow) {
  core::Stored other = stored();
  other.record.nonce.bytes.fill(2);
  const store::Swap swap{.at = flight_.address, .expected = other.revision, .record = other.record};
  ASSERT_TRUE(store_.swap(std::span(&swap, 1)).front().value().written);
  let_the_lease_end();
  EXPECT_FALSE(keeper_.start(flight_));
  EXPECT_EQ(keeper_.stopped(flight_), Stopped::lost);
}

TEST_F(KeeperStart, DoesNotBeginWhatItCannotRenew) {
  store_.set_plan(FaultPlan{}.randomly(Seam::swap, 1.0, Fault::fails, 1));
  let_the_lease_end();
  EXPECT_FALSE(keeper_.start(flight_));
  store_.set_plan({});
}

class KeeperTimeout : public KeeperStart {
 protected:
  KeeperTimeout() : KeeperStart(100ms) {}
};

TEST_F(KeeperTimeout, LetsNothingRunWhoseTimeIsUp) {
  ASSERT_TRUE(keeper_.start(flight_));
  flight_.started_at = scheduler_->now() - 2h;
  let_the_lease_end();
  EXPECT_FALSE(keeper_.may_run(flight_));
  EXPECT_EQ(flight_.stopped, Stopped::timed_out);
}

TEST_F(KeeperTimeout, LetsATaskHaveATimeOfItsOwn) {
  flight_.own = core::TaskPolicy{.timeout = 4h};
  ASSERT_TRUE(keeper_.start(flight_));
  flight_.started_at = scheduler_->now() - 2h;
  EXPECT_TRUE(keeper_.may_run(flight_));
  EXPECT_EQ(keeper_.timeout(flight_), 4h);
  flight_.own->timeout = 1h;
  let_the_lease_end();
  EXPECT_FALSE(keeper_.may_run(flight_));
  EXPECT_EQ(flight_.stopped, Stopped::timed_out);
}

TEST_F(KeeperTimeout, RenewsALeaseThatItCutShortBeforeItBegins) {
  let_the_lease_end();
  ASSERT_TRUE(keeper_.start(flight_));
  flight_.started_at.reset();
  const core::Stored before = stored();
  ASSERT_LT(before.record.lease, 2s);
  flight_.renewed_at -= before.record.lease;
  EXPECT_TRUE(keeper_.start(flight_));
  EXPECT_GT(stored().revision, before.revision);
}

TEST_F(KeeperTimeout, KeepsALeaseThatItCutShortUntilTheHandlerBegins) {
  const core::Revision before = flight_.stored.revision;
  let_the_lease_end();
  keeper_.watch(flight_);
  EXPECT_TRUE(testing::eventually([&] { return stored().revision.value >= before.value + 3; }));
  RunningTask* const watched = &flight_;
  keeper_.unwatch(std::span(&watched, 1));
}

}  // namespace
}  // namespace once::engine
