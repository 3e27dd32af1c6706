// Leases and retries by the server's own alarm, as in production: no virtual clock here.
#include <thread>

#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using std::chrono::steady_clock;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using NatsRealTime = NatsWorld;

TEST_F(NatsRealTime, ARenewedClaimIsNotHandedOverUntilALeaseAfterTheLastRenewal) {
  add("work", 2s);
  publish("a");
  const auto delivery = fetch("work").at(0);
  auto stored = *swap(record_of("work", delivery, State::running, 2s)).value().current;
  const auto renew_until = steady_clock::now() + 3s;
  auto renewed_at = steady_clock::now();
  while (steady_clock::now() < renew_until) {
    EXPECT_THAT(fetch("work", 300ms), IsEmpty());
    renewed_at = steady_clock::now();
    stored =
        *swap(record_of("work", delivery, State::running, 2s, stored.revision)).value().current;
  }
  EXPECT_THAT(fetch("work", 30s), SizeIs(1));
  EXPECT_GE(steady_clock::now() - renewed_at, 1900ms);
}

TEST_F(NatsRealTime, ALeaseOfItsOwnLengthEndsWhenTheRecordSays) {
  add("work", 1h);
  publish("a");
  const auto delivery = fetch("work").at(0);
  const auto start = steady_clock::now();
  ASSERT_TRUE(swap(record_of("work", delivery, State::running, 300ms))->written);
  EXPECT_THAT(fetch("work", 30s), SizeIs(1));
  EXPECT_GE(steady_clock::now() - start, 250ms);
}

// Acknowledgements are not fenced: a late one settles the delivery that the next worker holds, and
// when that one dies, nothing redelivers.
TEST_F(NatsRealTime, ALateAckOfALostDeliveryIsFoundByTheSweeper) {
  add("work", 300ms);
  const Sequence a = publish("a");
  const auto late = fetch("work").at(0);
  const auto next = fetch("work", 30s).at(0);
  ASSERT_TRUE(swap(record_of("work", next, State::running, 300ms))->written);
  const Settlement ack{.queue = "work", .sequence = a, .handle = late.handle};
  store().settle(std::span(&ack, 1)).value();
  EXPECT_THAT(fetch("work", 1s), IsEmpty()) << "the server counts it as done";
  const auto page = store().overlooked("work", {}, 10).value();
  EXPECT_THAT(page.sequences, ::testing::ElementsAre(a));
  const Wake wake{.sequence = a};
  store().wake("work", std::span(&wake, 1)).value();
  EXPECT_THAT(fetch("work", 30s), SizeIs(1));
}

TEST_F(NatsRealTime, TimeIsTheServersAndGoesOn) {
  const StoreTime before = store().now();
  const auto wall = std::chrono::floor<Duration>(std::chrono::system_clock::now());
  EXPECT_LT(std::chrono::abs(before.time_since_epoch() - wall.time_since_epoch()), 5s)
      << "one machine, one clock";
  while (store().now() == before) std::this_thread::yield();
  EXPECT_GT(store().now(), before);
}

TEST_F(NatsRealTime, AStampIsNeverLaterThanTheServersOwn) {
  add("work", 30s);
  publish("a");
  const auto delivery = fetch("work").at(0);
  const auto written = *swap(record_of("work", delivery, State::running, 30s)).value().current;
  const Address at{.queue = "work", .key = "a", .sequence = delivery.entry.sequence};
  const auto read = *std::move(store().get(std::span(&at, 1)).front()).value();
  EXPECT_EQ(read.revision, written.revision);
  EXPECT_LE(written.stamp, read.stamp);
}

}  // namespace
}  // namespace once::store::nats
