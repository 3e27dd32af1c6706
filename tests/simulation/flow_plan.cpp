#include "simulation/flow_plan.h"

namespace once::sim {

FlowPlan draw_flow(Random& random) {
  FlowPlan plan;
  plan.flow = {.sleep = Duration{3000},
               .retry_wait = Duration{300},
               .timeout = Duration{2000},
               .key_ttl = std::chrono::minutes{random.between(60, 90)}};
  if (random.chance(0.3)) plan.flow.max_runs = static_cast<int>(random.between(1, 2));
  plan.flow.rated = random.chance(0.3);
  const auto orders = random.between(1, 3);
  for (std::int64_t i = 0; i < orders; ++i)
    plan.orders.push_back(
        {.key = "k" + std::to_string(i), .plain = random.chance(0.4), .bad = random.chance(0.4)});
  plan.starters = static_cast<std::size_t>(random.between(1, 2));
  plan.concurrency = static_cast<std::size_t>(random.between(1, 3));
  plan.lease = Duration{random.between(1000, 6000)};
  plan.cancelled = random.chance(0.3);
  plan.retried = random.chance(0.6);
  plan.patient = !plan.cancelled && random.chance(0.2);
  return plan;
}

}  // namespace once::sim
