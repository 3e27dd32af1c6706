#include "work/lease_keeper.h"

#include <algorithm>
#include <mutex>

namespace once::engine {
namespace {

// How often the record of a running task is read. A person may have asked to cancel the task, or
// the claim may be lost. Short tasks end before the first read.
constexpr Duration kLookEvery = std::chrono::seconds{1};

Duration elapsed(Moment from, Moment to) { return std::chrono::duration_cast<Duration>(to - from); }

}  // namespace

LeaseKeeper::LeaseKeeper(Scheduler& scheduler, LedgerWriter& writer, Duration grace)
    : scheduler_(scheduler),
      writer_(writer),
      grace_(grace),
      mutex_(scheduler.mutex()),
      wake_(mutex_->condition()),
      idle_(mutex_->condition()) {}

LeaseKeeper::~LeaseKeeper() {
  {
    std::lock_guard lock(*mutex_);
    ending_ = true;
    wake_->notify_all();
  }
  activity_.reset();
}

void LeaseKeeper::watch(RunningTask& running) {
  std::lock_guard lock(*mutex_);
  running.place = watched_.size();
  watched_.push_back(&running);
  if (!activity_) activity_ = scheduler_.spawn([this] { run(); });
  if (due(running) < wakes_at_) wake_->notify_all();
}

bool LeaseKeeper::start(RunningTask& running) {
  std::unique_lock lock(*mutex_);
  if (!may_run(running, lock)) return false;
  running.started_at = scheduler_.now();
  running.look_at = *running.started_at + kLookEvery;
  if (due(running) < wakes_at_) wake_->notify_all();
  return true;
}

bool LeaseKeeper::may_run(RunningTask& running) {
  std::unique_lock lock(*mutex_);
  return may_run(running, lock);
}

bool LeaseKeeper::may_run(RunningTask& running, std::unique_lock<Mutex>& lock) {
  // After the lease has expired, another worker may have the task. So the lease is renewed before
  // the handler starts.
  const auto lapsed = [&] {
    return running.stopped == Stopped::no && scheduler_.now() >= ends(running);
  };
  while (lapsed() && running.busy) idle_->wait();
  if (lapsed() && !out_of_time(running)) {
    running.busy = true;
    lock.unlock();
    renew({&running});
    lock.lock();
    if (lapsed() && !out_of_time(running)) running.stopped = Stopped::lost;
  }
  if (running.stopped == Stopped::no && out_of_time(running)) running.stopped = Stopped::timed_out;
  if (interrupted_ && running.stopped == Stopped::no) running.stopped = Stopped::interrupted;
  return running.stopped == Stopped::no;
}

Result<WriteResult> LeaseKeeper::write(RunningTask& running, core::Command command) {
  Intent intent{.at = running.address, .command = std::move(command), .handle = running.handle};
  {
    std::lock_guard lock(*mutex_);
    while (running.busy) idle_->wait();
    if (running.stopped == Stopped::lost || running.stopped == Stopped::settled)
      return WriteResult{.decision = {.verdict = core::Verdict::fenced}};
    running.busy = true;
    intent.known = running.stored;
  }
  auto written = writer_.write(std::move(intent));
  std::vector<RunningTask*> stopping;
  {
    std::lock_guard lock(*mutex_);
    if (written) {
      const core::Verdict verdict = written->decision.verdict;
      if (written->stored) running.stored = *written->stored;
      if (verdict == core::Verdict::fenced) {
        running.stopped = Stopped::lost;
      } else if (written->stored && written->stored->record.state != State::running) {
        running.stopped = Stopped::settled;
      }
      if (running.stopped == Stopped::no && running.stored.record.cancel_asked)
        running.stopped = Stopped::cancelled;
      if (running.stopped == Stopped::no && interrupted_) running.stopped = Stopped::interrupted;
      if (running.stopped != Stopped::no) stopping.push_back(&running);
    }
    if (stopping.empty()) {
      running.busy = false;
      idle_->notify_all();
      wake_->notify_all();
    }
  }
  stop_all(stopping);
  return written;
}

void LeaseKeeper::give_up(RunningTask& running, std::string why) {
  std::lock_guard lock(*mutex_);
  if (!running.given_up) running.given_up = std::move(why);
}

std::optional<std::string> LeaseKeeper::given_up(const RunningTask& running) const {
  std::lock_guard lock(*mutex_);
  return running.given_up;
}

Stopped LeaseKeeper::stopped(const RunningTask& running) const {
  std::lock_guard lock(*mutex_);
  return running.stopped;
}

core::Policy LeaseKeeper::policy(const RunningTask& running) const {
  const auto queue = writer_.policy();
  return running.own ? core::applied(*queue, *running.own) : *queue;
}

Duration LeaseKeeper::timeout(const RunningTask& running) const {
  const bool own = running.own && running.own->timeout > Duration{0};
  return own ? running.own->timeout : writer_.policy()->timeout;
}

Moment LeaseKeeper::lease_end(const RunningTask& running) const {
  std::lock_guard lock(*mutex_);
  return ends(running);
}

std::size_t LeaseKeeper::held_at(core::StoreTime time) const {
  std::lock_guard lock(*mutex_);
  return static_cast<std::size_t>(
      std::count_if(watched_.begin(), watched_.end(), [&](const RunningTask* running) {
        return running->stopped == Stopped::no &&
               time < running->stored.stamp + running->stored.record.lease;
      }));
}

void LeaseKeeper::unwatch(std::span<RunningTask* const> tasks) {
  std::lock_guard lock(*mutex_);
  for (RunningTask* running : tasks) {
    while (running->busy) idle_->wait();
    if (running->place == RunningTask::kNowhere) continue;  // not watched any more
    watched_.back()->place = running->place;
    watched_[running->place] = watched_.back();
    watched_.pop_back();
    running->place = RunningTask::kNowhere;
  }
}

void LeaseKeeper::interrupt() {
  std::unique_lock lock(*mutex_);
  interrupted_ = true;
  std::vector<RunningTask*> interrupted;
  for (RunningTask* running : watched_) {
    if (running->stopped != Stopped::no || running->busy) continue;
    running->stopped = Stopped::interrupted;
    interrupted.push_back(running);
  }
  // A task whose renewal is in progress is stopped by run() after the renewal.
  for (RunningTask* running : interrupted) running->busy = true;
  lock.unlock();
  stop_all(interrupted);
}

// The callbacks of a stop token are code of the handler. So they run without the mutex. `busy`
// keeps the task in place meanwhile.
void LeaseKeeper::stop_all(const std::vector<RunningTask*>& tasks) {
  if (tasks.empty()) return;
  for (RunningTask* running : tasks) running->stop.request_stop();
  std::lock_guard lock(*mutex_);
  for (RunningTask* running : tasks) running->busy = false;
  idle_->notify_all();
  wake_->notify_all();
}

Moment LeaseKeeper::due(const RunningTask& running) const {
  if (running.busy || running.stopped == Stopped::lost || running.stopped == Stopped::settled)
    return Moment::max();
  Moment next = renewal(running);
  if (!running.started_at || running.stopped != Stopped::no) return next;
  next = std::min(next, running.look_at);
  const Duration timeout = this->timeout(running);
  return timeout == Duration{0} ? next : std::min<Moment>(next, *running.started_at + timeout);
}

Moment LeaseKeeper::renewal(const RunningTask& running) const {
  if (running.renewed_out) return Moment::max();
  return std::max<Moment>(running.renewed_at + running.stored.record.lease / 3, not_before_);
}

Moment LeaseKeeper::ends(const RunningTask& running) const {
  return running.renewed_at + running.stored.record.lease;
}

bool LeaseKeeper::out_of_time(const RunningTask& running) const {
  const Duration timeout = this->timeout(running);
  return timeout > Duration{0} && running.started_at &&
         scheduler_.now() >= *running.started_at + timeout;
}

void LeaseKeeper::run() {
  std::unique_lock lock(*mutex_);
  while (!ending_) {
    const Moment now = scheduler_.now();
    wakes_at_ = Moment::max();
    for (const RunningTask* running : watched_) wakes_at_ = std::min(wakes_at_, due(*running));
    if (wakes_at_ > now) {
      wake_->wait(wakes_at_ == Moment::max() ? std::nullopt : std::optional(wakes_at_));
      continue;
    }
    std::vector<RunningTask*> stopping;
    std::vector<RunningTask*> renewing;
    std::vector<RunningTask*> looking;
    for (RunningTask* running : watched_) {
      if (due(*running) > now) continue;
      if (running->stopped == Stopped::no && out_of_time(*running)) {
        running->stopped = Stopped::timed_out;
        stopping.push_back(running);
      } else if (renewal(*running) <= now) {
        renewing.push_back(running);
      } else {
        looking.push_back(running);
      }
      running->busy = true;
    }
    lock.unlock();
    stop_all(stopping);
    renew(renewing);
    look(looking);
    lock.lock();
  }
}

void LeaseKeeper::renew(const std::vector<RunningTask*>& tasks) {
  if (tasks.empty()) return;
  const Moment now = scheduler_.now();
  std::vector<Intent> intents;
  {
    std::lock_guard lock(*mutex_);
    for (const RunningTask* running : tasks)
      intents.push_back(
          {.at = running->address,
           .known = running->stored,
           .command = core::Renew{.nonce = running->nonce,
                                  .spent = elapsed(running->started_at.value_or(now), now),
                                  .grace = grace_,
                                  .lease = running->claimed_for},
           .handle = running->handle});
  }
  auto written = writer_.write(std::move(intents));
  std::vector<RunningTask*> stopping;
  {
    std::lock_guard lock(*mutex_);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      RunningTask& running = *tasks[i];
      if (!written[i]) {  // the store is away: the handler continues; the next renewal decides
        not_before_ = now + std::min<Duration>(writer_.policy()->lease / 9, Duration{1000});
      } else {
        if (written[i]->stored) running.stored = std::move(*written[i]->stored);
        const bool overdue = written[i]->decision.verdict == core::Verdict::overdue;
        if (!overdue) running.renewed_at = now;  // else nothing was written
        // The queue's timeout limits the lease of a task that has started. At that limit, the lease
        // cannot be extended any more.
        running.renewed_out = overdue || (running.started_at && *running.started_at <= now &&
                                          running.stored.record.lease < running.claimed_for);
      }
      if (written[i] && written[i]->decision.verdict == core::Verdict::fenced) {
        running.stopped = Stopped::lost;
        stopping.push_back(&running);
      } else if (running.stored.record.cancel_asked && running.stopped == Stopped::no) {
        running.stopped = Stopped::cancelled;
        stopping.push_back(&running);
      } else if (interrupted_ && running.stopped == Stopped::no) {
        running.stopped = Stopped::interrupted;
        stopping.push_back(&running);
      } else {
        running.busy = false;
      }
    }
    idle_->notify_all();
  }
  stop_all(stopping);
}

// Reads the records of running tasks, to see changes by other workers and people. If the store is
// away, the next renewal decides.
void LeaseKeeper::look(const std::vector<RunningTask*>& tasks) {
  if (tasks.empty()) return;
  std::vector<store::Address> addresses;
  for (const RunningTask* running : tasks) addresses.push_back(running->address);
  auto found = writer_.read(addresses);
  std::vector<RunningTask*> stopping;
  {
    std::lock_guard lock(*mutex_);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      RunningTask& running = *tasks[i];
      running.look_at = scheduler_.now() + kLookEvery;
      if (found[i] && *found[i] && (*found[i])->revision >= running.stored.revision) {
        const core::Record& record = (*found[i])->record;
        const bool mine = record.state == State::running && record.nonce == running.nonce;
        if (!mine)
          running.stopped = Stopped::lost;
        else if (record.cancel_asked && running.stopped == Stopped::no)
          running.stopped = Stopped::cancelled;
        if (mine) running.stored = std::move(**found[i]);
      }
      if (running.stopped == Stopped::no && interrupted_) running.stopped = Stopped::interrupted;
      if (running.stopped == Stopped::no) {
        running.busy = false;
      } else {
        stopping.push_back(&running);
      }
    }
    idle_->notify_all();
  }
  stop_all(stopping);
}

}  // namespace once::engine
