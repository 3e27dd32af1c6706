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

// A action on these letters, to be given its act.
OperatorAction action_on(const HeldTasks& letters, std::string verb, std::string outcome);
Result<Done> drop_task(Zone& zone, const Target& target, const By& by);
Result<Done> retry_task(Zone& zone, const Target& target, const By& by);

CLI::App* add_letters(CLI::App& root, const HeldTasks& letters, const std::string& help);
void add_letters_list(CLI::App& app, Session& session, const HeldTasks& letters);
void add_letters_show(CLI::App& app, Session& session, const HeldTasks& letters);
void add_letters_drop(CLI::App& app, Session& session, const HeldTasks& letters);

}  // namespace once::cli
