// Runs as JSON, and as text that is read from top to bottom: the run, then step by step how it stands.
#include "cli/flow/print.h"

#include <fmt/format.h>

#include <algorithm>

#include "shapes/flow_json.h"
#include "shapes/json_line.h"
#include "shapes/step_look.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

std::string_view outcome_of(const RunEvent& event) {
  return event.outcome ? to_string(*event.outcome) : std::string_view{};
}

std::string row(std::string_view label, std::string_view value) {
  return fmt::format("  {:<11}{}\n", label, value);
}

std::string head_text(const RunView& run, const Style& style) {
  const RunInfo& info = run.info;
  std::string out = fmt::format("{}  {}\n", style.bold(printable(info.run)),
                                look_text(look_of(info.state), style));
  out += row("workflow", fmt::format("{} version {}", printable(info.workflow), info.version));
  if (run.info.key) out += row("key", printable(*run.info.key));
  out += row("started", format_time(info.started_at));
  if (info.ended_at) {
    const Duration took = std::max<Duration>(*info.ended_at - info.started_at, Duration{0});
    out += row("ended",
               fmt::format("{} after {}", format_time(*info.ended_at), format_duration(took)));
  }
  if (run.round > 1) {
    out += row("round",
               fmt::format("{}: it was retried {}", run.round, counted(run.round - 1, "time")));
  }
  out += row("as of", fmt::format("#{}", run.sequence));
  if (!info.waits_for.empty()) out += row("waits for", printable(info.waits_for));
  if (!info.error.empty()) out += row(run.closed ? "closed" : "error", printable(info.error));
  const auto shown = [&](const Body& body) {
    return style.shortened(printable(compact(body)), body.text().size());
  };
  out += row("input", shown(run.input));
  if (run.output) out += row("output", shown(*run.output));
  return out;
}

std::string steps_text(const RunView& run, Time now, const Style& style) {
  Table table({{"STEP"}, {"STATE"}, {"ATTEMPTS", Table::Align::right}, {"QUEUE"}, {"AT"}, {"WHY"}});
  for (const RunStep& step : run.steps) {
    const StepLook look = look_of(step);
    const std::string name = fmt::format("{} {}", look.mark, printable(step.step));
    table.row({Table::Cell(name, style.in_state(look.colour, name)),
               Table::Cell(std::string(look.word), style.in_state(look.colour, look.word)),
               step.kind == StepKind::task ? fmt::format("{}", step.attempts) : std::string("-"),
               step.kind == StepKind::task && !step.queue.empty() ? step.queue : std::string("-"),
               step.at ? format_time(*step.at) : std::string("-"), why_text(step, now, style)});
  }
  return table.str(style);
}

}  // namespace

std::string look_text(const StepLook& look, const Style& style) {
  return style.in_state(look.colour, fmt::format("{} {}", look.mark, look.word));
}

bool over(RunPhase phase) { return phase != RunPhase::running && phase != RunPhase::waiting; }

Error end_of(const RunInfo& run) {
  return {.code = Code::failed,
          .message = fmt::format("run {} {} {}{}", run.run,
                                 run.state == RunPhase::cancelled ? "is" : "has",
                                 to_string(run.state), run.error.empty() ? "" : ": " + run.error)};
}

std::string why_text(const RunStep& step, std::optional<Time> now, const Style& style) {
  std::string text = style.error_cell(why_of(step));
  if (!step.until) return text;
  text += fmt::format("{}({} {}", text.empty() ? "" : " ",
                      step.kind == StepKind::task ? "tried again at" : "until",
                      format_time(*step.until));
  if (!now) return text + ')';
  const Duration left = *step.until - *now;
  return text + (left > Duration{0} ? fmt::format(", in {})", age_text(left)) : ", due)");
}

std::string run_text(const RunView& run, Time now, const Style& style) {
  return head_text(run, style) + '\n' + steps_text(run, now, style);
}

std::string runs_text(const std::vector<RunInfo>& runs, Time now, const Style& style) {
  const bool errors =
      std::any_of(runs.begin(), runs.end(), [](const RunInfo& run) { return !run.error.empty(); });
  std::vector<Table::Column> columns{{"RUN", Table::Align::left, true},
                                     {"WORKFLOW"},
                                     {"KEY"},
                                     {"STATE"},
                                     {"STEPS", Table::Align::right},
                                     {"AGE", Table::Align::right},
                                     {"WAITS FOR"}};
  if (errors) columns.push_back({"ERROR"});
  Table table(std::move(columns));
  for (const RunInfo& run : runs) {
    const StepLook look = look_of(run.state);
    std::vector<Table::Cell> cells{
        printable(run.run),
        run.version > 0 ? fmt::format("{}@{}", printable(run.workflow), run.version)
                        : printable(run.workflow),
        run.key ? printable(*run.key) : std::string("-"),
        Table::Cell(look_text(look, Style(false)), look_text(look, style)),
        fmt::format("{}/{}", run.steps_done, run.steps),
        age_text(std::max<Duration>(now - run.started_at, Duration{0})),
        run.waits_for.empty() ? std::string("-") : style.error_cell(run.waits_for)};
    if (errors) cells.emplace_back(style.error_cell(run.error));
    table.row(std::move(cells));
  }
  return table.str(style);
}

EventLines::EventLines(const RunView& run, std::size_t width) : width_(width) {
  for (const RunStep& step : run.steps) steps_ = std::max(steps_, display_width(step.step));
}

std::string EventLines::heading(const Style& style) const {
  return style.bold(fmt::format("{:>8}  {:<24}  {:<10}  {:<{}}  {}", "SEQUENCE", "TIME", "EVENT",
                                "STEP", steps_, "OUTCOME"));
}

std::string EventLines::line(const RunEvent& event) const {
  std::string text = fmt::format("{:>8}  {}  {:<10}  {:<{}}  {:<9}",
                                 fmt::format("#{}", event.sequence), format_time(event.at),
                                 to_string(event.kind), event.step, steps_, outcome_of(event));
  if (!event.signal.empty()) text += "  " + printable(event.signal);
  if (!event.error.empty()) {
    text += "  " + printable(event.error);
  } else if (event.value) {
    text += "  " + printable(compact(*event.value));
  }
  if (!event.by.who.empty()) text += "  by " + printable(event.by.who);
  if (!event.by.why.empty()) text += ": " + printable(event.by.why);
  text.erase(text.find_last_not_of(' ') + 1);
  return cut(text, width_);
}

void print_run(Session& session, const RunView& run) {
  if (session.json) {
    session.out.line(run_json(run));
  } else {
    session.out.write(run_text(run, now(), session.style()));
  }
}

}  // namespace once::cli
