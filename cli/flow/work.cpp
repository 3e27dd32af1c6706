// once flow work: drives the runs of a zone. SIGINT or SIGTERM drains, a second one gives up.
#include <fmt/format.h>

#include "cli/app/options.h"
#include "cli/app/patience.h"
#include "cli/app/session.h"
#include "cli/flow/flow.h"
#include "cli/work/service.h"
#include "shapes/queue_definition.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct FlowWorkOptions {
  std::optional<std::uint64_t> concurrency{};
  MetricsOptions metrics{};
  std::optional<std::string> worker{};
  bool until_empty = false;
};

Result<void> has_workflows(const Flows& flows) {
  const auto workflows = flows.list();
  if (!workflows) return workflows.error();
  if (!workflows->empty()) return {};
  return Error{
      .code = Code::not_found,
      .message = "there is no workflow yet whose runs could be driven (once flow add FILE)"};
}

void hint_at_failed(const Session& session, const Flows& flows) {
  const auto failed = flows.runs({.state = RunPhase::failed, .limit = 1});
  if (failed && !failed->empty()) {
    session.hint("there are runs that failed: once flow runs --state failed");
  }
}

int work(Session& session, const FlowWorkOptions& options) {
  Signals signals;
  const auto port = open_port(session, options.metrics);
  if (!port) return session.fail(port.error());
  Patience patience(session, signals,
                    options.until_empty ? Patience::For::until_empty : Patience::For::service);
  const Missing missing = options.until_empty ? Missing::refuse : Missing::await;
  auto zone = patience.find([&] { return session.open(missing, Stays::longer); });
  if (!zone) return patience.ended(zone.error());
  Flows flows = zone->flows();
  if (auto there = patience.find([&] { return has_workflows(flows); }); !there) {
    return patience.ended(there.error());
  }
  const RunnerOptions runner_options{
      .concurrency = static_cast<int>(options.concurrency.value_or(RunnerOptions{}.concurrency)),
      .name = options.worker.value_or(""),
      .on_store = tell_store(session, *port)};
  auto runner = patience([&] { return flows.runner(runner_options); });
  if (!runner) return patience.ended(runner.error());
  session.hint(
      fmt::format("driving runs, {} at a time",
                  counted(static_cast<std::uint64_t>(runner_options.concurrency), "event")));
  const auto queue = existing_queue(*zone, std::string(kEventsQueue));
  if (queue && queue->paused) {
    session.hint(
        fmt::format("runs are paused: nothing goes on until once queue resume {}", kEventsQueue));
  }

  Stopper stopper(
      session, signals,
      "draining: events that are being handled are finished; a second signal gives them up", [&] {
        session.hint("giving up the events that are being handled; the next runner handles them");
        runner->interrupt();
      });
  std::optional<MetricsPort::Watch> watch;
  if (*port) {
    watch.emplace(**port, MetricsPort::Subject{.zone = *zone,
                                               .metrics = [&] { return runner->metrics(); },
                                               .lease = queue ? queue->lease : Duration{},
                                               .ending = stopper.drain()});
  }
  const auto done =
      options.until_empty ? runner->run_until_empty(stopper.drain()) : runner->run(stopper.drain());
  if (!done) return session.fail(done.error());
  if (!options.until_empty) return kDone;
  hint_at_failed(session, flows);
  return end_of_queue(session, runner->metrics(), kEventsQueue);
}

}  // namespace

void add_flow_work(CLI::App& flow, Session& session) {
  auto* app = add_command(flow, "work", "Drive the runs; any number may do so at once");
  auto options = std::make_shared<FlowWorkOptions>();
  add_number(*app, "--concurrency", options->concurrency,
             fmt::format("Events handled at once ({})", RunnerOptions{}.concurrency), 1, 1024);
  add_text(*app, "--worker", options->worker, "NAME", "This runner's name (host and process id)");
  add_flag(*app, "--until-empty", options->until_empty, "End when no run is under way any more");
  add_metrics_port(*app, options->metrics);
  add_example(
      *app,
      "It begins the steps of runs and takes in how they ended. The steps themselves are\n"
      "tasks, which once work runs on their queues. A runner may be killed at any time:\n"
      "the next one goes on where it was.\n"
      "\n"
      "SIGTERM or SIGINT drains: what is being handled is finished. A second one gives it\n"
      "up, and the next runner handles it again.\n"
      "\n"
      "A runner that starts before the store answers, before there is a zone or before there\n"
      "is a workflow waits for it. --until-empty waits for the store only.\n"
      "\n"
      "Example:\n"
      "  once flow work\n"
      "  once flow work --until-empty");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return work(session, *options); };
  });
}

}  // namespace once::cli
