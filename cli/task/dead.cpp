// once dead list|show|retry|drop
#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/task/held_tasks.h"

namespace once::cli {

void add_dead(CLI::App& root, Session& session) {
  const HeldTasks held{.command = "dead", .kind = "dead", .state = State::dead};
  auto* app = add_held_tasks(root, held, "Dead letters: list, show, retry and drop them");
  add_example(*app, "Example:\n  once dead retry --queue billing --error 'rate limit'");
  add_held_tasks_list(*app, session, held);
  add_held_tasks_show(*app, session, held);

  auto* retry = add_command(*app, "retry", "Run them again, with all their attempts before them");
  auto options = std::make_shared<ActionOptions>();
  add_action_options(*retry, *options);
  add_example(*retry,
              "Example:\n"
              "  once dead retry order-17 --reason 'the address is mended'\n"
              "  once dead retry --queue billing --error 'rate limit' --since 1d --dry-run");
  when_given(*retry, [&session, options, held] {
    session.command = [&session, options, held] {
      OperatorAction action = action_on(held, "retry", "retried");
      action.act = retry_task;
      return carry_out(session, *options, action);
    };
  });

  add_held_tasks_drop(*app, session, held);
  show_commands(*app);
}

}  // namespace once::cli
