#include "simulation/handlers.h"

#include <algorithm>
#include <stdexcept>

namespace once::sim {

using engine::Report;
using engine::TaskAttempt;
using BeginResult = engine::Steps::BeginResult;

bool work_on(Process& process, const TaskAttempt& a, Duration how_long) {
  while (how_long > Duration{0} && !process.dead() && !a.stop.stop_requested()) {
    const Duration piece = std::min(how_long, Duration{250});
    process.sleep(piece);
    how_long -= piece;
  }
  return !process.dead() && !a.stop.stop_requested();
}

Report Handlers::handle(const TaskAttempt& a) {
  if (process_.dead()) return {.outcome = Outcome::unknown("dead")};
  witness_.started(process_, a);
  if (rarely(0.05)) {
    witness_.said(process_, a, Outcome::Kind::failed);
    throw std::runtime_error("thrown");
  }
  Outcome said = outcome(a);
  if (!process_.dead()) witness_.said(process_, a, said.kind());
  return {.outcome = std::move(said)};
}

Outcome Handlers::outcome(const TaskAttempt& a) {
  const bool hangs = rarely(0.05);
  const Duration how_long{hangs ? 20'000 : random().between(0, rarely(0.2) ? 9000 : 400)};
  if (!work_on(process_, a, how_long / 2)) return Outcome::unknown("stopped");
  if (steps_ > 0) {
    const End end = run_steps(a);
    if (end == End::over) return Outcome::unknown("over");
    if (end == End::fails) return Outcome::failed("a step failed");
  }
  if (rarely(0.1)) return Outcome::failed("before the effect");
  if (rarely(0.03)) return Outcome::dead("never");
  witness_.effect(a);
  if (rarely(0.04)) {
    process_.die();
    return Outcome::unknown("dead");
  }
  if (rarely(0.04)) return Outcome::unknown("who knows");
  if (!work_on(process_, a, how_long / 2) && random().chance(0.5))
    return Outcome::unknown("stopped");
  return Outcome::completed();
}

Handlers::End Handlers::run_steps(const TaskAttempt& a) {
  for (int i = 0; i < steps_; ++i) {
    const End end = step(a, "s" + std::to_string(i));
    if (end != End::well) return end;
    if (process_.dead()) return End::over;
  }
  return End::well;
}

// The policy of a step follows from its name, as it does in a program.
Handlers::End Handlers::step(const TaskAttempt& a, const std::string& name) {
  static constexpr std::optional<InDoubt> kPolicies[] = {std::nullopt, InDoubt::hold,
                                                         InDoubt::probe};
  const auto policy = kPolicies[(a.sequence.value + name.back()) % 3];
  BeginResult begun = a.steps->begin(name, policy, false);
  if (begun.kind == BeginResult::Kind::ask) {
    if (rarely(0.1)) {
      static_cast<void>(a.steps->hold(name, "nobody knows"));
      return over(a);
    }
    if (witness_.step_happened(a, name)) return record(a, name);
    begun = a.steps->begin(name, policy, true);
  }
  switch (begun.kind) {
    case BeginResult::Kind::run: return run(a, name);
    case BeginResult::Kind::remembered:
      witness_.step_remembered(a, name, begun.result.text());
      return End::well;
    case BeginResult::Kind::over: return over(a);
    default: return End::fails;
  }
}

Handlers::End Handlers::run(const TaskAttempt& a, const std::string& name) {
  process_.sleep(Duration{random().between(0, 100)});
  if (process_.dead()) return End::over;
  if (rarely(0.05)) {
    if (!a.steps->fail(name, "it failed")) return over(a);
    return End::fails;
  }
  witness_.step_effect(a, name);
  if (rarely(0.03)) process_.die();
  if (process_.dead()) return End::over;
  return record(a, name);
}

Handlers::End Handlers::record(const TaskAttempt& a, const std::string& name) {
  const std::string result = name + " of " + std::string(a.key);
  if (!a.steps->end(name, Body::bytes(result), false)) return over(a);
  if (!process_.dead()) witness_.step_recorded(a, name, result);
  return End::well;
}

Handlers::End Handlers::over(const TaskAttempt& a) {
  if (!process_.dead()) witness_.attempt_over(a);
  return End::over;
}

Report Handlers::probe(const TaskAttempt& a) {
  process_.sleep(Duration{random().between(0, 200)});
  if (process_.dead() || rarely(0.1)) return {.outcome = Outcome::unknown("the probe is down")};
  const bool happened = witness_.effect_happened(a);
  witness_.probe_said(a, happened);
  return {.outcome = happened ? Outcome::completed() : Outcome::failed("it did not happen")};
}

}  // namespace once::sim
