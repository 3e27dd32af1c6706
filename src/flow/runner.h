// Drives runs: a worker on the queue of their events. Each event is folded into the run's facts, the
// facts are written over those that were read, and only then is done what the event is to cause
// (flow_turn.h). Any number of runners may be at it, and be killed anywhere.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "flow/event_handler.h"
#include "flow/starter.h"
#include "work/worker.h"

namespace once::engine {

struct FlowRunnerSettings {
  std::size_t concurrency = 64;  // events that are handled at a time
  std::string name{};
  std::function<void(const std::optional<Error>&)> on_store{};  // see WorkerOptions
};

class FlowRunner {
 public:
  // Makes the queues of workflows where they are missing. Store and scheduler outlive it.
  static Result<std::unique_ptr<FlowRunner>> make(store::Store& store, Scheduler& scheduler,
                                                  FlowRunnerSettings settings);

  // Until::empty: until no run is active.
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
  RunStore book_;
  EventLog log_;
  FlowStarter starter_;
  EventHandler turn_;
  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> wake_;  // of who waits for the end of all runs
  std::unique_ptr<Worker> worker_;
};

}  // namespace once::engine
