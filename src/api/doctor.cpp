// Implements once::Zone::doctor(): the findings of the store, of its tasks and of workflow runs.
#include "once/doctor.h"

#include <algorithm>

#include "api/stuck_runs.h"
#include "core/findings.h"
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

Result<void> look_at_runs(const detail::ZoneState& zone, bool deep, Diagnosis& diagnosis) {
  if (auto looked = look_for_failed_runs(zone, diagnosis); !looked || !deep) return looked;
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
