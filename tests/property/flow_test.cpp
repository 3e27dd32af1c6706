// Runs of random workflows, driven by events that come in any order, twice, to runners that die before
// they act: however that goes, the facts are the same in the end, and so is all that was done.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "unit/flow/flow_words.h"

namespace once::core {
namespace {

using namespace flow_words;
using Kind = FlowEvent::Kind;

// What each try of a step comes to, whoever looks and whenever: then only the order of events is left
// to chance.
struct Fate {
  FlowDefinition definition{};
  std::vector<std::uint32_t> fails{};        // so often each step fails before it completes
  std::vector<std::uint32_t> refusals{};     // so often its rate refuses each step's start
  std::uint32_t full{};                      // so often max_runs refuses all starts
  std::uint32_t retries{};                   // so often a person retries the run when it failed
  std::vector<std::string> signals_first{};  // sent before anything else happens
};

bool chance(int in) { return *rc::gen::inRange(0, in) == 0; }

FlowStep any_step(std::size_t index) {
  FlowStep step;
  step.id = "s" + std::to_string(index);
  step.topic = "t";
  step.kind = static_cast<FlowStep::Kind>(std::max(0, *rc::gen::inRange(-2, 4)));
  step.sleep = std::chrono::minutes(1);
  if (step.kind == FlowStep::Kind::signal) step.signal = chance(2) ? "paid" : "sent";
  if (step.kind != FlowStep::Kind::task && chance(2)) step.timeout = std::chrono::hours(1);
  if (chance(6)) step.skip_if = chance(2) ? "yes" : "no";
  return step;
}

FlowDefinition any_definition() {
  FlowDefinition definition;
  definition.name = "payment";
  if (chance(3)) definition.timeout = std::chrono::hours(9);
  const auto count = *rc::gen::inRange<std::size_t>(1, 9);
  for (std::size_t i = 0; i < count; ++i) {
    FlowStep step = any_step(i);
    // A step depends on others, handles their failures, or begins the run.
    const bool handles = i > 0 && chance(4);
    for (std::size_t other = 0; other < i; ++other) {
      FlowStep& before = definition.steps[other];
      if (handles && !before.on_failure && chance(2)) {
        before.on_failure = i;
        step.handles.push_back(other);
      } else if (!handles && chance(3)) {
        step.depends_on.push_back(other);
      }
    }
    definition.steps.push_back(std::move(step));
  }
  return definition;
}

Fate any_fate() {
  Fate fate{.definition = any_definition()};
  for (std::size_t i = 0; i < fate.definition.steps.size(); ++i) {
    fate.fails.push_back(chance(3) ? *rc::gen::inRange(1U, 4U) : 0U);
    fate.refusals.push_back(chance(5) ? *rc::gen::inRange(1U, 3U) : 0U);
  }
  fate.full = chance(5) ? *rc::gen::inRange(1U, 3U) : 0U;
  fate.retries = *rc::gen::inRange(0U, 3U);
  for (const char* const signal : {"paid", "sent"})
    if (chance(2)) fate.signals_first.emplace_back(signal);
  return fate;
}

// The log, the run's record, and all that happens to a run; a runner handles one event at a time.
class World {
 public:
  explicit World(const Fate& fate) : fate_(fate) {
    FlowEvent started = event_from("started");
    append(started);
    for (const std::string& name : fate_.signals_first) append(signal_named(name));
  }

  bool quiet() const { return waiting_.empty(); }
  std::size_t waiting() const { return waiting_.size(); }

  // A runner handles an event that waits. When it dies, it has folded and not acted, and the event
  // waits on.
  void handle(std::size_t which, bool dies) {
    const FlowEvent event = waiting_[which];
    fold(state_, event);
    if (dies) return;
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(which));
    perform(event);
  }
  // One that was handled long ago comes once more.
  void handle_again(const FlowEvent& event) {
    RC_ASSERT(!fold(state_, event));
    perform(event);
  }

  // When nothing is left to do, what the world does by itself: signals that somebody still waits for
  // are sent, and a person approves, or retries what failed.
  bool go_on() {
    const RunStanding standing = stand(fate_.definition, state_, judge());
    for (std::size_t i = 0; i < standing.steps.size(); ++i) {
      const FlowStep& step = fate_.definition.steps[i];
      if (standing.steps[i].status != StepStatus::active) continue;
      if (step.kind == FlowStep::Kind::signal) append(signal_named(step.signal));
      if (step.kind == FlowStep::Kind::approval) settle(i, standing.steps[i].n);
    }
    if (standing.phase == RunPhase::failed && round_of(state_) <= fate_.retries) {
      const auto voided = retry_of(fate_.definition, state_, judge());
      if (voided) {
        FlowEvent retried = event_in(Kind::retried, round_of(state_) + 1);
        retried.voided = *voided;
        append(retried);
      }
    }
    return !quiet();
  }

  const RunState& state() const { return state_; }
  const std::vector<FlowEvent>& log() const { return log_; }
  const std::set<std::string>& done() const { return done_; }

 private:
  // One id, one entry. Its place in the log is fixed by the id alone: two worlds in which the same
  // happens in another order have the same facts.
  void append(FlowEvent event) {
    const std::string id = event_id(event);
    if (!ids_.insert(id).second) return;
    event.sequence = Sequence{std::hash<std::string>{}(id) | 1U};
    log_.push_back(event);
    waiting_.push_back(event);
  }

  void perform(const FlowEvent& event) {
    for (const FlowAction& action : plan(fate_.definition, state_, event, judge())) {
      if (refused(action)) continue;
      if (!a_matter_of_chance(action)) done_.insert(name_of(action));
      std::visit([&](const auto& what) { act(what); }, action);
    }
  }

  // Whether a signal's timer is armed depends on which comes first, the signal or its step; whether the
  // run's is, on whether signals that came before the start end the run while its runner is dead.
  bool a_matter_of_chance(const FlowAction& action) const {
    if (std::holds_alternative<ArmRunTimer>(action)) return true;
    const auto* const wait = std::get_if<StartWait>(&action);
    return wait != nullptr && fate_.definition.steps[wait->step].kind == FlowStep::Kind::signal;
  }

  std::string name_of(FlowAction action) const {
    std::visit(
        [](auto& what) {
          if constexpr (requires { what.tries; }) what.tries = {};
        },
        action);
    return in_words(fate_.definition, {action});
  }

  // The start limits: max_runs for all that begins or ends a step, then the step's own rate.
  bool refused(const FlowAction& action) {
    return std::visit(
        [&](const auto& what) {
          if constexpr (requires { what.tries; }) {
            if (what.tries.admits < fate_.full) {
              append(event_in(Kind::admit, what.tries.admits + 1));
              return true;
            }
          }
          if constexpr (std::is_same_v<std::decay_t<decltype(what)>, StartTask>) {
            if (what.tries.rate_retries < fate_.refusals[what.step]) {
              append(event_in(Kind::rate_retry, what.tries.rate_retries + 1, id(what.step)));
              return true;
            }
          }
          return false;
        },
        action);
  }

  static FlowEvent signal_named(const std::string& name) {
    return event_from("signal " + name + " of_" + name);
  }

  void settle(std::size_t step, std::uint32_t n) {
    const bool fails = n <= fate_.fails[step];
    append(event_from(id(step) + (fails ? " failed " : " completed ") + std::to_string(n)));
  }

  void act(const StartTask& start) { settle(start.step, 1); }
  void act(const RetryTask& retry) { settle(retry.step, retry.n + 1); }
  // Only sleeps run out here: a signal or approval that did would depend on chance.
  void act(const StartWait& wait) {
    if (fate_.definition.steps[wait.step].kind == FlowStep::Kind::sleep)
      append(event_of(fate_.definition, state_, wait));
  }
  void act(const EndStep& end) { append(event_of(fate_.definition, state_, end)); }
  void act(const EndRun& end) { append(event_of(state_, end)); }
  void act(const ArmRunTimer&) {}
  void act(const CallOff&) {}
  void act(const CallOffTimer&) {}
  void act(const Finish&) {}

  const std::string& id(std::size_t step) const { return fate_.definition.steps[step].id; }

  const Fate& fate_;
  RunState state_;
  std::vector<FlowEvent> log_;
  std::vector<FlowEvent> waiting_;
  std::set<std::string> ids_;
  std::set<std::string> done_;
};

World undisturbed(const Fate& fate) {
  World world(fate);
  do {
    while (!world.quiet()) world.handle(0, false);
  } while (world.go_on());
  return world;
}

void disturb(World& world) {
  int deaths = 0;
  do {
    while (!world.quiet()) {
      const bool dies = deaths < 100 && chance(3);
      deaths += dies;
      world.handle(*rc::gen::inRange<std::size_t>(0, world.waiting()), dies);
      if (!chance(4)) continue;
      const FlowEvent again = world.log()[*rc::gen::inRange<std::size_t>(0, world.log().size())];
      RunState folded_already = world.state();
      if (!fold(folded_already, again)) world.handle_again(again);
    }
  } while (world.go_on());
}

RC_GTEST_PROP(Flow, HoweverEventsComeARunDoesTheSame, ()) {
  for (int fates = 0; fates < 5; ++fates) {
    const Fate fate = any_fate();
    const World calm = undisturbed(fate);
    World wild(fate);
    disturb(wild);
    RC_ASSERT(wild.state() == calm.state());
    RC_ASSERT(wild.done() == calm.done());
  }
}

RC_GTEST_PROP(Flow, ARunIsOverWhenNothingIsLeftToDo, ()) {
  const Fate fate = any_fate();
  const World world = undisturbed(fate);
  const RunStanding standing = stand(fate.definition, world.state(), judge());
  RC_ASSERT(standing.phase == RunPhase::completed || standing.phase == RunPhase::failed);
  for (std::size_t i = 0; i < standing.steps.size(); ++i) {
    const StepStatus status = standing.steps[i].status;
    RC_ASSERT(status != StepStatus::active && status != StepStatus::pending);
    if (fate.fails[i] == 0 || fate.definition.steps[i].kind == FlowStep::Kind::sleep)
      RC_ASSERT(status != StepStatus::failed);
  }
  RC_ASSERT(world.done().contains("finish " + std::to_string(round_of(world.state()))));
}

RC_GTEST_PROP(Flow, FactsFoldInAnyOrderAnyNumberOfTimes, ()) {
  const Fate fate = any_fate();
  const World world = undisturbed(fate);
  std::vector<FlowEvent> events = world.log();
  for (std::size_t i = 0, more = events.size(); i < more; ++i)
    if (chance(3)) events.push_back(events[i]);
  for (std::size_t i = events.size(); i > 1; --i)
    std::swap(events[i - 1], events[*rc::gen::inRange<std::size_t>(0, i)]);
  RC_ASSERT(folded(events) == world.state());
}

RC_GTEST_PROP(Flow, AtIsTheStateOfThatMuchOfTheLog, ()) {
  const Fate fate = any_fate();
  const World world = undisturbed(fate);
  std::vector<FlowEvent> events = world.log();
  std::sort(events.begin(), events.end(),
            [](const FlowEvent& a, const FlowEvent& b) { return a.sequence < b.sequence; });
  RunState then;
  for (const FlowEvent& event : events) {
    fold(then, event);
    const RunState seen = at(world.state(), event.sequence);
    RunState expected = then;
    expected.admits = seen.admits;  // of tries only the last is kept
    expected.rate_retries = seen.rate_retries;
    RC_ASSERT(seen == expected);
  }
}

}  // namespace
}  // namespace once::core
