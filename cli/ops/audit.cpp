// once audit [--since T] [--by hour|day|month] [--queue Q] [--deep] [--cost-per-run N] [--watch[=D]] [--hook CMD]
#include <fmt/format.h>

#include <cstdio>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/progress.h"
#include "cli/app/session.h"
#include "cli/app/watch_loop.h"
#include "shapes/audit_json.h"
#include "shapes/flow_json.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

constexpr Duration kWatchEvery = std::chrono::minutes{1};

struct AuditFlags {
  std::optional<Time> since{};
  std::optional<std::string> by{};
  std::optional<std::string> queue{};
  std::optional<std::string> cost_per_run{};
  std::optional<std::optional<Duration>> watch{};
  std::optional<std::string> hook{};
  bool deep = false;
};

// What the command line asks for, understood.
struct Request {
  AuditOptions audit{};
  std::optional<double> cost{};
};

Result<Request> understand(const AuditFlags& options) {
  Request request{
      .audit = {.queue = options.queue.value_or(""), .since = options.since, .deep = options.deep}};
  const auto invalid = [](std::string message) {
    return Error{.code = Code::invalid_input, .message = std::move(message)};
  };
  if (options.by) {
    const auto period = period_from(*options.by);
    if (!period)
      return invalid("--by takes hour, day or month, not '" + printable(*options.by) + "'");
    request.audit.by = *period;
  }
  if (options.cost_per_run) {
    request.cost = parse_amount(*options.cost_per_run);
    if (!request.cost)
      return invalid("--cost-per-run takes an amount such as 3.50, not '" +
                     printable(*options.cost_per_run) + "'");
  }
  if (options.hook && !options.watch)
    return invalid("--hook goes with --watch: without it the exit status says what was found");
  return request;
}

void print_json(Session& session, const Audit& audit, const Request& request) {
  for (const AuditLine& each : audit.lines)
    session.out.line(audit_line_json(each, request.audit.by, request.cost));
  session.out.line(discrepancies_json(audit));
}

std::string queue_text(const AuditLine& line) {
  if (line.queue.empty()) return "(unrouted)";
  return line.queue == kRunsQueue ? "(runs)" : line.queue;
}

class AuditTable {
 public:
  AuditTable(const Audit& audit, const Request& request) : audit_(audit), request_(request) {
    for (const AuditLine& line : audit.lines) {
      sum_.add(line.totals);
      if (!line.own) priced_.add(line.totals);
    }
  }

  std::string str(const Style& style) const {
    if (audit_.lines.empty()) return "no tasks\n";
    Table table(columns());
    for (const AuditLine& line : audit_.lines)
      table.row(cells(style, period_text(line.period, request_.audit.by), queue_text(line),
                      line.totals, line.own ? Totals{} : line.totals));
    if (audit_.lines.size() > 1) table.row(cells(style, "all", "", sum_, priced_));
    return table.str(style) + reruns();
  }

  const Totals& priced() const { return priced_; }

 private:
  std::vector<Table::Column> columns() const {
    std::vector<Table::Column> columns{{"PERIOD"}, {"QUEUE"}, {"PUBLISHED", Table::Align::right}};
    for (const State state : shown()) columns.push_back({title(state), Table::Align::right});
    for (const char* name : {"STOPPED AT APPEND", "BY LEDGER", "RE-RUNS", "TWICE"})
      columns.push_back({name, Table::Align::right});
    if (request_.cost) columns.push_back({"COST PREVENTED", Table::Align::right});
    return columns;
  }

  std::vector<State> shown() const {
    std::vector<State> states;
    for (std::size_t i = 0; i < sum_.states.size(); ++i)
      if (sum_.states[i] > 0 || static_cast<State>(i) == State::completed)
        states.push_back(static_cast<State>(i));
    return states;
  }

  std::vector<Table::Cell> cells(const Style& style, std::string period, std::string queue,
                                 const Totals& totals, const Totals& priced) const {
    std::vector<Table::Cell> cells{std::move(period), std::move(queue),
                                   std::to_string(totals.published)};
    for (const State state : shown()) {
      std::string text = std::to_string(totals.in(state));
      std::string styled = totals.in(state) > 0 ? style.in_state(state, text) : style.dim(text);
      cells.emplace_back(std::move(text), std::move(styled));
    }
    for (const std::uint64_t number : {totals.duplicates_at_append, totals.duplicates_by_ledger,
                                       totals.all_reruns(), totals.completed_twice})
      cells.emplace_back(std::to_string(number));
    if (request_.cost) cells.emplace_back(format_amount(prevented(priced, *request_.cost)));
    return cells;
  }

  std::string reruns() const {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < sum_.reruns.size(); ++i)
      if (sum_.reruns[i] > 0)
        parts.push_back(fmt::format("{} {}", sum_.reruns[i], why(static_cast<Rerun>(i))));
    return parts.empty() ? "" : fmt::format("re-runs: {}\n", fmt::join(parts, ", "));
  }

  static std::string_view why(Rerun rerun) {
    switch (rerun) {
      case Rerun::failed: return "after a failure";
      case Rerun::lost: return "after a worker was lost";
      case Rerun::timed_out: return "after the timeout";
      case Rerun::unknown: return "after an end that nobody could judge";
      case Rerun::interrupted: return "after a worker was stopped";
      case Rerun::asked: return "because a person asked";
      case Rerun::older: return "of which the record no longer tells";
      case Rerun::unexplained: return "UNEXPLAINED";
    }
    return "?";
  }

  const Audit& audit_;
  const Request& request_;
  Totals sum_;
  Totals priced_;  // of those whose runs cost somebody something
};

std::string for_people(const Audit& audit, const Request& request, const Style& style) {
  const AuditTable table(audit, request);
  std::string out = table.str(style);
  if (request.cost && table.priced().duplicates() > 0)
    out += fmt::format(
        "{} prevented: {} at {} a run\n", counted(table.priced().duplicates(), "duplicate"),
        format_amount(prevented(table.priced(), *request.cost)), format_amount(*request.cost));
  if (audit.discrepancies.empty())
    return out + (request.audit.deep ? "every task is explained, every digest and index agrees\n"
                                     : "every task is explained\n");
  const std::uint64_t all = audit.discrepancies.size() + audit.unlisted;
  out += fmt::format("{} not explained:\n",
                     all == 1 ? "1 thing is" : fmt::format("{} things are", all));
  for (const Discrepancy& found : audit.discrepancies) {
    out += fmt::format("  {:<13}{}{}{}\n", to_string(found.kind),
                       found.queue.empty() ? "" : found.queue + ": ", printable(found.what),
                       found.task.empty() ? "" : " (" + printable(found.task) + ")");
    if (!found.harm.empty()) out += fmt::format("  {:<13}{}\n", "", printable(found.harm));
  }
  if (audit.unlisted > 0) out += fmt::format("  ... and {} more\n", audit.unlisted);
  return out;
}

// With the discrepancies on its standard input.
void run_hook(const std::string& command, const std::string& input) {
  std::FILE* pipe = ::popen(command.c_str(), "we");
  if (pipe == nullptr) {
    complain("once: the hook could not be started; the audit goes on");
    return;
  }
  std::fwrite(input.data(), 1, input.size(), pipe);
  std::fputc('\n', pipe);
  if (const int status = ::pclose(pipe); status != 0)
    complain(fmt::format("once: the hook failed (wait status {}); the audit goes on", status));
}

int audit(Session& session, const AuditFlags& options) {
  auto request = understand(options);
  if (!request) return session.fail(request.error());
  WatchLoop loop(session, options.watch.has_value());
  auto zone = loop.open();
  if (!zone) return loop.failed(zone.error());
  const Duration every = options.watch ? options.watch->value_or(kWatchEvery) : Duration{};
  int status = kDone;
  std::string known;  // what the hook was told last
  for (bool first = true;; first = false) {
    auto found = [&] {
      Progress progress("audit", session.quiet);
      request->audit.progress = [&](double fraction) { progress.at(fraction); };
      return zone->audit(request->audit);
    }();
    if (!found && !(options.watch && away(found.error()))) return session.fail(found.error());
    if (found) {
      if (!first && !session.json) session.out.line("");
      if (session.json)
        print_json(session, *found, *request);
      else
        session.out.write(for_people(*found, *request, session.style()));
      if (!found->discrepancies.empty()) status = kFound;
      const std::string now = discrepancies_json(*found);
      if (options.hook && !found->discrepancies.empty() && now != known)
        run_hook(*options.hook, now);
      known = now;
    }
    if (!loop.next(every)) return status;
  }
}

}  // namespace

void add_audit(CLI::App& root, Session& session) {
  auto* app = add_command(
      root, "audit", "Reconcile log, ledger and deliveries; exit 4: something is not explained");
  auto options = std::make_shared<AuditFlags>();
  add_moment(*app, "--since", options->since,
             "Only tasks that were published since, by whole periods");
  add_text(*app, "--by", options->by, "PERIOD", "hour, day or month, in UTC (day)");
  add_text(*app, "--queue", options->queue, "NAME", "Only this queue");
  add_flag(*app, "--deep", options->deep,
           "Verify every digest and every index, too; reads every body");
  add_text(*app, "--cost-per-run", options->cost_per_run, "AMOUNT",
           "What a run costs: prices the duplicates that were prevented");
  add_optional_duration(*app, "--watch", options->watch,
                        "Again every minute, until SIGINT; --watch=D: every D");
  add_text(*app, "--hook", options->hook, "CMD",
           "With --watch: run by /bin/sh when something new is not explained,\n"
           "with that as JSON on its standard input");
  add_example(
      *app,
      "Every task is counted once, in the period in which it was published; what retention\n"
      "took is counted from the totals it left.\n"
      "\n"
      "Example:\n"
      "  once audit --since 7d --cost-per-run 3.50");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return audit(session, *options); };
  });
}

}  // namespace once::cli
