// once doubt list|show|complete|retry|drop: attempts that ended without a verdict, for a person who
// can find out what happened.
#include <fmt/format.h>

#include "cli/app/commands.h"
#include "cli/app/input.h"
#include "cli/app/options.h"
#include "cli/task/held_tasks.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

struct DoubtOptions {
  ActionOptions action{};
  std::optional<std::string> result{}, step{};
  bool raw = false;
};

Error nothing_done(Code code, std::string message) {
  return {.code = code, .message = std::move(message) + "; nothing was done"};
}

// A person who names a step is mistaken when another one is in doubt, or none is.
Result<void> has_step_in_doubt(const Zone& zone, const Target& target, const std::string& name) {
  auto task = zone.tasks().inspect(target.id);
  if (!task) return task.error();
  for (const QueueView& queue : task->queues) {
    if (queue.queue != target.queue) continue;
    for (const StepView& step : queue.steps) {
      if (step.step != name) continue;
      if (step.state == StepView::State::in_doubt) return {};
      return nothing_done(Code::wrong_state,
                          fmt::format("step {} of {} in queue {} is {}, not in doubt", name,
                                      target.id, target.queue, to_string(step.state)));
    }
  }
  return nothing_done(Code::not_found,
                      fmt::format("{} has no step {} in queue {} (once doubt show)", target.id,
                                  name, target.queue));
}

void check_step(const DoubtOptions& options, OperatorAction& action) {
  if (!options.step) return;
  action.check = [name = *options.step](const Zone& zone, const Target& target) {
    return has_step_in_doubt(zone, target, name);
  };
}

int complete(Session& session, const HeldTasks& held, const DoubtOptions& options) {
  auto result = result_from(options.result, options.raw);
  if (!result) return session.fail(result.error());
  OperatorAction action = action_on(held, "complete", "completed");
  check_step(options, action);
  if (options.step) action.foreseen = "would go on after step " + printable(*options.step);
  action.act = [&](Zone& zone, const Target& target, const By& by) -> Result<Done> {
    if (!options.step) {
      auto done = zone.tasks().complete(target.id, target.queue, *result, by);
      if (!done) return done.error();
      return Done{"completed", "is completed, as you say"};
    }
    auto done = zone.tasks().complete_step(target.id, target.queue, *options.step, *result, by);
    if (!done) return done.error();
    return Done{"completed", fmt::format("goes on after step {}; a worker of the queue will run it",
                                         printable(*options.step))};
  };
  return carry_out(session, options.action, action);
}

int retry(Session& session, const HeldTasks& held, const DoubtOptions& options) {
  OperatorAction action = action_on(held, "retry", "retried");
  check_step(options, action);
  action.act = retry_task;
  return carry_out(session, options.action, action);
}

}  // namespace

void add_doubt(CLI::App& root, Session& session) {
  const HeldTasks held{.command = "doubt", .kind = "in doubt", .state = State::in_doubt};
  auto* app =
      add_held_tasks(root, held, "Tasks in doubt: list, show, complete, retry and drop them");
  add_example(*app, "Example:\n  once doubt complete order-17 --result '{\"charge\":\"ch_1\"}'");
  add_held_tasks_list(*app, session, held);
  add_held_tasks_show(*app, session, held);
  // Each command has its own: an option belongs to the command that it was given to.
  auto deciding = [&](const std::string& name, const std::string& help, const std::string& step) {
    auto* command = add_command(*app, name, help);
    auto options = std::make_shared<DoubtOptions>();
    add_action_options(*command, options->action);
    add_text(*command, "--step", options->step, "NAME", step);
    return std::pair(command, options);
  };

  auto [completing, completion] = deciding("complete", "It happened: record it as completed",
                                           "This step happened; the task goes on after it");
  add_text(*completing, "--result", completion->result, "JSON",
           "Its result: JSON text, @FILE, or - for standard input; none: null");
  add_flag(*completing, "--raw", completion->raw,
           "The result is bytes, not JSON; as a step's output mostly is");
  add_example(*completing,
              "Example:\n"
              "  once doubt complete order-17 --result '{\"charge\":\"ch_1\"}' --reason 'seen in "
              "the bank'\n"
              "  once doubt complete post-3 --step commit --raw --result 4f1c2d");
  when_given(*completing, [&session, options = completion, held] {
    session.command = [&session, options, held] { return complete(session, held, *options); };
  });

  auto [retrying, again] = deciding("retry", "It did not happen: run it again",
                                    "Only when this step is the one in doubt");
  add_example(*retrying,
              "Example:\n"
              "  once doubt retry order-17 --reason 'not in the bank'\n"
              "  once doubt retry --queue billing --dry-run");
  when_given(*retrying, [&session, options = again, held] {
    session.command = [&session, options, held] { return retry(session, held, *options); };
  });

  add_held_tasks_drop(*app, session, held);
  show_commands(*app);
}

}  // namespace once::cli
