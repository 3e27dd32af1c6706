#include "shapes/audit_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "shapes/json_line.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

using Period = AuditOptions::Period;

constexpr std::array<std::pair<std::string_view, Period>, 3> kPeriods{
    {{"hour", Period::hour}, {"day", Period::day}, {"month", Period::month}}};

// Of a hundred completions, how many were one too many.
double duplication_rate(const Totals& totals) {
  const std::uint64_t completed = totals.in(State::completed);
  return completed == 0
             ? 0
             : static_cast<double>(totals.completed_twice) / static_cast<double>(completed);
}

std::string reruns_json(const Totals& totals) {
  JsonLine line;
  for (std::size_t i = 0; i < totals.reruns.size(); ++i)
    line.number(to_string(static_cast<Rerun>(i)), totals.reruns[i]);
  return line.str();
}

std::string discrepancy_json(const Discrepancy& found) {
  JsonLine line;
  line.text("kind", to_string(found.kind)).text_or_null("queue", found.queue);
  if (found.sequence > 0)
    line.number("sequence", found.sequence);
  else
    line.null("sequence");
  return line.text_or_null("task", found.task)
      .text("what", found.what)
      .text_or_null("harm", found.harm)
      .str();
}

JsonLine& add_discrepancies(JsonLine& line, const Audit& audit) {
  std::vector<std::string> all;
  for (const Discrepancy& found : audit.discrepancies) all.push_back(discrepancy_json(found));
  line.json("discrepancies", json_array(all));
  if (audit.unlisted > 0) line.number("unlisted", audit.unlisted);
  return line;
}

}  // namespace

std::optional<Period> period_from(std::string_view name) {
  const auto* const found = std::find_if(kPeriods.begin(), kPeriods.end(),
                                         [&](const auto& each) { return each.first == name; });
  return found == kPeriods.end() ? std::nullopt : std::optional(found->second);
}

std::string period_text(Time period, Period by) {
  const std::string full = format_time(period);  // 2026-11-16T03:00:00.000Z
  switch (by) {
    case Period::hour: return full.substr(0, 16) + "Z";
    case Period::day: return full.substr(0, 10);
    case Period::month: return full.substr(0, 7);
    case Period::all: break;
  }
  return "all";
}

double prevented(const Totals& totals, double cost_per_run) {
  return static_cast<double>(totals.duplicates()) * cost_per_run;
}

std::string audit_line_json(const AuditLine& audited, Period by,
                            std::optional<double> cost_per_run) {
  const Totals& totals = audited.totals;
  JsonLine line;
  line.text("period", period_text(audited.period, by))
      .text_or_null("queue", audited.queue)
      .number("published", totals.published);
  for (std::size_t i = 0; i < totals.states.size(); ++i)
    line.number(to_string(static_cast<State>(i)), totals.states[i]);
  line.number("duplicates_at_append", totals.duplicates_at_append)
      .number("duplicates_by_ledger", totals.duplicates_by_ledger)
      .number("attempts", totals.attempts)
      .number("reruns", totals.all_reruns())
      .json("rerun_reasons", reruns_json(totals))
      .number("completed_twice", totals.completed_twice)
      .json("net_duplication_rate", fmt::format("{}", duplication_rate(totals)));
  if (cost_per_run && !audited.own)
    line.json("cost_prevented", format_amount(prevented(totals, *cost_per_run)));
  else
    line.null("cost_prevented");
  return line.str();
}

std::string discrepancies_json(const Audit& audit) {
  JsonLine line;
  return add_discrepancies(line, audit).str();
}

std::string audit_json(const Audit& audit, Period by, std::optional<double> cost_per_run) {
  std::vector<std::string> lines;
  for (const AuditLine& each : audit.lines)
    lines.push_back(audit_line_json(each, by, cost_per_run));
  JsonLine line;
  line.json("lines", json_array(lines));
  return add_discrepancies(line, audit).str();
}

}  // namespace once::cli
