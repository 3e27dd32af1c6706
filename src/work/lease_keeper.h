// Renews the lease of each watched claim at a third of its length, whether its handler has started
// or not. Asks a handler to stop if its lease is lost or its time is up. A claim has at most one
// write in progress: unwatch() waits for a renewal, and steps write through write().
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "work/ledger_writer.h"
#include "work/running_task.h"

namespace once::engine {

class LeaseKeeper {
 public:
  LeaseKeeper(Scheduler& scheduler, LedgerWriter& writer, Duration grace);
  ~LeaseKeeper();

  void watch(RunningTask& running);
  // Call it right before the handler starts; the queue's timeout begins now. Returns false if the
  // handler must not start, because the claim is lost or the worker is interrupted.
  bool start(RunningTask& running);
  // The same check for a handler that has started. Call it after a write of the attempt, because
  // its answer may arrive after the lease has expired.
  bool may_run(RunningTask& running);
  // Ends the watch. After this call the keeper does not change the tasks. `stopped` of each says
  // whether, and why, the keeper asked the handler to stop.
  void unwatch(std::span<RunningTask* const> tasks);
  // Asks all watched handlers to stop, and also those that are watched later.
  void interrupt();
  // Writes a command of the attempt, such as a step, between two renewals. If the write shows that
  // the claim is lost or settled, the handler is asked to stop. Any thread may call it.
  Result<WriteResult> write(RunningTask& running, core::Command command);
  // The handler's report must not be recorded: the attempt ends without a verdict.
  void give_up(RunningTask& running, std::string why);
  std::optional<std::string> given_up(const RunningTask& running) const;
  Stopped stopped(const RunningTask& running) const;
  Moment lease_end(const RunningTask& running) const;     // as far as this worker knows
  Duration timeout(const RunningTask& running) const;     // of an attempt; zero: none
  core::Policy policy(const RunningTask& running) const;  // of its attempts
  // How many of the watched claims have an unexpired lease at that time.
  std::size_t held_at(core::StoreTime time) const;

 private:
  void run();
  bool may_run(RunningTask& running, std::unique_lock<Mutex>& lock);
  Moment due(const RunningTask& running) const;  // when there is something to do for it
  Moment renewal(const RunningTask& running) const;
  Moment ends(const RunningTask& running) const;  // its lease, at the earliest
  bool out_of_time(const RunningTask& running) const;
  void renew(const std::vector<RunningTask*>& tasks);
  void look(const std::vector<RunningTask*>& tasks);
  void stop_all(const std::vector<RunningTask*>& tasks);

  Scheduler& scheduler_;
  LedgerWriter& writer_;
  const Duration grace_;

  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> wake_;
  const std::unique_ptr<Condition> idle_;
  // Under mutex_.
  std::vector<RunningTask*> watched_;
  bool ending_ = false;
  bool interrupted_ = false;
  Moment wakes_at_ = Moment::max();  // what the keeper sleeps until
  Moment not_before_{};              // after a failed renewal: when to try again

  std::unique_ptr<Activity>
      activity_;  // begins with the first watch(); last, so that it ends first
};

}  // namespace once::engine
