// Workflows and their runs: /v1/flows and /v1/runs.
#include <fmt/format.h>

#include <limits>

#include "server/api.h"
#include "server/fields.h"
#include "server/problem.h"
#include "shapes/flow_json.h"
#include "shapes/json_line.h"
#include "shapes/values.h"

namespace once::server {
namespace {

using cli::JsonLine;

constexpr std::size_t kMostRuns = 1000;

Result<std::uint32_t> version_query(const Call& call) {
  const auto version =
      number_query(call, "version", 0, 1, std::numeric_limits<std::uint32_t>::max());
  if (!version) return version.error();
  return static_cast<std::uint32_t>(*version);
}

// --- Definitions

Reply list_flows(Zone& zone) {
  const auto flows = zone.flows().list();
  if (!flows) return flows.error();
  std::vector<std::string> values;
  for (const FlowInfo& flow : *flows) values.push_back(cli::flow_info_json(flow));
  return json_response(JsonLine{}.json("flows", cli::json_array(values)).str());
}

Reply show_flow(Zone& zone, const Call& call) {
  const auto version = version_query(call);
  if (!version) return version.error();
  const auto flow = zone.flows().definition(call.path("workflow"), *version);
  if (!flow) return flow.error();
  return json_response(flow->json);
}

Reply put_flow(Zone& zone, const Call& call) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  const std::string& json = call.request().body;
  const auto checked = Flows::check(json);
  if (!checked) return checked.error();
  if (checked->workflow != call.path("workflow"))
    return invalid_input(fmt::format(
        "the path names the workflow {}, and the definition names {}; nothing was added",
        call.path("workflow"), checked->workflow));
  const auto added = zone.flows().add(json);
  if (!added) return added.error();
  return json_response(cli::flow_added_json(*added), added->added ? 201 : 200);
}

// --- Runs

// The workflow makes the key of a run from its input, so the same request again gives the same run.
Reply start_run(Zone& zone, const Call& call) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  if (call.request().header("Idempotency-Key"))
    return invalid_input(
        "the key of a run comes from its input, as the workflow says, and not from the header "
        "Idempotency-Key; nothing was started");
  const auto version = version_query(call);
  if (!version) return version.error();
  const auto unique = switch_query(call, "unique");
  if (!unique) return unique.error();
  const auto input = call.request().body.empty() ? Body{} : Body::json(call.request().body);
  if (!input)
    return invalid_input(
        fmt::format("the input is no JSON: {}; nothing was started", input.error().message));
  const auto started =
      zone.flows().start(call.path("workflow"), *input, {.version = *version, .unique = *unique});
  if (!started) return started.error();
  Response response =
      json_response(cli::run_started_json(*started), started->duplicate ? 200 : 201);
  if (started->duplicate) response.headers.push_back({"Once-Duplicate", "true"});
  return response;
}

Result<RunFilter> run_filter(const Call& call) {
  RunFilter filter{.workflow = call.query("workflow").value_or(""), .key = call.query("key")};
  const auto version = version_query(call);
  if (!version) return version.error();
  filter.version = *version;
  const auto since = past_query(call, "since");
  if (!since) return since.error();
  filter.since = *since;
  const auto limit = number_query(call, "limit", filter.limit, 1, kMostRuns);
  if (!limit) return limit.error();
  filter.limit = static_cast<std::size_t>(*limit);
  if (const auto state = call.query("state")) {
    filter.state = run_phase_from(*state);
    if (!filter.state)
      return invalid_input(
          fmt::format("\"state\" takes running, waiting, completed, failed, cancelled or "
                      "unreadable, not \"{}\"",
                      *state));
  }
  return filter;
}

Reply list_runs(Zone& zone, const Call& call) {
  auto filter = run_filter(call);
  if (!filter) return filter.error();
  const RunInfo after{.run = call.query("after").value_or("")};
  const std::size_t wanted = filter->limit++;  // one more tells whether that was all
  auto found = zone.flows().runs(*filter, after.run.empty() ? nullptr : &after);
  if (!found) return found.error();
  const bool more = found->size() > wanted;
  if (more) found->resize(wanted);
  std::vector<std::string> runs;
  for (const RunInfo& run : *found) runs.push_back(cli::run_json(run));
  return json_response(JsonLine{}
                           .json("runs", cli::json_array(runs))
                           .text_or_null("after", more ? found->back().run : "")
                           .str());
}

Reply show_run(Zone& zone, const Call& call) {
  const auto at = number_query(call, "at", 0, 1, std::numeric_limits<std::uint64_t>::max());
  if (!at) return at.error();
  const auto run = zone.flows().show(call.path("run"), *at > 0 ? std::optional(*at) : std::nullopt);
  if (!run) return run.error();
  return json_response(cli::run_json(*run));
}

Reply run_events(Zone& zone, const Call& call) {
  const auto events = zone.flows().events(call.path("run"));
  if (!events) return events.error();
  std::vector<std::string> values;
  for (const RunEvent& event : *events) values.push_back(cli::event_json(event));
  return json_response(JsonLine{}.json("events", cli::json_array(values)).str());
}

// --- What people and other systems say to a run

Reply signal_run(Zone& zone, const Call& call) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  const auto fields = Fields::read(call.request(), {"id", "body", "who"});
  if (!fields) return fields.error();
  const auto id = fields->text("id");
  if (!id) return id.error();
  if (!*id || (*id)->empty())
    return invalid_input(
        "\"id\" is missing or empty; a signal that is sent again with the same id counts once; "
        "nothing was sent");
  const auto who = fields->text("who");
  if (!who) return who.error();
  const auto body = fields->body("body");
  if (!body) return body.error();
  const std::string& run = call.path("run");
  const std::string& name = call.path("signal");
  const auto sent = zone.flows().signal(run, name, *body, **id, {.who = who->value_or("")});
  if (!sent) return sent.error();
  if (!sent->counts)
    return Error{
        .code = Code::wrong_state,
        .message = fmt::format("run {} has the signal {} already, with the id {} at {}, #{}; that "
                               "signal counts, and this one was not added",
                               run, name, sent->first.id, cli::format_time(sent->first.at),
                               sent->first.sequence)};
  return json_response(cli::signal_json(run, name, **id, *sent),
                       sent->receipt.duplicate ? 200 : 201);
}

Result<By> person_of(const Call& call) {
  const auto fields = Fields::read(call.request(), {"who", "why"});
  if (!fields) return fields.error();
  return fields->by(call.request());
}

Reply decide_step(Zone& zone, const Call& call, bool yes) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  const auto by = person_of(call);
  if (!by) return by.error();
  const auto verdict = zone.flows().approve(call.path("run"), call.path("step"), yes, *by);
  if (!verdict) return verdict.error();
  return json_response(cli::approved_json(call.path("run"), call.path("step"), *verdict));
}

Reply cancel_run(Zone& zone, const Call& call) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  const auto by = person_of(call);
  if (!by) return by.error();
  Flows flows = zone.flows();
  const auto before = flows.show(call.path("run"));
  if (!before) return before.error();
  if (auto done = flows.cancel(call.path("run"), *by); !done) return done.error();
  return json_response(cli::run_cancelled_json(call.path("run"), before->info.state));
}

Reply retry_run(Zone& zone, const Call& call) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  const auto by = person_of(call);
  if (!by) return by.error();
  Flows flows = zone.flows();
  const auto before = flows.show(call.path("run"));
  if (!before) return before.error();
  const auto steps = flows.retry(call.path("run"), *by);
  if (!steps) return steps.error();
  return json_response(cli::run_retried_json(call.path("run"), before->round + 1, *steps));
}

}  // namespace

std::vector<Route> flow_routes(Zone& zone) {
  return {
      {"GET", "/v1/flows", {}, [&zone](const Call&) { return list_flows(zone); }},
      {"GET",
       "/v1/flows/{workflow}",
       {"version"},
       [&zone](const Call& call) { return show_flow(zone, call); }},
      {"PUT",
       "/v1/flows/{workflow}",
       {},
       [&zone](const Call& call) { return put_flow(zone, call); }},
      {"POST",
       "/v1/flows/{workflow}:start",
       {"version", "unique"},
       [&zone](const Call& call) { return start_run(zone, call); }},
      {"GET",
       "/v1/runs",
       {"workflow", "version", "key", "state", "since", "after", "limit"},
       [&zone](const Call& call) { return list_runs(zone, call); }},
      {"GET", "/v1/runs/{run}", {"at"}, [&zone](const Call& call) { return show_run(zone, call); }},
      {"GET",
       "/v1/runs/{run}/events",
       {},
       [&zone](const Call& call) { return run_events(zone, call); }},
      {"POST",
       "/v1/runs/{run}/signals/{signal}",
       {},
       [&zone](const Call& call) { return signal_run(zone, call); }},
      {"POST",
       "/v1/runs/{run}/steps/{step}:approve",
       {},
       [&zone](const Call& call) { return decide_step(zone, call, true); }},
      {"POST",
       "/v1/runs/{run}/steps/{step}:reject",
       {},
       [&zone](const Call& call) { return decide_step(zone, call, false); }},
      {"POST",
       "/v1/runs/{run}:cancel",
       {},
       [&zone](const Call& call) { return cancel_run(zone, call); }},
      {"POST",
       "/v1/runs/{run}:retry",
       {},
       [&zone](const Call& call) { return retry_run(zone, call); }},
  };
}

}  // namespace once::server
