// The doctor's findings as one table: a code, the condition, the harm and the fix.
// The doctor, the stores and the look at workflows find conditions; this table words them.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "once/doctor.h"

namespace once::core {

struct FindingRow {
  std::string_view key{};  // CODE, or CODE/CASE if a code has several texts
  std::string_view what{};
  std::string_view harm{};
  std::string_view fix{};  // for a caller of the library; the command has words of its own
};

// Every row. docs/doctor.md lists the codes.
std::span<const FindingRow> finding_rows();

// Words the finding with the row of `key` and the facts, as Facts::fill() does. The part of the key
// behind the slash becomes the fact "case".
Finding finding(std::string_view key, Severity severity, std::string about, Facts facts = {});

// The facts of both, in this order.
Facts together(const Facts& first, const Facts& second);

}  // namespace once::core
