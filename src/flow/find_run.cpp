#include "flow/find_run.h"

namespace once::engine {

Result<std::optional<KnownRun>> find_run(RunStore& run_store, EventLog& log, std::string_view run) {
  auto known = run_store.run(run);
  if (!known || *known) return known;
  const std::string id = std::string(run) + ".started";
  auto started = log.find(id);
  if (!started) return started.error();
  if (!*started) return std::optional<KnownRun>{};
  // The run's value is written before `started` is handled. So if it is handled, the value is there
  // now, or has expired.
  auto handled = log.handled(id);
  if (!handled) return handled.error();
  if (*handled) return run_store.run(run);
  KnownRun begun;
  core::fold(begun.state, **started);
  return std::optional(std::move(begun));
}

}  // namespace once::engine
