// The public face of a worker: contexts and outcomes for handlers, and the worker itself.
#include "once/worker.h"

#include <unistd.h>

#include "api/zone_impl.h"
#include "engine/program.h"
#include "engine/worker.h"

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
  const engine::Assignment& assignment;
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

namespace {

std::string default_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

Result<engine::WorkerSettings> settings(const Zone::Impl& zone, std::string_view queue,
                                        engine::Handler handler, WorkerOptions options) {
  auto definition = zone.queue(queue);
  if (!definition) return definition.error();
  if (options.concurrency < 1 || options.concurrency > 4096)
    return Error{.code = Code::invalid_input,
                 .message = "the concurrency must be between 1 and 4096"};
  return engine::WorkerSettings{
      .queue = std::move(*definition),
      .handler = std::move(handler),
      .concurrency = static_cast<std::size_t>(options.concurrency),
      .name = options.name.empty() ? default_name() : std::move(options.name),
      .on_store = std::move(options.on_store),
      .on_fenced = std::move(options.on_fenced)};
}

}  // namespace

Result<Worker> Zone::worker(std::string_view queue, std::function<Outcome(Context&)> handler,
                            WorkerOptions options) {
  auto chosen = settings(
      *impl_, queue,
      [handler = std::move(handler)](const engine::Assignment& assignment) {
        const Context::Impl impl{assignment};
        Context context(impl);
        return engine::Report{.outcome = handler(context)};
      },
      std::move(options));
  if (!chosen) return chosen.error();
  auto made = engine::Worker::make(*impl_->store, *impl_->scheduler, std::move(*chosen));
  if (!made) return made.error();
  return Worker(std::unique_ptr<Worker::Impl>(new Worker::Impl{impl_, std::move(*made)}));
}

Result<Worker> Zone::worker(std::string_view queue, Program program, WorkerOptions options) {
  const Duration grace = program.grace;
  auto handler = engine::program_handler(std::move(program));
  if (!handler) return handler.error();
  auto chosen = settings(*impl_, queue, std::move(*handler), std::move(options));
  if (!chosen) return chosen.error();
  chosen->grace = grace;
  auto made = engine::Worker::make(*impl_->store, *impl_->scheduler, std::move(*chosen));
  if (!made) return made.error();
  return Worker(std::unique_ptr<Worker::Impl>(new Worker::Impl{impl_, std::move(*made)}));
}

}  // namespace once::inline v1
