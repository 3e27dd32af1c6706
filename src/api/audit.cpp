// Implements once::Zone::audit(): the auditor's report, with the runs of workflows added.
#include "once/audit.h"

#include "api/zone_state.h"
#include "core/names.h"
#include "flow/run_check.h"
#include "inspect/auditor.h"

namespace once::inline v1 {
namespace {

State state_of(const core::RunState& run) {
  const core::EndFact* const end = core::end_of(run);
  if (end == nullptr) return State::waiting;
  switch (end->outcome) {
    case core::RunOutcome::completed: return State::completed;
    case core::RunOutcome::cancelled: return State::cancelled;
    case core::RunOutcome::failed:
    case core::RunOutcome::timed_out: break;
  }
  return State::dead;
}

// A run counts like a task, and each of its rounds that ended like an attempt. The end that closes a
// failed run has no round of its own.
void account(const core::RunState& run, Totals& into) {
  ++into.published;
  ++into.states[static_cast<std::size_t>(state_of(run))];
  for (const auto& [number, round] : run.rounds) {
    if (!round.ended || (number > 1 && !round.sequence)) continue;
    ++into.attempts;
    if (number > 1) ++into.reruns[static_cast<std::size_t>(Rerun::asked)];
  }
}

}  // namespace

Result<Audit> Zone::audit(const AuditOptions& options) const {
  engine::Auditor auditor(*state_->store, options);
  core::Hours runs;
  engine::RunStore run_store(*state_->store, *state_->scheduler);
  std::vector<Discrepancy> damaged;
  const auto tell = [&](const std::string& run, std::string what, std::string harm) {
    damaged.push_back({.kind = Discrepancy::Kind::damaged,
                       .queue = std::string(core::kRunsLedger),
                       .task = run,
                       .what = "the run " + run + what,
                       .harm = std::move(harm)});
  };
  const auto read = run_store.each_run(
      engine::RunStore::Which::all,
      [&](const engine::KnownRun& known) -> Result<bool> {
        account(known.state, runs[core::hour_of(known.state.started_at)]);
        if (!options.deep) return true;
        const auto faults = engine::check_run(run_store, known.state);
        if (!faults) return faults.error();
        for (const engine::RunFault& fault : *faults)
          tell(known.state.run, ": " + fault.what, fault.harm);
        return true;
      },
      [&](const std::string& run, const Error& why) {
        tell(run, " cannot be read: " + why.message,
             "the run is not counted, and no runner can move it");
      });
  if (!read) return read.error();
  if (!runs.empty()) auditor.count_besides(std::string(core::kRunsLedger), std::move(runs));
  auto audit = auditor.run();
  if (!audit) return audit;
  for (Discrepancy& each : damaged) {
    if (audit->discrepancies.size() < options.discrepancies)
      audit->discrepancies.push_back(std::move(each));
    else
      ++audit->unlisted;
  }
  return audit;
}

}  // namespace once::inline v1
