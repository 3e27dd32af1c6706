// The durable steps of one claim: intents and results become part of its record, written between
// the keeper's renewals.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "work/lease_keeper.h"

namespace once::engine {

class RunningSteps final : public Steps {
 public:
  // `ending`: the worker is about to end, and recording is not tried for ever.
  RunningSteps(LeaseKeeper& keeper, Scheduler& scheduler, RunningTask& flight, std::string worker,
               std::function<bool()> ending);

  Begun begin(std::string_view name, std::optional<InDoubt> policy, bool asked) override;
  Result<void> end(std::string_view name, Body result, std::uint64_t oversize) override;
  Result<void> fail(std::string_view name, std::string_view why) override;
  Error hold(std::string_view name, std::string why) override;

  // A write about something that has happened: tried until it is hopeless.
  Result<Written> insist(const core::Command& command);

 private:
  // Tried again while the store is away: until it answers, the claim is lost, or `give_up` says so.
  Result<Written> write(const core::Command& command, const std::function<bool()>& give_up);
  Result<void> settle(const core::Command& command, std::string_view name);
  void pause();

  LeaseKeeper& keeper_;
  Scheduler& scheduler_;
  RunningTask& flight_;
  const std::string worker_;
  const std::function<bool()> ending_;
  std::mutex mutex_;
  std::set<std::string, std::less<>> used_;  // in this attempt, under mutex_
};

}  // namespace once::engine
