// Implements max_running of a queue, over all workers and machines. A slot is a lone record that a
// worker claims and renews like a task. A worker runs no more tasks than it holds slots.
#pragma once

#include <memory>
#include <vector>

#include "work/lease_keeper.h"

namespace once::engine {

class Slots {
 public:
  Slots(store::Store& store, Scheduler& scheduler, const Queue& queue, std::string worker,
        core::Member member);
  ~Slots();  // gives the slots back

  // Tries to hold `want` slots without waiting. Returns how many are held. One thread at a time.
  Result<std::size_t> hold(std::size_t want);
  // Sets a new max_running. `busy` of the held slots are in use.
  void set_count(std::size_t count, std::size_t busy);
  // How many slots have an unexpired lease at that time. Another worker may hold an expired one.
  std::size_t held_at(core::StoreTime time) const { return keeper_.held_at(time); }
  void keep(std::size_t count);  // gives back the others

 private:
  store::Address address(std::size_t slot) const;
  std::size_t number(const RunningTask& slot) const;

  store::Store& store_;
  Scheduler& scheduler_;
  const std::string queue_;
  std::size_t count_;
  const std::string worker_;
  const core::Member member_;
  LedgerWriter writer_;
  LeaseKeeper keeper_;  // renews them
  RunningTasks held_;
};

}  // namespace once::engine
