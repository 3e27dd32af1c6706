// list, show and drop are the same for both; retry and complete are added by each.
#include "cli/task/held_tasks.h"

#include <fmt/format.h>

#include "cli/app/options.h"
#include "cli/task/story.h"

namespace once::cli {
namespace {

struct ShowOptions {
  std::string id{};
  std::optional<std::string> queue{};
};

int show(Session& session, const HeldTasks& held, const ShowOptions& options) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto task = where_fitting(*zone, options.id, options.queue, action_on(held, "show", ""));
  if (!task) return session.fail(task.error());
  tell_story(session, *task);
  return kDone;
}

}  // namespace

OperatorAction action_on(const HeldTasks& held, std::string verb, std::string outcome) {
  return {.verb = std::move(verb),
          .outcome = std::move(outcome),
          .kind = held.kind,
          .refusal = "is not " + held.kind,
          .states = {held.state}};
}

Result<Done> drop_task(Zone& zone, const Target& target, const By& by) {
  if (auto done = zone.tasks().drop(target.id, target.queue, by); !done) return done.error();
  return Done{"dropped", "is dropped: it will not be run again"};
}

Result<Done> retry_task(Zone& zone, const Target& target, const By& by) {
  if (auto done = zone.tasks().retry(target.id, target.queue, by); !done) return done.error();
  return Done{"retried", target.ledger ? "can be claimed again"
                                       : "is woken; a worker of the queue will run it"};
}

CLI::App* add_held_tasks(CLI::App& root, const HeldTasks& held, const std::string& help) {
  auto* app = add_command(root, held.command, help);
  need_command(*app);
  return app;
}

void add_held_tasks_list(CLI::App& app, Session& session, const HeldTasks& held) {
  auto* list = add_command(app, "list", fmt::format("List the tasks that are {}", held.kind));
  auto options = std::make_shared<FilterOptions>();
  add_filter_options(*list, *options, "100");
  add_example(
      *list, fmt::format("Example:\n  once {} list --queue billing --older-than 1d", held.command));
  when_given(*list, [&session, options, held] {
    session.command = [&session, options, held] {
      return print_list(session, *options, held.state);
    };
  });
}

void add_held_tasks_show(CLI::App& app, Session& session, const HeldTasks& held) {
  auto* shows = add_command(app, "show", "Tell the whole story of one of them");
  auto options = std::make_shared<ShowOptions>();
  add_needed(*shows, "ID", options->id, "The task's id; of a ledger-only queue, the key");
  add_text(*shows, "--queue", options->queue, "QUEUE",
           fmt::format("In this queue only; none: in all where it is {}", held.kind));
  add_example(*shows, fmt::format("Example:\n  once {} show order-17", held.command));
  when_given(*shows, [&session, options, held] {
    session.command = [&session, options, held] { return show(session, held, *options); };
  });
}

void add_held_tasks_drop(CLI::App& app, Session& session, const HeldTasks& held) {
  auto* drop = add_command(app, "drop", "Leave them: they become cancelled");
  auto options = std::make_shared<ActionOptions>();
  add_action_options(*drop, *options);
  add_example(*drop, fmt::format("Example:\n"
                                 "  once {0} drop order-17 --reason 'the customer is gone'\n"
                                 "  once {0} drop --queue billing --older-than 30d --yes",
                                 held.command));
  when_given(*drop, [&session, options, held] {
    session.command = [&session, options, held] {
      OperatorAction action = action_on(held, "drop", "dropped");
      action.act = drop_task;
      return carry_out(session, *options, action);
    };
  });
}

}  // namespace once::cli
