// The public face of a worker: contexts and outcomes for handlers, and the worker itself.
#include "once/worker.h"

#include <unistd.h>

#include "api/access.h"
#include "api/make_worker.h"
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

struct detail::AttemptState {
  const engine::TaskAttempt& task_attempt;
};

const Task& Context::task() const { return state_.task_attempt.task; }
std::string_view Context::queue() const { return state_.task_attempt.queue; }
std::string_view Context::key() const { return state_.task_attempt.key; }
std::uint64_t Context::sequence() const { return state_.task_attempt.sequence.value; }
std::uint64_t Context::token() const { return state_.task_attempt.token.value; }
int Context::attempt() const { return static_cast<int>(state_.task_attempt.attempt); }
bool Context::in_doubt() const { return state_.task_attempt.in_doubt; }
std::string Context::idempotency_key(std::string_view step) const {
  return engine::idempotency_key(state_.task_attempt, step);
}
std::stop_token Context::stop() const { return state_.task_attempt.stop; }

namespace {

engine::Steps& steps_of(const engine::TaskAttempt& task_attempt) {
  if (!task_attempt.steps)
    throw Failure({.code = Code::invalid_input,
                   .message = "a probe has no steps: it only asks whether the task happened"});
  return *task_attempt.steps;
}

}  // namespace

Context::StepGate Context::gate(std::string_view name, std::optional<InDoubt> policy,
                                bool asked) const {
  engine::Steps::BeginResult begun = steps_of(state_.task_attempt).begin(name, policy, asked);
  using Kind = engine::Steps::BeginResult::Kind;
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
  const auto ended = steps_of(state_.task_attempt).end(name, Body::bytes(std::move(result)));
  if (!ended) throw AttemptOver{ended.error().message};
}

void Context::fail_step(std::string_view name, std::string_view why) const {
  const auto failed = steps_of(state_.task_attempt).fail(name, why);
  if (!failed) throw AttemptOver{failed.error().message};
}

void Context::hold_step(std::string_view name, std::string why) const {
  throw AttemptOver{steps_of(state_.task_attempt).hold(name, std::move(why)).message};
}

struct detail::WorkerState {
  std::shared_ptr<detail::ZoneState> zone;  // kept open for as long as the worker lives
  std::unique_ptr<engine::Worker> worker;
};

Worker::Worker(std::unique_ptr<detail::WorkerState> state) : state_(std::move(state)) {}
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;

Result<void> Worker::run(std::stop_token stop) {
  return state_->worker->run(engine::Worker::Until::stopped, std::move(stop));
}
Result<void> Worker::run_until_empty(std::stop_token stop) {
  return state_->worker->run(engine::Worker::Until::empty, std::move(stop));
}
Result<bool> Worker::run_one() { return state_->worker->run_one(); }
void Worker::interrupt() { state_->worker->interrupt(); }
WorkerMetrics Worker::metrics() const { return state_->worker->metrics(); }

std::string default_worker_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

Result<Worker> make_worker(std::shared_ptr<detail::ZoneState> zone, std::string_view queue,
                           WorkerParts parts, WorkerOptions options) {
  if (auto ok = detail::ZoneState::not_own(queue,
                                           "nothing was started: a runner of workflows handles it");
      !ok)
    return ok.error();
  auto definition = zone->queue(queue);
  if (!definition) return definition.error();
  if (definition->ledger)
    return Error{
        .code = Code::invalid_input,
        .message = "queue '" + definition->name +
                   "' is a ledger-only queue: nothing is delivered to it; claim its keys instead",
        .reason = Reason::queue_is_ledger_only,
        .facts = {{"queue", definition->name}}};
  if (options.concurrency < 1 || options.concurrency > 4096)
    return Error{.code = Code::invalid_input,
                 .message = "the concurrency must be between 1 and 4096"};
  engine::WorkerSettings settings{
      .queue = std::move(*definition),
      .handler = std::move(parts.handler),
      .probe = std::move(parts.probe),
      .concurrency = static_cast<std::size_t>(options.concurrency),
      .name = options.name.empty() ? default_worker_name() : std::move(options.name),
      .on_store = std::move(options.on_store),
      .on_fenced = std::move(options.on_fenced)};
  if (parts.grace) settings.grace = *parts.grace;
  auto made = engine::Worker::make(*zone->store, *zone->scheduler, std::move(settings));
  if (!made) return made.error();
  return detail::Access::make<Worker>(std::unique_ptr<detail::WorkerState>(
      new detail::WorkerState{std::move(zone), std::move(*made)}));
}

Result<Worker> Zone::worker(std::string_view queue, std::function<Outcome(Context&)> handler,
                            WorkerOptions options) {
  WorkerParts parts;
  parts.handler = [handler = std::move(handler)](const engine::TaskAttempt& task_attempt) {
    const detail::AttemptState state{task_attempt};
    Context context = detail::Access::make<Context>(state);
    return engine::Report{.outcome = handler(context)};
  };
  if (options.probe)
    parts.probe = [ask = options.probe](const engine::TaskAttempt& task_attempt) {
      const detail::AttemptState state{task_attempt};
      try {
        return engine::Report{.outcome = ask(detail::Access::make<Context>(state))};
      } catch (const std::exception& thrown) {
        return engine::Report{.outcome = Outcome::unknown(thrown.what())};
      } catch (...) {
        return engine::Report{.outcome = Outcome::unknown("the probe threw no std::exception")};
      }
    };
  return make_worker(state_, queue, std::move(parts), std::move(options));
}

}  // namespace once::inline v1
