// once status [--watch]
#include <fmt/format.h>

#include <algorithm>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/app/watch_loop.h"
#include "shapes/json_line.h"
#include "shapes/queue_definition.h"
#include "shapes/status_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

void print_json(Session& session, const Status& status) {
  for (const QueueStatus& queue : status.queues) session.out.line(status_json(queue));
  session.out.line(JsonLine{}.number("unrouted", status.unrouted).str());
}

// Columns of states that hardly occur are left out while they are empty.
std::vector<State> shown_states(const Status& status) {
  std::vector<State> shown;
  for (State state : kStatusStates) {
    const bool rare = state == State::scheduled || state == State::cancelled ||
                      state == State::in_doubt || state == State::duplicate;
    const bool used = std::any_of(status.queues.begin(), status.queues.end(),
                                  [&](const auto& queue) { return count_of(queue, state) > 0; });
    if (!rare || used) shown.push_back(state);
  }
  return shown;
}

std::string for_people(const Status& status, const Style& style) {
  if (status.queues.empty() && status.unrouted == 0) {
    return "no queues and no tasks yet (once queue add NAME --topic FILTER)\n";
  }
  std::string out;
  if (!status.queues.empty()) {
    const std::vector<State> states = shown_states(status);
    std::vector<Table::Column> columns{{"QUEUE", Table::Align::left, true}, {"TOPIC"}};
    for (State state : states) columns.push_back({title(state), Table::Align::right});
    columns.push_back({"WORKERS", Table::Align::right});
    columns.push_back({"OLDEST WAITING", Table::Align::right});
    Table table(std::move(columns));
    for (const QueueStatus& queue : status.queues) {
      std::vector<Table::Cell> cells{
          queue.queue.paused ? queue.queue.name + " (paused)" : queue.queue.name,
          topic_text(queue.queue)};
      for (State state : states) {
        const std::uint64_t count = count_of(queue, state);
        std::string text = fmt::format("{}", count);
        std::string styled = count > 0 ? style.in_state(state, text) : style.dim(text);
        cells.emplace_back(std::move(text), std::move(styled));
      }
      cells.emplace_back(fmt::format("{}", queue.workers));
      cells.emplace_back(queue.oldest_waiting ? age_text(*queue.oldest_waiting) : "-");
      table.row(std::move(cells));
    }
    out += table.str(style);
  }
  if (status.unrouted > 0) {
    out += fmt::format("{} unrouted: no queue takes {} topic\n", counted(status.unrouted, "task"),
                       status.unrouted == 1 ? "its" : "their");
  }
  return out;
}

int status(Session& session, bool watch) {
  WatchLoop loop(session, watch);
  auto zone = loop.open();
  if (!zone) return loop.failed(zone.error());
  const bool paint = watch && !session.json && session.out.is_terminal();
  if (paint) session.out.write("\x1b[2J");
  for (bool first = true;; first = false) {
    auto now = zone->status();
    const bool none = !now && watch && away(now.error());
    if (!now && !none) return session.fail(now.error());
    if (none) {
      // What was shown last stays.
    } else if (session.json) {
      print_json(session, *now);
    } else {
      const std::string block = for_people(*now, session.style());
      if (!first && !paint) session.out.line("");
      session.out.write(paint ? repainted(block) : block);
    }
    if (!loop.next(std::chrono::seconds{1})) return kDone;
  }
}

}  // namespace

void add_status(CLI::App& root, Session& session) {
  auto* app = add_command(root, "status", "Count the tasks of every queue by state");
  auto watch = std::make_shared<bool>(false);
  add_flag(*app, "--watch", *watch, "Again every second, until SIGINT");
  add_example(*app, "Example:\n  once status --watch");
  when_given(*app, [&session, watch] {
    session.command = [&session, watch] { return status(session, *watch); };
  });
}

}  // namespace once::cli
