#include "core/slot.h"

#include <algorithm>
#include <limits>

namespace once::core {
namespace {

constexpr Duration kLongestExtra{1000};

bool runs(const Stored* stored, const Nonce& claim) {
  return stored && stored->record.state == State::running && stored->record.nonce == claim;
}

}  // namespace

std::string slot_name(std::size_t number) {
  return std::string(kSlotPrefix) + std::to_string(number);
}

Policy slot_policy(Policy queue) {
  queue.timeout = Duration{0};
  queue.in_doubt = InDoubt::retry;  // a slot has no effect that might have happened
  queue.attempts = std::numeric_limits<std::uint32_t>::max();
  return queue;
}

Duration slot_lease(Duration claim) { return claim + std::min(claim / 10, kLongestExtra); }

SlotUse slot_use(const Stored* slot, const Nonce& claim, Duration lease, StoreTime now) {
  if (!runs(slot, claim)) return SlotUse::lost;
  const bool reaches = slot->stamp + slot->record.lease >= now + lease;
  return reaches ? SlotUse::covers : SlotUse::renew;
}

bool gives_slot_back(const Stored* task, const Nonce& claim) { return !runs(task, claim); }

}  // namespace once::core
