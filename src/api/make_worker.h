// What Zone::worker() and program_worker() share.
#pragma once

#include <memory>
#include <optional>

#include "api/zone_state.h"
#include "work/task_attempt.h"

namespace once::inline v1 {

struct WorkerParts {
  engine::Handler handler{};
  engine::Handler probe{};          // empty if there is none
  std::optional<Duration> grace{};  // of programs that are asked to stop
};
// Checks the queue and the options. Starts nothing.
Result<Worker> make_worker(std::shared_ptr<detail::ZoneState> zone, std::string_view queue,
                           WorkerParts parts, WorkerOptions options);

}  // namespace once::inline v1
