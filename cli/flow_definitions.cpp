// once flow add FILE|-, once flow list
#include <fmt/format.h>

#include "cli/flow.h"
#include "cli/input.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/values.h"

namespace once::cli {
namespace {

// What is wrong with a definition is mended in its file.
Error in_file(Error error, const std::string& file) {
  if (error.code == Code::invalid_input && file != "-") {
    error.message = fmt::format("{}: {}", file, error.message);
  }
  return error;
}

// A zone that is not there is made only for a definition that it will take.
Result<Zone> open_for(const Session& session, const std::string& json) {
  auto zone = session.open(Missing::refuse);
  if (zone || away(zone.error())) return zone;
  auto rehearsal = Zone::open("memory:");
  if (!rehearsal) return rehearsal.error();
  if (auto taken = rehearsal->flows().add(json); !taken) return taken.error();
  return session.open(Missing::create);
}

int add(Session& session, const std::string& file) {
  const auto json = read_all(file);
  if (!json) return session.fail(json.error());
  auto zone = open_for(session, *json);
  if (!zone) return session.fail(in_file(zone.error(), file));
  const auto added = zone->flows().add(*json);
  if (!added) return session.fail(in_file(added.error(), file));
  if (session.json) {
    session.out.line(JsonLine{}
                         .text("workflow", added->workflow)
                         .number("version", added->version)
                         .boolean("added", added->added)
                         .number("steps", added->steps)
                         .str());
  } else if (added->added) {
    session.out.line(fmt::format("workflow {} version {}: {}", added->workflow, added->version,
                                 counted(added->steps, "step")));
  } else {
    session.out.line(fmt::format("workflow {} version {} is there already, with this definition",
                                 added->workflow, added->version));
  }
  for (const std::string& hint : added->hints) session.hint(hint);
  return kDone;
}

int list(Session& session) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  const auto workflows = zone->flows().list();
  if (!workflows) return session.fail(workflows.error());
  Table table(
      {{"WORKFLOW"}, {"VERSION", Table::Align::right}, {"STEPS", Table::Align::right}, {"KEY"}});
  for (const FlowInfo& workflow : *workflows) {
    if (session.json) {
      session.out.line(JsonLine{}
                           .text("workflow", workflow.workflow)
                           .number("version", workflow.version)
                           .number("steps", workflow.steps)
                           .text_or_null("idempotency_key", workflow.idempotency_key)
                           .str());
    }
    table.row({workflow.workflow, fmt::format("{}", workflow.version),
               fmt::format("{}", workflow.steps),
               workflow.idempotency_key.empty() ? std::string("the whole input")
                                                : printable(workflow.idempotency_key)});
  }
  if (session.json) return kDone;
  if (table.empty()) {
    session.hint("no workflows yet (once flow add FILE)");
  } else {
    session.out.write(table.str(session.style()));
  }
  return kDone;
}

}  // namespace

void add_flow_definitions(CLI::App& flow, Session& session) {
  auto* adding =
      add_command(flow, "add", "Add a workflow, or a version of one; the same again is fine");
  auto file = std::make_shared<std::string>();
  add_needed(*adding, "FILE", *file, "Its definition in JSON; - for standard input");
  add_example(*adding,
              "A version never changes once it is added: another definition has another version,\n"
              "and runs stay on the one that they began with. docs/workflows.md says what a\n"
              "definition can contain.\n"
              "\n"
              "Example:\n"
              "  once flow add payment.json\n"
              "  echo '{\"name\":\"hello\",\"steps\":[{\"id\":\"greet\",\"task\":\"greet\"}]}' |\n"
              "    once flow add -");
  when_given(*adding, [&session, file] {
    session.command = [&session, file] { return add(session, *file); };
  });

  auto* listing = add_command(flow, "list", "List the workflows, every version of them");
  add_example(*listing, "Example:\n  once flow list");
  when_given(*listing, [&session] { session.command = [&session] { return list(session); }; });
}

}  // namespace once::cli
