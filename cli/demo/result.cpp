#include "cli/demo/result.h"

#include <fmt/format.h>

#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli::demo {
namespace {

struct Row {
  std::string name{};   // for scripts
  std::string label{};  // for people
  std::string once{};
  std::string plain{};  // empty: there is no such thing there
  std::string note{};
  bool broken = false;  // a promise
};

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string reasons_of(const Counted& counted) {
  std::vector<std::string> reasons;
  for (const auto& [why, times] : counted.reruns)
    reasons.push_back(fmt::format("{} {}", times, why));
  return fmt::format("{}", fmt::join(reasons, ", "));
}

std::vector<Row> rows(const Counted& counted, const Setting& setting) {
  const PlainCounted& plain = counted.plain;
  const std::uint64_t stopped = counted.at_append + counted.by_ledger;
  const double price = setting.cost_per_run;
  return {
      {"published", "published", number(counted.published), number(plain.published),
       "entries of the log; messages"},
      {"completed", "completed", number(counted.completed), number(plain.acknowledged),
       "by the ledger; acknowledged"},
      {"unfinished", "not finished", number(counted.unfinished), number(plain.left),
       "when Once was done", counted.unfinished > 0},
      {"duplicates_at_append", "duplicates stopped at append", number(counted.at_append), "",
       "same id again: the original's receipt"},
      {"duplicates_by_ledger", "duplicates stopped by the ledger", number(counted.by_ledger), "",
       "same post under another id: not run"},
      {"conflicts", "conflicts refused", number(counted.conflicts), "", "same id, other content"},
      {"kills", "killed with -9", number(counted.agents_killed + counted.publishers_killed),
       number(plain.killed),
       fmt::format("{}, {}", once::counted(counted.agents_killed, "agent"),
                   once::counted(counted.publishers_killed, "publisher"))},
      {"reruns", "re-runs, each explained", number(counted.all_reruns()), "", reasons_of(counted)},
      {"unexplained", "re-runs and effects unexplained", number(counted.unexplained), "", "",
       counted.unexplained > 0},
      {"effects", "effects in the file", number(counted.effects), number(plain.effects),
       fmt::format("a line for each of {} per task", once::counted(kSteps.size(), "step"))},
      {"effects_again", "effects that happened again", number(counted.effects_again),
       number(plain.effects_again), "killed after the effect, before its record"},
      {"effects_missing", "effects missing", number(counted.effects_missing), "",
       "steps of completed tasks", counted.effects_missing > 0},
      {"completed_twice", "completed twice", number(counted.completed_twice),
       number(plain.duplicates_run), "runs beyond one per task", counted.completed_twice > 0},
      {"lost", "lost", number(counted.lost), "", "receipts without their task", counted.lost > 0},
      {"cost_paid", "duplicates cost",
       format_amount(static_cast<double>(counted.completed_twice) * price),
       format_amount(static_cast<double>(plain.duplicates_run) * price),
       fmt::format("{:.2f} for a run that was done before", price)},
      {"cost_prevented", "duplicates would have cost",
       format_amount(static_cast<double>(stopped) * price), "",
       fmt::format("{} stopped", once::counted(stopped, "duplicate"))}};
}

}  // namespace

std::string result_table(const Counted& counted, const Setting& setting, const Style& style) {
  Table out(
      {{"COUNTED"}, {"ONCE", Table::Align::right}, {"PLAIN QUEUE", Table::Align::right}, {""}});
  for (const Row& row : rows(counted, setting)) {
    out.row({row.label,
             {row.once, row.broken ? style.in_state(State::dead, row.once) : style.bold(row.once)},
             row.plain,
             {row.note, style.dim(row.note)}});
  }
  return out.str(style) +
         style.dim(
             "PLAIN QUEUE: lease, redeliver, acknowledge; the same publishes and kills, until "
             "Once was done.") +
         '\n';
}

std::string result_lines(const Counted& counted, const Setting& setting) {
  std::string out;
  for (const Row& row : rows(counted, setting)) {
    JsonLine line;
    line.text("measure", row.name).json("once", row.once);
    line.json("plain", row.plain.empty() ? "null" : row.plain).text("note", row.note);
    out += line.str() + '\n';
  }
  return out;
}

}  // namespace once::cli::demo
