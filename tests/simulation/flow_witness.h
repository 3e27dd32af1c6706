// The checker of what is promised of workflows. It reads the table of steps (order_flow.h) and not the
// core's rules, and notes what starters were told, what came into the log, what was claimed and what
// became durable:
//
//   F1  a key has one run, every answer names it, and it is free again when its time is over, which
//       counts from the end of the run
//   F2  a step completes once; each that should run did, as often as its own policy allows, with what
//       those before it gave it, and none that should not
//   F3  a round of a run ends once, and what is said of that stays so
//   F4  a run comes to its end, and stands then as one that nothing happened to
//   F5  once the end of a cancelled run was handled, none of its steps begins
//   F6  no more runs are under way than max_runs allows, and no more are let in by a rate
//   F7  of the signals of a name the first in the log counts, and every sender hears so
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "flow/rules/facts.h"
#include "flow/starter.h"
#include "simulation/flow_plan.h"
#include "simulation/process.h"
#include "simulation/sim_store.h"

namespace once::sim {

class FlowWitness {
 public:
  FlowWitness(World& world, SimZone& zone, const FlowPlan& plan)
      : world_(world), zone_(zone), plan_(plan) {}

  // --- Starters -----------------------------------------------------------------------------

  enum class Asked { same, other_input };
  void answered(const Process& starter, const Order& order, Asked asked,
                const Result<engine::RunStarted>& answer);
  // The run that has the order's key, as far as anybody was told.
  std::optional<std::string> run_of(const Order& order) const;

  // --- The store ----------------------------------------------------------------------------

  void appended(const store::Append& item);
  // Of the queue of events.
  void wrote(const Process& by, const store::Address& at, const store::Stored& now);
  void wrote(const Process& by, const store::KeyWrite& value);
  // Of the queue of steps; `before`: null when there was nothing.
  void wrote_step(const std::string& task, const core::Record* before, const core::Record& now,
                  bool claim);
  // The task's record says that its run is still to be told.
  void owes(const std::string& task, bool so);
  bool was_retried(std::string_view run) const;
  std::optional<State> state_of(std::string_view run) const;  // as its facts were written

  // --- At the end ---------------------------------------------------------------------------

  // No event waits or is still to come, and no run goes on.
  bool all_over() const;
  void check_the_end();
  // Whoever starts an order in this time must be told the run that it has.
  core::StoreTime keys_kept_until() const;
  // That time, and the keys', is over: the next answer of each order names another run.
  void keys_expired();

 private:
  using Stood = testing::Stood;
  struct StepSeen {
    int completions = 0;
    std::uint32_t attempts = 0;  // that count, since the run was retried
  };

  void check_run(const Order& order);
  void check_steps(const std::string& run, const Stood& expected, const core::RunState& state,
                   bool cancelled);
  void check_step(const std::string& run, const StepPlan& step, const Stood& expected,
                  const core::RunState& state, StepStatus status, bool cancelled);
  void check_rounds(const std::string& run, const Stood& expected, const core::RunState& state,
                    bool cancelled);
  void check_log() const;
  void broken(std::string what) const { world_.broken(std::move(what)); }

  World& world_;
  SimZone& zone_;
  const FlowPlan& plan_;
  std::map<std::string, std::string> runs_;     // by the order's key
  std::map<std::string, std::string> expired_;  // the same, of keys whose time is over
  std::map<std::string, std::string> entries_;  // bodies of what is in the log, by id
  std::map<std::string, StepSeen> steps_;       // by RUN.STEP
  std::map<std::string, State> records_;        // of runs
  std::set<std::string> under_way_;             // runs that have begun a step and not ended
  std::set<std::string> called_off_;            // cancelled, and that was handled
  std::set<std::string> owing_;                 // tasks whose run is still to be told
};

}  // namespace once::sim
