// once log [FILTER] [--after N] [--limit N] [-f]
#include <fmt/format.h>
#include <unistd.h>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/app/watch_loop.h"
#include "shapes/task_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

constexpr std::size_t kLogPage = 100;
constexpr Duration kPause{100};    // between looks when following
constexpr Duration kLogAway{500};  // and when the store cannot be reached

struct LogOptions {
  std::optional<std::string> filter{};
  std::optional<std::uint64_t> after{}, limit{};
  bool follow = false;
};

// Cut to the terminal's width; elsewhere nothing is cut.
std::string for_people(const LogEntry& entry, std::size_t width) {
  std::string body = "(retired)";
  if (entry.body) {
    body = entry.body->is_json() ? printable(compact(*entry.body))
                                 : fmt::format("({})", counted(entry.body->text().size(), "byte"));
  }
  std::string when;
  if (entry.not_before) when += fmt::format("  not before {}", format_time(*entry.not_before));
  if (entry.expires) when += fmt::format("  expires {}", format_time(*entry.expires));
  return cut(fmt::format("#{:<6} {}  {}  {}{}  {}", entry.sequence, format_time(entry.published_at),
                         printable(entry.topic), printable(entry.id), when, body),
             width);
}

int log(Session& session, const LogOptions& options) {
  WatchLoop loop(session, options.follow);
  auto zone = loop.open();
  if (!zone) return loop.failed(zone.error());
  const std::size_t width = terminal_width(STDOUT_FILENO);
  std::uint64_t after = options.after.value_or(0);
  std::uint64_t left = options.limit.value_or(std::numeric_limits<std::uint64_t>::max());
  while (left > 0) {
    auto entries =
        zone->tasks().log(after, static_cast<std::size_t>(std::min<std::uint64_t>(left, kLogPage)),
                          options.filter.value_or(""));
    if (!entries && options.follow && away(entries.error())) {
      if (!loop.next(kLogAway)) break;
      continue;
    }
    if (!entries) return session.fail(entries.error());
    for (const LogEntry& entry : *entries) {
      session.out.line(session.json    ? entry_json(entry)
                       : session.quiet ? printable(entry.id)
                                       : for_people(entry, width));
      after = entry.sequence;
      --left;
    }
    if (!options.follow && (entries->empty() || session.out.closed())) break;
    if (options.follow && !loop.next(entries->empty() ? kPause : Duration{0})) break;
  }
  return kDone;
}

}  // namespace

void add_log(CLI::App& root, Session& session) {
  auto* app = add_command(root, "log", "Print the log, in order");
  auto options = std::make_shared<LogOptions>();
  add_text(*app, "FILTER", options->filter, "", "Only these topics, such as orders.>");
  add_number(*app, "--after", options->after, "Only after this sequence");
  add_number(*app, "--limit", options->limit, "At most so many entries");
  add_flag(*app, "-f,--follow", options->follow, "Go on with what is published, until SIGINT");
  add_example(*app, "Example:\n  once log 'orders.>' --after 100 --json");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return log(session, *options); };
  });
}

}  // namespace once::cli
