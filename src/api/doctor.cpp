#include "once/doctor.h"

#include <algorithm>

#include "api/stuck_runs.h"
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

std::string_view open_window() {
  return "One window no software can close: a process that dies after an effect outside (a mail, a "
         "payment) and before its record. docs/effects.md says how to make it small, and how the "
         "other side closes it.";
}

Result<Diagnosis> Zone::doctor(const DoctorOptions& options) const {
  auto diagnosis = engine::diagnose(*impl_->store, options);
  if (!diagnosis || !options.deep || !options.queue.empty()) return diagnosis;
  if (auto looked = look_for_stuck_runs(*impl_, *diagnosis); !looked) return looked.error();
  std::stable_sort(diagnosis->findings.begin(), diagnosis->findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return diagnosis;
}

}  // namespace once::inline v1
