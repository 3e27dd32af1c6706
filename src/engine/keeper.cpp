#include "engine/keeper.h"

#include <algorithm>
#include <mutex>

namespace once::engine {
namespace {

Duration elapsed(Moment from, Moment to) { return std::chrono::duration_cast<Duration>(to - from); }

}  // namespace

Keeper::Keeper(Scheduler& scheduler, Scribe& scribe, Duration grace)
    : scheduler_(scheduler),
      scribe_(scribe),
      grace_(grace),
      mutex_(scheduler.mutex()),
      wake_(mutex_->condition()),
      idle_(mutex_->condition()) {}

Keeper::~Keeper() {
  {
    std::lock_guard lock(*mutex_);
    ending_ = true;
    wake_->notify_all();
  }
  activity_.reset();
}

void Keeper::watch(Flight& flight) {
  std::lock_guard lock(*mutex_);
  flight.place = flights_.size();
  flights_.push_back(&flight);
  if (!activity_) activity_ = scheduler_.spawn([this] { run(); });
  if (due(flight) < wakes_at_) wake_->notify_all();
}

bool Keeper::start(Flight& flight) {
  std::lock_guard lock(*mutex_);
  if (interrupted_ && flight.stopped == Stopped::no) flight.stopped = Stopped::interrupted;
  if (flight.stopped != Stopped::no) return false;
  flight.started_at = scheduler_.now();
  if (due(flight) < wakes_at_) wake_->notify_all();
  return true;
}

std::size_t Keeper::held_at(core::StoreTime time) const {
  std::lock_guard lock(*mutex_);
  return static_cast<std::size_t>(
      std::count_if(flights_.begin(), flights_.end(), [&](const Flight* flight) {
        return flight->stopped == Stopped::no &&
               time < flight->stored.stamp + flight->stored.record.lease;
      }));
}

void Keeper::unwatch(std::span<Flight* const> flights) {
  std::lock_guard lock(*mutex_);
  for (Flight* flight : flights) {
    while (flight->busy) idle_->wait();
    if (flight->place == Flight::kNowhere) continue;  // done before
    flights_.back()->place = flight->place;
    flights_[flight->place] = flights_.back();
    flights_.pop_back();
    flight->place = Flight::kNowhere;
  }
}

void Keeper::interrupt() {
  std::unique_lock lock(*mutex_);
  interrupted_ = true;
  std::vector<Flight*> running;
  for (Flight* flight : flights_) {
    if (flight->stopped != Stopped::no || flight->busy) continue;
    flight->stopped = Stopped::interrupted;
    running.push_back(flight);
  }
  // One that is being renewed just now is stopped by the keeper afterwards.
  for (Flight* flight : running) flight->busy = true;
  lock.unlock();
  stop_all(running);
}

// The callbacks of a stop token are other people's code: they run without the mutex, and the flight
// stays where it is meanwhile because it is busy.
void Keeper::stop_all(const std::vector<Flight*>& flights) {
  if (flights.empty()) return;
  for (Flight* flight : flights) flight->stop.request_stop();
  std::lock_guard lock(*mutex_);
  for (Flight* flight : flights) flight->busy = false;
  idle_->notify_all();
  wake_->notify_all();
}

Moment Keeper::due(const Flight& flight) const {
  const core::Policy& policy = scribe_.policy();
  if (flight.busy || flight.stopped == Stopped::lost) return Moment::max();
  const Moment renewal = std::max<Moment>(flight.renewed_at + policy.lease / 3, not_before_);
  if (policy.timeout == Duration{0} || !flight.started_at || flight.stopped != Stopped::no)
    return renewal;
  return std::min<Moment>(renewal, *flight.started_at + policy.timeout);
}

void Keeper::run() {
  const core::Policy& policy = scribe_.policy();
  std::unique_lock lock(*mutex_);
  while (!ending_) {
    const Moment now = scheduler_.now();
    wakes_at_ = Moment::max();
    for (const Flight* flight : flights_) wakes_at_ = std::min(wakes_at_, due(*flight));
    if (wakes_at_ > now) {
      wake_->wait(wakes_at_ == Moment::max() ? std::nullopt : std::optional(wakes_at_));
      continue;
    }
    std::vector<Flight*> stopping;
    std::vector<Flight*> renewing;
    for (Flight* flight : flights_) {
      if (due(*flight) > now) continue;
      if (policy.timeout > Duration{0} && flight->started_at && flight->stopped == Stopped::no &&
          *flight->started_at + policy.timeout <= now) {
        flight->stopped = Stopped::timed_out;
        stopping.push_back(flight);
      } else {
        renewing.push_back(flight);
      }
      flight->busy = true;
    }
    lock.unlock();
    stop_all(stopping);
    renew(renewing);
    lock.lock();
  }
}

void Keeper::renew(const std::vector<Flight*>& flights) {
  if (flights.empty()) return;
  const Moment now = scheduler_.now();
  std::vector<Intent> intents;
  {
    std::lock_guard lock(*mutex_);
    for (const Flight* flight : flights)
      intents.push_back(
          {.at = flight->address,
           .known = flight->stored,
           .command = core::Renew{.nonce = flight->nonce,
                                  .spent = elapsed(flight->started_at.value_or(now), now),
                                  .grace = grace_},
           .handle = flight->handle});
  }
  auto written = scribe_.write(std::move(intents));
  std::vector<Flight*> stopping;
  {
    std::lock_guard lock(*mutex_);
    for (std::size_t i = 0; i < flights.size(); ++i) {
      Flight& flight = *flights[i];
      if (!written[i]) {  // the store is away: the handler runs on, the next renewal decides
        not_before_ = now + std::min<Duration>(scribe_.policy().lease / 9, Duration{1000});
      } else {
        if (written[i]->stored) flight.stored = std::move(*written[i]->stored);
        flight.renewed_at = now;
      }
      if (written[i] && written[i]->decision.verdict == core::Verdict::fenced) {
        flight.stopped = Stopped::lost;
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

}  // namespace once::engine
