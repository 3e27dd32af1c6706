// once flow runs|show|events|graph
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/app/options.h"
#include "cli/app/watch_loop.h"
#include "cli/flow/flow.h"
#include "cli/flow/graph.h"
#include "cli/flow/name.h"
#include "cli/flow/print.h"
#include "shapes/json_line.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

constexpr Duration kLookAtRun{200};
constexpr Duration kLookAtRuns{1000};  // a store may have to read all of them

const std::string kEndOfWatch =
    "With --watch the exit status says how the run ended: 0 completed, 1 failed or\n"
    "cancelled.\n";

struct RunsOptions {
  std::optional<std::string> workflow{}, key{}, state{};
  std::optional<Time> since{};
  std::optional<std::uint64_t> limit{};
  bool watch = false;
};
struct ShowRunOptions {
  std::string run{};
  std::optional<std::uint64_t> at{};
  bool watch = false;
};
struct EventsOptions {
  std::string run{};
  bool watch = false;
};
struct GraphOptions {
  std::string name{};
  bool dot = false;
  bool watch = false;
};

// Looks again and again: `look` is given what was found, and answers with an exit status when that was
// the last.
template <class Find, class Look>
int watch(Session& session, Duration every, Find find, Look look) {
  WatchLoop loop(session, true);
  auto zone = loop.open();
  if (!zone) return loop.failed(zone.error());
  const Flows flows = zone->flows();
  for (;;) {
    auto found = find(flows);
    if (!found && !away(found.error())) return session.fail(found.error());
    const std::optional<int> last = found ? look(*found) : std::nullopt;
    if (last || !loop.next(every)) return last.value_or(kDone);
  }
}

// How the run ended; none: it goes on.
std::optional<int> end_status(Session& session, const RunInfo& run) {
  if (!over(run.state)) return {};
  return run.state == RunPhase::completed ? kDone : session.fail(end_of(run));
}

// A picture that is painted anew when it changes, from the top of the terminal.
class Painted {
 public:
  explicit Painted(Output& out) : out_(out) { out_.write("\x1b[2J"); }
  void show(std::string block) {
    if (block == shown_) return;
    out_.write(repainted(block));
    shown_ = std::move(block);
  }

 private:
  Output& out_;
  std::string shown_;
};

// The same what for every RUN: an unknown one may be the name of a workflow.
Error explained(const Error& error, const Flows& flows, const std::string& run) {
  if (error.code != Code::not_found || !flows.definition(run)) return error;
  return {
      .code = Code::not_found,
      .message = fmt::format(
          "{0} is a workflow, and a run is wanted; once flow runs --workflow {0} lists them", run)};
}

// runs

Result<RunFilter> filter_of(const RunsOptions& options) {
  const auto workflow = flow_name_from(options.workflow.value_or(""));
  if (!workflow) return workflow.error();
  RunFilter filter{.workflow = workflow->name,
                   .version = workflow->version,
                   .key = options.key,
                   .since = options.since};
  if (options.limit) filter.limit = static_cast<std::size_t>(*options.limit);
  if (options.state) {
    filter.state = run_phase_from(*options.state);
    if (!filter.state) {
      return Error{.code = Code::invalid_input,
                   .message = fmt::format("--state takes running, waiting, completed, failed, "
                                          "cancelled or unreadable, not \"{}\"",
                                          *options.state)};
    }
  }
  return filter;
}

int watch_runs(Session& session, const RunFilter& filter) {
  std::optional<Painted> paint;
  if (!session.json && session.out.is_terminal()) paint.emplace(session.out);
  std::map<std::string, std::string> known;  // what was said of each
  return watch(
      session, kLookAtRuns, [&](const Flows& flows) { return flows.runs(filter); },
      [&](const std::vector<RunInfo>& runs) {
        if (paint) {
          paint->show(runs_text(runs, now(), session.style()));
          return std::optional<int>{};
        }
        std::vector<RunInfo> changed;
        for (const RunInfo& run : runs) {
          std::string& before = known[run.run];
          const std::string line = run_json(run);
          if (line != before) changed.push_back(run);
          before = line;
        }
        for (const RunInfo& run : changed) {
          session.out.line(session.json
                               ? run_json(run)
                               : fmt::format("{}  {}  {}/{}", printable(run.run),
                                             look_text(look_of(run.state), session.style()),
                                             run.steps_done, run.steps));
        }
        return std::optional<int>{};
      });
}

int runs(Session& session, const RunsOptions& options) {
  auto filter = filter_of(options);
  if (!filter) return session.fail(filter.error());
  if (options.watch) return watch_runs(session, *filter);
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  const std::size_t wanted = filter->limit++;  // one more tells whether that was all
  auto found = zone->flows().runs(*filter);
  if (!found) return session.fail(found.error());
  const bool more = found->size() > wanted;
  if (more) found->resize(wanted);
  if (session.json) {
    for (const RunInfo& run : *found) session.out.line(run_json(run));
  } else if (session.quiet) {
    for (const RunInfo& run : *found) session.out.line(printable(run.run));
  } else if (found->empty()) {
    session.hint("no runs match");
  } else {
    session.out.write(runs_text(*found, now(), session.style()));
  }
  if (more) session.hint(fmt::format("only the first {}; --limit shows more", wanted));
  return kDone;
}

// show

std::string change_text(const RunStep& step, const Style& style) {
  const StepLook look = look_of(step);
  const std::string name = fmt::format("{} {}", look.mark, printable(step.step));
  std::string text = fmt::format("{}  {}", style.in_state(look.colour, name), look.word);
  if (const std::string why = why_text(step, {}, style); !why.empty()) text += "  " + why;
  return text;
}

// What has changed in a run since it was looked at last, a line each.
class Changes {
 public:
  explicit Changes(Session& session) : session_(session) {}

  void print(const RunView& run) {
    if (session_.json) {
      print_json(run);
    } else if (steps_.empty()) {
      print_run(session_, run);
      remember(run);
    } else {
      for (const RunStep& step : run.steps)
        if (std::string text = change_text(step, Style(false)); steps_[step.step] != text)
          session_.out.line(text);
      if (run.info.state != state_)
        session_.out.line(fmt::format("{}  {}", printable(run.info.run),
                                      look_text(look_of(run.info.state), Style(false))));
      remember(run);
    }
  }

 private:
  void print_json(const RunView& run) {
    std::string line = run_json(run);
    if (line == line_) return;
    session_.out.line(line);
    line_ = std::move(line);
  }
  void remember(const RunView& run) {
    state_ = run.info.state;
    for (const RunStep& step : run.steps) steps_[step.step] = change_text(step, Style(false));
  }

  Session& session_;
  std::string line_;
  RunPhase state_{};
  std::map<std::string, std::string> steps_;
};

int watch_run(Session& session, const std::string& run) {
  std::optional<Painted> paint;
  if (!session.json && session.out.is_terminal()) paint.emplace(session.out);
  Changes changes(session);
  return watch(
      session, kLookAtRun,
      [&](const Flows& flows) -> Result<RunView> {
        auto view = flows.show(run);
        if (!view) return explained(view.error(), flows, run);
        return view;
      },
      [&](const RunView& view) {
        if (paint) {
          paint->show(run_text(view, now(), session.style()));
        } else {
          changes.print(view);
        }
        return end_status(session, view.info);
      });
}

int show(Session& session, const ShowRunOptions& options) {
  if (options.watch && options.at) {
    return session.usage("--at shows what was and --watch what comes; give one of them");
  }
  if (options.watch) return watch_run(session, options.run);
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  const Flows flows = zone->flows();
  auto run = flows.show(options.run, options.at);
  if (!run) return session.fail(explained(run.error(), flows, options.run));
  print_run(session, *run);
  return kDone;
}

// events

// A run that timed out is a failed run.
RunPhase phase_of(std::optional<FlowOutcome> outcome) {
  if (outcome == FlowOutcome::completed) return RunPhase::completed;
  if (outcome == FlowOutcome::cancelled) return RunPhase::cancelled;
  return RunPhase::failed;
}

// A run has ended when no retry came after its last end.
std::optional<int> end_status(Session& session, const std::string& run,
                              const std::vector<RunEvent>& events) {
  std::uint32_t round = 1;
  const RunEvent* end = nullptr;
  for (const RunEvent& event : events) {
    if (event.kind == RunEvent::Kind::retried) round = std::max(round, event.n);
    if (event.kind == RunEvent::Kind::ended && (end == nullptr || event.n > end->n)) end = &event;
  }
  if (end == nullptr || end->n < round) return {};
  return end_status(session, {.run = run, .state = phase_of(end->outcome), .error = end->error});
}

// Each event once, whenever it turns up.
class EventPrinter {
 public:
  EventPrinter(Session& session, const RunView& run)
      : session_(session), lines_(run, terminal_width(STDOUT_FILENO)) {
    if (!session.json) session.out.line(lines_.heading(session.style()));
  }
  void print(const std::vector<RunEvent>& events) {
    for (const RunEvent& event : events) {
      if (!printed_.insert(event.id).second) continue;
      session_.out.line(session_.json ? event_json(event) : lines_.line(event));
    }
  }

 private:
  Session& session_;
  EventLines lines_;
  std::set<std::string> printed_;
};

Result<std::vector<RunEvent>> find_events(Session& session, const Flows& flows,
                                          const std::string& run,
                                          std::optional<EventPrinter>& printer) {
  if (!printer) {
    auto view = flows.show(run);
    if (!view) return explained(view.error(), flows, run);
    printer.emplace(session, *view);
  }
  return flows.events(run);
}

int events(Session& session, const EventsOptions& options) {
  std::optional<EventPrinter> printer;
  const auto find = [&](const Flows& flows) {
    return find_events(session, flows, options.run, printer);
  };
  if (options.watch) {
    return watch(session, kLookAtRun, find, [&](const std::vector<RunEvent>& found) {
      printer->print(found);
      return end_status(session, options.run, found);
    });
  }
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto found = find(zone->flows());
  if (!found) return session.fail(found.error());
  printer->print(*found);
  return kDone;
}

// graph

std::string graph_json(const FlowView& flow, const RunView* run) {
  std::map<std::string_view, std::string_view> states;
  if (run != nullptr)
    for (const RunStep& step : run->steps) states[step.step] = look_of(step).word;
  std::vector<std::string> steps;
  for (const FlowView::Step& step : flow.steps) {
    std::vector<std::string> before;
    for (const std::string& name : step.depends_on) before.push_back(json_string(name));
    steps.push_back(JsonLine{}
                        .text("step", step.step)
                        .text("kind", to_string(step.kind))
                        .text("detail", step.detail)
                        .json("depends_on", json_array(before))
                        .text_or_null("on_failure", step.on_failure)
                        .text_or_null("state", states[step.step])
                        .str());
  }
  return JsonLine{}
      .text("workflow", flow.workflow)
      .number("version", flow.version)
      .text_or_null("run", run ? run->info.run : "")
      .json("steps", json_array(steps))
      .str();
}

struct Drawn {
  FlowView flow{};
  std::optional<RunView> run{};
};

Result<Drawn> find_graph(const Flows& flows, const std::string& name) {
  const auto wanted = flow_name_from(name);
  if (!wanted) return wanted.error();
  auto flow = flows.definition(wanted->name, wanted->version);
  if (flow) return Drawn{.flow = std::move(*flow)};
  if (flow.error().code != Code::not_found || wanted->version > 0) return flow.error();
  auto run = flows.show(name);
  if (!run && run.error().code == Code::not_found) {
    return Error{.code = Code::not_found,
                 .message = fmt::format("there is no workflow and no run '{}'; once flow list and "
                                        "once flow runs say what there is",
                                        name)};
  }
  if (!run) return run.error();
  flow = flows.definition(run->info.workflow, run->info.version);
  if (!flow) return flow.error();
  return Drawn{.flow = std::move(*flow), .run = std::move(*run)};
}

std::string graph_of(Session& session, const Drawn& drawn) {
  const RunView* run = drawn.run ? &*drawn.run : nullptr;
  if (session.json) return graph_json(drawn.flow, run) + '\n';
  return graph_text(drawn.flow, run, session.style(), terminal_width(STDOUT_FILENO));
}

// What is no terminal gets each picture whole.
int watch_graph(Session& session, const std::string& name) {
  std::optional<Painted> paint;
  std::string shown;
  return watch(
      session, kLookAtRun, [&](const Flows& flows) { return find_graph(flows, name); },
      [&](const Drawn& drawn) -> std::optional<int> {
        if (!drawn.run) {
          return session.usage(
              fmt::format("{} is a workflow, which does not change; --watch is for a run", name));
        }
        std::string picture = graph_of(session, drawn);
        if (!session.json && session.out.is_terminal()) {
          if (!paint) paint.emplace(session.out);
          paint->show(std::move(picture));
        } else if (picture != shown) {
          if (!session.json && !shown.empty()) session.out.line("");
          session.out.write(picture);
          shown = std::move(picture);
        }
        return end_status(session, drawn.run->info);
      });
}

int graph(Session& session, const GraphOptions& options) {
  if (options.dot && session.json) {
    return session.usage("--dot and --json are two forms of one answer; give one of them");
  }
  if (options.dot && options.watch) {
    return session.usage("--dot writes one picture and --watch many; give one of them");
  }
  if (options.watch) return watch_graph(session, options.name);
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  auto drawn = find_graph(zone->flows(), options.name);
  if (!drawn) return session.fail(drawn.error());
  session.out.write(options.dot ? graph_dot(drawn->flow, drawn->run ? &*drawn->run : nullptr)
                                : graph_of(session, *drawn));
  return kDone;
}

void add_runs(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "runs", "List runs, the last started first");
  auto options = std::make_shared<RunsOptions>();
  add_text(*app, "--workflow", options->workflow, "NAME",
           "Only of this workflow; NAME@VERSION: of that version");
  add_text(*app, "--key", options->key, "KEY",
           "Only with this key, as --json shows it. With --workflow\n"
           "the run that has it or had it last, else all that did");
  add_text(*app, "--state", options->state, "STATE",
           "Only running, waiting, completed, failed,\ncancelled or unreadable ones");
  add_moment(*app, "--since", options->since, "Only started since then; 2h: two hours ago");
  add_number(*app, "--limit", options->limit, "At most so many (100)", 1, 1'000'000'000);
  add_flag(*app, "--watch", options->watch, "Again every second, until SIGINT");
  add_example(*app, "Example:\n  once flow runs --workflow payment --state failed --since 1d");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return runs(session, *options); };
  });
}

void add_show(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "show", "Show how a run and each of its steps stand");
  auto options = std::make_shared<ShowRunOptions>();
  add_needed(*app, "RUN", options->run, "The run's id");
  add_number(*app, "--at", options->at,
             "As it stood when the log had reached this sequence\n(once flow events lists them)");
  add_flag(*app, "--watch", options->watch, "Show what changes, until the run has ended");
  add_example(*app,
              "An active step shows how its task stands: running, retrying, in_doubt, waiting.\n" +
                  kEndOfWatch +
                  "\n"
                  "Example:\n"
                  "  once flow show payment-01kq3v8c7d5e6f9g0h1j2k3m4n --watch");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return show(session, *options); };
  });
}

void add_events(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "events", "List what happened in a run, in the log's order");
  auto options = std::make_shared<EventsOptions>();
  add_needed(*app, "RUN", options->run, "The run's id");
  add_flag(*app, "--watch", options->watch, "Go on with what happens, until the run has ended");
  add_example(*app, kEndOfWatch +
                        "\n"
                        "Example:\n  once flow events payment-01kq3v8c7d5e6f9g0h1j2k3m4n --json");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return events(session, *options); };
  });
}

void add_graph(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "graph", "Draw a workflow, or a run with how its steps stand");
  auto options = std::make_shared<GraphOptions>();
  add_needed(*app, "NAME|RUN", options->name,
             "A workflow (NAME: its newest version, or NAME@VERSION), or a run's id");
  add_flag(*app, "--dot", options->dot, "For Graphviz, in the language DOT");
  add_flag(*app, "--watch", options->watch, "Draw a run anew as it changes, until it has ended");
  add_example(*app, kEndOfWatch +
                        "\n"
                        "Example:\n"
                        "  once flow graph payment\n"
                        "  once flow graph payment --dot | dot -Tsvg > payment.svg");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return graph(session, *options); };
  });
}

}  // namespace

void add_flow_see(CLI::App& flow, Session& session) {
  add_runs(flow, session);
  add_show(flow, session);
  add_events(flow, session);
  add_graph(flow, session);
}

}  // namespace once::cli
