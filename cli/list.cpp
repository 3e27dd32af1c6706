// once list [--queue --state --topic --since --limit]
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/json_line.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/values.h"

namespace once::cli {
namespace {

struct Options {
  std::optional<std::string> queue{}, state{}, topic{};
  std::optional<Time> since{};
  std::optional<std::uint64_t> limit{};
};

std::string json_of(const ListItem& item) {
  return JsonLine{}
      .text("id", item.id)
      .text("queue", item.queue)
      .text("key", item.key)
      .number("sequence", item.sequence)
      .text("topic", item.topic)
      .text("state", to_string(item.state))
      .number("attempts", static_cast<std::uint64_t>(item.attempts))
      .text_or_null("error", item.error)
      .time("since", item.since)
      .str();
}

// The last line of an error says most; the column stays narrow.
std::string short_error(std::string_view error) {
  constexpr std::size_t kWidth = 60;
  while (!error.empty() && (error.back() == '\n' || error.back() == '\r')) error.remove_suffix(1);
  if (const auto newline = error.rfind('\n'); newline != std::string_view::npos) {
    error.remove_prefix(newline + 1);
  }
  std::string text;
  std::size_t width = 0;
  while (!error.empty()) {
    if (++width > kWidth) return text + "…";
    const std::size_t length = std::max<std::size_t>(utf8_length(error), 1);
    text += printable(error.substr(0, length));
    error.remove_prefix(length);
  }
  return text;
}

int list(Session& session, const Options& options) {
  ListFilter filter{.queue = options.queue.value_or(""),
                    .state = {},
                    .topic = options.topic.value_or(""),
                    .since = options.since,
                    .limit = options.limit.value_or(ListFilter{}.limit)};
  if (options.state) {
    filter.state = state_from(*options.state);
    if (!filter.state) {
      return session.usage(fmt::format(
          "--state takes scheduled, waiting, running, retrying, in_doubt, completed, dead, "
          "cancelled or duplicate, not \"{}\"",
          *options.state));
    }
  }
  const std::size_t wanted = filter.limit++;  // one more tells whether that was all
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto items = zone->list(filter);
  if (!items) return session.fail(items.error());
  const bool more = items->size() > wanted;
  if (more) items->resize(wanted);

  Table table({{"SEQUENCE", Table::Align::right},
               {"ID"},
               {"QUEUE"},
               {"STATE"},
               {"ATTEMPTS", Table::Align::right},
               {"SINCE"},
               {"ERROR"}});
  for (const ListItem& item : *items) {
    if (session.json) {
      session.out.line(json_of(item));
      continue;
    }
    table.row({fmt::format("#{}", item.sequence), printable(item.id), item.queue,
               Table::Cell(std::string(to_string(item.state)), session.style().state(item.state)),
               fmt::format("{}", item.attempts), format_time(item.since), short_error(item.error)});
  }
  if (!session.json && !table.empty()) session.out.write(table.str(session.style()));
  if (!session.json && table.empty()) session.hint("no tasks match");
  if (more) session.hint(fmt::format("only the first {}; --limit shows more", wanted));
  return kDone;
}

}  // namespace

void add_list(CLI::App& root, Session& session) {
  auto* app = root.add_subcommand("list", "List tasks, one per queue that takes them");
  auto options = std::make_shared<Options>();
  add_text(*app, "--queue", options->queue, "QUEUE", "Only of this queue");
  add_text(*app, "--state", options->state, "STATE", "Only in this state, such as dead");
  add_text(*app, "--topic", options->topic, "FILTER", "Only of these topics");
  add_moment(*app, "--since", options->since, "Only in their state since then; 2h: two hours ago");
  add_number(*app, "--limit", options->limit, "At most so many (100)", 1, 1'000'000'000);
  add_example(*app, "Example:\n  once list --queue billing --state dead --since 1d");
  app->callback([&session, options] {
    session.command = [&session, options] { return list(session, *options); };
  });
}

}  // namespace once::cli
