// once wait ID [--queue Q] [--timeout D]: blocks until the task is settled, prints its result.
#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/task/waiting.h"

namespace once::cli {
namespace {

int wait(Session& session, const WaitOptions& options) {
  auto zone = session.open(Missing::refuse, Stays::longer);
  if (!zone) return session.fail(zone.error());
  return wait_until_settled(session, std::move(*zone), options);
}

}  // namespace

void add_wait(CLI::App& root, Session& session) {
  auto* app = add_command(root, "wait", "Wait until a task is settled, print its result");
  auto options = std::make_shared<WaitOptions>();
  add_needed(*app, "ID", options->id, "The task's id");
  add_text(*app, "--queue", options->queue, "QUEUE",
           "In this queue only; none: in all that take it");
  add_duration(*app, "--timeout", options->timeout, "Give up after so long (never)", Duration{0});
  add_example(*app,
              "Exit status: 0 completed, 1 dead or cancelled, 6 no such task, 7 in doubt or not\n"
              "settled in time.\n"
              "\n"
              "Example:\n"
              "  once wait order-17 --timeout 30s");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return wait(session, *options); };
  });
}

}  // namespace once::cli
