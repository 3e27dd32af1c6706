// Claims the tasks of a queue, and makes the store call of a commit. Round decides each claim for
// the store. take() then turns each claimed delivery into a RunningTask. A delivery that cannot be
// claimed (a duplicate, a missing key, a retired body) gets an own record before it is answered, so
// that the task does not vanish.
#pragma once

#include <functional>
#include <mutex>

#include "codec/key_template.h"
#include "codec/step_headers.h"
#include "once/consumer.h"
#include "work/ledger_writer.h"
#include "work/running_task.h"
#include "work/worker_counters.h"

namespace once::engine {

struct IntakeSettings {
  Queue queue{};
  std::string worker{};
  core::Member member{};
  bool can_probe = false;
  core::Claim::Kind kind = core::Claim::Kind::start;
};

struct IntakeRequest {
  std::size_t limit = 1;
  // How many of the claims can start at once. At most this many may be redeliveries. A redelivered
  // task may kill its worker, and must not use up the attempts of tasks that were claimed ahead.
  std::size_t handlers = 1;
  Duration wait{};         // for the first delivery
  std::stop_token stop{};  // ends the wait
  // Who gets the claim after `claimed` others; nullopt: nobody now. The store's write calls it. Empty:
  // the worker in the settings gets every claim.
  ChooseWorker to{};
  // The nonces of the claims, in order; no more claims than nonces. Empty: random ones.
  std::vector<core::Nonce> nonces{};
  // Whether one more task may be claimed after `claimed`. The store's write calls it. May be empty.
  std::function<bool(std::size_t claimed, core::StoreTime now)> allowed{};
};

// Several threads may commit at the same time.
class Intake {
 public:
  Intake(store::Store& store, Scheduler& scheduler, LedgerWriter& writer, WorkerCounters& counters,
         encoding::KeyTemplate key, IntakeSettings settings);

  struct IntakeResult {
    RunningTasks tasks{};
    bool delivered = false;  // there was a delivery, even if no task was claimed
  };
  // Writes the records and claims tasks, in one store call. While the outcome of an earlier claim is
  // unknown, a commit with records claims nothing.
  struct CommitResult {
    std::vector<Result<store::SwapResult>> swapped{};
    Result<IntakeResult> taken = IntakeResult{};
  };
  CommitResult commit(std::span<const store::Swap> records, IntakeRequest request);
  // Whether the outcome of the claim with that nonce is unknown.
  bool unresolved(const core::Nonce& nonce) const;

 private:
  // A claim that the store was asked to write.
  struct Proposal {
    core::Sequence sequence;
    core::Nonce nonce;
    std::optional<store::Delivery> delivery{};  // nullopt if it was lost with the answer
  };

  // The Claimer of one commit: the store calls it for each entry.
  class Round final : public store::Claimer {
   public:
    Round(Intake& intake, IntakeRequest request);
    store::Fetch wanted();
    std::optional<store::Address> address(const store::Entry& entry) override;
    std::optional<core::Record> claim(const store::Entry& entry, const core::Stored* stored,
                                      const core::Order* order, core::Now now) override;
    // The worker of the next claim. nullopt if no task may be claimed now.
    std::optional<OfferFor> claimant(core::StoreTime now) const;
    core::Nonce nonce() const;  // of the next claim
    std::size_t most() const { return most_; }

    std::vector<Proposal> proposals;  // the claims so far

   private:
    Intake& intake_;
    const std::size_t most_;     // the request's limit
    const std::size_t perhaps_;  // unresolved_.size() when the round began; they count as claims
    IntakeRequest request_;
  };

  Result<IntakeResult> take(Round& round, Result<std::vector<store::Delivery>> deliveries);
  std::optional<store::Address> address(const store::Entry& entry) const;
  store::Address own_place(const store::Entry& entry) const;
  core::Member holder() const;
  core::Claim command(const store::Entry& entry, const core::Order* order, OfferFor to) const;
  Result<std::string> key_of(const store::Entry& entry) const;
  std::unique_ptr<RunningTask> running_task(store::Delivery&& delivery, store::Address at) const;
  // Answers deliveries that the store left unclaimed: claims them, sets them aside or settles them.
  Result<void> answer(Round& round, std::vector<store::Delivery> unclaimed, RunningTasks& tasks);
  // What the answers to the deliveries of one round add up to.
  struct Answers {
    void settle(const store::Delivery& delivery, std::optional<Duration> again);

    Round& round;
    RunningTasks& tasks;
    const std::string& queue;
    std::vector<store::Settlement> settlements{};
  };
  Result<void> answer_one(Answers& answers, store::Delivery& delivery);
  // Of a task that is settled: gives the reply that its record may owe.
  void answer_settled(Answers& answers, const store::Delivery& delivery);
  // Writes an own record for a task that cannot be claimed. `holder` is the record of the task's key
  // if that record is about another task.
  Result<void> set_aside(Answers& answers, const store::Delivery& delivery, State state,
                         std::string reason, const core::Record* holder = nullptr);
  Result<void> set_aside_bodiless(Answers& answers, const store::Delivery& delivery);
  // Both move the delivery if its task runs or its claim is unresolved.
  Result<void> claim_one(Answers& answers, store::Delivery& delivery, OfferFor to);
  Result<void> answer_claim(Answers& answers, store::Delivery& delivery, store::Address at,
                            WriteResult written);
  // The step of a workflow that the task is, for this queue. nullopt for any other task.
  std::optional<encoding::StepTask> step_of(const store::Entry& entry) const;
  // Gives the reply that the record owes. nullopt if the record changed or cannot be read.
  std::optional<Debt> pay(const store::Delivery& delivery);
  // Finds out what happened to the unresolved claims, until there are `most` tasks. Returns an error
  // if a claim cannot be resolved now.
  Result<void> recover(RunningTasks& tasks, std::size_t most);
  Result<void> recover(Proposal& proposal, RunningTasks& tasks);
  void ask_again(Proposal proposal);
  std::size_t unresolved() const;

  store::Store& store_;
  Scheduler& scheduler_;
  LedgerWriter& writer_;
  WorkerCounters& counters_;
  const encoding::KeyTemplate key_;
  const IntakeSettings settings_;

  mutable std::mutex mutex_;
  // Claims whose answer was lost, so that they may be durable. Under mutex_.
  std::vector<Proposal> unresolved_;
};

}  // namespace once::engine
