// Implements once::Zone::doctor(): the findings of the store, of its tasks and of workflow runs.
#include "once/doctor.h"

#include <algorithm>

#include "api/stuck_runs.h"
#include "core/findings.h"
#include "flow/run_check.h"
#include "inspect/doctor.h"

namespace once::inline v1 {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::hazard: return "hazard";
    case Severity::warning: return "warning";
    case Severity::unknown: return "unknown";
    case Severity::note: return "note";
  }
  return {};
}

std::size_t serious(const Diagnosis& diagnosis) {
  return static_cast<std::size_t>(std::count_if(
      diagnosis.findings.begin(), diagnosis.findings.end(), [](const Finding& finding) {
        return finding.severity == Severity::hazard || finding.severity == Severity::warning;
      }));
}

namespace {

constexpr std::size_t kFaultsNamed = 20;  // one by one

Result<void> look_at_values(const detail::ZoneState& zone, Diagnosis& diagnosis) {
  engine::RunStore run_store(*zone.store, *zone.scheduler);
  std::size_t all = 0;
  auto looked = run_store.each_run(
      engine::RunStore::Which::open,
      [&](const engine::KnownRun& known) -> Result<bool> {
        const auto faults = engine::check_run(run_store, known.state);
        if (!faults) return faults.error();
        for (const engine::RunFault& fault : *faults)
          if (++all <= kFaultsNamed)
            diagnosis.findings.push_back(
                core::finding("contradiction", Severity::hazard, "run " + known.state.run,
                              {{"queue", ""}, {"damage", fault.what}, {"harm", fault.harm}}));
        return true;
      },
      [](const std::string&, const Error&) {});  // look_for_failed_runs() names it
  if (all > kFaultsNamed)
    diagnosis.findings.push_back(core::finding("contradiction/more", Severity::hazard,
                                               "runs of workflows",
                                               {{"count", std::to_string(all - kFaultsNamed)}}));
  return looked;
}

Result<void> look_at_runs(const detail::ZoneState& zone, bool deep, Diagnosis& diagnosis) {
  if (auto looked = look_for_failed_runs(zone, diagnosis); !looked || !deep) return looked;
  if (auto looked = look_at_values(zone, diagnosis); !looked) return looked;
  return look_for_stuck_runs(zone, diagnosis);
}

}  // namespace

Result<Diagnosis> Zone::doctor(const DoctorOptions& options) const {
  auto diagnosis = engine::diagnose(*state_->store, options);
  if (!diagnosis || !options.queue.empty()) return diagnosis;
  if (auto looked = look_at_runs(*state_, options.deep, *diagnosis); !looked) {
    if (looked.error().code != Code::store_unusable) return looked.error();
    // The other findings are told all the same.
    diagnosis->findings.push_back(core::finding("unreadable/runs", Severity::hazard,
                                                "runs of workflows",
                                                {{"error", looked.error().message}}));
  }
  std::stable_sort(diagnosis->findings.begin(), diagnosis->findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return diagnosis;
}

}  // namespace once::inline v1
