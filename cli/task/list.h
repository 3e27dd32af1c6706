// The options that select tasks, the search, and the list that `list`, `dead list` and `doubt list`
// print.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/app/session.h"
#include "once/zone.h"

namespace CLI {
class App;
}

namespace once::cli {

struct FilterOptions {
  std::optional<std::string> queue{}, topic{}, error{};
  std::optional<Time> since{}, older_than{};
  std::optional<std::uint64_t> limit{};

  // Something other than --queue says which tasks are meant.
  bool beyond_queue() const { return topic || error || since || older_than || limit; }
};

// `limit`: what there is at most without --limit, for the help.
void add_filter_options(CLI::App& app, FilterOptions& options, const std::string& limit);

// Everything that matches in these states; `--limit` cuts it.
Result<std::vector<ListItem>> find_tasks(const Zone& zone, const FilterOptions& options,
                                         const std::vector<State>& states);

// Without a state: tasks in any state.
int print_list(Session& session, const FilterOptions& options, std::optional<State> state);

}  // namespace once::cli
