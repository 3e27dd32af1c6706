// What people do to tasks, singly by id or together by filter: which tasks are meant, the question
// before many are touched, and one answer per task.
#pragma once

#include <functional>

#include "cli/task/list.h"

namespace once::cli {

struct ActionOptions {
  std::vector<std::string> ids{};
  FilterOptions filter{};
  bool all = false;
  bool yes = false;
  bool dry_run = false;
  std::optional<std::string> reason{}, by{};
};
void add_action_options(CLI::App& app, ActionOptions& options);

struct Target {
  std::string id{};
  std::string queue{};
  bool ledger = false;  // a key of a ledger-only queue: no worker comes for it
};

struct Done {
  std::string outcome{};  // "retried", as --json says it
  std::string words{};    // for people, after "ID in queue Q "
};

struct OperatorAction {
  std::string verb{};           // "retry"
  std::string outcome{};        // what --dry-run foresees
  std::string kind{};           // what its tasks are: "dead"
  std::string refusal{};        // what others are: "is not dead"
  std::vector<State> states{};  // where it can be done
  std::string foreseen{};       // what --dry-run says to people; empty: "would be " and the outcome
  // Whether it can be done to this one, asked by --dry-run too; empty: it can.
  std::function<Result<void>(const Zone&, const Target&)> check{};
  std::function<Result<Done>(Zone&, const Target&, const By&)> act{};
};

// A bad task does not stop the others; the exit status is the first failure's.
int carry_out(Session& session, const ActionOptions& options, const OperatorAction& action);

// The task's story in the queues where its state is one of the action's. An error says where it
// stands instead.
Result<TaskView> where_fitting(const Zone& zone, const std::string& id,
                               const std::optional<std::string>& queue,
                               const OperatorAction& action);

}  // namespace once::cli
