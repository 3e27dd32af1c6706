// Drives a queue: intake (fetch, claim), run (handlers), settle (record, answer). Each stage takes
// whatever has gathered, so that it is quick when idle and batches when busy. No more is claimed
// than can be started at once (and the queue's window), so that a killed worker leaves no more in
// doubt than it ran.
#pragma once

#include <deque>
#include <memory>
#include <stop_token>

#include "work/housekeeper.h"
#include "work/intake.h"
#include "work/lease_keeper.h"
#include "work/running_steps.h"
#include "work/settler.h"
#include "work/slots.h"
#include "work/worker_counters.h"

namespace once::engine {

struct WorkerSettings {
  Queue queue{};
  Handler handler{};
  Handler probe{};  // empty: there is none
  std::size_t concurrency = 1;
  std::string name{};
  std::function<void(const std::optional<Error>&)> on_store{};  // see WorkerOptions
  std::function<void(std::string_view id)> on_fenced{};
  Duration grace{10'000};      // how long a handler may take to end after its stop token fired
  std::vector<Duty> duties{};  // beside the sweep and the retention
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
  void hand_out(Flights flights, Room set_aside);
  void give_back(Flights flights);
  Result<Intake::IntakeResult> next(Room free, Duration wait, std::stop_token stop);
  Result<bool> all_settled();
  void follow_definition();  // of the queue, which may be changed at any time
  Queue queue();
  void pause(Duration how_long, std::stop_token stop);
  void heard(const std::optional<Error>& trouble);  // what the store answered
  void fail(Error why);  // with mutex_ held: the first reason counts, and ends the intake
  // Run.
  void run_handlers();
  void wake_handler();
  // Answers what was claimed with its record: nothing, unless there is a token and it is not stopped.
  Result<Intake::IntakeResult> run_here(std::unique_ptr<RunningTask> flight,
                                        std::optional<std::stop_token> unless);
  void call(RunningTask& flight);
  // True: run the handler. Otherwise the probe's answer is the report, or has been recorded.
  bool ask_probe(RunningTask& flight, const TaskAttempt& assignment);
  static Report report_of(const Handler& handler, const TaskAttempt& assignment);
  bool ending();
  // Settle.
  void run_settler();
  bool worth_recording() const;
  std::size_t second_batch() const;
  void record(Flights flights, const Swapper& first);

  store::Store& store_;
  Scheduler& scheduler_;
  const WorkerSettings settings_;
  const std::string zone_;
  const std::unique_ptr<store::Membership> membership_;
  WorkerCounters meter_;
  LedgerWriter scribe_;
  LeaseKeeper keeper_;
  Settler settler_;
  Intake intake_;
  std::unique_ptr<Slots> slots_;  // with max-running only; the intake's
  const bool alone_;              // one task at a time needs no other thread
  Moment followed_at_{};          // when the definition was read last; the intake's
  std::stop_source interrupt_;

  const std::unique_ptr<Mutex> mutex_;
  const std::unique_ptr<Condition> work_;   // handlers: something is ready
  const std::unique_ptr<Condition> done_;   // settler: something is reported
  const std::unique_ptr<Condition> space_;  // intake: something is settled, or a stop is asked for
  // Under mutex_.
  Queue queue_;
  std::deque<std::unique_ptr<RunningTask>> ready_;
  Flights reported_;
  std::size_t in_flight_ = 0;  // claimed and not settled
  std::size_t idle_handlers_ = 0;
  bool waking_ = false;        // a handler has been woken and has not looked yet
  std::size_t recording_ = 0;  // how many the settlers are at
  std::size_t claiming_ = 0;   // how many the fetches and turns under way may claim
  bool taking_in_ = false;     // the intake is fetching
  bool store_away_ = false;
  bool ending_ = false;   // a stop was asked for, or there is a failure
  bool no_more_ = false;  // intake is over: handlers end when nothing is ready
  bool handlers_gone_ = false;
  std::optional<Error> failure_;  // why the worker must stop
  std::stop_source end_;          // ends the intake's waits; anew with each run
  std::vector<std::unique_ptr<Activity>> handlers_;
};

}  // namespace once::engine
