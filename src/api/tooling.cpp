// The calls that only the command needs: programs, their steps, and the baseline of the benchmark.
#include "api/access.h"
#include "api/make_worker.h"
#include "api/open_store.h"
#include "exec/program.h"
#include "exec/step_client.h"
#include "tooling/bare_store_baseline.h"
#include "tooling/program.h"
#include "tooling/step.h"

namespace once::inline v1 {

Result<Worker> program_worker(const Zone& zone, std::string_view queue, Program program,
                              WorkerOptions options) {
  WorkerParts parts{.grace = program.grace};
  if (!program.probe.empty()) {
    auto probe = engine::program_probe(program);
    if (!probe) return probe.error();
    parts.probe = std::move(*probe);
  }
  auto handler = engine::program_handler(std::move(program));
  if (!handler) return handler.error();
  parts.handler = std::move(*handler);
  return make_worker(detail::Access::state(zone), queue, std::move(parts), std::move(options));
}

int supervisor_main(int argc, char** argv) { return engine::run_supervisor(argc, argv); }

StepExit run_step(const StepCommand& step) { return engine::StepClient(step).run(); }

Result<std::unique_ptr<BareStoreBaseline>> BareStoreBaseline::open(std::string_view url,
                                                                   OpenOptions options) {
  return api::open_baseline(url, options);
}

}  // namespace once::inline v1
