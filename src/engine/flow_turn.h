// One event of a run, handled: folded into the run's facts, which are written over those that were
// read; then what it is to cause is done. Killed anywhere, the event comes again and the same is done
// again: every act can be done twice.
#pragma once

#include "engine/assignment.h"
#include "engine/flow_book.h"
#include "engine/flow_gates.h"
#include "engine/flow_log.h"

namespace once::engine {

class FlowTurn {
 public:
  FlowTurn(store::Store& store, Scheduler& scheduler, FlowBook& book, FlowLog& log);

  // A handler of the queue of events. Any thread.
  Outcome handle(const Assignment& assignment);

 private:
  store::Store& store_;
  Scheduler& scheduler_;
  FlowBook& book_;
  FlowLog& log_;
  FlowGates gates_;
};

}  // namespace once::engine
