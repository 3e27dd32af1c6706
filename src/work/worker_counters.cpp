#include "work/worker_counters.h"

#include <algorithm>

namespace once::engine {

WorkerCounters::WorkerCounters(store::Store& store, Scheduler& scheduler)
    : store_(store), scheduler_(scheduler) {
  answered();
}

void WorkerCounters::claimed(const core::Record& record) {
  claims_.add();
  const std::size_t count = record.attempts.size();
  if (count > 1 && record.attempts[count - 2].ending == core::Ending::lost) reclaims_.add();
}

void WorkerCounters::recorded(const core::Record& record) {
  const bool interrupted =
      !record.attempts.empty() && record.attempts.back().ending == core::Ending::interrupted;
  switch (record.state) {
    case State::completed: return completed_.add();
    case State::retrying: return interrupted ? given_back_.add() : retries_.add();
    case State::waiting: return given_back_.add();
    case State::in_doubt: return in_doubt_.add();
    case State::dead: return dead_.add();
    case State::cancelled: return cancelled_.add();
    case State::duplicate: return stopped_same_key();
    case State::running:
    case State::scheduled: return;
  }
}

void WorkerCounters::settled(const RunningTask& running, const core::Record& record) {
  recorded(record);
  if (record.state == State::completed) to_record_.add(age(running));
}

void WorkerCounters::answered() {
  answered_at_.store(scheduler_.now().time_since_epoch().count(), std::memory_order_relaxed);
}

WorkerCounters::Running WorkerCounters::started(const RunningTask& running) {
  if (running.first) to_start_.add(age(running));
  return Running(running_);
}

WorkerMetrics WorkerCounters::read() const {
  const Moment answered{Moment::duration{answered_at_.load(std::memory_order_relaxed)}};
  return {.claims = claims_.read(),
          .reclaims = reclaims_.read(),
          .completed = completed_.read(),
          .retries = retries_.read(),
          .in_doubt = in_doubt_.read(),
          .dead = dead_.read(),
          .cancelled = cancelled_.read(),
          .given_back = given_back_.read(),
          .fenced = fenced_.read(),
          .stopped_settled = stopped_settled_.read(),
          .stopped_held = stopped_held_.read(),
          .stopped_same_key = stopped_same_key_.read(),
          .running = running_.read(),
          .to_start = to_start_.read(),
          .to_record = to_record_.read(),
          .store_silence = std::max(
              Duration{0}, std::chrono::duration_cast<Duration>(scheduler_.now() - answered))};
}

// The wall clocks of two machines may differ. The age is never negative.
Duration WorkerCounters::age(const RunningTask& running) const {
  return std::max(Duration{0},
                  store_.wall() - running.task.not_before.value_or(running.published_at));
}

void WorkerCounters::Latency::add(Duration took) {
  const auto bound = std::lower_bound(Histogram::kBounds.begin(), Histogram::kBounds.end(), took);
  counts_[static_cast<std::size_t>(bound - Histogram::kBounds.begin())].add();
  sum_.fetch_add(took.count(), std::memory_order_relaxed);
}

Histogram WorkerCounters::Latency::read() const {
  Histogram histogram{.sum = Duration{sum_.load(std::memory_order_relaxed)}};
  for (std::size_t i = 0; i < counts_.size(); ++i) histogram.counts[i] = counts_[i].read();
  return histogram;
}

}  // namespace once::engine
