// What `once dead` and `once doubt` have in common: tasks that wait for a person, to be listed,
// shown, run again or left.
#pragma once

#include "cli/task/operator_action.h"

namespace once::cli {

struct HeldTasks {
  std::string command{};  // "dead"
  std::string kind{};     // "dead"
  State state{};
};

// An action on these tasks. The caller sets its `act`.
OperatorAction action_on(const HeldTasks& held, std::string verb, std::string outcome);
Result<Done> drop_task(Zone& zone, const Target& target, const By& by);
Result<Done> retry_task(Zone& zone, const Target& target, const By& by);

CLI::App* add_held_tasks(CLI::App& root, const HeldTasks& held, const std::string& help);
void add_held_tasks_list(CLI::App& app, Session& session, const HeldTasks& held);
void add_held_tasks_show(CLI::App& app, Session& session, const HeldTasks& held);
void add_held_tasks_drop(CLI::App& app, Session& session, const HeldTasks& held);

}  // namespace once::cli
