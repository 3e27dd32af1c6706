// Keeps the leases of claims, begun or not: renews each at a third of its lease, asks a handler to
// stop when its lease is lost or its time is up. Per claim one write is in flight at a time:
// unwatch() waits for a renewal.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "work/ledger_writer.h"
#include "work/running_task.h"

namespace once::engine {

class LeaseKeeper {
 public:
  LeaseKeeper(Scheduler& scheduler, LedgerWriter& scribe, Duration grace);
  ~LeaseKeeper();

  void watch(RunningTask& flight);
  // The handler begins now, and the queue's timeout with it. False: it must not, the claim is lost
  // or the worker interrupted.
  bool start(RunningTask& flight);
  // The same question about one that has started: the answer to a write of its own may have come after
  // its lease was over.
  bool may_run(RunningTask& flight);
  // After this the keeper does not touch them any more, and `stopped` says what it did.
  void unwatch(std::span<RunningTask* const> flights);
  // Asks all watched handlers to stop, and those that come.
  void interrupt();
  // A write of the running attempt's own, between two renewals. The claim that it loses or settles
  // is asked to stop. Any thread.
  Result<Written> write(RunningTask& flight, core::Command command);
  // What the handler says is not to be recorded: the attempt ends without a verdict.
  void give_up(RunningTask& flight, std::string why);
  std::optional<std::string> given_up(const RunningTask& flight) const;
  Stopped stopped(const RunningTask& flight) const;
  Moment lease_end(const RunningTask& flight) const;     // as far as this worker knows
  Duration timeout(const RunningTask& flight) const;     // of an attempt; zero: none
  core::Policy policy(const RunningTask& flight) const;  // of its attempts
  // How many of the watched claims hold at that time.
  std::size_t held_at(core::StoreTime time) const;

 private:
  void run();
  bool may_run(RunningTask& flight, std::unique_lock<Mutex>& lock);
  Moment due(const RunningTask& flight) const;  // when there is something to do for it
  Moment renewal(const RunningTask& flight) const;
  Moment ends(const RunningTask& flight) const;  // its lease, at the earliest
  bool out_of_time(const RunningTask& flight) const;
  void renew(const std::vector<RunningTask*>& flights);
  void look(const std::vector<RunningTask*>& flights);
  void stop_all(const std::vector<RunningTask*>& flights);

  Scheduler& scheduler_;
  LedgerWriter& scribe_;
  const Duration grace_;

  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> wake_;
  const std::unique_ptr<Condition> idle_;
  // Under mutex_.
  std::vector<RunningTask*> flights_;
  bool ending_ = false;
  bool interrupted_ = false;
  Moment wakes_at_ = Moment::max();  // what the keeper sleeps until
  Moment not_before_{};              // after a failed renewal: when to try again

  std::unique_ptr<Activity>
      activity_;  // begins with the first watch(); last, so that it ends first
};

}  // namespace once::engine
