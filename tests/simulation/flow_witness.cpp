#include "simulation/flow_witness.h"

#include <algorithm>

#include "core/names.h"
#include "flow/definition/definition.h"
#include "flow/definition/input.h"
#include "flow/definition/state.h"

namespace once::sim {
namespace {

using Kind = StepPlan::Kind;
using Way = StepPlan::Way;

std::string_view before_dot(std::string_view id) { return id.substr(0, id.find('.')); }

// "RUN.ended.ROUND"
bool is_end(std::string_view id) {
  const std::string_view rest = id.substr(std::min(id.size(), before_dot(id).size()));
  return rest.starts_with(".ended.");
}

bool says(const std::string& body, std::string_view outcome) {
  return body.find("\"outcome\":\"" + std::string(outcome) + "\"") != std::string::npos;
}

bool over(State state) {
  return state == State::completed || state == State::dead || state == State::cancelled;
}

State stood(const core::RunState& run) {
  const core::EndFact* const end = core::end_of(run);
  if (!end) return State::waiting;
  if (end->outcome == core::RunOutcome::completed) return State::completed;
  return end->outcome == core::RunOutcome::cancelled ? State::cancelled : State::dead;
}

std::string text(StepStatus status) { return std::string(to_string(status)); }

}  // namespace

// --- Starters -------------------------------------------------------------------------------

void FlowWitness::answered(const Process& starter, const Order& order, Asked asked,
                           const Result<engine::RunStarted>& answer) {
  world_.trace().note(world_.now(), starter.name(), "is answered",
                      answer ? 2 + (answer->duplicate ? 1 : 0) : 1, [&] {
                        return order.key + ": " +
                               (answer ? answer->run + (answer->duplicate ? " duplicate" : "")
                                       : answer.error().message);
                      });
  std::string run;
  if (answer) {
    run = answer->run;
    if (asked == Asked::other_input && runs_.contains(order.key))
      return broken("F1: " + order.key + " was started with two inputs");
  } else {
    if (answer.error().code != Code::conflicting_duplicate) return;
    if (asked == Asked::same)
      return broken("F1: " + order.key + " was refused as a conflict with its own input");
    run = answer.error().conflict->id;
  }
  if (const auto old = expired_.find(order.key); old != expired_.end() && old->second == run)
    return broken("F1: the key " + order.key + " still has the run " + run +
                  ", and its time is over");
  const auto [known, first] = runs_.emplace(order.key, run);
  if (!first && known->second != run)
    broken("F1: the run of " + order.key + " is " + known->second + " and was also " + run);
}

std::optional<std::string> FlowWitness::run_of(const Order& order) const {
  const auto found = runs_.find(order.key);
  return found == runs_.end() ? std::nullopt : std::optional(found->second);
}

// --- The store ------------------------------------------------------------------------------

void FlowWitness::appended(const store::Append& item) {
  const std::string run(before_dot(item.id));
  const bool is_step = item.headers.contains("Once-Run");
  if (!is_step && !core::own_topic(item.topic)) return;
  if (!entries_.emplace(item.id, std::string(item.body.text())).second) return;
  if (is_end(item.id)) under_way_.erase(run);
  // What a slow runner begins of a run that was cancelled meanwhile is called off.
  const bool called_off = entries_.contains(run + ".ended.1");
  if (is_step && !called_off) under_way_.insert(run);
  if (plan_.flow.max_runs > 0 && under_way_.size() > static_cast<std::size_t>(plan_.flow.max_runs))
    broken("F6: " + std::to_string(under_way_.size()) + " runs are under way, and max_runs is " +
           std::to_string(plan_.flow.max_runs));
}

void FlowWitness::wrote(const Process& by, const store::Address& at, const store::Stored& now) {
  const State state = now.record.state;
  world_.trace().note(world_.now(), by.name(), "writes",
                      now.revision.value * 16 + static_cast<unsigned>(state), [&] {
                        return at.queue + "/" + at.key + " r" + std::to_string(now.revision.value) +
                               " " + std::string(to_string(state));
                      });
  if (at.kind == store::Address::Kind::task && is_end(at.key) && state == State::completed &&
      says(entries_[at.key], "cancelled"))
    called_off_.emplace(before_dot(at.key));
}

void FlowWitness::wrote(const Process& by, const store::KeyWrite& value) {
  const std::string& name = value.key.back();
  world_.trace().note(world_.now(), by.name(), "writes value", value.bytes.size(),
                      [&] { return value.key.front() + "/" + name + " " + value.bytes; });
  if (value.key.front() == "note" && name.starts_with("rate.") &&
      value.bytes.find("order-") != value.bytes.rfind("order-"))
    broken("F6: two runs are let in where the rate is one: " + value.bytes);
  if (value.key.front() != "run") return;
  const auto facts = encoding::decode_state(value.bytes);
  if (!facts) return broken("F4: the facts of the run " + name + " cannot be read");
  const State state = stood(*facts);
  const auto [known, first] = records_.emplace(name, state);
  const State was = std::exchange(known->second, state);
  const bool may_be = was == State::dead && (was_retried(name) || state == State::cancelled);
  if (!first && over(was) && was != state && !may_be)
    broken("F3: the run " + name + " was " + std::string(to_string(was)) + " and became " +
           std::string(to_string(state)));
}

void FlowWitness::wrote_step(const std::string& task, const core::Record* before,
                             const core::Record& now, bool claim) {
  const std::string run(before_dot(task));
  const StepPlan* const step =
      testing::order_step(task.substr(std::min(task.size(), run.size() + 1)));
  if (!step) return broken("F2: " + task + " is claimed, and is no step");
  StepSeen& seen = steps_[task];
  const bool completes =
      now.state == State::completed && (!before || before->state != State::completed);
  if (completes && ++seen.completions > 1) broken("F2: " + task + " completed twice");
  if (before && now.actions > before->actions &&
      now.story.back().act == core::OperatorAction::Act::retried) {
    seen.attempts = 0;
    if (!was_retried(run)) broken("F2: " + task + " is to run again, and nobody retried its run");
  }
  if (before && before->state == State::running && now.counted < before->counted)
    --seen.attempts;  // it had not begun, or was interrupted
  if (!claim) return;
  const int most = step->way == Way::fails ? testing::kHopelessAttempts : testing::kEnoughAttempts;
  if (++seen.attempts > static_cast<std::uint32_t>(most))
    broken("F2: " + task + " is tried " + std::to_string(seen.attempts) + " times, and its step " +
           "allows " + std::to_string(most));
  if (called_off_.contains(run))
    broken("F5: " + task + " begins though the end of its cancelled run was handled");
}

void FlowWitness::owes(const std::string& task, bool so) {
  if (so)
    owing_.insert(task);
  else
    owing_.erase(task);
}

bool FlowWitness::was_retried(std::string_view run) const {
  return entries_.contains(std::string(run) + ".retried.2");
}

std::optional<State> FlowWitness::state_of(std::string_view run) const {
  const auto found = records_.find(std::string(run));
  return found == records_.end() ? std::nullopt : std::optional(found->second);
}

// --- At the end -----------------------------------------------------------------------------

bool FlowWitness::all_over() const {
  return owing_.empty() &&
         std::all_of(plan_.orders.begin(), plan_.orders.end(),
                     [&](const Order& order) {
                       const auto run = run_of(order);
                       const auto state = run ? state_of(*run) : std::nullopt;
                       return state && over(*state);
                     }) &&
         *zone_.inner->all_settled(core::kFlowQueue);
}

void FlowWitness::check_the_end() {
  check_log();
  for (const Order& order : plan_.orders) check_run(order);
  const auto events = zone_.inner->rows({.queue = std::string(core::kFlowQueue)}, nullptr, 10'000);
  for (const store::Row& row : events->rows)
    if (const State state = store::state_of(row, zone_.inner->now()); !core::settled(state))
      broken("F4: all runs are over, and " + row.entry.id + " is " + std::string(to_string(state)));
}

void FlowWitness::check_log() const {
  std::size_t started = 0;
  for (const auto& [id, body] : entries_)
    if (id.ends_with(".started")) ++started;
  if (started != plan_.orders.size())
    broken("F1: " + std::to_string(started) + " runs were started for " +
           std::to_string(plan_.orders.size()) + " keys");
}

void FlowWitness::check_run(const Order& order) {
  const auto run = run_of(order);
  if (!run) return broken("F1: nobody was told the run of " + order.key);
  const std::vector<store::Key> keys{{"run", *run}, {"key", "order", order.key}};
  const auto stored = zone_.inner->key_values().get(keys);
  if (!*stored.front()) return broken("F4: the run " + *run + " has no value");
  const auto state = encoding::decode_state((*stored.front())->bytes);
  if (!state) return broken("F4: the facts of the run " + *run + " cannot be read");
  const core::EndFact* const end = core::end_of(*state);
  if (!end) return broken("F4: the run " + *run + " does not come to its end");
  const bool cancelled = end->outcome == core::RunOutcome::cancelled;
  if (cancelled && (!plan_.cancelled || &order != &plan_.orders.front()))
    return broken("F4: the run " + *run + " is cancelled, and nobody asked for it");
  const Stood expected = testing::undisturbed(order, plan_.retried);
  check_rounds(*run, expected, *state, cancelled);
  check_steps(*run, expected, *state, cancelled);
  if (!*stored.back() || (*stored.back())->bytes.find("\"ended\":") == std::string::npos)
    broken("F1: the run " + *run + " is over, and the time of its key has not begun");
}

void FlowWitness::check_rounds(const std::string& run, const Stood& expected,
                               const core::RunState& state, bool cancelled) {
  const auto round = core::round_of(state);
  // One that had failed is closed by the end of a round that nobody began.
  if (cancelled ? round > 2 : round != expected.rounds)
    broken("F3: the run " + run + " is in round " + std::to_string(round) + " instead of " +
           std::to_string(expected.rounds));
  for (std::uint32_t i = 1; i <= round; ++i)
    if (!entries_.contains(run + ".ended." + std::to_string(i)))
      broken("F3: round " + std::to_string(i) + " of the run " + run + " has no end");
  if (entries_.contains(run + ".ended." + std::to_string(round + 1)))
    broken("F3: the run " + run + " has an end of a round that it did not come to");
  const RunPhase phase = core::end_of(state)->outcome == core::RunOutcome::completed
                             ? RunPhase::completed
                             : RunPhase::failed;
  if (!cancelled && phase != expected.phase)
    broken("F4: the run " + run + " is " + std::string(to_string(phase)) + " (" +
           core::end_of(state)->error + ") instead of " + std::string(to_string(expected.phase)));
  const std::string output = testing::value_of(expected.numbers.at("finish"));
  if (!cancelled && phase == RunPhase::completed && core::end_of(state)->value != output)
    broken("F4: the run " + run + " gives " + core::end_of(state)->value + " instead of " + output);
}

void FlowWitness::check_steps(const std::string& run, const Stood& expected,
                              const core::RunState& state, bool cancelled) {
  const auto parsed = encoding::parse_definition(plan_.flow.definition());
  const core::RunStanding stands = core::stand(parsed->definition, state, encoding::judge());
  for (std::size_t i = 0; i < parsed->definition.steps.size(); ++i)
    check_step(run, *testing::order_step(parsed->definition.steps[i].id), expected, state,
               stands.steps[i].status, cancelled);
}

// A step of a cancelled run may not have come to its end, or was called off; one that completed is as
// it would have been.
void FlowWitness::check_step(const std::string& run, const StepPlan& step, const Stood& expected,
                             const core::RunState& state, StepStatus status, bool cancelled) {
  const std::string task = run + "." + step.id;
  const StepStatus should = expected.steps.at(step.id);
  if (cancelled ? status == StepStatus::completed && should != status : status != should)
    return broken("F4: " + task + " is " + text(status) + " instead of " + text(should));
  const bool runs = should == StepStatus::completed || should == StepStatus::failed;
  const auto entry = entries_.find(task);
  if (step.kind == Kind::task && entry != entries_.end()) {
    if (!runs) return broken("F2: " + task + " was begun, and is " + text(should));
    if (entry->second != expected.inputs.at(step.id))
      return broken("F2: " + task + " was given " + entry->second + " instead of " +
                    expected.inputs.at(step.id));
  }
  if (status != StepStatus::completed) return;
  if (step.kind == Kind::task && steps_[task].completions != 1)
    return broken("F2: " + task + " is completed, and its task completed " +
                  std::to_string(steps_[task].completions) + " times");
  if (step.kind == Kind::sleep) return;
  const std::string value = testing::value_of(expected.numbers.at(step.id));
  const core::CountedFact fact = core::counted_fact(state, step.id);
  if (fact.fact->value != value)
    broken("F4: " + task + " gave " + fact.fact->value + " instead of " + value);
}

core::StoreTime FlowWitness::keys_kept_until() const {
  core::StoreTime until = core::StoreTime::max();
  for (const auto& [key, run] : runs_)
    for (std::uint32_t round = 1; round <= 2; ++round) {
      const auto end = zone_.inner->find(run + ".ended." + std::to_string(round));
      if (*end) until = std::min(until, (*end)->appended_at + plan_.flow.key_ttl);
    }
  return until;
}

void FlowWitness::keys_expired() { expired_ = std::exchange(runs_, {}); }

}  // namespace once::sim
