// once metrics [--quick]: what the zone knows, for a scrape by textfile or cron.
#include <fmt/format.h>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/progress.h"
#include "cli/app/session.h"
#include "shapes/json_line.h"
#include "shapes/metrics_text.h"

namespace once::cli {
namespace {

std::string json_line(const Sample& sample) {
  JsonLine labels;
  for (const auto& [name, value] : sample.labels) labels.text(name, value);
  return JsonLine{}
      .text("metric", sample.name)
      .json("labels", labels.str())
      .json("value", fmt::format("{}", sample.value))
      .str();
}

int metrics(Session& session, bool quick) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  Progress progress("metrics", session.quiet);
  auto measured = zone_families(*zone, quick, [&](double fraction) { progress.at(fraction); });
  if (!measured) return session.fail(measured.error());
  const Families families = std::move(*measured);
  if (!session.json) {
    session.out.write(prometheus_text(families));
    return kDone;
  }
  for (const Family& family : families) {
    for (const Sample& sample : family.samples) session.out.line(json_line(sample));
  }
  return kDone;
}

}  // namespace

void add_metrics(CLI::App& root, Session& session) {
  auto* app = add_command(root, "metrics", "Print what is measured, as Prometheus text");
  auto quick = std::make_shared<bool>(false);
  add_flag(*app, "--quick", *quick, "Only what can be told without reading every task");
  add_example(*app,
              "Of the whole zone; a worker serves its own counts and --quick with\n"
              "once work --metrics-port PORT. docs/metrics.md explains each of them.\n"
              "\n"
              "Example:\n"
              "  once metrics >once.prom.new && mv once.prom.new once.prom");
  when_given(*app, [&session, quick] {
    session.command = [&session, quick] { return metrics(session, *quick); };
  });
}

}  // namespace once::cli
