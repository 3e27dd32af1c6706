// The public face of a worker: contexts and outcomes for handlers, and the worker itself.
#include "once/worker.h"

#include <unistd.h>

#include "api/zone_impl.h"
#include "exec/program.h"
#include "work/worker.h"

namespace once::inline v1 {

Outcome Outcome::completed(Body result) {
  Outcome outcome;
  outcome.result_ = std::move(result);
  return outcome;
}

Outcome Outcome::failed(std::string why, std::optional<Duration> retry_in) {
  Outcome outcome;
  outcome.kind_ = Kind::failed;
  outcome.why_ = std::move(why);
  outcome.retry_in_ = retry_in;
  return outcome;
}

Outcome Outcome::dead(std::string why) {
  Outcome outcome;
  outcome.kind_ = Kind::dead;
  outcome.why_ = std::move(why);
  return outcome;
}

Outcome Outcome::unknown(std::string why) {
  Outcome outcome;
  outcome.kind_ = Kind::unknown;
  outcome.why_ = std::move(why);
  return outcome;
}

struct Context::Impl {
  const engine::TaskAttempt& assignment;
};

const Task& Context::task() const { return impl_.assignment.task; }
std::string_view Context::queue() const { return impl_.assignment.queue; }
std::string_view Context::key() const { return impl_.assignment.key; }
std::uint64_t Context::sequence() const { return impl_.assignment.sequence.value; }
std::uint64_t Context::token() const { return impl_.assignment.token.value; }
int Context::attempt() const { return static_cast<int>(impl_.assignment.attempt); }
bool Context::in_doubt() const { return impl_.assignment.in_doubt; }
std::string Context::idempotency_key(std::string_view step) const {
  return engine::idempotency_key(impl_.assignment, step);
}
std::stop_token Context::stop() const { return impl_.assignment.stop; }

namespace {

engine::Steps& steps_of(const engine::TaskAttempt& assignment) {
  if (!assignment.steps)
    throw Failure({.code = Code::invalid_input,
                   .message = "a probe has no steps: it only asks whether the task happened"});
  return *assignment.steps;
}

}  // namespace

Context::StepGate Context::gate(std::string_view name, std::optional<InDoubt> policy,
                                bool asked) const {
  engine::Steps::Begun begun = steps_of(impl_.assignment).begin(name, policy, asked);
  using Kind = engine::Steps::Begun::Kind;
  switch (begun.kind) {
    case Kind::run: return {};
    case Kind::ask: return {.ask = true};
    case Kind::over: throw AttemptOver{begun.error->message};
    case Kind::refused: throw Failure(*begun.error);
    case Kind::remembered: break;
  }
  if (begun.result_cut)
    throw Failure({.code = Code::too_large,
                   .message = "step '" + std::string(name) +
                              "' has run, but an older Once kept only the first MiB of its "
                              "result; nothing was run again"});
  return {.remembered = std::string(begun.result.text())};
}

void Context::end_step(std::string_view name, std::string result) const {
  const auto ended = steps_of(impl_.assignment).end(name, Body::bytes(std::move(result)));
  if (!ended) throw AttemptOver{ended.error().message};
}

void Context::fail_step(std::string_view name, std::string_view why) const {
  const auto failed = steps_of(impl_.assignment).fail(name, why);
  if (!failed) throw AttemptOver{failed.error().message};
}

void Context::hold_step(std::string_view name, std::string why) const {
  throw AttemptOver{steps_of(impl_.assignment).hold(name, std::move(why)).message};
}

struct Worker::Impl {
  std::shared_ptr<Zone::Impl> zone;  // kept open for as long as the worker lives
  std::unique_ptr<engine::Worker> worker;
};

Worker::Worker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;

Result<void> Worker::run(std::stop_token stop) {
  return impl_->worker->run(engine::Worker::Until::stopped, std::move(stop));
}
Result<void> Worker::run_until_empty(std::stop_token stop) {
  return impl_->worker->run(engine::Worker::Until::empty, std::move(stop));
}
Result<bool> Worker::run_one() { return impl_->worker->run_one(); }
void Worker::interrupt() { impl_->worker->interrupt(); }
WorkerMetrics Worker::metrics() const { return impl_->worker->metrics(); }

std::string default_worker_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

namespace {

Result<engine::WorkerSettings> settings(const Zone::Impl& zone, std::string_view queue,
                                        engine::Handler handler, engine::Handler probe,
                                        WorkerOptions options) {
  if (auto ok = Zone::Impl::not_own(queue, "nothing was started: 'once flow work' runs it"); !ok)
    return ok.error();
  auto definition = zone.queue(queue);
  if (!definition) return definition.error();
  if (definition->ledger)
    return Error{.code = Code::invalid_input,
                 .message = "queue '" + definition->name +
                            "' is a ledger alone: nothing is delivered to it; claim from it with "
                            "'once claim' or a Guard"};
  if (options.concurrency < 1 || options.concurrency > 4096)
    return Error{.code = Code::invalid_input,
                 .message = "the concurrency must be between 1 and 4096"};
  return engine::WorkerSettings{
      .queue = std::move(*definition),
      .handler = std::move(handler),
      .probe = std::move(probe),
      .concurrency = static_cast<std::size_t>(options.concurrency),
      .name = options.name.empty() ? default_worker_name() : std::move(options.name),
      .on_store = std::move(options.on_store),
      .on_fenced = std::move(options.on_fenced)};
}

}  // namespace

Result<Worker> Zone::worker(std::string_view queue, std::function<Outcome(Context&)> handler,
                            WorkerOptions options) {
  engine::Handler probe;
  if (options.probe)
    probe = [ask = options.probe](const engine::TaskAttempt& assignment) {
      const Context::Impl impl{assignment};
      try {
        return engine::Report{.outcome = ask(Context(impl))};
      } catch (const std::exception& thrown) {
        return engine::Report{.outcome = Outcome::unknown(thrown.what())};
      } catch (...) {
        return engine::Report{.outcome = Outcome::unknown("the probe threw no std::exception")};
      }
    };
  auto chosen = settings(
      *impl_, queue,
      [handler = std::move(handler)](const engine::TaskAttempt& assignment) {
        const Context::Impl impl{assignment};
        Context context(impl);
        return engine::Report{.outcome = handler(context)};
      },
      std::move(probe), std::move(options));
  if (!chosen) return chosen.error();
  auto made = engine::Worker::make(*impl_->store, *impl_->scheduler, std::move(*chosen));
  if (!made) return made.error();
  return Worker(std::unique_ptr<Worker::Impl>(new Worker::Impl{impl_, std::move(*made)}));
}

Result<Worker> Zone::worker(std::string_view queue, Program program, WorkerOptions options) {
  const Duration grace = program.grace;
  engine::Handler probe;
  if (!program.probe.empty()) {
    auto made = engine::program_probe(program);
    if (!made) return made.error();
    probe = std::move(*made);
  }
  auto handler = engine::program_handler(std::move(program));
  if (!handler) return handler.error();
  auto chosen = settings(*impl_, queue, std::move(*handler), std::move(probe), std::move(options));
  if (!chosen) return chosen.error();
  chosen->grace = grace;
  auto made = engine::Worker::make(*impl_->store, *impl_->scheduler, std::move(*chosen));
  if (!made) return made.error();
  return Worker(std::unique_ptr<Worker::Impl>(new Worker::Impl{impl_, std::move(*made)}));
}

}  // namespace once::inline v1
