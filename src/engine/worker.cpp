#include "engine/worker.h"

#include <algorithm>
#include <mutex>

#include "encoding/digest.h"
#include "encoding/json.h"

namespace once::engine {
namespace {

constexpr std::size_t kBatch = 512;
constexpr Duration kIdleWait = std::chrono::seconds{30};  // of one fetch; it ends early by itself
constexpr Duration kEmptyLook{50};   // between two looks at whether all is settled
constexpr Duration kSlotLook{100};   // between two looks at whether a slot is free
constexpr Duration kStoreAway{250};  // between two tries while the store does not answer
constexpr Duration kGiveUp = std::chrono::seconds{10};  // of recording, when it is time to end

std::string quoted(std::string_view text) {
  std::string out;
  encoding::append_canonical_string(text, out);
  return out;
}

}  // namespace

std::string idempotency_key(const Assignment& assignment, std::string_view step) {
  return encoding::hex(encoding::sha256("[" + quoted(assignment.zone) + "," +
                                        quoted(assignment.queue) + "," + quoted(assignment.key) +
                                        "," + quoted(step) + "]"));
}

Result<std::unique_ptr<Worker>> Worker::make(store::Store& store, Scheduler& scheduler,
                                             WorkerSettings settings) {
  auto key = encoding::KeyTemplate::parse(settings.queue.key);
  if (!key) return key.error();
  auto membership = store.join(settings.queue.name, settings.name);
  if (!membership) return membership.error();
  return std::unique_ptr<Worker>(
      new Worker(store, scheduler, std::move(settings), std::move(*key), std::move(*membership)));
}

Worker::Worker(store::Store& store, Scheduler& scheduler, WorkerSettings settings,
               encoding::KeyTemplate key, std::unique_ptr<store::Membership> membership)
    : store_(store),
      scheduler_(scheduler),
      settings_(std::move(settings)),
      zone_(store.uuid()),
      membership_(std::move(membership)),
      scribe_(store, core::policy_of(settings_.queue)),
      keeper_(scheduler, scribe_, settings_.grace),
      settler_(scheduler, scribe_, keeper_),
      intake_(
          store, scheduler, scribe_, std::move(key),
          {.queue = settings_.queue, .worker = settings_.name, .member = membership_->number()}),
      mutex_(scheduler.mutex()),
      work_(mutex_->condition()),
      done_(mutex_->condition()),
      space_(mutex_->condition()) {
  if (settings_.queue.max_running > 0)
    slots_ = std::make_unique<Slots>(store, scheduler, settings_.queue, settings_.name,
                                     membership_->number());
}

Worker::~Worker() = default;

void Worker::interrupt() {
  interrupted_ = true;
  interrupt_.request_stop();
  keeper_.interrupt();
}

// --- Intake ---------------------------------------------------------------------------------

Result<bool> Worker::run_one() {
  auto flights = next(1, Duration{0}, {});
  if (!flights) return flights.error();
  if (flights->empty()) return false;
  Report& report = (*flights)[0]->report.emplace(call(*(*flights)[0]));
  const std::optional<Error> never_started = report.never_started;
  const Settler::Settled settled = settler_.settle(std::move(*flights));
  if (settled.error) return *settled.error;
  if (never_started) return *never_started;
  return true;
}

Result<void> Worker::run(Until until, std::stop_token stop) {
  Housekeeper housekeeper(store_, scheduler_, settings_.queue.name, settings_.name,
                          membership_->number());
  // Both kinds of stop end the waits below.
  std::stop_source ending;
  const auto end = [&] {
    ending.request_stop();
    std::lock_guard lock(*mutex_);
    space_->notify_all();
  };
  std::stop_callback on_stop(stop, end);
  std::stop_callback on_interrupt(interrupt_.get_token(), end);

  {
    std::lock_guard lock(*mutex_);
    no_more_ = handlers_gone_ = false;
    failure_.reset();
  }
  std::unique_ptr<Activity> settling;
  if (!alone()) settling = scheduler_.spawn([this] { run_settler(); });
  Result<void> taken_in = take_in(until, ending.get_token());
  {
    std::lock_guard lock(*mutex_);
    no_more_ = true;
    // Claimed ahead and not begun: given back, not counted as an attempt.
    for (auto& flight : ready_) reported_.push_back(std::move(flight));
    ready_.clear();
    work_->notify_all();
    done_->notify_all();
  }
  handlers_.clear();
  {
    std::lock_guard lock(*mutex_);
    handlers_gone_ = true;
    done_->notify_all();
  }
  settling.reset();
  if (slots_) slots_->release();
  if (failure_) return *failure_;
  return taken_in;
}

Result<void> Worker::take_in(Until until, std::stop_token stop) {
  const std::size_t room = settings_.concurrency + static_cast<std::size_t>(settings_.queue.window);
  while (true) {
    std::size_t free = 0;
    {
      std::unique_lock lock(*mutex_);
      while (in_flight_ >= room && !stop.stop_requested() && !failure_) space_->wait();
      if (stop.stop_requested() || failure_) return {};
      free = room - in_flight_;
    }
    const Duration wait = until == Until::empty ? kEmptyLook : kIdleWait;
    auto flights = next(free, wait, stop);
    if (!flights) {
      if (!flights.error().retryable) return flights.error();
      pause(kStoreAway, stop);
      continue;
    }
    if (flights->empty()) {
      if (until != Until::empty || stop.stop_requested()) continue;
      auto settled = all_settled();
      if (settled && *settled) return {};
      if (!settled && !settled.error().retryable) return settled.error();
      continue;
    }
    if (alone()) {
      run_here(std::move(*flights));
      continue;
    }
    std::lock_guard lock(*mutex_);
    in_flight_ += flights->size();
    for (auto& flight : *flights) ready_.push_back(std::move(flight));
    wake_handler();
  }
}

Result<Flights> Worker::next(std::size_t free, Duration wait, std::stop_token stop) {
  std::size_t busy = 0;
  {
    std::lock_guard lock(*mutex_);
    busy = in_flight_;
  }
  if (slots_) {
    auto held = slots_->hold(std::min(busy + free, settings_.concurrency));
    if (!held) return held.error();
    free = *held > busy ? std::min(free, *held - busy) : 0;
    if (free == 0) {
      if (wait > Duration{0}) pause(std::min(wait, kSlotLook), stop);
      return Flights{};
    }
  }
  const std::size_t handlers =
      settings_.concurrency > busy ? settings_.concurrency - busy : std::size_t{0};
  return intake_.fetch(std::min(free, kBatch), handlers, wait, stop);
}

// Later retries, scheduled tasks and what other workers run are waited for; held ones are not.
Result<bool> Worker::all_settled() {
  {
    std::lock_guard lock(*mutex_);
    if (in_flight_ > 0) return false;
  }
  auto counts = store_.counts(settings_.queue.name);
  if (!counts) return counts.error();
  return std::all_of(counts->tasks.begin(), counts->tasks.end(), [](const auto& state) {
    return core::settled(state.first) || state.second == 0;
  });
}

void Worker::pause(Duration how_long, std::stop_token stop) {
  const Moment until = scheduler_.now() + how_long;
  std::lock_guard lock(*mutex_);
  while (!stop.stop_requested() && !failure_ && scheduler_.now() < until) space_->wait(until);
}

// --- Run ------------------------------------------------------------------------------------

// One handler is woken at a time, and wakes the next one when there is more to do: short handlers
// are all run by the few threads that are awake, and long ones get a thread each at once.
void Worker::wake_handler() {
  if (ready_.empty() || waking_) return;
  if (idle_handlers_ > 0) {
    waking_ = true;
    work_->notify_one();
  } else if (handlers_.size() < settings_.concurrency) {
    waking_ = true;
    handlers_.push_back(scheduler_.spawn([this] { run_handlers(); }));
  }
}

void Worker::run_handlers() {
  std::unique_lock lock(*mutex_);
  waking_ = false;
  while (true) {
    while (ready_.empty() && !no_more_) {
      ++idle_handlers_;
      work_->wait();
      --idle_handlers_;
      waking_ = false;
    }
    if (ready_.empty()) return;
    std::unique_ptr<Flight> flight = std::move(ready_.front());
    ready_.pop_front();
    wake_handler();
    lock.unlock();
    flight->report = call(*flight);
    lock.lock();
    if (flight->report->never_started && !failure_) {
      failure_ = flight->report->never_started;
      space_->notify_all();
    }
    reported_.push_back(std::move(flight));
    if (reported_.size() == 1) done_->notify_one();
  }
}

// One at a time needs no other thread: two hand-overs less per task.
void Worker::run_here(Flights flights) {
  Flight& flight = *flights[0];
  flight.report = call(flight);
  {
    std::lock_guard lock(*mutex_);
    ++in_flight_;
    if (flight.report->never_started) failure_ = flight.report->never_started;
  }
  record(std::move(flights));
}

Report Worker::call(Flight& flight) {
  keeper_.watch(flight);
  Assignment assignment{.task = flight.task,
                        .sequence = flight.sequence,
                        .digest = flight.digest,
                        .published_at = flight.published_at,
                        .zone = zone_,
                        .queue = settings_.queue.name,
                        .key = flight.address.key,
                        .token = flight.token,
                        .attempt = flight.attempt,
                        .in_doubt = flight.in_doubt,
                        .lease = settings_.queue.lease,
                        .inheritable_fd = membership_->inheritable_fd(),
                        .stop = flight.stop.get_token()};
  if (settings_.queue.timeout > Duration{0})
    assignment.deadline = store_.wall() + settings_.queue.timeout;
  try {
    return settings_.handler(assignment);
  } catch (const std::exception& thrown) {
    return {.outcome = Outcome::failed(thrown.what())};
  } catch (...) {
    return {.outcome = Outcome::failed("the handler threw something that is no std::exception")};
  }
}

// --- Settle ---------------------------------------------------------------------------------

void Worker::run_settler() {
  std::unique_lock lock(*mutex_);
  while (true) {
    while (reported_.empty() && !handlers_gone_) done_->wait();
    if (reported_.empty()) return;
    Flights flights = std::exchange(reported_, {});
    lock.unlock();
    record(std::move(flights));
    lock.lock();
  }
}

// Returns when all are recorded, or when it is hopeless: then they are in doubt, and whoever
// reclaims them says so.
void Worker::record(Flights flights) {
  const Moment began = scheduler_.now();
  while (true) {
    const std::size_t count = flights.size();
    Settler::Settled settled = settler_.settle(std::move(flights));
    flights = std::move(settled.unwritten);
    std::lock_guard lock(*mutex_);
    in_flight_ -= count - flights.size();
    space_->notify_all();
    if (flights.empty()) return;
    const bool wanted = !no_more_ && !interrupted_ && settled.error->retryable;
    if (!wanted && scheduler_.now() >= began + kGiveUp) {
      in_flight_ -= flights.size();
      failure_ = settled.error;
      failure_->message =
          std::to_string(flights.size()) +
          " task(s) ran and could not be recorded; they count as in doubt: " + failure_->message;
      return;
    }
    done_->wait(scheduler_.now() + kStoreAway);
  }
}

}  // namespace once::engine
