// The state that flows.cpp and run_view.cpp, the two files of once::Flows, share.
#pragma once

#include <memory>

#include "api/zone_state.h"
#include "flow/control.h"
#include "flow/start_limits.h"
#include "flow/starter.h"
#include "once/flows.h"

namespace once::inline v1 {

class NewestRuns;

struct detail::FlowsState {
  explicit FlowsState(std::shared_ptr<detail::ZoneState> of)
      : zone(std::move(of)),
        run_store(*zone->store, *zone->scheduler),
        log(*zone->store, *zone->scheduler),
        starter(*zone->store, *zone->scheduler, run_store, log),
        control(*zone->store, run_store, log),
        start_limits(*zone->store, *zone->scheduler, run_store) {}

  Result<RunInfo> info(const core::RunState& state);
  // Whether max_runs keeps it from starting anything.
  Result<bool> held(const core::FlowDefinition& definition, const core::RunState& state);
  // Adds the run, or all that there are, as far as they are wanted.
  Result<void> add_run(const core::RunState& state, NewestRuns& newest);
  Result<void> read_runs(const RunFilter& filter, NewestRuns& newest);

  std::shared_ptr<detail::ZoneState> zone;  // keeps it open
  engine::RunStore run_store;
  engine::EventLog log;
  engine::FlowStarter starter;
  engine::FlowControl control;
  engine::StartLimits start_limits;
};

}  // namespace once::inline v1
