// Drives a queue in three stages: intake (claim), run (handlers), settle (record). Each stage takes
// all tasks that wait for it. So an idle worker is quick, and a busy worker makes batches. A worker
// claims no more tasks than it can start at once, plus the queue's window. So a killed worker
// leaves no more tasks in doubt than that. committer.h makes the store calls of intake and settle.
#pragma once

#include <deque>
#include <memory>
#include <stop_token>

#include "work/committer.h"
#include "work/housekeeper.h"
#include "work/intake.h"
#include "work/lease_keeper.h"
#include "work/running_steps.h"
#include "work/slots.h"
#include "work/worker_counters.h"

namespace once::engine {

struct WorkerSettings {
  Queue queue{};
  Handler handler{};
  // Instead of `handler`: one call takes all ready tasks, up to the concurrency. At most two
  // threads call it.
  BatchHandler batch_handler{};
  Handler probe{};  // empty: there is none
  std::size_t concurrency = 1;
  std::string name{};
  std::function<void(const std::optional<Error>&)> on_store{};  // see WorkerOptions
  std::function<void(std::string_view id)> on_fenced{};
  Duration grace{10'000};      // how long a handler may take to end after its stop token fired
  std::vector<Duty> duties{};  // of the Housekeeper, besides the sweep and the retention
};

class Worker {
 public:
  // Joins the zone. The store and the scheduler outlive the worker.
  static Result<std::unique_ptr<Worker>> make(store::Store& store, Scheduler& scheduler,
                                              WorkerSettings settings);
  ~Worker();

  enum class Until { stopped, empty };
  Result<void> run(Until until, std::stop_token stop);
  Result<bool> run_one();
  void interrupt();
  WorkerMetrics metrics() const;  // any thread

 private:
  Worker(store::Store& store, Scheduler& scheduler, WorkerSettings settings,
         encoding::KeyTemplate key, std::unique_ptr<store::Membership> membership);

  // Intake.
  Result<void> take_in(Until until, std::stop_token stop);
  struct Room {
    std::size_t claims = 0;
    std::size_t handlers = 0;  // that can start at once
  };
  Room wait_for_space(std::stop_token stop);
  Room room(std::size_t settling) const;
  std::optional<IntakeRequest> claims_on(Room free, std::stop_token stop);
  void hand_out(RunningTasks tasks, Room reserved);
  void give_back(RunningTasks tasks);
  Result<Intake::IntakeResult> next(Room free, Duration wait, std::stop_token stop);
  Result<bool> all_settled();
  void follow_definition();  // of the queue, which may be changed at any time
  Queue queue();
  void pause(Duration how_long, std::stop_token stop);
  void heard(const std::optional<Error>& trouble);  // notes whether the store answered
  void fail(Error why);  // with mutex_ held: the first reason counts, and ends the intake
  // Run.
  void run_handlers();
  void wake_handler();
  // Runs and records one task on this thread. Returns the tasks that the commit of the record
  // claimed. It claims none without a token, or if a stop is requested by the token.
  Result<Intake::IntakeResult> run_here(std::unique_ptr<RunningTask> running,
                                        std::optional<std::stop_token> unless);
  std::size_t most_threads() const;  // of handlers
  // The tasks that one call of the handler takes, from ready_. Call it with mutex_ held.
  RunningTasks take_ready();
  void call(RunningTask& running);
  void call_batch(std::span<std::unique_ptr<RunningTask>> tasks);
  TaskAttempt attempt_of(RunningTask& running) const;
  // Returns true if the handler must run. Otherwise the probe's answer is the report, or it has
  // been recorded.
  bool ask_probe(RunningTask& running, const TaskAttempt& task_attempt);
  static Report report_of(const Handler& handler, const TaskAttempt& task_attempt);
  bool ending();
  // Settle.
  void run_settler();
  bool worth_recording() const;
  std::size_t second_batch() const;
  void finish(Committer::Commit commit, std::size_t count, Moment began);

  store::Store& store_;
  Scheduler& scheduler_;
  const WorkerSettings settings_;
  const std::string zone_;
  const std::unique_ptr<store::Membership> membership_;
  WorkerCounters counters_;
  LedgerWriter writer_;
  LeaseKeeper keeper_;
  Intake intake_;
  Committer committer_;
  std::unique_ptr<Slots> slots_;  // only with max_running; the caller's thread uses it
  const bool alone_;              // a concurrency of one without a window: see run_here()
  Moment followed_at_{};          // when the definition was read last; the caller's thread
  std::stop_source interrupt_;

  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> work_;   // handlers: something is ready
  const std::unique_ptr<Condition> done_;   // settler: something is reported
  const std::unique_ptr<Condition> space_;  // intake: something is settled, or a stop is asked for
  // Under mutex_.
  Queue queue_;
  std::deque<std::unique_ptr<RunningTask>> ready_;
  RunningTasks reported_;
  std::size_t in_flight_ = 0;  // claimed and not settled
  std::size_t idle_handlers_ = 0;
  bool waking_ = false;        // a handler thread was notified and does not run yet
  std::size_t recording_ = 0;  // how many tasks the settlers record now
  std::size_t claiming_ = 0;   // how many tasks the commits in progress may claim
  bool taking_in_ = false;     // the intake is fetching
  bool store_away_ = false;
  bool ending_ = false;   // a stop was asked for, or there is a failure
  bool no_more_ = false;  // the intake has ended: handlers end when no task is ready
  bool handlers_gone_ = false;
  std::optional<Error> failure_;  // why the worker must stop
  std::stop_source end_;          // ends the intake's waits; anew with each run
  std::vector<std::unique_ptr<Activity>> handlers_;
};

}  // namespace once::engine
