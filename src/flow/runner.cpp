#include "flow/runner.h"

#include "core/names.h"

namespace once::engine {
namespace {

using namespace std::chrono_literals;

constexpr Duration kStartsEvery = 1h;         // between two looks at starts that were cut off
constexpr Duration kRunnerEmptyLook = 100ms;  // between two looks at whether a run is active

}  // namespace

FlowRunner::FlowRunner(store::Store& store, Scheduler& scheduler)
    : store_(store),
      scheduler_(scheduler),
      run_store_(store, scheduler),
      log_(store, scheduler),
      starter_(store, scheduler, run_store_, log_),
      handler_(store, scheduler, run_store_, log_),
      mutex_(scheduler.mutex()),
      wake_(mutex_->condition()) {}

Result<std::unique_ptr<FlowRunner>> FlowRunner::make(store::Store& store, Scheduler& scheduler,
                                                     FlowRunnerSettings settings) {
  std::unique_ptr<FlowRunner> runner(new FlowRunner(store, scheduler));
  if (auto made = runner->run_store_.make_event_queue(); !made) return made.error();
  const auto queues = store.queues();
  if (!queues) return queues.error();
  WorkerSettings worker{.batch_handler = [handler = &runner->handler_](
                                             auto events) { return handler->handle(events); },
                        .concurrency = settings.concurrency,
                        .name = std::move(settings.name),
                        .on_store = std::move(settings.on_store)};
  for (const Queue& queue : *queues)
    if (queue.name == core::kFlowQueue) worker.queue = queue;
  worker.duties.push_back(
      {.name = "starts",
       .every = kStartsEvery,
       .work = [starter = &runner->starter_](const std::function<bool()>& ending) {
         return static_cast<bool>(starter->finish_starts(ending));
       }});
  auto made = Worker::make(store, scheduler, std::move(worker));
  if (!made) return made.error();
  runner->worker_ = std::move(*made);
  return runner;
}

Result<bool> FlowRunner::run_one() { return worker_->run_one(); }

Result<void> FlowRunner::run(Worker::Until until, std::stop_token stop) {
  if (until == Worker::Until::stopped) return worker_->run(until, std::move(stop));
  // A run without events now may get one when its step ends. So another activity looks whether a
  // run is active, and stops the worker if none is.
  const auto over = std::make_unique<std::stop_source>();  // on the stack g++ 12 warns, for nothing
  const std::stop_callback on_stop(stop, [&] {
    over->request_stop();
    const std::lock_guard lock(*mutex_);
    wake_->notify_all();
  });
  std::optional<Error> trouble;
  auto watch = scheduler_.spawn([&] {
    if (auto watched = wait_until_empty(over->get_token()); !watched) trouble = watched.error();
    over->request_stop();
  });
  Result<void> ran = worker_->run(Worker::Until::stopped, over->get_token());
  over->request_stop();
  {
    const std::lock_guard lock(*mutex_);
    wake_->notify_all();
  }
  watch.reset();
  if (ran && trouble) return *trouble;
  return ran;
}

// A look may read many values. So the looks take at most a twentieth of the time.
Result<void> FlowRunner::wait_until_empty(std::stop_token stop) {
  while (!stop.stop_requested()) {
    const Moment begun = scheduler_.now();
    const auto none = no_run_is_active();
    if (none && *none) return {};
    if (!none && !none.error().retryable) return none.error();
    const Moment now = scheduler_.now();
    const Moment next =
        now + Housekeeper::rest(kRunnerEmptyLook, std::chrono::ceil<Duration>(now - begun));
    const std::lock_guard lock(*mutex_);
    while (!stop.stop_requested() && scheduler_.now() < next) wake_->wait(next);
  }
  return {};
}

// A run is active from before its first event is handled until its last event is handled. So if
// there is no unhandled event, and after that no active run, all runs have ended.
Result<bool> FlowRunner::no_run_is_active() {
  const auto settled = store_.all_settled(core::kFlowQueue);
  if (!settled) return settled.error();
  if (!*settled) return false;
  const auto active = run_store_.any_active();
  if (!active) return active.error();
  return !*active;
}

}  // namespace once::engine
