// Runs workflows: a worker on the queue `once-flow`, to which the events of all runs go. The
// handler of an event is EventHandler (event_handler.h). Any number of runners may work at the same
// time, and each may be killed anywhere.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "flow/event_handler.h"
#include "flow/starter.h"
#include "work/worker.h"

namespace once::engine {

struct FlowRunnerSettings {
  std::size_t concurrency = 64;  // the most events in one batch; two threads handle batches
  std::string name{};
  std::function<void(const std::optional<Error>&)> on_store{};  // see WorkerOptions
};

class FlowRunner {
 public:
  // Makes the queue of events if it is missing. The store and the scheduler must outlive the
  // runner.
  static Result<std::unique_ptr<FlowRunner>> make(store::Store& store, Scheduler& scheduler,
                                                  FlowRunnerSettings settings);

  // With Until::empty, runs until no run is active.
  Result<void> run(Worker::Until until, std::stop_token stop);
  Result<bool> run_one();
  void interrupt() { worker_->interrupt(); }
  WorkerMetrics metrics() const { return worker_->metrics(); }

 private:
  FlowRunner(store::Store& store, Scheduler& scheduler);
  Result<void> wait_until_empty(std::stop_token stop);
  Result<bool> no_run_is_active();

  store::Store& store_;
  Scheduler& scheduler_;
  RunStore run_store_;
  EventLog log_;
  FlowStarter starter_;
  EventHandler handler_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> wake_;  // of wait_until_empty()
  std::unique_ptr<Worker> worker_;
};

}  // namespace once::engine
