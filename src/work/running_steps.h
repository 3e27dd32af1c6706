// Writes the durable steps of one claim. Intents and results become part of the task's record. The
// LeaseKeeper makes the writes, between two renewals.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "work/lease_keeper.h"

namespace once::engine {

class RunningSteps final : public Steps {
 public:
  // `ending` returns true when the worker is about to end. Then a write is tried only for a while.
  RunningSteps(LeaseKeeper& keeper, Scheduler& scheduler, RunningTask& running, std::string worker,
               std::function<bool()> ending);

  BeginResult begin(std::string_view name, std::optional<InDoubt> policy, bool asked) override;
  Result<void> end(std::string_view name, Body result, std::uint64_t oversize) override;
  Result<void> fail(std::string_view name, std::string_view why) override;
  Error hold(std::string_view name, std::string why) override;

  // Writes a fact that has happened. Tries again until the store answers, the claim is lost, or ten
  // seconds after the worker began to end.
  Result<WriteResult> insist(const core::Command& command);

 private:
  // Tries again while the store is away, until `give_up` returns true.
  Result<WriteResult> write(const core::Command& command, const std::function<bool()>& give_up);
  Result<void> settle(const core::Command& command, std::string_view name);
  void pause();

  LeaseKeeper& keeper_;
  Scheduler& scheduler_;
  RunningTask& running_;
  const std::string worker_;
  const std::function<bool()> ending_;
  std::mutex mutex_;
  std::set<std::string, std::less<>> used_;  // in this attempt, under mutex_
};

}  // namespace once::engine
