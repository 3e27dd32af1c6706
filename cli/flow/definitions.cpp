// once flow add [--check] FILE..., once flow list, once flow export NAME[@VERSION]
#include <fmt/format.h>

#include "cli/app/advice.h"
#include "cli/app/input.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/flow/flow.h"
#include "cli/flow/name.h"
#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct AddOptions {
  std::vector<std::string> files{};
  bool check = false;
};

Error not_added(Error error) {
  if (!error.in_doubt && error.message.find("nothing was") == std::string::npos) {
    error.message += "; nothing was added";
  }
  return error;
}

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

Result<FlowAdded> add_to_zone(const Session& session, const std::string& json) {
  auto zone = open_for(session, json);
  if (!zone) return zone.error();
  return zone->flows().add(json);
}

void tell_added(Session& session, const FlowAdded& added) {
  if (session.json) {
    session.out.line(flow_added_json(added));
  } else if (added.added) {
    session.say(fmt::format("workflow {} version {}: {}", added.workflow, added.version,
                            counted(added.steps, "step")));
  } else {
    session.say(fmt::format("workflow {} version {} is there already, with this definition",
                            added.workflow, added.version));
  }
  for (const FlowHint& hint : added.hints) session.hint(with_advice(hint));
}

void tell_checked(Session& session, const std::string& file, const FlowAdded& checked) {
  if (session.json) {
    session.out.line(JsonLine{}
                         .text("file", file)
                         .text("workflow", checked.workflow)
                         .number("version", checked.version)
                         .number("steps", checked.steps)
                         .str());
  } else {
    session.say(fmt::format("{}: workflow {} version {} is sound: {}", printable(file),
                            checked.workflow, checked.version, counted(checked.steps, "step")));
  }
}

int add(Session& session, const AddOptions& options, const std::string& file) {
  const auto fail = [&](const Error& error) {
    return session.fail(not_added(error), JsonLine{}.text("file", file));
  };
  const auto json = read_all(file);
  if (!json) return fail(json.error());
  const auto added = options.check ? Flows::check(*json) : add_to_zone(session, *json);
  if (!added) return fail(in_file(added.error(), file));
  if (options.check) {
    tell_checked(session, file, *added);
  } else {
    tell_added(session, *added);
  }
  return kDone;
}

// A bad file does not stop the others; the exit status is the first failure's.
int add(Session& session, const AddOptions& options) {
  if (options.files.empty()) {
    return session.usage("flow add needs a FILE, or - for standard input; nothing was added");
  }
  int status = kDone;
  for (const std::string& file : options.files) {
    const int done = add(session, options, file);
    if (status == kDone) status = done;
  }
  return status;
}

int export_one(Session& session, const std::string& text) {
  const auto wanted = flow_name_from(text);
  if (!wanted) return session.fail(wanted.error());
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  const auto flow = zone->flows().definition(wanted->name, wanted->version);
  if (!flow) return session.fail(flow.error());
  session.out.line(flow->json);
  return kDone;
}

int list_workflows(Session& session) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  const auto workflows = zone->flows().list();
  if (!workflows) return session.fail(workflows.error());
  Table table(
      {{"WORKFLOW"}, {"VERSION", Table::Align::right}, {"STEPS", Table::Align::right}, {"KEY"}});
  for (const FlowInfo& workflow : *workflows) {
    if (session.json) {
      session.out.line(flow_info_json(workflow));
    }
    table.row({workflow.workflow, fmt::format("{}", workflow.version),
               fmt::format("{}", workflow.steps),
               workflow.idempotency_key.empty() ? std::string("the whole input")
                                                : printable(workflow.idempotency_key)});
  }
  if (session.json) return kDone;
  if (session.quiet) {
    for (const FlowInfo& workflow : *workflows) {
      session.out.line(fmt::format("{}@{}", workflow.workflow, workflow.version));
    }
  } else if (table.empty()) {
    session.hint("no workflows yet (once flow add FILE)");
  } else {
    session.out.write(table.str(session.style()));
  }
  return kDone;
}

void add_add(CLI::App& flow, Session& session) {
  auto* app =
      add_command(flow, "add", "Add a workflow, or a version of one; the same again is fine");
  auto options = std::make_shared<AddOptions>();
  add_words(*app, "FILE", options->files, "Its definition in JSON; - for standard input");
  add_flag(*app, "--check", options->check,
           "Say what is wrong with it, and add nothing; no store is\nneeded");
  add_example(*app,
              "A version never changes once it is added: another definition has another version,\n"
              "and runs stay on the one that they began with. docs/workflows.md says what a\n"
              "definition can contain. A file that is refused does not stop the others.\n"
              "\n"
              "Example:\n"
              "  once flow add payment.json\n"
              "  once flow add --check flows/*.json\n"
              "  echo '{\"name\":\"hello\",\"steps\":[{\"id\":\"greet\",\"task\":\"greet\"}]}' |\n"
              "    once flow add -");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return add(session, *options); };
  });
}

void add_list(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "list", "List the workflows, every version of them");
  add_example(*app, "Example:\n  once flow list");
  when_given(*app,
             [&session] { session.command = [&session] { return list_workflows(session); }; });
}

void add_export(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "export", "Print a definition, as once flow add takes it");
  auto name = std::make_shared<std::string>();
  add_needed(*app, "WORKFLOW", *name, "NAME, or NAME@VERSION; without: the newest");
  add_example(*app,
              "One line of canonical JSON, with --json or without.\n"
              "\n"
              "Example:\n"
              "  once flow export payment@2 > payment.json\n"
              "  once flow export payment | once flow add - --store other.db");
  when_given(*app, [&session, name] {
    session.command = [&session, name] { return export_one(session, *name); };
  });
}

}  // namespace

void add_flow_definitions(CLI::App& flow, Session& session) {
  add_add(flow, session);
  add_list(flow, session);
  add_export(flow, session);
}

}  // namespace once::cli
