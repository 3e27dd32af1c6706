// What the two halves of Flows share.
#pragma once

#include <memory>

#include "api/zone_impl.h"
#include "engine/flow_control.h"
#include "engine/flow_gates.h"
#include "engine/flow_starter.h"
#include "once/flows.h"

namespace once::inline v1 {

struct Flows::Impl {
  explicit Impl(std::shared_ptr<Zone::Impl> of)
      : zone(std::move(of)),
        book(*zone->store, *zone->scheduler),
        log(*zone->store, *zone->scheduler),
        starter(*zone->store, *zone->scheduler, book, log),
        control(book, log),
        gates(*zone->store, *zone->scheduler, book) {}

  Result<RunInfo> info(const core::RunState& state);
  // Adds how the tasks of its steps stand.
  Result<void> look_at_tasks(const core::RunState& state, RunView& view);

  std::shared_ptr<Zone::Impl> zone;  // keeps it open
  engine::FlowBook book;
  engine::FlowLog log;
  engine::FlowStarter starter;
  engine::FlowControl control;
  engine::FlowGates gates;
};

}  // namespace once::inline v1
