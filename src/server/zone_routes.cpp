// The zone as a whole: /v1/status, /v1/events, /v1/log, /healthz, /readyz and /metrics.
#include <fmt/format.h>

#include "server/api.h"
#include "server/events.h"
#include "server/fields.h"
#include "server/problem.h"
#include "server/turn.h"
#include "shapes/metrics_text.h"
#include "shapes/status_json.h"
#include "shapes/task_json.h"

namespace once::server {
namespace {

constexpr std::size_t kMostEntries = 1000;
constexpr std::size_t kLogBytes = 16 << 20;  // of one response; the client asks for the rest
constexpr std::size_t kLogStep = 16;         // entries in memory besides the response

Reply status(Zone& zone) {
  const auto counts = zone.status();
  if (!counts) return counts.error();
  return json_response(cli::zone_status_json(*counts));
}

// A page is full after `limit` entries or kLogBytes. "after" is null if the log has no more
// entries.
Reply log(Zone& zone, const Call& call) {
  const auto from = number_query(call, "after", 0, 0, UINT64_MAX);
  if (!from) return from.error();
  const auto limit = number_query(call, "limit", 100, 1, kMostEntries);
  if (!limit) return limit.error();
  const std::string topic = call.query("topic").value_or("");
  std::vector<std::string> entries;
  std::size_t bytes = 0;
  std::uint64_t after = *from;
  bool more = true;
  while (more && entries.size() < *limit && bytes < kLogBytes) {
    const std::size_t step = std::min<std::size_t>(kLogStep, *limit - entries.size());
    auto page = zone.tasks().log(after, step, topic);
    if (!page) return page.error();
    more = page->size() == step;
    for (const LogEntry& entry : *page) {
      entries.push_back(cli::entry_json(entry));
      bytes += entries.back().size();
      after = entry.sequence;
    }
  }
  cli::JsonLine line;
  line.json("entries", cli::json_array(entries));
  if (more) {
    line.number("after", after);
  } else {
    line.null("after");
  }
  return json_response(line.str());
}

Reply ready(Zone& zone) {
  const auto queues = zone.queues().list();
  if (!queues) return problem(503, queues.error());
  return json_response(R"({"ready":true})");
}

// Reads every task unless the client asks for `quick`.
Reply metrics(Zone& zone, const Call& call, const Turn::Busy& busy) {
  const auto quick = switch_query(call, "quick");
  if (!quick) return quick.error();
  const auto turn = Turn::take(*quick ? Turn::make() : busy, "the metrics");
  if (!turn) return turn.error();
  const auto families = cli::zone_families(zone, *quick);
  if (!families) return families.error();
  return Response{.type = "text/plain; version=0.0.4; charset=utf-8",
                  .body = cli::prometheus_text(*families)};
}

}  // namespace

std::vector<Route> zone_routes(Zone& zone) {
  const Turn::Busy busy = Turn::make();
  auto events = std::make_shared<Events>(zone);  // shared by copies of the handler
  return {
      {"GET", "/v1/status", {}, [&zone](const Call&) { return status(zone); }},
      {"GET", "/v1/events", {}, [events](const Call&) -> Reply { return events->streamed(); }},
      {"GET",
       "/v1/log",
       {"topic", "after", "limit"},
       [&zone](const Call& call) { return log(zone, call); }},
      // Without a query, Api answers this path at once.
      {"GET", "/healthz", {}, [](const Call&) { return json_response(R"({"ok":true})"); }},
      {"GET", "/readyz", {}, [&zone](const Call&) { return ready(zone); }},
      {"GET",
       "/metrics",
       {"quick"},
       [&zone, busy](const Call& call) { return metrics(zone, call, busy); }},
  };
}

}  // namespace once::server
