// The rules of max_running. A slot is a lone record, `slot.0` to `slot.N-1`, that is claimed, renewed
// and released like a task. A worker holds slots for the tasks that it runs. A claim of a consumer has
// a slot of its own, under the nonce of the claim.
//
//  the slot of a claim                      | a start or a renewal of the claim
//  -----------------------------------------+----------------------------------------------------
//  is held by the claim's nonce, and its    | goes on
//  lease ends no earlier than the new lease |
//  is held by the claim's nonce             | renews the slot first
//  is free, or another nonce holds it       | is fenced: another claim may run in its place
//
// A settlement needs no slot, because its task does not run any more. As long as the task's record is
// running under the claim's nonce, the claim keeps its slot. After that the slot is given back. If
// nobody gives it back, its lease ends after the lease of the claim.
#pragma once

#include <string>

#include "core/decide.h"

namespace once::core {

std::string slot_name(std::size_t number);
inline constexpr std::string_view kSlotPrefix = "slot.";

// How the records of a queue's slots are decided.
Policy slot_policy(Policy queue);
// The lease of a slot for a claim with that lease. It is longer, because the claim is written later.
Duration slot_lease(Duration claim);

enum class SlotUse {
  covers,  // the claim can have its lease
  renew,   // it can, after a renewal of the slot
  lost,    // the claim must not run any more
};
// What the slot of the claim with that nonce is to a lease that begins now. `slot` is null if there is
// no record.
SlotUse slot_use(const Stored* slot, const Nonce& claim, Duration lease, StoreTime now);

// Whether the claim with that nonce does not need its slot any more. `task` is the record of its task,
// null if there is none.
bool gives_slot_back(const Stored* task, const Nonce& claim);

}  // namespace once::core
