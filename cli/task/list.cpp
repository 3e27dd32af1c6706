// once list [--queue --state --topic --error --since --older-than --limit]
// The library lists in pages, one state at a time.
#include "cli/task/list.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "shapes/task_json.h"
#include "shapes/values.h"

namespace once::cli {
namespace {

constexpr std::size_t kListPage = 1000;

ListFilter filter_of(const FilterOptions& options, std::optional<State> state, std::size_t limit) {
  return {.queue = options.queue.value_or(""),
          .state = state,
          .topic = options.topic.value_or(""),
          .since = options.since,
          .until = options.older_than,
          .error = options.error.value_or(""),
          .limit = limit};
}

std::string time_or_dash(const std::optional<Time>& time) {
  return time ? format_time(*time) : "-";
}

std::string table_of(const std::vector<ListItem>& items, const std::vector<Schedule>& schedules,
                     const Style& style) {
  auto any = [&](auto member) {
    return std::any_of(schedules.begin(), schedules.end(),
                       [&](const Schedule& schedule) { return (schedule.*member).has_value(); });
  };
  const bool due = any(&Schedule::not_before);
  const bool expires = any(&Schedule::expires);
  std::vector<Table::Column> columns{{"SEQUENCE", Table::Align::right},
                                     {"ID", Table::Align::left, true},
                                     {"QUEUE"},
                                     {"STATE"},
                                     {"ATTEMPTS", Table::Align::right},
                                     {"SINCE"}};
  if (due) columns.push_back({"NOT BEFORE"});
  if (expires) columns.push_back({"EXPIRES"});
  columns.push_back({"ERROR"});
  Table table(std::move(columns));
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ListItem& item = items[i];
    std::vector<Table::Cell> cells{
        item.sequence > 0 ? fmt::format("#{}", item.sequence) : std::string("-"),
        printable(item.id),
        item.queue,
        Table::Cell(std::string(to_string(item.state)), style.state(item.state)),
        fmt::format("{}", item.attempts),
        format_time(item.since)};
    if (due) cells.emplace_back(time_or_dash(schedules[i].not_before));
    if (expires) cells.emplace_back(time_or_dash(schedules[i].expires));
    cells.emplace_back(style.error_cell(item.error));
    table.row(std::move(cells));
  }
  return table.str(style);
}

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

void add_filter_options(CLI::App& app, FilterOptions& options, const std::string& limit) {
  add_text(app, "--queue", options.queue, "QUEUE", "Only of this queue");
  add_text(app, "--topic", options.topic, "FILTER", "Only of these topics");
  add_text(app, "--error", options.error, "TEXT", "Only with this in their error or reason");
  add_moment(app, "--since", options.since, "Only in their state since then; 2h: two hours ago");
  add_moment(app, "--older-than", options.older_than,
             "Only in their state since then or earlier; 7d: a week ago");
  add_number(app, "--limit", options.limit, "At most so many (" + limit + ")", 1, 1'000'000'000);
}

Result<std::vector<ListItem>> find_tasks(const Zone& zone, const FilterOptions& options,
                                         const std::vector<State>& states) {
  std::vector<ListItem> found;
  // A task may go from one state to the next between two questions.
  std::set<std::pair<std::string, std::string>> seen;
  const std::uint64_t most = options.limit.value_or(std::numeric_limits<std::uint64_t>::max());
  for (State state : states) {
    std::optional<ListItem> last;
    while (found.size() < most) {
      const auto limit =
          static_cast<std::size_t>(std::min<std::uint64_t>(kListPage, most - found.size()));
      auto page = zone.tasks().list(filter_of(options, state, limit), last ? &*last : nullptr);
      if (!page) return page.error();
      if (page->empty()) break;
      last = page->back();
      for (ListItem& item : *page) {
        if (seen.emplace(item.queue, item.id).second) found.push_back(std::move(item));
      }
    }
  }
  return found;
}

int print_list(Session& session, const FilterOptions& options, std::optional<State> state) {
  const auto wanted = static_cast<std::size_t>(options.limit.value_or(ListFilter{}.limit));
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  // One more tells whether that was all.
  auto items = zone->tasks().list(filter_of(options, state, wanted + 1));
  if (!items) return session.fail(items.error());
  const bool more = items->size() > wanted;
  if (more) items->resize(wanted);
  std::vector<Schedule> schedules;
  for (const ListItem& item : *items) {
    if (session.quiet && !session.json) {
      session.out.line(printable(item.id));
      continue;
    }
    schedules.push_back(schedule_of(*zone, item));
    if (session.json) session.out.line(item_json(item, schedules.back()));
  }
  if (!session.json && !session.quiet && !items->empty()) {
    session.out.write(table_of(*items, schedules, session.style()));
  }
  if (!session.json && items->empty()) session.hint("no tasks match");
  if (more) session.hint(fmt::format("only the first {}; --limit shows more", wanted));
  return kDone;
}

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
