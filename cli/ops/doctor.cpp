// once doctor [--deep] [--queue Q] [--monitor URL]...
#include "once/doctor.h"

#include <fmt/format.h>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "shapes/doctor_json.h"
#include "shapes/fixes.h"
#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

void print_json(Session& session, const Diagnosis& diagnosis) {
  for (const Finding& finding : diagnosis.findings) session.out.line(finding_json(finding));
  session.out.line(JsonLine{}
                       .json("checked", checked_json(diagnosis))
                       .number("findings", diagnosis.findings.size())
                       .text("window", kOpenWindow)
                       .str());
}

// In the colour of a state that is as bad.
std::string painted(Severity severity, const Style& style) {
  const std::string_view name = to_string(severity);
  switch (severity) {
    case Severity::hazard: return style.in_state(State::dead, name);
    case Severity::warning: return style.in_state(State::retrying, name);
    case Severity::unknown: return style.in_state(State::in_doubt, name);
    case Severity::note: return style.dim(name);
  }
  return std::string(name);
}

void print_for_people(Session& session, const Diagnosis& diagnosis) {
  const Style style = session.style();
  for (const Finding& finding : diagnosis.findings) {
    session.out.line(fmt::format("{}{:{}}  {}  {}", painted(finding.severity, style), "",
                                 7 - to_string(finding.severity).size(), style.bold(finding.code),
                                 printable(finding.about)));
    session.out.line("         " + printable(finding.what));
    session.out.line("         harm  " + printable(finding.harm));
    session.out.line("         fix   " + printable(fix_for(finding)));
    session.out.line("");
  }
  session.out.line(style.bold("Checked"));
  for (const std::string& each : diagnosis.checked) session.out.line("  " + printable(each));
  session.out.line("");
  session.out.line(serious(diagnosis) > 0
                       ? counted(serious(diagnosis), "finding") + " to look at"
                       : std::string("Nothing found that loses or repeats a task."));
  session.out.line(kOpenWindow);
}

int doctor(Session& session, const DoctorOptions& options) {
  auto zone = session.open(Missing::refuse, Stays::to_examine);
  if (!zone) return session.fail(zone.error());
  if (options.deep) session.hint("looking at the whole store: this takes as long as reading it");
  auto diagnosis = zone->doctor(options);
  if (!diagnosis) return session.fail(diagnosis.error());
  session.json ? print_json(session, *diagnosis) : print_for_people(session, *diagnosis);
  return serious(*diagnosis) > 0 ? kFound : kDone;
}

}  // namespace

void add_doctor(CLI::App& root, Session& session) {
  auto* app = add_command(root, "doctor", "Look for what could lose or repeat a task");
  auto options = std::make_shared<DoctorOptions>();
  auto queue = std::make_shared<std::optional<std::string>>();
  add_flag(*app, "--deep", options->deep,
           "Read the whole store: check a file for damage to the end");
  add_text(*app, "--queue", *queue, "Q", "The tasks of this queue only");
  add_texts(*app, "--monitor", options->monitors, "URL",
            "Where a NATS server is monitored, such as http://localhost:8222;\nrepeatable");
  add_example(
      *app,
      "Only looks. Like every command, it first brings a file of an older version up to date and\n"
      "notes a new boot. Exit status: 0 nothing to look at, 4 a hazard or a warning was found.\n"
      "\n"
      "Example:\n  once doctor\n  once doctor --json | jq -r 'select(.severity==\"hazard\").fix'");
  when_given(*app, [&session, options, queue] {
    options->queue = queue->value_or("");
    session.command = [&session, options] { return doctor(session, *options); };
  });
}

}  // namespace once::cli
