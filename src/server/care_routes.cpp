// Looking after a zone: GET and PUT /v1/retention, GET /v1/audit, GET /v1/doctor.
#include <fmt/format.h>

#include "server/api.h"
#include "server/fields.h"
#include "server/problem.h"
#include "server/turn.h"
#include "shapes/audit_json.h"
#include "shapes/doctor_json.h"
#include "shapes/json_line.h"
#include "shapes/retention_json.h"
#include "shapes/values.h"

namespace once::server {
namespace {

constexpr std::size_t kMostLines = 10'000;  // of one audit

Reply show_retention(Zone& zone) {
  const auto ages = zone.retention();
  if (!ages) return ages.error();
  return json_response(cli::retention_json(*ages));
}

// A field that the client does not send keeps its value, as with the command.
Reply put_retention(Zone& zone, const Call& call) {
  if (auto refused = not_json(call.request())) return std::move(*refused);
  const auto fields = Fields::read(call.request(), {"bodies", "records", "ids"});
  if (!fields) return fields.error();
  auto ages = zone.retention();
  if (!ages) return ages.error();
  bool given = false;
  for (const auto& [name, to] :
       {std::pair("bodies", &ages->bodies), std::pair("records", &ages->records),
        std::pair("ids", &ages->ids)}) {
    const auto age = fields->duration(name);
    if (!age) return age.error();
    if (!*age) continue;
    *to = **age;
    given = true;
  }
  if (!given)
    return invalid_input("the body needs \"bodies\", \"records\" or \"ids\"; nothing was changed");
  if (auto done = zone.set_retention(*ages); !done) return done.error();
  return json_response(cli::retention_json(*ages));
}

struct AuditQuery {
  AuditOptions options{};
  std::optional<double> cost_per_run{};
};

Result<AuditQuery> audit_query(const Call& call) {
  AuditQuery query{.options = {.queue = call.query("queue").value_or("")}};
  const auto since = past_query(call, "since");
  if (!since) return since.error();
  query.options.since = *since;
  const auto deep = switch_query(call, "deep");
  if (!deep) return deep.error();
  query.options.deep = *deep;
  if (const auto by = call.query("by")) {
    const auto period = cli::period_from(*by);
    if (!period)
      return invalid_input(fmt::format("\"by\" takes hour, day or month, not \"{}\"", *by));
    query.options.by = *period;
  }
  if (const auto cost = call.query("cost_per_run")) {
    query.cost_per_run = cli::parse_amount(*cost);
    if (!query.cost_per_run)
      return invalid_input(
          fmt::format("\"cost_per_run\" takes an amount such as 3.50, not \"{}\"", *cost));
  }
  return query;
}

Reply audit(Zone& zone, const Call& call, const Turn::Busy& busy) {
  const auto query = audit_query(call);
  if (!query) return query.error();
  const auto turn = Turn::take(busy, "the whole zone");
  if (!turn) return turn.error();
  const auto found = zone.audit(query->options);
  if (!found) return found.error();
  if (found->lines.size() > kMostLines)
    return invalid_input(
        fmt::format("the audit has {} lines, more than {}; ask for a longer period with \"by\", a "
                    "later \"since\" or one \"queue\"",
                    found->lines.size(), kMostLines));
  return json_response(cli::audit_json(*found, query->options.by, query->cost_per_run));
}

Reply doctor(Zone& zone, const Call& call, const Turn::Busy& busy) {
  DoctorOptions options{.queue = call.query("queue").value_or("")};
  const auto deep = switch_query(call, "deep");
  if (!deep) return deep.error();
  options.deep = *deep;
  const auto turn = Turn::take(busy, "the doctor's findings");
  if (!turn) return turn.error();
  const auto diagnosis = zone.doctor(options);
  if (!diagnosis) return diagnosis.error();
  std::vector<std::string> findings;
  for (const Finding& finding : diagnosis->findings) findings.push_back(cli::finding_json(finding));
  return json_response(cli::JsonLine{}
                           .json("findings", cli::json_array(findings))
                           .json("checked", cli::checked_json(*diagnosis))
                           .text("window", cli::kOpenWindow)
                           .str());
}

}  // namespace

std::vector<Route> care_routes(Zone& zone) {
  const Turn::Busy auditing = Turn::make();
  const Turn::Busy examining = Turn::make();
  return {
      {"GET", "/v1/retention", {}, [&zone](const Call&) { return show_retention(zone); }},
      {"PUT", "/v1/retention", {}, [&zone](const Call& call) { return put_retention(zone, call); }},
      {"GET",
       "/v1/audit",
       {"since", "by", "queue", "deep", "cost_per_run"},
       [&zone, auditing](const Call& call) { return audit(zone, call, auditing); }},
      {"GET",
       "/v1/doctor",
       {"queue", "deep"},
       [&zone, examining](const Call& call) { return doctor(zone, call, examining); }},
  };
}

}  // namespace once::server
