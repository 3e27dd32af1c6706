#include "simulation/flow_handlers.h"

#include "simulation/handlers.h"

namespace once::sim {

using testing::StepEnd;

engine::Report FlowHandlers::handle(const engine::TaskAttempt& a) {
  if (process_.dead()) return {.outcome = Outcome::unknown("dead")};
  witness_.started(process_, a);
  Outcome said = outcome(a);
  if (!process_.dead()) witness_.said(process_, a, said.kind());
  return {.outcome = std::move(said)};
}

Outcome FlowHandlers::outcome(const engine::TaskAttempt& a) {
  const StepPlan* const step = testing::order_step(a.step);
  if (!step) return Outcome::dead("no step of this workflow");
  const bool hangs = testing::hangs(*step, a.attempt);
  const Duration how_long{hangs ? 20'000 : process_.world().random().between(0, 400)};
  if (!work_on(process_, a, how_long)) return Outcome::unknown("stopped");
  const std::string_view input = a.task.body.text();
  const StepEnd end = testing::end_of_attempt(*step, a.attempt, input, flows_.was_retried(a.run));
  if (end == StepEnd::failed) return Outcome::failed("as it should");
  if (end == StepEnd::dead) return Outcome::dead("the order is bad");
  if (rarely(0.04)) process_.die();
  if (process_.dead() || rarely(0.04)) return Outcome::unknown("who knows");
  return Outcome::completed(*Body::json(testing::value_of(testing::number_from(step->id, input))));
}

}  // namespace once::sim
