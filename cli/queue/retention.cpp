// once retention [--bodies D --records D --ids D] [--run]: shows, sets, applies now.
#include <fmt/format.h>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "shapes/json_line.h"
#include "shapes/retention_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct RetentionOptions {
  std::optional<Duration> bodies{}, records{}, ids{};
  bool run = false;
};

int retention(Session& session, const RetentionOptions& options) {
  const bool sets = options.bodies || options.records || options.ids;
  auto zone = session.open(sets ? Missing::create_file : Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto ages = zone->retention();
  if (!ages) return session.fail(ages.error());
  if (sets) {
    ages->bodies = options.bodies.value_or(ages->bodies);
    ages->records = options.records.value_or(ages->records);
    ages->ids = options.ids.value_or(ages->ids);
    if (auto done = zone->set_retention(*ages); !done) return session.fail(done.error());
  }
  if (sets || !options.run) {
    if (session.json) {
      session.out.line(retention_json(*ages));
    } else if (!sets || !session.quiet) {
      session.out.line(fmt::format("bodies   {:>6}  after the task is settled in every queue",
                                   format_duration(ages->bodies)));
      session.out.line(
          fmt::format("records  {:>6}  after the body", format_duration(ages->records)));
      session.out.line(fmt::format("ids      {:>6}  after the record", format_duration(ages->ids)));
    }
  }
  if (!options.run) return kDone;
  auto retired = zone->retire();
  if (!retired) return session.fail(retired.error());
  if (session.json) {
    session.out.line(JsonLine{}
                         .number("retired_bodies", retired->bodies)
                         .number("retired_records", retired->records)
                         .number("retired_ids", retired->ids)
                         .str());
  } else {
    session.say(
        fmt::format("forgot {}, the records of {} and {}",
                    retired->bodies == 1 ? "1 body" : fmt::format("{} bodies", retired->bodies),
                    counted(retired->records, "task"), counted(retired->ids, "id")));
  }
  return kDone;
}

}  // namespace

void add_retention(CLI::App& root, Session& session) {
  auto* app = add_command(root, "retention", "Show or set how long settled tasks are kept");
  auto options = std::make_shared<RetentionOptions>();
  add_duration(*app, "--bodies", options->bodies, "Bodies, after the task is settled (7d)",
               Duration{0});
  add_duration(*app, "--records", options->records, "What became of it, after the body (30d)",
               Duration{0});
  add_duration(*app, "--ids", options->ids, "Its id, after the record (30d)", Duration{0});
  add_flag(*app, "--run", options->run, "Forget now what is due; workers do so by themselves");
  add_example(*app,
              "Tasks that are unrouted, not settled, dead or in doubt do not age.\n"
              "\n"
              "Example:\n"
              "  once retention --bodies 3d --ids 90d");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return retention(session, *options); };
  });
}

}  // namespace once::cli
