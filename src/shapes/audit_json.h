// An audit as JSON.
#pragma once

#include <optional>
#include <string>

#include "once/audit.h"

namespace once::cli {

// hour, day or month. Returns nullopt for any other text.
std::optional<AuditOptions::Period> period_from(std::string_view name);
std::string period_text(Time period, AuditOptions::Period by);

// The cost of the duplicates that were prevented.
double prevented(const Totals& totals, double cost_per_run);

std::string audit_line_json(const AuditLine& line, AuditOptions::Period by,
                            std::optional<double> cost_per_run);
// The fields `discrepancies` and, if not all are listed, `unlisted`.
std::string discrepancies_json(const Audit& audit);
// All of it as one object: `lines`, and the fields of discrepancies_json().
std::string audit_json(const Audit& audit, AuditOptions::Period by,
                       std::optional<double> cost_per_run);

}  // namespace once::cli
