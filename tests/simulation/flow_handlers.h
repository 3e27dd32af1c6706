// What the tasks of a workflow's steps do: as the table says (order_flow.h), by step and attempt. Their
// processes die over it as any others.
#pragma once

#include "simulation/flow_witness.h"
#include "simulation/witness.h"
#include "work/task_attempt.h"

namespace once::sim {

class FlowHandlers {
 public:
  FlowHandlers(Process& process, Witness& witness, const FlowWitness& flows, const bool& calm)
      : process_(process), witness_(witness), flows_(flows), calm_(calm) {}

  engine::Report handle(const engine::TaskAttempt& task_attempt);

 private:
  Outcome outcome(const engine::TaskAttempt& task_attempt);
  bool rarely(double probability) {
    return !calm_ && process_.world().random().chance(probability);
  }

  Process& process_;
  Witness& witness_;
  const FlowWitness& flows_;
  const bool& calm_;
};

}  // namespace once::sim
