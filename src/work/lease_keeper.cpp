#include "work/lease_keeper.h"

#include <algorithm>
#include <mutex>

namespace once::engine {
namespace {

// How often a running claim is looked at: a person may have asked for it to be cancelled, and a
// claim that was lost is better known soon. Short tasks are over before the first look.
constexpr Duration kLookEvery = std::chrono::seconds{1};

Duration elapsed(Moment from, Moment to) { return std::chrono::duration_cast<Duration>(to - from); }

}  // namespace

LeaseKeeper::LeaseKeeper(Scheduler& scheduler, LedgerWriter& scribe, Duration grace)
    : scheduler_(scheduler),
      scribe_(scribe),
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

void LeaseKeeper::watch(RunningTask& flight) {
  std::lock_guard lock(*mutex_);
  flight.place = flights_.size();
  flights_.push_back(&flight);
  if (!activity_) activity_ = scheduler_.spawn([this] { run(); });
  if (due(flight) < wakes_at_) wake_->notify_all();
}

bool LeaseKeeper::start(RunningTask& flight) {
  std::unique_lock lock(*mutex_);
  if (!may_run(flight, lock)) return false;
  flight.started_at = scheduler_.now();
  flight.look_at = *flight.started_at + kLookEvery;
  if (due(flight) < wakes_at_) wake_->notify_all();
  return true;
}

bool LeaseKeeper::may_run(RunningTask& flight) {
  std::unique_lock lock(*mutex_);
  return may_run(flight, lock);
}

bool LeaseKeeper::may_run(RunningTask& flight, std::unique_lock<Mutex>& lock) {
  // A claim whose lease is over may be another's by now: it is renewed before it is begun.
  const auto lapsed = [&] {
    return flight.stopped == Stopped::no && scheduler_.now() >= ends(flight);
  };
  while (lapsed() && flight.busy) idle_->wait();
  if (lapsed() && !out_of_time(flight)) {
    flight.busy = true;
    lock.unlock();
    renew({&flight});
    lock.lock();
    if (lapsed() && !out_of_time(flight)) flight.stopped = Stopped::lost;
  }
  if (flight.stopped == Stopped::no && out_of_time(flight)) flight.stopped = Stopped::timed_out;
  if (interrupted_ && flight.stopped == Stopped::no) flight.stopped = Stopped::interrupted;
  return flight.stopped == Stopped::no;
}

Result<Written> LeaseKeeper::write(RunningTask& flight, core::Command command) {
  Intent intent{.at = flight.address, .command = std::move(command), .handle = flight.handle};
  {
    std::lock_guard lock(*mutex_);
    while (flight.busy) idle_->wait();
    if (flight.stopped == Stopped::lost || flight.stopped == Stopped::settled)
      return Written{.decision = {.verdict = core::Verdict::fenced}};
    flight.busy = true;
    intent.known = flight.stored;
  }
  auto written = scribe_.write(std::move(intent));
  std::vector<RunningTask*> stopping;
  {
    std::lock_guard lock(*mutex_);
    if (written) {
      const core::Verdict verdict = written->decision.verdict;
      if (written->stored) flight.stored = *written->stored;
      if (verdict == core::Verdict::fenced) {
        flight.stopped = Stopped::lost;
      } else if (written->stored && written->stored->record.state != State::running) {
        flight.stopped = Stopped::settled;
      }
      if (flight.stopped == Stopped::no && flight.stored.record.cancel_asked)
        flight.stopped = Stopped::cancelled;
      if (flight.stopped == Stopped::no && interrupted_) flight.stopped = Stopped::interrupted;
      if (flight.stopped != Stopped::no) stopping.push_back(&flight);
    }
    if (stopping.empty()) {
      flight.busy = false;
      idle_->notify_all();
      wake_->notify_all();
    }
  }
  stop_all(stopping);
  return written;
}

void LeaseKeeper::give_up(RunningTask& flight, std::string why) {
  std::lock_guard lock(*mutex_);
  if (!flight.given_up) flight.given_up = std::move(why);
}

std::optional<std::string> LeaseKeeper::given_up(const RunningTask& flight) const {
  std::lock_guard lock(*mutex_);
  return flight.given_up;
}

Stopped LeaseKeeper::stopped(const RunningTask& flight) const {
  std::lock_guard lock(*mutex_);
  return flight.stopped;
}

core::Policy LeaseKeeper::policy(const RunningTask& flight) const {
  const auto queue = scribe_.policy();
  return flight.own ? core::applied(*queue, *flight.own) : *queue;
}

Duration LeaseKeeper::timeout(const RunningTask& flight) const {
  const bool own = flight.own && flight.own->timeout > Duration{0};
  return own ? flight.own->timeout : scribe_.policy()->timeout;
}

Moment LeaseKeeper::lease_end(const RunningTask& flight) const {
  std::lock_guard lock(*mutex_);
  return ends(flight);
}

std::size_t LeaseKeeper::held_at(core::StoreTime time) const {
  std::lock_guard lock(*mutex_);
  return static_cast<std::size_t>(
      std::count_if(flights_.begin(), flights_.end(), [&](const RunningTask* flight) {
        return flight->stopped == Stopped::no &&
               time < flight->stored.stamp + flight->stored.record.lease;
      }));
}

void LeaseKeeper::unwatch(std::span<RunningTask* const> flights) {
  std::lock_guard lock(*mutex_);
  for (RunningTask* flight : flights) {
    while (flight->busy) idle_->wait();
    if (flight->place == RunningTask::kNowhere) continue;  // done before
    flights_.back()->place = flight->place;
    flights_[flight->place] = flights_.back();
    flights_.pop_back();
    flight->place = RunningTask::kNowhere;
  }
}

void LeaseKeeper::interrupt() {
  std::unique_lock lock(*mutex_);
  interrupted_ = true;
  std::vector<RunningTask*> running;
  for (RunningTask* flight : flights_) {
    if (flight->stopped != Stopped::no || flight->busy) continue;
    flight->stopped = Stopped::interrupted;
    running.push_back(flight);
  }
  // One that is being renewed just now is stopped by the keeper afterwards.
  for (RunningTask* flight : running) flight->busy = true;
  lock.unlock();
  stop_all(running);
}

// The callbacks of a stop token are other people's code: they run without the mutex, and the flight
// stays where it is meanwhile because it is busy.
void LeaseKeeper::stop_all(const std::vector<RunningTask*>& flights) {
  if (flights.empty()) return;
  for (RunningTask* flight : flights) flight->stop.request_stop();
  std::lock_guard lock(*mutex_);
  for (RunningTask* flight : flights) flight->busy = false;
  idle_->notify_all();
  wake_->notify_all();
}

Moment LeaseKeeper::due(const RunningTask& flight) const {
  if (flight.busy || flight.stopped == Stopped::lost || flight.stopped == Stopped::settled)
    return Moment::max();
  Moment next = renewal(flight);
  if (!flight.started_at || flight.stopped != Stopped::no) return next;
  next = std::min(next, flight.look_at);
  const Duration timeout = this->timeout(flight);
  return timeout == Duration{0} ? next : std::min<Moment>(next, *flight.started_at + timeout);
}

Moment LeaseKeeper::renewal(const RunningTask& flight) const {
  if (flight.renewed_out) return Moment::max();
  return std::max<Moment>(flight.renewed_at + flight.stored.record.lease / 3, not_before_);
}

Moment LeaseKeeper::ends(const RunningTask& flight) const {
  return flight.renewed_at + flight.stored.record.lease;
}

bool LeaseKeeper::out_of_time(const RunningTask& flight) const {
  const Duration timeout = this->timeout(flight);
  return timeout > Duration{0} && flight.started_at &&
         scheduler_.now() >= *flight.started_at + timeout;
}

void LeaseKeeper::run() {
  std::unique_lock lock(*mutex_);
  while (!ending_) {
    const Moment now = scheduler_.now();
    wakes_at_ = Moment::max();
    for (const RunningTask* flight : flights_) wakes_at_ = std::min(wakes_at_, due(*flight));
    if (wakes_at_ > now) {
      wake_->wait(wakes_at_ == Moment::max() ? std::nullopt : std::optional(wakes_at_));
      continue;
    }
    std::vector<RunningTask*> stopping;
    std::vector<RunningTask*> renewing;
    std::vector<RunningTask*> looking;
    for (RunningTask* flight : flights_) {
      if (due(*flight) > now) continue;
      if (flight->stopped == Stopped::no && out_of_time(*flight)) {
        flight->stopped = Stopped::timed_out;
        stopping.push_back(flight);
      } else if (renewal(*flight) <= now) {
        renewing.push_back(flight);
      } else {
        looking.push_back(flight);
      }
      flight->busy = true;
    }
    lock.unlock();
    stop_all(stopping);
    renew(renewing);
    look(looking);
    lock.lock();
  }
}

void LeaseKeeper::renew(const std::vector<RunningTask*>& flights) {
  if (flights.empty()) return;
  const Moment now = scheduler_.now();
  std::vector<Intent> intents;
  {
    std::lock_guard lock(*mutex_);
    for (const RunningTask* flight : flights)
      intents.push_back(
          {.at = flight->address,
           .known = flight->stored,
           .command = core::Renew{.nonce = flight->nonce,
                                  .spent = elapsed(flight->started_at.value_or(now), now),
                                  .grace = grace_,
                                  .lease = flight->claimed_for},
           .handle = flight->handle});
  }
  auto written = scribe_.write(std::move(intents));
  std::vector<RunningTask*> stopping;
  {
    std::lock_guard lock(*mutex_);
    for (std::size_t i = 0; i < flights.size(); ++i) {
      RunningTask& flight = *flights[i];
      if (!written[i]) {  // the store is away: the handler runs on, the next renewal decides
        not_before_ = now + std::min<Duration>(scribe_.policy()->lease / 9, Duration{1000});
      } else {
        if (written[i]->stored) flight.stored = std::move(*written[i]->stored);
        const bool overdue = written[i]->decision.verdict == core::Verdict::overdue;
        if (!overdue) flight.renewed_at = now;  // else nothing was written
        // The queue's timeout bounds the lease of one that has begun: there is nothing to add to it
        // any more.
        flight.renewed_out = overdue || (flight.started_at && *flight.started_at <= now &&
                                         flight.stored.record.lease < flight.claimed_for);
      }
      if (written[i] && written[i]->decision.verdict == core::Verdict::fenced) {
        flight.stopped = Stopped::lost;
        stopping.push_back(&flight);
      } else if (flight.stored.record.cancel_asked && flight.stopped == Stopped::no) {
        flight.stopped = Stopped::cancelled;
        stopping.push_back(&flight);
      } else if (interrupted_ && flight.stopped == Stopped::no) {
        flight.stopped = Stopped::interrupted;
        stopping.push_back(&flight);
      } else {
        flight.busy = false;
      }
    }
    idle_->notify_all();
  }
  stop_all(stopping);
}

// What others did to the records meanwhile. A store that is away says nothing: the renewal decides.
void LeaseKeeper::look(const std::vector<RunningTask*>& flights) {
  if (flights.empty()) return;
  std::vector<store::Address> addresses;
  for (const RunningTask* flight : flights) addresses.push_back(flight->address);
  auto found = scribe_.read(addresses);
  std::vector<RunningTask*> stopping;
  {
    std::lock_guard lock(*mutex_);
    for (std::size_t i = 0; i < flights.size(); ++i) {
      RunningTask& flight = *flights[i];
      flight.look_at = scheduler_.now() + kLookEvery;
      if (found[i] && *found[i] && (*found[i])->revision >= flight.stored.revision) {
        const core::Record& record = (*found[i])->record;
        const bool mine = record.state == State::running && record.nonce == flight.nonce;
        if (!mine)
          flight.stopped = Stopped::lost;
        else if (record.cancel_asked && flight.stopped == Stopped::no)
          flight.stopped = Stopped::cancelled;
        if (mine) flight.stored = std::move(**found[i]);
      }
      if (flight.stopped == Stopped::no && interrupted_) flight.stopped = Stopped::interrupted;
      if (flight.stopped == Stopped::no) {
        flight.busy = false;
      } else {
        stopping.push_back(&flight);
      }
    }
    idle_->notify_all();
  }
  stop_all(stopping);
}

}  // namespace once::engine
