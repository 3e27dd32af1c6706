// once work QUEUE [options] -- CMD ARGS...: runs a program per task. SIGINT or SIGTERM drains, a
// second one ends the running programs and gives their leases back.
#include <fmt/format.h>

#include <filesystem>

#include "cli/app/commands.h"
#include "cli/app/options.h"
#include "cli/app/patience.h"
#include "cli/app/session.h"
#include "cli/queue/queue_options.h"
#include "cli/work/program_voice.h"
#include "cli/work/service.h"
#include "shapes/values.h"
#include "tooling/text.h"

namespace once::cli {
namespace {

struct WorkOptions {
  std::string queue{};
  QueueOptions definition{};
  std::optional<std::uint64_t> concurrency{};
  MetricsOptions metrics{};
  std::optional<std::string> worker{}, probe{}, log_dir{};
  std::optional<Duration> grace{};
  bool until_empty = false;
};

// Whether the definition is sound and the program can be run, found out on a zone of its own:
// a mistyped command leaves nothing behind in the real one.
Result<void> rehearse(Queue queue, const Program& program, const WorkerOptions& options) {
  auto zone = Zone::open("memory:");
  if (!zone) return zone.error();
  if (queue.topic.empty()) queue.topic.push_back('>');
  queue.stream.clear();  // which that zone cannot have
  if (auto added = zone->queues().add(queue); !added) return added.error();
  auto worker = program_worker(*zone, queue.name, program, options);
  if (!worker) return worker.error();
  return {};
}

// A probe and a policy that do not go together are no mistake, but seldom meant.
void hint_at_policy(const Session& session, const Zone& zone, const WorkOptions& options) {
  const auto queue = existing_queue(zone, options.queue);
  if (!queue) return;
  if (queue->paused) {
    session.hint(fmt::format("queue {0} is paused: nothing is claimed until once queue resume {0}",
                             queue->name));
  }
  const bool asks = queue->in_doubt == InDoubt::probe;
  if (asks && !options.probe) {
    session.hint(
        fmt::format("queue {} asks a probe about tasks in doubt and this worker has none (--probe "
                    "CMD): it holds "
                    "them for a person (once doubt list)",
                    queue->name));
  }
  if (!asks && options.probe) {
    session.hint(
        fmt::format("queue {0} has the policy {1}, which asks no probe (once queue set {0} "
                    "--in-doubt probe)",
                    queue->name, to_string(queue->in_doubt)));
  }
}

// Checks the options. Returns the queue that they name or describe.
Result<Queue> queue_to_work(const Session& session, const WorkOptions& options) {
  const auto refused = [](std::string message) {
    return Error{.code = Code::invalid_input, .message = std::move(message)};
  };
  if (session.program.empty()) {
    return refused(
        "work needs `--` and the program to run: once work QUEUE [options] -- CMD ARGS...");
  }
  auto given = options.definition.any_fixed();
  if (!given) given = options.definition.any_changeable();
  if (given && !options.definition.delivers()) {
    return refused(fmt::format(
        "{0} describes a queue that work makes: give --topic or --stream too, or leave it out; "
        "nothing was claimed. For a queue that exists: once queue set {1} {0} VALUE",
        *given, options.queue));
  }
  if (options.probe && options.probe->empty()) {
    return refused("--probe takes a command for /bin/sh; it is empty");
  }
  auto queue = queue_from(options.queue, options.definition);
  if (queue && options.log_dir && options.log_dir->empty()) {
    return refused("--log-dir takes a folder; it is empty");
  }
  return queue;
}

Program program_of(const Session& session, const WorkOptions& options, ProgramVoices& voices) {
  std::error_code error;
  return {.command = session.program,
          .probe = options.probe.value_or(""),
          .grace = options.grace.value_or(Program{}.grace),
          .supervisor = std::filesystem::read_symlink("/proc/self/exe", error).string(),
          .store = session.absolute_url(),
          .listener = [&voices](const ProgramRun& run) { return voices.listen(run); },
          .adopts_orphans = true};
}

WorkerOptions worker_options_of(const Session& session, const WorkOptions& options,
                                const std::unique_ptr<MetricsPort>& port) {
  return {.concurrency = static_cast<int>(options.concurrency.value_or(1)),
          .name = options.worker.value_or(""),
          .on_store = tell_store(session, port),
          .on_fenced = [&session](std::string_view id) {
            session.hint(
                fmt::format("task {} was taken over or settled by another while this worker did "
                            "not renew its lease; what happened here is not recorded",
                            id));
          }};
}

// Opens the zone. If the options describe the queue, also adds the queue.
Result<Zone> open_zone_of(Session& session, const WorkOptions& options, const Queue& queue,
                          Patience& patience) {
  const bool adds = options.definition.delivers();
  const Missing missing = !adds                 ? Missing::refuse
                          : options.until_empty ? Missing::create_file
                                                : Missing::create_file_or_await;
  auto zone = patience.find([&] { return session.open(missing, Stays::longer); });
  if (!zone || !adds) return zone;
  // A stream of others (--stream) may be missing.
  auto added = patience.find([&] { return add_queue(*zone, queue, options.definition.from); });
  if (!added) return added.error();
  if (!added->existed) {
    session.hint(fmt::format("queue {} takes {}: {} found in {}", options.queue, added->queue.topic,
                             counted(added->found, "task"), source_text(added->queue)));
  }
  return zone;
}

// Runs tasks until a signal ends the worker, or until the queue is empty. Returns the exit status.
int run(Session& session, const WorkOptions& options, const Zone& zone, Worker& worker,
        Signals& signals, MetricsPort* port) {
  Stopper stopper(session, signals, "draining: running tasks finish; a second signal ends them",
                  [&] {
                    session.hint("ending the running programs now; their tasks are given back");
                    worker.interrupt();
                  });
  std::optional<MetricsPort::Watch> watch;
  if (port != nullptr) {
    const auto definition = existing_queue(zone, options.queue);
    watch.emplace(*port, MetricsPort::Subject{.zone = zone,
                                              .metrics = [&] { return worker.metrics(); },
                                              .lease = definition ? definition->lease : Duration{},
                                              .ending = stopper.drain()});
  }
  auto done =
      options.until_empty ? worker.run_until_empty(stopper.drain()) : worker.run(stopper.drain());
  if (!done) return session.fail(done.error());
  return options.until_empty ? end_of_queue(session, worker.metrics(), options.queue) : kDone;
}

int work(Session& session, const WorkOptions& options) {
  const auto queue = queue_to_work(session, options);
  if (!queue) return session.fail(queue.error());
  auto voices = ProgramVoices::open(session, options.log_dir.value_or(""));
  if (!voices) return session.fail(voices.error());
  const Program program = program_of(session, options, **voices);
  std::unique_ptr<MetricsPort> port;  // null if it is not asked for
  const WorkerOptions worker_options = worker_options_of(session, options, port);
  if (auto sound = rehearse(*queue, program, worker_options); !sound) {
    return session.fail(sound.error());
  }

  Signals signals;
  auto opened = open_port(session, options.metrics);
  if (!opened) return session.fail(opened.error());
  port = std::move(*opened);
  Patience patience(session, signals,
                    options.until_empty ? Patience::For::until_empty : Patience::For::service);
  auto zone = open_zone_of(session, options, *queue, patience);
  if (!zone) return patience.ended(zone.error());
  auto worker =
      patience([&] { return program_worker(*zone, options.queue, program, worker_options); });
  if (!worker) return patience.ended(worker.error());
  session.hint(
      fmt::format("working on queue {}, {} at a time", options.queue,
                  counted(static_cast<std::uint64_t>(worker_options.concurrency), "task")));
  hint_at_policy(session, *zone, options);
  return run(session, options, *zone, *worker, signals, port.get());
}

}  // namespace

void add_work(CLI::App& root, Session& session) {
  auto* app = add_command(root, "work", "Run a program per task of a queue");
  auto options = std::make_shared<WorkOptions>();
  add_needed(*app, "QUEUE", options->queue, "The queue's name");
  add_number(*app, "--concurrency", options->concurrency, "Programs at once (1)", 1, 4096);
  add_text(*app, "--worker", options->worker, "NAME", "This worker's name (host and process id)");
  add_flag(*app, "--until-empty", options->until_empty,
           "End when every task of the queue is settled, later retries included;\n"
           "exit 1 if a task that this worker ran ended dead or in doubt");
  add_duration(*app, "--grace", options->grace,
               "Between SIGTERM and SIGKILL when a program must end (10s)", Duration{0});
  add_text(*app, "--probe", options->probe, "CMD",
           "Asked by /bin/sh, with the same input and environment, whether a task in\n"
           "doubt happened: exit 0 yes, 1 no, other unknown (--in-doubt probe)");
  add_text(*app, "--log-dir", options->log_dir, "DIR",
           "Keep all that programs write, one file per attempt:\n"
           "QUEUE.ID.ATTEMPT.log");
  add_metrics_port(*app, options->metrics);
  add_fixed_options(*app, options->definition);
  add_changeable_options(*app, options->definition);
  add_example(
      *app,
      "--topic or --stream makes the queue when it is not there; --key to --same-key describe\n"
      "it.\n"
      "\n"
      "The program gets the body on standard input and ONCE_ID, ONCE_KEY, ONCE_TOPIC,\n"
      "ONCE_QUEUE, ONCE_SEQUENCE, ONCE_ATTEMPT, ONCE_TOKEN, ONCE_IN_DOUBT,\n"
      "ONCE_IDEMPOTENCY_KEY, ONCE_CLAIM, ONCE_STORE, ONCE_BIN, ONCE_SOCKET (for once step),\n"
      "ONCE_TASK_FILE (the task with its headers, as once log prints it) and ONCE_RESULT in\n"
      "its environment, ONCE_DEADLINE when the queue has a timeout, ONCE_RUN and ONCE_STEP\n"
      "when the task is a step of a workflow. Its result is what it writes to the file\n"
      "$ONCE_RESULT, else its standard output. Exit 0 completes, 65 is dead at once, 74 may\n"
      "have happened; a signal, exit 129 to 192 and the timeout are no verdict (--in-doubt\n"
      "decides); any other exit is tried again.\n"
      "\n"
      "Each line of its standard error is passed on, marked with the task and the attempt. On a\n"
      "terminal, or with -v, each start and end is said too; -q says nothing. --json prints an\n"
      "object per event on standard output: started, stderr, ended.\n"
      "\n"
      "SIGTERM or SIGINT drains: running tasks finish. A second one ends them.\n"
      "\n"
      "A worker that starts while the store does not answer waits for it, and with --stream\n"
      "for a stream that is not there yet. --until-empty waits for the store only.\n"
      "\n"
      "Example:\n"
      "  once work billing --topic 'orders.>' --concurrency 4 -- ./bill --currency EUR");
  when_given(*app, [&session, options] {
    session.command = [&session, options] { return work(session, *options); };
  });
}

}  // namespace once::cli
