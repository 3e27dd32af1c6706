// A queue's max-running across all workers and machines: N lone records that are claimed and
// renewed like tasks. A worker runs no more tasks than it holds slots.
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

  // Tries to hold `want` slots, never waits for one, and says how many are held. One thread.
  Result<std::size_t> hold(std::size_t want);
  // The queue has another max-running now; `busy` of the held slots are in use.
  void set_count(std::size_t count, std::size_t busy);
  // How many of them hold at that time: one whose lease went by may be another worker's by now.
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
  LedgerWriter scribe_;
  LeaseKeeper keeper_;  // renews them
  Flights held_;
};

}  // namespace once::engine
