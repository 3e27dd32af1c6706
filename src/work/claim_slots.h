// The slots of a consumer's claims in a queue with max_running. Any process may go on with a claim, so
// its slot belongs to the claim and not to a process: the slot's record has the nonce of the claim, and
// the handle of the claim names the slot. core/slot.h has the rules. The order of the writes keeps the
// limit, whatever is lost:
//
//  call    | writes, in order            | if the second write does not follow
//  --------+-----------------------------+-------------------------------------------------------
//  offer   | the slot, then the claim    | the slot ends by itself, a little after an offer would
//  start,  | the slot, then the claim    | the slot is held for longer than its claim; the caller
//  renew   |                             | repeats the call
//  settle, | the claim, then the slot    | the repeat of the call gives the slot back; else the
//  release |                             | slot ends by itself
//
//  what is lost                          | what happens
//  --------------------------------------+-------------------------------------------------------
//  the answer to the claim of a slot     | the writer reads it back; else the slot ends by itself
//  the answer to the claim of a task     | the slot is kept for the claim until its outcome is known
//  the client, or the server             | the claim's lease ends, then the slot's
//  the slot: renewed too late, and taken | start and renew are fenced. A settlement is recorded
//  a repeated settlement arrives late    | the slot has another nonce by then and is left alone
//
//  A lowered max_running: a claim keeps a slot above the limit until it ends, and nobody takes that
//  slot again. A consumer that saw the earlier limit counts these slots and makes fewer offers. A new
//  max_running: a claim without a slot goes on without one.
//
// A caller is told the lease that ends first, of the claim and its slot. So a claim whose write took
// too long does not run without its slot.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <span>

#include "base/scheduler.h"
#include "core/slot.h"
#include "work/ledger_writer.h"

namespace once::engine {

struct ClaimSlot {
  std::uint32_t number{};
  core::Nonce nonce{};      // of the claim
  core::StoreTime until{};  // its lease, as far as it is known
};

// Any thread may call. The store and the scheduler outlive it.
class ClaimSlots {
 public:
  ClaimSlots(store::Store& store, Scheduler& scheduler, const Queue& queue, std::string worker);

  void set_queue(const Queue& queue);  // its max_running and its lease
  bool limited() const;

  // --- Slots for claims that are to be made ---------------------------------------------------

  // Takes up to `most` free slots, without waiting. Each has a new nonce, for one claim.
  Result<std::vector<ClaimSlot>> take(std::size_t most);
  // A claim was made in the slot of that nonce. nullopt if this process has no such slot.
  std::optional<ClaimSlot> use(const core::Nonce& nonce);
  // Gives those of the slots back in which no claim was made. `perhaps` says whether the outcome of a
  // claim is still unknown. Its slot is then given back by a later call.
  void give_back_unused(std::span<const core::Nonce> nonces,
                        const std::function<bool(const core::Nonce&)>& perhaps);
  // Waits until a slot may be free.
  void await_free(Duration at_most, std::stop_token stop);

  // --- Slots of claims that are out -----------------------------------------------------------

  // Makes each slot last for a lease that begins now, and says until when it lasts. Code::fenced if the
  // slot is lost.
  std::vector<Result<core::StoreTime>> keep(std::span<const ClaimSlot> slots, Duration lease);
  // A slot that another claim has by now is left alone. A slot that cannot be given back ends by itself.
  void give_back(std::span<const ClaimSlot> slots);

 private:
  struct Taken {
    ClaimSlot slot{};
    bool in_doubt = false;  // the outcome of its claim was unknown
  };
  store::Address address(std::uint32_t number) const;
  // The records of these slots that can be claimed now.
  Result<std::vector<Intent>> free_among(std::size_t first, std::size_t count);
  // How many slots may be taken after max_running was lowered, at most `most`.
  Result<std::size_t> below_lowered(std::size_t count, std::size_t highest, std::size_t most);
  Result<void> claim(std::vector<Intent> intents, std::vector<ClaimSlot>& taken);

  Scheduler& scheduler_;
  const std::string queue_;
  const std::string worker_;
  LedgerWriter writer_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> freed_;
  // Under mutex_.
  std::size_t count_;
  std::size_t highest_;                 // count_ before it was lowered
  std::map<core::Nonce, Taken> taken_;  // in which no claim was seen yet
};

}  // namespace once::engine
