// The last stage of a worker: what a handler reported becomes a record, and the record answers the
// delivery.
#pragma once

#include "work/lease_keeper.h"
#include "work/worker_counters.h"

namespace once::engine {

class Settler {
 public:
  Settler(Scheduler& scheduler, LedgerWriter& scribe, LeaseKeeper& keeper, WorkerCounters& meter)
      : scheduler_(scheduler), scribe_(scribe), keeper_(keeper), meter_(meter) {}

  // Records the flights and gives back those that could not be written now; try them again. A
  // flight that was fenced is done with: its successor's record stands. One thread at a time.
  struct Settled {
    Flights unwritten{};
    std::optional<Error> error{};       // why
    std::vector<std::string> fenced{};  // ids of tasks that others have taken over
  };
  Settled settle(Flights flights, const Swapper& first = {});

 private:
  core::Command command(const RunningTask& flight);

  Scheduler& scheduler_;
  LedgerWriter& scribe_;
  LeaseKeeper& keeper_;
  WorkerCounters& meter_;
};

}  // namespace once::engine
