// once flow add|list|export|start|wait|work|runs|show|events|graph|signal|approve|cancel|retry
#include "cli/flow/flow.h"

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/flow/print.h"

namespace once::cli {

bool is_run(const Zone& zone, const std::string& id, const Result<TaskView>& inspected) {
  return !inspected && inspected.error().code == Code::not_found && zone.flows().show(id);
}

void add_flow(CLI::App& root, Session& session) {
  auto* app = add_command(root, "flow", "Workflows: add, start, drive, see and steer them");
  need_command(*app);
  add_flow_definitions(*app, session);
  add_flow_start(*app, session);
  add_flow_wait(*app, session);
  add_flow_work(*app, session);
  add_flow_see(*app, session);
  add_flow_control(*app, session);
  show_commands(*app);
  add_example(*app,
              "A workflow says which steps there are and what each depends on; a run is one walk\n"
              "through it, known by a key from its input: however often it is started, there is\n"
              "one. Steps are tasks that once work runs; once flow work drives the runs.\n"
              "\n"
              "Example:\n"
              "  once flow add payment.json\n"
              "  once flow start payment '{\"order\":{\"id\":17,\"total\":500}}'\n"
              "  once work pay -- ./pay &\n"
              "  once flow work --until-empty\n"
              "  once flow runs");
}

}  // namespace once::cli
