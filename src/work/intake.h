// The first stage of a worker: fetches deliveries of a queue and claims them, and gives a record of
// its own to every delivery that cannot be claimed before the feed forgets it.
#pragma once

#include <functional>
#include <mutex>

#include "codec/key_template.h"
#include "codec/step_headers.h"
#include "work/ledger_writer.h"
#include "work/running_task.h"
#include "work/worker_counters.h"

namespace once::engine {

struct IntakeSettings {
  Queue queue{};
  std::string worker{};
  core::Member member{};
  bool can_probe = false;
};

struct IntakeRequest {
  std::size_t limit = 1;
  // How many of the claims can be started at once. No more than these are entries that come again:
  // a task that kills its worker must not use up the attempts of tasks that were claimed ahead.
  std::size_t handlers = 1;
  Duration wait{};         // for the first delivery
  std::stop_token stop{};  // ends the wait
  // Asked in the middle of the store's write, with the claims made so far: may there be one more?
  std::function<bool(std::size_t claimed, core::StoreTime now)> allowed{};
};

// Several threads may fetch and take turns.
class Intake {
 public:
  Intake(store::Store& store, Scheduler& scheduler, LedgerWriter& scribe, WorkerCounters& meter,
         encoding::KeyTemplate key, IntakeSettings settings);

  struct IntakeResult {
    Flights flights{};
    bool delivered = false;  // something came, if only to be set aside
  };
  Result<IntakeResult> fetch(IntakeRequest request);
  // Writes the swaps, and fetches what is there now if the store can do so in the same commit.
  struct TurnResult {
    std::vector<Result<store::Swapped>> swapped{};
    Result<IntakeResult> taken = IntakeResult{};
  };
  TurnResult turn(std::span<const store::Swap> swaps, IntakeRequest request);

 private:
  struct Proposal {
    core::Sequence sequence;
    core::Nonce nonce;
    std::optional<store::Delivery> delivery{};  // none: it was lost with the answer
  };

  // One fetch, as the store asks for its claims.
  class Round final : public store::Claimer {
   public:
    Round(Intake& intake, IntakeRequest request);
    store::Fetch wanted();
    std::optional<store::Address> address(const store::Entry& entry) override;
    std::optional<core::Record> claim(const store::Entry& entry, const core::Stored* stored,
                                      const core::Order* order, core::Now now) override;
    bool allowed(core::StoreTime now) const;

    std::vector<Proposal> proposals;  // what it claims

   private:
    Intake& intake_;
    const std::size_t perhaps_;  // how many were unresolved when it began
    IntakeRequest request_;
  };

  Result<IntakeResult> take(Round& round, Result<std::vector<store::Delivery>> deliveries);
  std::optional<store::Address> address(const store::Entry& entry) const;
  store::Address own_place(const store::Entry& entry) const;
  core::Claim command(const store::Entry& entry, const core::Order* order) const;
  Result<std::string> key_of(const store::Entry& entry) const;
  std::unique_ptr<RunningTask> flight(store::Delivery delivery, store::Address at) const;
  Result<void> answer(Round& round, std::vector<store::Delivery> unclaimed, Flights& flights);
  // What a task that is a workflow's step says to this queue; none: it is none.
  std::optional<encoding::StepTask> step_of(const store::Entry& entry) const;
  // Pays the reply that its record owes.
  std::optional<Debt> pay(const store::Delivery& delivery);
  // An error: of some it is to be asked again.
  Result<void> recover(Flights& flights);
  Result<void> recover(Proposal& proposal, Flights& flights);
  void ask_again(Proposal proposal);
  std::size_t unresolved() const;

  store::Store& store_;
  Scheduler& scheduler_;
  LedgerWriter& scribe_;
  WorkerCounters& meter_;
  const encoding::KeyTemplate key_;
  const IntakeSettings settings_;

  mutable std::mutex mutex_;
  // May have been claimed before the answer was lost; under mutex_.
  std::vector<Proposal> unresolved_;
};

}  // namespace once::engine
