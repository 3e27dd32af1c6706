// What a worker counts about itself, in relaxed atomics. Counting costs a few nanoseconds, and a
// reader never blocks the worker.
#pragma once

#include <array>
#include <atomic>

#include "base/counter.h"
#include "base/scheduler.h"
#include "once/metrics.h"
#include "store/store.h"
#include "work/running_task.h"

namespace once::engine {

// Any thread may call anything.
class WorkerCounters {
 public:
  WorkerCounters(store::Store& store, Scheduler& scheduler);

  void claimed(const core::Record& record);
  // Counts the state that a write of this worker gave to a task, with or without an attempt.
  void recorded(const core::Record& record);
  void settled(const RunningTask& running, const core::Record& record);
  void fenced() { fenced_.add(); }
  void answered();  // the store has answered

  // Why the ledger stopped a delivery.
  void stopped_settled() { stopped_settled_.add(); }
  void stopped_held() { stopped_held_.add(); }
  void stopped_same_key() { stopped_same_key_.add(); }

  // While a handler runs.
  class Running {
   public:
    explicit Running(Counter& running) : running_(running) { running_.add(); }
    ~Running() { running_.subtract(); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Counter& running_;
  };
  Running started(const RunningTask& running);

  WorkerMetrics read() const;

 private:
  class Latency {
   public:
    void add(Duration took);
    Histogram read() const;

   private:
    std::array<Counter, Histogram::kBounds.size() + 1> counts_;
    std::atomic<Duration::rep> sum_{0};
  };
  Duration age(const RunningTask& running) const;

  store::Store& store_;
  Scheduler& scheduler_;
  Counter claims_, reclaims_, completed_, retries_, in_doubt_, dead_, cancelled_, given_back_,
      fenced_, stopped_settled_, stopped_held_, stopped_same_key_, running_;
  Latency to_start_, to_record_;
  std::atomic<Moment::rep> answered_at_;
};

}  // namespace once::engine
