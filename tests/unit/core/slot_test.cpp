// The rules of max_running: when a claim may go on in its slot, and when it gives the slot back.
#include "core/slot.h"

#include <gtest/gtest.h>

namespace once::core {
namespace {

constexpr StoreTime kNow{Duration{1'000'000}};
constexpr Duration kLease{30'000};

Nonce nonce(std::uint8_t fill) {
  Nonce made;
  made.bytes.fill(fill);
  return made;
}

Stored held(const Nonce& by, Duration left) {
  return {.record = {.state = State::running, .nonce = by, .lease = left},
          .revision = {1},
          .stamp = kNow};
}

TEST(Slot, AClaimGoesOnInASlotThatLastsAsLong) {
  const Stored slot = held(nonce(1), slot_lease(kLease));
  EXPECT_EQ(slot_use(&slot, nonce(1), kLease, kNow), SlotUse::covers);
  EXPECT_EQ(slot_use(&slot, nonce(1), slot_lease(kLease), kNow), SlotUse::covers);
  EXPECT_EQ(slot_use(&slot, nonce(1), slot_lease(kLease) + Duration{1}, kNow), SlotUse::renew);
}

TEST(Slot, ASlotThatEndedAndThatNobodyTookIsRenewed) {
  const Stored slot = held(nonce(1), Duration{0});
  EXPECT_EQ(slot_use(&slot, nonce(1), kLease, kNow + kLease), SlotUse::renew);
}

TEST(Slot, ASlotOfAnotherClaimOrOfNoneIsLost) {
  Stored slot = held(nonce(2), slot_lease(kLease));
  EXPECT_EQ(slot_use(&slot, nonce(1), kLease, kNow), SlotUse::lost);
  slot.record.nonce = nonce(1);
  slot.record.state = State::waiting;
  EXPECT_EQ(slot_use(&slot, nonce(1), kLease, kNow), SlotUse::lost) << "it was given back";
  EXPECT_EQ(slot_use(nullptr, nonce(1), kLease, kNow), SlotUse::lost);
}

TEST(Slot, AClaimKeepsItsSlotAsLongAsItHasItsTask) {
  Stored task = held(nonce(1), kLease);
  EXPECT_FALSE(gives_slot_back(&task, nonce(1)));
  task.record.offer.emplace();
  EXPECT_FALSE(gives_slot_back(&task, nonce(1))) << "an offer too";
  EXPECT_TRUE(gives_slot_back(&task, nonce(2)));
  for (const State over : {State::waiting, State::retrying, State::completed, State::in_doubt}) {
    task.record.state = over;
    EXPECT_TRUE(gives_slot_back(&task, nonce(1)));
  }
  EXPECT_TRUE(gives_slot_back(nullptr, nonce(1)));
}

TEST(Slot, ASlotOutlastsTheLeaseOfItsClaimByALittle) {
  for (const Duration lease : {Duration{10}, Duration{1000}, kLease, Duration{3'600'000}}) {
    EXPECT_GT(slot_lease(lease), lease);
    EXPECT_LE(slot_lease(lease), lease + Duration{1000});
  }
}

TEST(Slot, ASlotIsClaimedAgainWithoutEnd) {
  const Policy policy = slot_policy(
      {.lease = kLease, .timeout = Duration{1}, .attempts = 1, .in_doubt = InDoubt::hold});
  std::optional<Stored> slot;
  StoreTime now = kNow;
  for (std::uint8_t i = 1; i < 100; ++i, now += slot_lease(kLease)) {
    const Claim claim{.nonce = nonce(i), .lease = slot_lease(kLease)};
    Decision decision = decide(slot ? &*slot : nullptr, claim, policy, {.store = now});
    ASSERT_EQ(decision.verdict, Verdict::claimed) << int{i};
    slot = Stored{.record = std::move(*decision.next), .revision = {i}, .stamp = now};
    const Renew renew{.nonce = nonce(i), .lease = slot_lease(kLease)};
    EXPECT_EQ(decide(&*slot, renew, policy, {.store = now}).verdict, Verdict::renewed);
  }
}

}  // namespace
}  // namespace once::core
