#include "work/worker.h"

#include <algorithm>
#include <mutex>
#include <system_error>

#include "codec/digest.h"
#include "json/json_string.h"

namespace once::engine {
namespace {

constexpr std::size_t kBatch = 512;
// One settler prepares its batch while the other's commit is in progress.
constexpr std::size_t kSettlers = 2;
// The same holds for threads that handle batches.
constexpr std::size_t kBatchThreads = 2;
// How long a record waits for tasks that are about to start, so that they share one commit.
constexpr std::chrono::microseconds kGather{200};
// A handler that was told to stop keeps its lease this much longer, so that it can be recorded.
constexpr Duration kMargin = std::chrono::seconds{1};
constexpr Duration kEmptyLook{50};   // between two looks at whether all is settled
constexpr Duration kSlotLook{100};   // between two looks at whether a slot is free
constexpr Duration kStoreAway{250};  // between two tries while the store does not answer
constexpr Duration kFollow = std::chrono::seconds{1};        // between two reads of the definition
constexpr Duration kGiveUpAfter = std::chrono::seconds{10};  // of recording, at the end

}  // namespace

std::string idempotency_key(const TaskAttempt& task_attempt, std::string_view step) {
  if (step.empty() && !task_attempt.run.empty())
    return std::string(task_attempt.run) + "." + std::string(task_attempt.step);
  return core::hex(encoding::sha256("[" + encoding::json_string(task_attempt.zone) + "," +
                                    encoding::json_string(task_attempt.queue) + "," +
                                    encoding::json_string(task_attempt.key) + "," +
                                    encoding::json_string(step) + "]"));
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
      counters_(store, scheduler),
      writer_(store, core::policy_of(settings_.queue), &counters_),
      keeper_(scheduler, writer_, settings_.grace + std::max(kMargin, settings_.queue.lease / 3)),
      intake_(store, scheduler, writer_, counters_, std::move(key),
              {.queue = settings_.queue,
               .worker = settings_.name,
               .member = membership_->number(),
               .can_probe = static_cast<bool>(settings_.probe)}),
      committer_(scheduler, writer_, keeper_, intake_, counters_),
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
  WorkerMetrics metrics = counters_.read();
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
    if (taken->tasks.empty()) continue;  // the task was not claimed: look for another one
    for (auto& running : taken->tasks) static_cast<void>(run_here(std::move(running), {}));
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
  std::size_t begun = 0;
  {
    std::lock_guard lock(*mutex_);
    ending_ = no_more_ = true;
    // Tasks that were claimed ahead and have not started are given back. They count no attempt.
    begun = in_flight_ - ready_.size();
    for (auto& running : ready_) reported_.push_back(std::move(running));
    ready_.clear();
    work_->notify_all();
    done_->notify_all();
  }
  if (slots_) slots_->keep(begun);
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
      if (taken) give_back(std::move(taken->tasks));
      if (!alone_) hand_out({}, free);
      return {};
    }
    if (taken && taken->tasks.empty())
      taken = next(free, until == Until::empty ? kEmptyLook : kFollow, stop);
    const bool any_claimed = taken && !taken->tasks.empty();
    if (!alone_) {
      hand_out(taken ? std::move(taken->tasks) : RunningTasks{}, free);
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
    if (!any_claimed) {
      if (until != Until::empty || taken->delivered || stop.stop_requested()) continue;
      auto settled = all_settled();
      if (settled && *settled) return {};
      if (!settled && !settled.error().retryable) return settled.error();
      continue;
    }
    if (!alone_) continue;
    for (auto& running : taken->tasks) {
      const bool last = &running == &taken->tasks.back();
      ahead = run_here(std::move(running), last ? std::optional(stop) : std::nullopt);
    }
  }
}

// Returns how many tasks can be claimed now, and reserves their places in claiming_. If the result
// is zero, the caller calls again.
Worker::Room Worker::wait_for_space(std::stop_token stop) {
  const Moment until = scheduler_.now() + kFollow;
  std::lock_guard lock(*mutex_);
  while (!stop.stop_requested()) {
    // Places of tasks that are being recorded are free in a moment. One large claim is better than
    // many small ones. A settler's commit that claims uses all free places.
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

// Call it with mutex_ held. Claimed and unsettled tasks never exceed the concurrency plus the
// window, because a killed worker leaves them in doubt. The commit that claims settles `settling`
// of them.
Worker::Room Worker::room(std::size_t settling) const {
  const std::size_t most = settings_.concurrency + static_cast<std::size_t>(queue_.window);
  const std::size_t unsettled = in_flight_ + claiming_ - settling;
  const std::size_t unreported = in_flight_ + claiming_ - reported_.size() - recording_;
  if (unsettled >= most) return {};
  return {.claims = most - unsettled,
          .handlers = settings_.concurrency - std::min(settings_.concurrency, unreported)};
}

// The request for claims in the commit of a record. nullopt if no place is free, after a stop, or
// if the queue has max_running, because then the worker must hold slots first.
std::optional<IntakeRequest> Worker::claims_on(Room free, std::stop_token stop) {
  if (free.claims == 0 || stop.stop_requested() || queue().max_running > 0) return std::nullopt;
  return IntakeRequest{
      .limit = std::min(free.claims, kBatch), .handlers = free.handlers, .stop = std::move(stop)};
}

// Makes the tasks ready, and frees the places that were reserved for them in claiming_.
void Worker::hand_out(RunningTasks tasks, Room reserved) {
  for (const auto& running : tasks) keeper_.watch(*running);
  std::lock_guard lock(*mutex_);
  claiming_ -= reserved.claims;
  in_flight_ += tasks.size();
  for (auto& running : tasks) {
    if (no_more_)
      reported_.push_back(std::move(running));  // the handlers have ended: it is given back
    else
      ready_.push_back(std::move(running));
  }
  wake_handler();
}

// Records that these tasks were claimed and never started.
void Worker::give_back(RunningTasks tasks) {
  if (tasks.empty()) return;
  for (const auto& running : tasks) keeper_.watch(*running);
  {
    std::lock_guard lock(*mutex_);
    in_flight_ += tasks.size();
    recording_ += tasks.size();
  }
  const Moment began = scheduler_.now();
  const std::size_t count = tasks.size();
  finish(committer_.commit(std::move(tasks), std::nullopt), count, began);
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
    // The lease of a slot may have expired since hold(), for example if the process was suspended.
    request.allowed = [this, busy](std::size_t claimed, core::StoreTime now) {
      return busy + claimed < slots_->held_at(now);
    };
  }
  request.limit = std::min(free.claims, kBatch);
  request.handlers = free.handlers;
  return std::move(committer_.commit({}, std::move(request)).claimed);
}

// Not true before retries, scheduled tasks and the tasks of other workers are settled. A task that
// is held in doubt is settled.
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

// If the queue was removed, the next fetch returns that error.
void Worker::follow_definition() {
  const Moment now = scheduler_.now();
  if (followed_at_ != Moment{} && now < followed_at_ + kFollow) return;
  followed_at_ = now;
  auto queues = store_.queues();
  if (!queues) return;
  for (Queue& definition : *queues) {
    if (definition.name != settings_.queue.name) continue;
    writer_.set_policy(core::policy_of(definition));
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
  if (!trouble) counters_.answered();
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

// Wakes one handler thread. That thread wakes the next one if more tasks are ready. So the few
// threads that are awake run all short tasks, and each long task gets a thread of its own.
void Worker::wake_handler() {
  if (ready_.empty() || waking_) return;
  if (idle_handlers_ > 0) {
    waking_ = true;
    work_->notify_one();
  } else if (handlers_.size() < most_threads()) {
    try {
      handlers_.push_back(scheduler_.spawn([this] { run_handlers(); }));
      waking_ = true;
    } catch (const std::system_error& refused) {
      // The existing handler threads continue. Without any, the worker fails.
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
    RunningTasks tasks = take_ready();
    wake_handler();
    lock.unlock();
    if (settings_.batch_handler)
      call_batch(tasks);
    else
      call(*tasks.front());
    lock.lock();
    const std::size_t before = reported_.size();
    for (auto& running : tasks) {
      if (running->report && running->report->never_started) fail(*running->report->never_started);
      reported_.push_back(std::move(running));
    }
    if (before < second_batch() && reported_.size() >= second_batch())
      done_->notify_all();
    else if (before == 0 || ready_.empty())
      done_->notify_one();
  }
}

std::size_t Worker::most_threads() const {
  return settings_.batch_handler ? std::min(kBatchThreads, settings_.concurrency)
                                 : settings_.concurrency;
}

RunningTasks Worker::take_ready() {
  RunningTasks tasks;
  const std::size_t most = settings_.batch_handler ? settings_.concurrency : 1;
  while (!ready_.empty() && tasks.size() < most) {
    tasks.push_back(std::move(ready_.front()));
    ready_.pop_front();
  }
  return tasks;
}

// With a concurrency of one and no window, all stages run on the caller's thread. This saves two
// thread switches per task.
Result<Intake::IntakeResult> Worker::run_here(std::unique_ptr<RunningTask> running,
                                              std::optional<std::stop_token> unless) {
  keeper_.watch(*running);
  if (settings_.batch_handler)
    call_batch(std::span(&running, 1));
  else
    call(*running);
  {
    std::lock_guard lock(*mutex_);
    ++in_flight_;
    ++recording_;
    if (running->report && running->report->never_started) fail(*running->report->never_started);
  }
  RunningTasks one;
  one.push_back(std::move(running));
  std::optional<IntakeRequest> claims;
  if (unless) {
    follow_definition();  // it may have run for hours
    claims = claims_on({.claims = 1, .handlers = 1}, std::move(*unless));
  }
  const Moment began = scheduler_.now();
  auto commit = committer_.commit(std::move(one), std::move(claims));
  auto claimed = std::move(commit.claimed);
  finish(std::move(commit), 1, began);
  return claimed;
}

TaskAttempt Worker::attempt_of(RunningTask& running) const {
  TaskAttempt task_attempt{.task = running.task,
                           .sequence = running.sequence,
                           .digest = running.digest,
                           .published_at = running.published_at,
                           .zone = zone_,
                           .queue = settings_.queue.name,
                           .key = running.address.key,
                           .token = running.token,
                           .attempt = running.attempt,
                           .in_doubt = running.in_doubt,
                           .lease = running.claimed_for,
                           .inheritable_fd = membership_->inheritable_fd(),
                           .stop = running.stop.get_token(),
                           .run = running.run,
                           .step = running.step};
  task_attempt.max_result = keeper_.policy(running).max_result;
  if (const Duration timeout = keeper_.timeout(running); timeout > Duration{0})
    task_attempt.deadline = store_.wall() + timeout;
  return task_attempt;
}

// Runs the batch handler. Leaves no report for a task that must not start any more.
void Worker::call_batch(std::span<std::unique_ptr<RunningTask>> tasks) {
  std::vector<RunningTask*> started;
  std::vector<std::unique_ptr<WorkerCounters::Running>> counted;
  std::vector<TaskAttempt> attempts;
  attempts.reserve(tasks.size());
  for (const auto& running : tasks) {
    if (!keeper_.start(*running)) continue;
    started.push_back(running.get());
    counted.emplace_back(new WorkerCounters::Running(counters_.started(*running)));
    attempts.push_back(attempt_of(*running));
  }
  if (attempts.empty()) return;
  try {
    std::vector<Report> reports = settings_.batch_handler(attempts);
    for (std::size_t i = 0; i < started.size(); ++i) started[i]->report = std::move(reports[i]);
  } catch (const std::exception& thrown) {
    for (RunningTask* const running : started)
      running->report = {.outcome = Outcome::failed(thrown.what())};
  }
}

// Runs the handler. Leaves no report if the handler must not start any more.
void Worker::call(RunningTask& running) {
  if (!keeper_.start(running)) return;
  const WorkerCounters::Running counted = counters_.started(running);
  TaskAttempt task_attempt = attempt_of(running);
  if (running.probing && !ask_probe(running, task_attempt)) return;
  RunningSteps steps(keeper_, scheduler_, running, settings_.name, [this] { return ending(); });
  task_attempt.steps = &steps;
  running.report = report_of(settings_.handler, task_attempt);
}

Report Worker::report_of(const Handler& handler, const TaskAttempt& task_attempt) {
  try {
    return handler(task_attempt);
  } catch (const AttemptOver& over) {
    // If the attempt was fenced or settled, its record says so already. Otherwise it is in doubt.
    return {.outcome = Outcome::unknown(over.why)};
  } catch (const std::exception& thrown) {
    return {.outcome = Outcome::failed(thrown.what())};
  } catch (...) {
    return {.outcome = Outcome::failed("the handler threw something that is no std::exception")};
  }
}

bool Worker::ask_probe(RunningTask& running, const TaskAttempt& task_attempt) {
  Report report = report_of(settings_.probe, task_attempt);
  const Outcome& outcome = report.outcome;
  const bool known = outcome.kind() == Outcome::Kind::failed && !report.never_started;
  const bool happened = outcome.kind() == Outcome::Kind::completed;
  // If the probe was told to stop, it has no answer. The next attempt asks again.
  if (happened || keeper_.stopped(running) != Stopped::no) {
    running.probed = happened;
    running.report = std::move(report);
    if (!happened) running.report->outcome = Outcome::unknown("stopped while it asked the probe");
    return false;
  }
  RunningSteps steps(keeper_, scheduler_, running, settings_.name, [this] { return ending(); });
  const Result<WriteResult> written = steps.insist(core::Probed{.nonce = running.nonce,
                                                                .known = known,
                                                                .by = settings_.name,
                                                                .why = outcome.why(),
                                                                .log = report.log});
  if (written && keeper_.may_run(running)) return true;
  // Settled, lost, or without a verdict because it could not be recorded.
  running.report = {.outcome = Outcome::unknown(outcome.why()), .log = report.log};
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
    if (reported_.empty()) continue;  // the other settler was faster
    RunningTasks tasks = std::exchange(reported_, {});
    recording_ += tasks.size();
    // The same commit claims tasks for all free places, unless the intake is fetching.
    Room free = taking_in_ || ending_ ? Room{} : room(tasks.size());
    claiming_ += free.claims;
    lock.unlock();
    const Moment began = scheduler_.now();
    const std::size_t count = tasks.size();
    auto claims = claims_on(free, end_.get_token());
    if (!claims) hand_out({}, std::exchange(free, Room{}));
    auto commit = committer_.commit(std::move(tasks), std::move(claims));
    // The claimed tasks start while the records are finished.
    hand_out(commit.claimed ? std::move(commit.claimed->tasks) : RunningTasks{}, free);
    finish(std::move(commit), count, began);
    lock.lock();
    space_->notify_all();
  }
}

// While the other settler's commit is in progress, only a large batch is worth a second commit.
bool Worker::worth_recording() const {
  if (reported_.empty()) return false;
  return recording_ == 0 || reported_.size() >= second_batch() || handlers_gone_;
}

std::size_t Worker::second_batch() const {
  return std::max<std::size_t>(1, settings_.concurrency / 4);
}

// Returns when all `count` tasks of the commit are recorded, or when the worker gives up. The tasks
// that are not recorded are in doubt, and the worker that reclaims them records that.
void Worker::finish(Committer::Commit commit, std::size_t count, Moment began) {
  while (true) {
    Committer::FinishResult settled = committer_.finish(std::move(commit));
    RunningTasks tasks = std::move(settled.unwritten);
    heard(settled.error);
    if (settings_.on_fenced)
      for (const std::string& id : settled.fenced) settings_.on_fenced(id);
    {
      std::lock_guard lock(*mutex_);
      in_flight_ -= count - tasks.size();
      recording_ -= count - tasks.size();
      space_->notify_all();
      done_->notify_all();
      if (tasks.empty()) return;
      const bool hopeless = settled.error->code == Code::not_found;  // the queue is gone
      const bool late = scheduler_.now() >= began + kGiveUpAfter;
      if (hopeless || (late && (ending_ || !settled.error->retryable))) {
        in_flight_ -= tasks.size();
        recording_ -= tasks.size();
        Error error = *settled.error;
        error.message = std::to_string(tasks.size()) +
                        " task(s) could not be recorded and count as in doubt: " + error.message;
        error.in_doubt = true;
        fail(std::move(error));
        return;
      }
      // The other settler and the handlers also notify done_.
      const Moment again = scheduler_.now() + kStoreAway;
      while (scheduler_.now() < again) done_->wait(again);
    }
    count = tasks.size();
    commit = committer_.commit(std::move(tasks), std::nullopt);
  }
}

}  // namespace once::engine
