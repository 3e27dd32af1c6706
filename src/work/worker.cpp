#include "work/worker.h"

#include <algorithm>
#include <mutex>
#include <system_error>

#include "codec/digest.h"
#include "json/json.h"

namespace once::engine {
namespace {

constexpr std::size_t kBatch = 512;
// One prepares what it records while the other's commit is under way.
constexpr std::size_t kSettlers = 2;
// How long a record waits for those of tasks that are about to start, to share their commit.
constexpr std::chrono::microseconds kGather{200};
// A handler that was told to stop is recorded before its lease goes by.
constexpr Duration kMargin = std::chrono::seconds{1};
constexpr Duration kEmptyLook{50};   // between two looks at whether all is settled
constexpr Duration kSlotLook{100};   // between two looks at whether a slot is free
constexpr Duration kStoreAway{250};  // between two tries while the store does not answer
constexpr Duration kFollow = std::chrono::seconds{1};   // how soon a changed definition is followed
constexpr Duration kGiveUp = std::chrono::seconds{10};  // of recording, when it is time to end

std::string quoted(std::string_view text) {
  std::string out;
  encoding::append_canonical_string(text, out);
  return out;
}

}  // namespace

std::string idempotency_key(const TaskAttempt& assignment, std::string_view step) {
  if (step.empty() && !assignment.run.empty())
    return std::string(assignment.run) + "." + std::string(assignment.step);
  return encoding::hex(encoding::sha256("[" + quoted(assignment.zone) + "," +
                                        quoted(assignment.queue) + "," + quoted(assignment.key) +
                                        "," + quoted(step) + "]"));
}

Result<std::unique_ptr<Worker>> Worker::make(store::Store& store, Scheduler& scheduler,
                                             WorkerSettings settings) {
  auto key = encoding::KeyTemplate::of(settings.queue);
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
      meter_(store, scheduler),
      scribe_(store, core::policy_of(settings_.queue), &meter_),
      keeper_(scheduler, scribe_, settings_.grace + std::max(kMargin, settings_.queue.lease / 3)),
      settler_(scheduler, scribe_, keeper_, meter_),
      intake_(store, scheduler, scribe_, meter_, std::move(key),
              {.queue = settings_.queue,
               .worker = settings_.name,
               .member = membership_->number(),
               .can_probe = static_cast<bool>(settings_.probe)}),
      alone_(settings_.concurrency == 1 && settings_.queue.window == 0),
      mutex_(scheduler.mutex()),
      work_(mutex_->condition()),
      done_(mutex_->condition()),
      space_(mutex_->condition()),
      queue_(settings_.queue) {}

Worker::~Worker() = default;

void Worker::interrupt() {
  interrupt_.request_stop();
  keeper_.interrupt();
}

WorkerMetrics Worker::metrics() const {
  WorkerMetrics metrics = meter_.read();
  metrics.queue = settings_.queue.name;
  metrics.worker = settings_.name;
  return metrics;
}

// --- Intake ---------------------------------------------------------------------------------

Result<bool> Worker::run_one() {
  {
    std::lock_guard lock(*mutex_);
    ending_ = true;  // recording is tried for a while, not for ever
    failure_.reset();
  }
  followed_at_ = {};
  follow_definition();
  while (!interrupt_.stop_requested()) {
    auto taken = next({.claims = 1, .handlers = 1}, Duration{0}, {});
    if (!taken) {
      if (slots_) slots_->keep(0);
      return taken.error();
    }
    if (!taken->delivered) break;
    if (taken->flights.empty()) continue;  // set aside: look for another one
    for (auto& flight : taken->flights) static_cast<void>(run_here(std::move(flight), {}));
    if (slots_) slots_->keep(0);
    std::lock_guard lock(*mutex_);
    if (failure_) return *failure_;
    return true;
  }
  if (slots_) slots_->keep(0);
  return false;
}

Result<void> Worker::run(Until until, std::stop_token stop) {
  Housekeeper housekeeper(store_, scheduler_, settings_.queue.name, settings_.name,
                          membership_->number(), settings_.duties);
  {
    std::lock_guard lock(*mutex_);
    ending_ = no_more_ = handlers_gone_ = taking_in_ = false;
    claiming_ = 0;
    failure_.reset();
    end_ = {};
  }
  const auto end = [this] {
    end_.request_stop();
    std::lock_guard lock(*mutex_);
    ending_ = true;
    space_->notify_all();
    done_->notify_all();
  };
  std::optional<std::stop_callback<decltype(end)>> on_stop(std::in_place, stop, end);
  std::optional<std::stop_callback<decltype(end)>> on_interrupt(std::in_place,
                                                                interrupt_.get_token(), end);
  std::vector<std::unique_ptr<Activity>> settlers;
  for (std::size_t i = 0; i < kSettlers && !alone_; ++i)
    settlers.push_back(scheduler_.spawn([this] { run_settler(); }));
  Result<void> taken_in = take_in(until, end_.get_token());
  std::size_t running = 0;
  {
    std::lock_guard lock(*mutex_);
    ending_ = no_more_ = true;
    // Claimed ahead and not begun: given back, not counted as an attempt.
    running = in_flight_ - ready_.size();
    for (auto& flight : ready_) reported_.push_back(std::move(flight));
    ready_.clear();
    work_->notify_all();
    done_->notify_all();
  }
  if (slots_) slots_->keep(running);
  handlers_.clear();
  {
    std::lock_guard lock(*mutex_);
    handlers_gone_ = true;
    done_->notify_all();
  }
  settlers.clear();
  if (slots_) slots_->keep(0);
  if (failure_) return *failure_;
  return taken_in;
}

Result<void> Worker::take_in(Until until, std::stop_token stop) {
  Result<Intake::IntakeResult> ahead = Intake::IntakeResult{};  // claimed with the last record
  while (true) {
    follow_definition();
    Room free{.claims = 1, .handlers = 1};
    if (!alone_) {
      free = wait_for_space(stop);
      if (free.claims == 0 && !stop.stop_requested()) continue;
    }
    Result<Intake::IntakeResult> taken = std::exchange(ahead, Intake::IntakeResult{});
    if (stop.stop_requested()) {
      if (taken) give_back(std::move(taken->flights));
      if (!alone_) hand_out({}, free);
      return {};
    }
    if (taken && taken->flights.empty())
      taken = next(free, until == Until::empty ? kEmptyLook : kFollow, stop);
    const bool flies = taken && !taken->flights.empty();
    if (!alone_) {
      hand_out(taken ? std::move(taken->flights) : Flights{}, free);
      std::lock_guard lock(*mutex_);
      taking_in_ = false;
    }
    if (!taken) {
      if (!taken.error().retryable) return taken.error();
      heard(taken.error());
      pause(kStoreAway, stop);
      continue;
    }
    heard({});
    if (!flies) {
      if (until != Until::empty || taken->delivered || stop.stop_requested()) continue;
      auto settled = all_settled();
      if (settled && *settled) return {};
      if (!settled && !settled.error().retryable) return settled.error();
      continue;
    }
    if (!alone_) continue;
    for (auto& flight : taken->flights) {
      const bool last = &flight == &taken->flights.back();
      ahead = run_here(std::move(flight), last ? std::optional(stop) : std::nullopt);
    }
  }
}

// Answers how many can be claimed now, and has them set aside; zero: look again.
Worker::Room Worker::wait_for_space(std::stop_token stop) {
  const Moment until = scheduler_.now() + kFollow;
  std::lock_guard lock(*mutex_);
  while (!stop.stop_requested()) {
    // What is being recorded now is free in a moment: better one large claim than many small ones. And
    // a turn that claims takes what there is.
    const Room free = room(0);
    const bool soon_more = recording_ > 0 && free.claims < settings_.concurrency / 2;
    if (free.claims > 0 && claiming_ == 0 && !soon_more) {
      taking_in_ = true;
      claiming_ += free.claims;
      return free;
    }
    if (scheduler_.now() >= until) break;
    space_->wait(until);
  }
  return {};
}

// With mutex_ held. No more is claimed and unsettled than there are handlers (and the window): that is
// what a killed worker leaves in doubt. `settling` are settled by the commit that claims.
Worker::Room Worker::room(std::size_t settling) const {
  const std::size_t most = settings_.concurrency + static_cast<std::size_t>(queue_.window);
  const std::size_t unsettled = in_flight_ + claiming_ - settling;
  const std::size_t unreported = in_flight_ + claiming_ - reported_.size() - recording_;
  if (unsettled >= most) return {};
  return {.claims = most - unsettled,
          .handlers = settings_.concurrency - std::min(settings_.concurrency, unreported)};
}

// What may be claimed in the commit of a record: nothing when slots must be held first.
std::optional<IntakeRequest> Worker::claims_on(Room free, std::stop_token stop) {
  if (free.claims == 0 || stop.stop_requested() || queue().max_running > 0 || !store_.turns())
    return std::nullopt;
  return IntakeRequest{
      .limit = std::min(free.claims, kBatch), .handlers = free.handlers, .stop = std::move(stop)};
}

// What was set aside for them is free again.
void Worker::hand_out(Flights flights, Room set_aside) {
  for (const auto& flight : flights) keeper_.watch(*flight);
  std::lock_guard lock(*mutex_);
  claiming_ -= set_aside.claims;
  in_flight_ += flights.size();
  for (auto& flight : flights) {
    if (no_more_)
      reported_.push_back(std::move(flight));  // nobody is left to run it: it is given back
    else
      ready_.push_back(std::move(flight));
  }
  wake_handler();
}

// Claimed and not begun.
void Worker::give_back(Flights flights) {
  if (flights.empty()) return;
  for (const auto& flight : flights) keeper_.watch(*flight);
  {
    std::lock_guard lock(*mutex_);
    in_flight_ += flights.size();
    recording_ += flights.size();
  }
  record(std::move(flights), {});
}

Result<Intake::IntakeResult> Worker::next(Room free, Duration wait, std::stop_token stop) {
  std::size_t busy = 0;
  {
    std::lock_guard lock(*mutex_);
    busy = in_flight_;
  }
  IntakeRequest request{.wait = wait, .stop = stop};
  const auto most = static_cast<std::size_t>(queue().max_running);
  if (most == 0) slots_.reset();
  if (most > 0 && !slots_)
    slots_ = std::make_unique<Slots>(store_, scheduler_, settings_.queue, settings_.name,
                                     membership_->number());
  if (slots_) {
    slots_->set_count(most, busy);
    auto held = slots_->hold(std::min(busy + free.claims, settings_.concurrency));
    if (!held) return held.error();
    free.claims = *held > busy ? std::min(free.claims, *held - busy) : 0;
    if (free.claims == 0) {
      if (wait > Duration{0}) pause(std::min(wait, kSlotLook), stop);
      return Intake::IntakeResult{};
    }
    // A pause may have let a slot go by since it was looked at.
    request.allowed = [this, busy](std::size_t claimed, core::StoreTime now) {
      return busy + claimed < slots_->held_at(now);
    };
  }
  request.limit = std::min(free.claims, kBatch);
  request.handlers = free.handlers;
  return intake_.fetch(std::move(request));
}

// Later retries, scheduled tasks and what other workers run are waited for; held ones are not.
Result<bool> Worker::all_settled() {
  {
    std::lock_guard lock(*mutex_);
    if (in_flight_ > 0) return false;
  }
  return store_.all_settled(settings_.queue.name);
}

Queue Worker::queue() {
  std::lock_guard lock(*mutex_);
  return queue_;
}

bool Worker::ending() {
  std::lock_guard lock(*mutex_);
  return ending_;
}

// A queue that is gone is the next fetch's to tell.
void Worker::follow_definition() {
  const Moment now = scheduler_.now();
  if (followed_at_ != Moment{} && now < followed_at_ + kFollow) return;
  followed_at_ = now;
  auto queues = store_.queues();
  if (!queues) return;
  for (Queue& definition : *queues) {
    if (definition.name != settings_.queue.name) continue;
    scribe_.set_policy(core::policy_of(definition));
    std::lock_guard lock(*mutex_);
    queue_ = std::move(definition);
    return;
  }
}

void Worker::pause(Duration how_long, std::stop_token stop) {
  const Moment until = scheduler_.now() + how_long;
  std::lock_guard lock(*mutex_);
  while (!stop.stop_requested() && scheduler_.now() < until) space_->wait(until);
}

void Worker::heard(const std::optional<Error>& trouble) {
  if (!trouble) meter_.answered();
  {
    std::lock_guard lock(*mutex_);
    if (store_away_ == trouble.has_value()) return;
    store_away_ = trouble.has_value();
  }
  if (settings_.on_store) settings_.on_store(trouble);
}

void Worker::fail(Error why) {
  if (!failure_) failure_ = std::move(why);
  ending_ = true;
  // The callbacks of this token belong to the store's wait and to nothing that takes mutex_.
  end_.request_stop();
  space_->notify_all();
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
    try {
      handlers_.push_back(scheduler_.spawn([this] { run_handlers(); }));
      waking_ = true;
    } catch (const std::system_error& refused) {
      // Those that there are go on; without any, what was claimed is given back.
      if (handlers_.empty())
        fail({.code = Code::failed,
              .message = std::string("no thread could be started: ") + refused.what()});
    }
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
    std::unique_ptr<RunningTask> flight = std::move(ready_.front());
    ready_.pop_front();
    wake_handler();
    lock.unlock();
    call(*flight);
    lock.lock();
    if (flight->report && flight->report->never_started) fail(*flight->report->never_started);
    reported_.push_back(std::move(flight));
    if (reported_.size() == second_batch())
      done_->notify_all();
    else if (reported_.size() == 1 || ready_.empty())
      done_->notify_one();
  }
}

// One at a time needs no other thread: two hand-overs less per task.
Result<Intake::IntakeResult> Worker::run_here(std::unique_ptr<RunningTask> flight,
                                              std::optional<std::stop_token> unless) {
  keeper_.watch(*flight);
  call(*flight);
  {
    std::lock_guard lock(*mutex_);
    ++in_flight_;
    ++recording_;
    if (flight->report && flight->report->never_started) fail(*flight->report->never_started);
  }
  Flights one;
  one.push_back(std::move(flight));
  std::optional<IntakeRequest> claims;
  if (unless) {
    follow_definition();  // it may have run for hours
    claims = claims_on({.claims = 1, .handlers = 1}, std::move(*unless));
  }
  Result<Intake::IntakeResult> taken = Intake::IntakeResult{};
  record(std::move(one), [&](std::span<const store::Swap> swaps) {
    if (!claims) return store_.swap(swaps);
    auto turned = intake_.turn(swaps, std::move(*claims));
    taken = std::move(turned.taken);
    return std::move(turned.swapped);
  });
  return taken;
}

// Leaves no report when the handler may not begin any more.
void Worker::call(RunningTask& flight) {
  if (!keeper_.start(flight)) return;
  const WorkerCounters::Running running = meter_.started(flight);
  TaskAttempt assignment{.task = flight.task,
                         .sequence = flight.sequence,
                         .digest = flight.digest,
                         .published_at = flight.published_at,
                         .zone = zone_,
                         .queue = settings_.queue.name,
                         .key = flight.address.key,
                         .token = flight.token,
                         .attempt = flight.attempt,
                         .in_doubt = flight.in_doubt,
                         .lease = flight.claimed_for,
                         .inheritable_fd = membership_->inheritable_fd(),
                         .stop = flight.stop.get_token(),
                         .run = flight.run,
                         .step = flight.step};
  assignment.max_result = keeper_.policy(flight).max_result;
  if (const Duration timeout = keeper_.timeout(flight); timeout > Duration{0})
    assignment.deadline = store_.wall() + timeout;
  if (flight.probing && !ask_probe(flight, assignment)) return;
  RunningSteps steps(keeper_, scheduler_, flight, settings_.name, [this] { return ending(); });
  assignment.steps = &steps;
  flight.report = report_of(settings_.handler, assignment);
}

Report Worker::report_of(const Handler& handler, const TaskAttempt& assignment) {
  try {
    return handler(assignment);
  } catch (const AttemptOver& over) {
    // What became of the attempt is known where it ended; this is the last word on any other.
    return {.outcome = Outcome::unknown(over.why)};
  } catch (const std::exception& thrown) {
    return {.outcome = Outcome::failed(thrown.what())};
  } catch (...) {
    return {.outcome = Outcome::failed("the handler threw something that is no std::exception")};
  }
}

bool Worker::ask_probe(RunningTask& flight, const TaskAttempt& assignment) {
  Report report = report_of(settings_.probe, assignment);
  const Outcome& outcome = report.outcome;
  const bool known = outcome.kind() == Outcome::Kind::failed && !report.never_started;
  const bool happened = outcome.kind() == Outcome::Kind::completed;
  // Who was told to stop while it asked has no answer; the next one asks again.
  if (happened || keeper_.stopped(flight) != Stopped::no) {
    flight.probed = happened;
    flight.report = std::move(report);
    if (!happened) flight.report->outcome = Outcome::unknown("stopped while it asked the probe");
    return false;
  }
  RunningSteps steps(keeper_, scheduler_, flight, settings_.name, [this] { return ending(); });
  const Result<Written> written = steps.insist(core::Probed{.nonce = flight.nonce,
                                                            .known = known,
                                                            .by = settings_.name,
                                                            .why = outcome.why(),
                                                            .log = report.log});
  if (written && keeper_.may_run(flight)) return true;
  // Settled, lost, or without a verdict because it could not be recorded.
  flight.report = {.outcome = Outcome::unknown(outcome.why()), .log = report.log};
  return false;
}

// --- Settle ---------------------------------------------------------------------------------

void Worker::run_settler() {
  std::unique_lock lock(*mutex_);
  while (true) {
    while (!worth_recording() && !(handlers_gone_ && reported_.empty())) done_->wait();
    if (reported_.empty()) return;
    const Moment gathered = scheduler_.now() + kGather;
    while (!ready_.empty() && !ending_ && scheduler_.now() < gathered) done_->wait(gathered);
    if (reported_.empty()) continue;  // the other one was faster
    Flights flights = std::exchange(reported_, {});
    recording_ += flights.size();
    // In the same commit what is free now is claimed, unless the intake is at that.
    Room free = taking_in_ || ending_ ? Room{} : room(flights.size());
    claiming_ += free.claims;
    lock.unlock();
    auto request = claims_on(free, end_.get_token());
    const auto end_turn = [&](Flights claimed) {
      hand_out(std::move(claimed), std::exchange(free, Room{}));
    };
    if (!request) end_turn({});
    record(std::move(flights), [&](std::span<const store::Swap> swaps) {
      if (!request) return store_.swap(swaps);
      auto turned = intake_.turn(swaps, std::move(*request));
      end_turn(turned.taken ? std::move(turned.taken->flights) : Flights{});
      return std::move(turned.swapped);
    });
    end_turn({});
    lock.lock();
    space_->notify_all();
  }
}

// Beside a commit that is under way only many are worth another one.
bool Worker::worth_recording() const {
  if (reported_.empty()) return false;
  return recording_ == 0 || reported_.size() >= second_batch() || handlers_gone_;
}

std::size_t Worker::second_batch() const {
  return std::max<std::size_t>(1, settings_.concurrency / 4);
}

// Returns when all are recorded, or when it is hopeless: then they are in doubt, and whoever
// reclaims them says so. `first` makes the first try.
void Worker::record(Flights flights, const Swapper& first) {
  const Moment began = scheduler_.now();
  bool tried = false;
  while (true) {
    const std::size_t count = flights.size();
    Settler::Settled settled =
        settler_.settle(std::move(flights), std::exchange(tried, true) ? Swapper{} : first);
    flights = std::move(settled.unwritten);
    heard(settled.error);
    if (settings_.on_fenced)
      for (const std::string& id : settled.fenced) settings_.on_fenced(id);
    std::lock_guard lock(*mutex_);
    in_flight_ -= count - flights.size();
    recording_ -= count - flights.size();
    space_->notify_all();
    done_->notify_all();
    if (flights.empty()) return;
    const bool hopeless = settled.error->code == Code::not_found;  // the queue is gone
    const bool late = scheduler_.now() >= began + kGiveUp;
    if (hopeless || (late && (ending_ || !settled.error->retryable))) {
      in_flight_ -= flights.size();
      recording_ -= flights.size();
      Error error = *settled.error;
      error.message = std::to_string(flights.size()) +
                      " task(s) could not be recorded and count as in doubt: " + error.message;
      error.in_doubt = true;
      fail(std::move(error));
      return;
    }
    // Others who record, and handlers, ring as well.
    const Moment again = scheduler_.now() + kStoreAway;
    while (scheduler_.now() < again) done_->wait(again);
  }
}

}  // namespace once::engine
