// What a seed does with workflows: which runs there are, who has to do with them, and what bounds them.
#pragma once

#include "simulation/random.h"
#include "support/order_flow.h"

namespace once::sim {

using testing::kOrderQueue;
using testing::Order;
using testing::StepPlan;

struct FlowPlan {
  testing::OrderFlow flow{};
  std::vector<Order> orders{};
  std::size_t starters = 1;
  std::size_t runners = 2;
  std::size_t concurrency = 1;  // of a runner
  Duration lease{};             // of events
  bool cancelled = false;       // somebody wants the first run to end
  bool retried = false;         // somebody has failed runs go on
  bool patient = false;         // no signal comes until everything has aged
};
FlowPlan draw_flow(Random& random);

}  // namespace once::sim
