// Writes what handlers reported and claims the next tasks. One commit is one store call.
//
//   tasks that ended --> command, decide() --> records --+                   +--> answers per record
//                                                        +--> Store::commit -+
//   request for claims ------> Intake::Round (Claimer) --+                   +--> tasks claimed
//
// The caller starts the claimed tasks at once. finish() then writes again the records that were
// refused or not answered, and gives the replies that records owe.
#pragma once

#include "work/intake.h"
#include "work/lease_keeper.h"
#include "work/worker_counters.h"

namespace once::engine {

class Committer {
 public:
  Committer(Scheduler& scheduler, LedgerWriter& writer, LeaseKeeper& keeper, Intake& intake,
            WorkerCounters& counters)
      : scheduler_(scheduler),
        writer_(writer),
        keeper_(keeper),
        intake_(intake),
        counters_(counters) {}

  struct FinishResult {
    RunningTasks unwritten{};           // their records could not be written; commit them again
    std::optional<Error> error{};       // why
    std::vector<std::string> fenced{};  // ids of tasks that other workers have taken over
  };
  class Commit {
   public:
    Result<Intake::IntakeResult> claimed = Intake::IntakeResult{};

   private:
    friend class Committer;
    explicit Commit(LedgerBatch batch) : batch_(std::move(batch)) {}
    LedgerBatch batch_;
    RunningTasks writing_{};  // one per intent of the batch
    FinishResult result_{};
  };
  // Several threads may call, each with its own tasks. If `claims` is nullopt, commit() claims
  // nothing. If no task is left to record, commit() claims only if `ended` is empty.
  Commit commit(RunningTasks ended, std::optional<IntakeRequest> claims);
  // A task that was fenced is finished: the record of its successor counts.
  FinishResult finish(Commit commit);

 private:
  core::Command command(const RunningTask& running);
  void note_fenced(const RunningTask& running, FinishResult& result);

  Scheduler& scheduler_;
  LedgerWriter& writer_;
  LeaseKeeper& keeper_;
  Intake& intake_;
  WorkerCounters& counters_;
};

}  // namespace once::engine
