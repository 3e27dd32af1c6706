// What the steps of a run stand at beyond its facts: how their tasks are, what those that are active
// wait for and until when, and who is missing for the run to go on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "flow/rules/facts.h"
#include "once/flows.h"
#include "store/store.h"

namespace once::inline v1 {

class ActiveSteps {
 public:
  ActiveSteps(store::Store& store, const core::FlowDefinition& definition,
              const core::RunState& state)
      : store_(store), definition_(definition), state_(state) {}

  // Adds to the steps, which stand like this. `held`: max_runs keeps the run from starting anything.
  Result<void> add_to(std::vector<RunStep>& steps, const core::RunStanding& standing, bool held);

 private:
  using Found = Result<std::optional<store::Entry>>;

  Result<void> look_at_task(const core::FlowStep& step, RunStep& view);
  // The queue that replies has its task.
  Result<void> look_at_row(const store::Row& row, const Queue& queue, RunStep& view);
  // Its task is not there, or is over: what is missing for it to run.
  Result<void> look_at_start(const core::FlowStep& step, RunStep& view);
  Result<void> look_at_wait(const core::FlowStep& step, std::uint32_t n, RunStep& view);
  // The event that tries a start again which its rate refused; none: it was not refused.
  Found refusal(const core::FlowStep& step);
  // It is a runner's turn: when none is at work, it says so.
  Result<void> needs_a_runner(RunStep& view);
  Result<std::string> waits_for_a_worker(const Queue& queue);
  const Queue* queue(std::string_view name) const;
  Result<std::uint64_t> workers(const std::string& queue);
  Found find(core::FlowEvent::Kind kind, std::uint32_t n, const core::FlowStep& step);

  store::Store& store_;
  const core::FlowDefinition& definition_;
  const core::RunState& state_;
  std::vector<Queue> queues_;
  std::map<std::string, std::uint64_t> workers_;  // of queues that were asked about
};

}  // namespace once::inline v1
