// once flow signal|approve|cancel|retry: what people say to a run.
#include <fmt/format.h>

#include <algorithm>

#include "cli/app/input.h"
#include "cli/app/options.h"
#include "cli/app/session.h"
#include "cli/flow/flow.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct SignalOptions {
  std::string run{}, name{};
  std::optional<std::string> body{}, id{}, by{};
};

// "id transfer-93, from ann@host at 2026-03-01T12:00:00Z, #17"
std::string described(const FirstSignal& first) {
  return fmt::format("id {}{} at {}, #{}", printable(first.id),
                     first.by.empty() ? "" : ", from " + printable(first.by), format_time(first.at),
                     first.sequence);
}

std::string for_people(const SignalOptions& options, const SignalResult& sent) {
  const std::string name = printable(options.name), run = printable(options.run);
  if (!sent.counts) {
    return fmt::format("run {} has signal {} already ({}): that one counts, this one was not added",
                       run, name, described(sent.first));
  }
  if (!sent.receipt.duplicate) {
    return fmt::format("signal {} is with run {}, and counts", name, run);
  }
  return fmt::format("signal {} was there already, with run {}, and counts (duplicate)", name, run);
}

int signal(Session& session, const SignalOptions& options) {
  if (!options.id || options.id->empty()) {
    return session.usage(
        "--id is missing or empty: a signal that is sent again with the same id counts once; "
        "nothing was sent");
  }
  auto body = body_from(options.body, false);
  if (!body) {
    Error error = body.error();
    error.message += "; nothing was sent";
    return session.fail(error);
  }
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  const auto sent = zone->flows().signal(options.run, options.name, *body, *options.id,
                                         {.who = options.by.value_or(""), .why = {}});
  if (!sent) return session.fail(sent.error());
  if (session.json) {
    session.out.line(signal_json(options.run, options.name, *options.id, *sent));
  } else {
    session.say(for_people(options, *sent));
  }
  return sent->counts ? kDone : kConflict;
}

// Who and why become part of the run's story.
struct RunOptions {
  std::string run{};
  std::optional<std::string> reason{}, by{};

  By who() const { return {.who = by.value_or(""), .why = reason.value_or("")}; }
};

struct ApproveOptions {
  RunOptions run{};
  std::string step{};
  bool reject = false;
};

int approve(Session& session, const ApproveOptions& options) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  const auto verdict =
      zone->flows().approve(options.run.run, options.step, !options.reject, options.run.who());
  if (!verdict) return session.fail(verdict.error());
  const std::string_view outcome = verdict->approved ? "approved" : "rejected";
  if (session.json) {
    session.out.line(approved_json(options.run.run, options.step, *verdict));
  } else if (verdict->duplicate) {
    session.say(fmt::format("step {} of run {} was {} by {} before, at {} (#{})",
                            printable(options.step), printable(options.run.run), outcome,
                            printable(verdict->by), format_time(verdict->at), verdict->sequence));
  } else {
    session.say(fmt::format("step {} of run {} is {}", printable(options.step),
                            printable(options.run.run), outcome));
  }
  return kDone;
}

std::string_view cancelled_words(RunPhase before) {
  if (before == RunPhase::cancelled) return "is cancelled already";
  if (before == RunPhase::failed) return "is closed: it cannot be retried any more";
  return "is asked to end: nothing more is begun, running steps are told to stop";
}

int cancel(Session& session, const RunOptions& options) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  Flows flows = zone->flows();
  const auto before = flows.show(options.run);
  if (!before) return session.fail(before.error());
  if (const auto done = flows.cancel(options.run, options.who()); !done) {
    return session.fail(done.error());
  }
  if (session.json) {
    session.out.line(run_cancelled_json(options.run, before->info.state));
  } else {
    session.say(
        fmt::format("run {} {}", printable(options.run), cancelled_words(before->info.state)));
  }
  return kDone;
}

// Of the steps that are open again, the one that handles a failure runs only if that happens again.
class Again {
 public:
  Again(const FlowView& flow, const std::vector<std::string>& steps) : flow_(flow), open_(steps) {
    for (const std::string& step : steps) {
      if (!handles(step)) {
        run_.push_back(step);
      } else if (const std::string failures = failures_for(step); !failures.empty()) {
        only_if_.push_back(fmt::format(", {} only if {} fails again", step, failures));
      }
    }
  }

  std::string text() const {
    if (run_.empty()) return "its steps were completed meanwhile";
    return fmt::format("{} run{} again ({}){}", counted(run_.size(), "step"),
                       run_.size() == 1 ? "s" : "", fmt::join(run_, ", "), fmt::join(only_if_, ""));
  }

 private:
  bool handles(const std::string& step) const {
    return std::any_of(flow_.steps.begin(), flow_.steps.end(),
                       [&](const FlowView::Step& each) { return each.on_failure == step; });
  }

  // Those of the steps that run again whose failure it handles.
  std::string failures_for(const std::string& step) const {
    std::vector<std::string> names;
    for (const FlowView::Step& each : flow_.steps) {
      const bool again = std::find(open_.begin(), open_.end(), each.step) != open_.end();
      if (again && each.on_failure == step) names.push_back(each.step);
    }
    return fmt::format("{}", fmt::join(names, " or "));
  }

  const FlowView& flow_;
  const std::vector<std::string>& open_;
  std::vector<std::string> run_, only_if_;
};

int retry(Session& session, const RunOptions& options) {
  auto zone = session.open(Missing::refuse);
  if (!zone) return session.fail(zone.error());
  Flows flows = zone->flows();
  const auto before = flows.show(options.run);
  if (!before) return session.fail(before.error());
  const auto flow = flows.definition(before->info.workflow, before->info.version);
  if (!flow) return session.fail(flow.error());
  const auto steps = flows.retry(options.run, options.who());
  if (!steps) return session.fail(steps.error());
  if (session.json) {
    session.out.line(run_retried_json(options.run, before->round + 1, *steps));
  } else {
    session.say(
        fmt::format("run {} goes on: {}", printable(options.run), Again(*flow, *steps).text()));
  }
  return kDone;
}

void add_run(CLI::App& app, RunOptions& options) {
  add_needed(app, "RUN", options.run, "The run, as once flow start named it");
}

void add_who(CLI::App& app, RunOptions& options) {
  add_text(app, "--reason", options.reason, "TEXT", "Why; becomes part of the run's story");
  add_text(app, "--by", options.by, "NAME", "Who; becomes part of the story (user@host)");
}

void add_signal(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "signal", "Send a signal that a step of a run waits for");
  auto options = std::make_shared<SignalOptions>();
  add_needed(*app, "RUN", options->run, "The run, as once flow start named it");
  add_needed(*app, "NAME", options->name, "The signal, as the step names it");
  add_text(*app, "BODY", options->body, "",
           "JSON text, @FILE, or - for standard input; none: null");
  add_text(*app, "--id", options->id, "ID",
           "What makes it count once, however often it is sent (needed)");
  add_text(*app, "--by", options->by, "NAME", "Who; becomes part of the story (user@host)");
  add_example(*app,
              "Its body becomes the step's output. One that comes before its step is kept for it.\n"
              "The first of a name counts: exit 3 says that another one was first, and which.\n"
              "\n"
              "Example:\n"
              "  once flow signal RUN bank_settled '{\"amount\":500}' --id transfer-93");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return signal(session, *options); };
  });
}

void add_approve(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "approve", "Approve or reject a step that waits for a person");
  auto options = std::make_shared<ApproveOptions>();
  add_run(*app, options->run);
  add_needed(*app, "STEP", options->step, "The step, by its id");
  add_flag(*app, "--reject", options->reject, "No: the step failed");
  add_who(*app, options->run);
  add_example(*app,
              "The first verdict stands: the other one after it is exit status 3.\n"
              "\n"
              "Example:\n"
              "  once flow approve RUN review --reason 'goods are in stock'\n"
              "  once flow approve RUN review --reject --reason 'out of stock'");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return approve(session, *options); };
  });
}

using Act = int (*)(Session&, const RunOptions&);

void add_act(CLI::App& flow, Session& session, const std::string& name, const std::string& help,
             const std::string& example, Act act) {
  auto* app = add_command(flow, name, help);
  auto options = std::make_shared<RunOptions>();
  add_run(*app, *options);
  add_who(*app, *options);
  add_example(*app, example);
  when_given(*app, [&session, options, act] {
    session.command = [&session, options, act] { return act(session, *options); };
  });
}

}  // namespace

void add_flow_control(CLI::App& flow, Session& session) {
  add_signal(flow, session);
  add_approve(flow, session);
  add_act(flow, session, "cancel", "End a run: nothing more is begun, what runs is told to stop",
          "A run that failed is closed: it ages like one that ended, and cannot be retried.\n"
          "\n"
          "Example:\n"
          "  once flow cancel RUN --reason 'ordered by mistake'",
          cancel);
  add_act(flow, session, "retry", "Let a run that failed go on with the steps that failed",
          "Steps that are completed stay so. An on_failure step runs only if what it handles\n"
          "fails again.\n"
          "\n"
          "Example:\n"
          "  once flow retry RUN --reason 'the card is unlocked'",
          retry);
}

}  // namespace once::cli
