// once flow start NAME[@VERSION] [INPUT] [--unique] [--wait[=D]]
#include <fmt/format.h>

#include "cli/app/input.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/flow/flow.h"
#include "cli/flow/name.h"
#include "cli/flow/wait.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

struct FlowStartOptions {
  std::string workflow{};
  std::optional<std::string> input{};
  bool unique = false;
  std::optional<std::optional<Duration>> wait{};  // --wait, and --wait=D
};

Error not_started(Error error) {
  if (!error.in_doubt && error.message.find("nothing was") == std::string::npos) {
    error.message += "; nothing was started";
  }
  return error;
}

std::string for_people(const Flows& flows, const Started& started) {
  if (!started.duplicate) return fmt::format("run {} started", started.run);
  const auto run = flows.show(started.run);
  return fmt::format("run {} of version {} has this key{} (duplicate){}; --unique starts another",
                     started.run, started.version,
                     run ? fmt::format(" since {} and is {}", format_time(run->info.started_at),
                                       to_string(run->info.state))
                         : "",
                     run ? way_on(flows, run->info) : "");
}

void tell(Session& session, const Flows& flows, const Started& started) {
  if (session.json) {
    session.out.line(run_started_json(started));
  } else {
    session.out.line(session.quiet ? started.run : for_people(flows, started));
  }
}

int start(Session& session, const FlowStartOptions& options) {
  const auto wanted = flow_name_from(options.workflow);
  if (!wanted) return session.fail(not_started(wanted.error()));
  const auto input = body_from(options.input, false);
  if (!input) return session.fail(not_started(input.error()));
  auto zone = session.open(Missing::refuse, options.wait ? Stays::longer : Stays::briefly);
  if (!zone) return session.fail(zone.error());
  Flows flows = zone->flows();
  const auto started =
      flows.start(wanted->name, *input, {.version = wanted->version, .unique = options.unique});
  if (!started) return session.fail(not_started(started.error()));
  tell(session, flows, *started);
  if (!options.wait) return kDone;
  session.out.flush();
  return wait_for_run(session, *zone, started->run, *options.wait);
}

}  // namespace

void add_flow_start(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "start", "Start a run of a workflow, once per key of its input");
  auto options = std::make_shared<FlowStartOptions>();
  add_needed(*app, "WORKFLOW", options->workflow, "NAME, or NAME@VERSION; without: the newest");
  add_text(*app, "INPUT", options->input, "",
           "JSON text, @FILE, or - for standard input; none: null");
  add_flag(*app, "--unique", options->unique, "A run of its own, whatever its key");
  add_optional_duration(*app, "--wait", options->wait,
                        "Wait until it has ended, then as once flow show; --wait=D: at most D");
  add_example(*app,
              "A duplicate is the run that the key has already. The same key with another input\n"
              "is a conflict: exit status 3, and what differs is said. With --wait: 0 completed,\n"
              "1 failed or cancelled, 7 not ended in time. With -q it prints the run's id alone.\n"
              "\n"
              "Example:\n"
              "  once flow start payment '{\"order\":{\"id\":17,\"total\":500}}'\n"
              "  run=$(once flow start -q payment @order.json)\n"
              "  once flow start payment@2 @order.json --wait=1m");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return start(session, *options); };
  });
}

}  // namespace once::cli
