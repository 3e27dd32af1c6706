// once inspect ID: a task's whole story, or how a run stands.
#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/flow/print.h"
#include "cli/task/story.h"

namespace once::cli {
namespace {

int inspect(Session& session, const std::string& id) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto task = zone->tasks().inspect(id);
  if (!task && task.error().code == Code::not_found) {
    if (const auto run = zone->flows().show(id)) {
      print_run(session, *run);
      return kDone;
    }
  }
  if (!task) return session.fail(task.error());
  tell_story(session, *task);
  return kDone;
}

}  // namespace

void add_inspect(CLI::App& root, Session& session) {
  auto* app = add_command(root, "inspect", "Tell a task's whole story");
  auto id = std::make_shared<std::string>();
  add_needed(*app, "ID", *id,
             "The task's id, or a run's; of a ledger-only queue or a stream of\nothers, the key");
  add_example(*app, "Example:\n  once inspect order-17");
  when_given(
      *app, [&session, id] { session.command = [&session, id] { return inspect(session, *id); }; });
}

}  // namespace once::cli
