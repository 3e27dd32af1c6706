// once list [--queue --state --topic --error --since --older-than --limit]
#include <fmt/format.h>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/task/task_list.h"

namespace once::cli {
namespace {

struct ListOptions {
  FilterOptions filter{};
  std::optional<std::string> state{};
};

int list(Session& session, const ListOptions& options) {
  std::optional<State> state;
  if (options.state) {
    state = state_from(*options.state);
    if (!state) {
      return session.usage(fmt::format(
          "--state takes scheduled, waiting, running, retrying, in_doubt, completed, dead, "
          "cancelled or duplicate, not \"{}\"",
          *options.state));
    }
  }
  return print_list(session, options.filter, state);
}

}  // namespace

void add_list(CLI::App& root, Session& session) {
  auto* app = add_command(root, "list", "List tasks, one per queue that takes them");
  auto options = std::make_shared<ListOptions>();
  add_text(*app, "--state", options->state, "STATE", "Only in this state, such as dead");
  add_filter_options(*app, options->filter, "100");
  add_example(*app, "Example:\n  once list --queue billing --state dead --since 1d");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return list(session, *options); };
  });
}

}  // namespace once::cli
