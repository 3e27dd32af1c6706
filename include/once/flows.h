// The workflows of a zone: definitions, runs, and the runner that drives the runs.
// A definition lists the steps and the dependencies of each step. Write it with workflow.h, or as
// the JSON that `once flow add` takes. A run executes a definition once for one input.
// The input gives a run its idempotency key. Repeated starts with the same key give one run.
// See docs/workflows.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "once/metrics.h"
#include "once/view.h"
#include "once/workflow.h"

namespace once::inline v1 {

namespace detail {
struct Access;
struct FlowsState;
struct RunnerState;
}  // namespace detail

// Why a step cannot run yet, or what in the definition may be a mistake.
struct FlowHint {
  std::string text{};
  Reason reason = Reason::none;
  Facts facts{};
};

struct FlowAdded {
  std::string workflow{};
  std::uint32_t version{};
  bool added{};  // false if this version existed with the same meaning
  std::size_t steps{};
  std::vector<FlowHint> hints{};
};

struct FlowInfo {
  std::string workflow{};
  std::uint32_t version{};
  std::size_t steps{};
  std::string idempotency_key{};  // a template; empty means the digest of the input
  KeyFormat key_format = KeyFormat::plain;
};

// A definition for display. Every step is listed after the steps that it depends on.
struct FlowView {
  struct Step {
    std::string step{};
    StepKind kind{};
    std::string detail{};  // the topic, the length of sleep, the signal's name, or the question
    std::vector<std::string> depends_on{};
    std::string on_failure{};  // the step that handles its failure; may be empty
  };
  std::string workflow{};
  std::uint32_t version{};
  std::vector<Step> steps{};
  std::string json{};  // the definition in canonical form
};

struct StartOptions {
  std::uint32_t version{};  // zero means the newest version
  bool unique = false;      // starts a new run and ignores the key
};

struct Started {
  std::string run{};
  bool duplicate{};         // true if the key already had this run
  std::uint32_t version{};  // the version that the run uses
};

struct RunFilter {
  std::string workflow{};   // empty means every workflow
  std::uint32_t version{};  // zero means every version
  // A key as in RunInfo; nullopt means every key. With a workflow, the filter finds the one run
  // that has the key or had it last. This search costs one read. Without a workflow, the filter
  // finds every run that had the key, in all workflows.
  std::optional<std::string> key{};
  std::optional<RunPhase> state{};  // nullopt means every state
  std::optional<Time> since{};      // started at this time or later
  std::size_t limit = 100;
};

struct RunInfo {
  std::string run{};
  std::string workflow{};
  std::uint32_t version{};
  std::optional<std::string> key{};  // nullopt if the run has no key
  RunPhase state{};
  std::size_t steps_done{};  // steps completed or skipped
  std::size_t steps{};
  Time started_at{};
  std::optional<Time> ended_at{};
  std::string waits_for{};  // the active steps
  std::string error{};
};

struct RunStep {
  std::string step{};
  StepKind kind{};
  StepStatus status{};
  std::optional<State> task_state{};  // state of its task; nullopt if no task is visible
  std::string why{};                  // why the step waits, failed or did not run
  bool needs_runner{};                // the step waits, and no runner of workflows is at work
  std::string task{};                 // the topic
  std::string queue{};                // the queue that replies; empty if unknown
  int attempts{};                     // attempts of its task
  std::optional<Body> output{};
  std::uint64_t sequence{};     // of the event that ended the step
  std::optional<Time> at{};     // the time of that event
  std::optional<Time> until{};  // if active: its deadline, or the time of its next attempt
};

struct RunView {
  RunInfo info{};
  Body input{};
  std::optional<Body> output{};  // set if the run completed
  std::uint32_t round{};         // starts at 1; each retry of the run adds 1
  bool closed{};                 // the run failed, and a person cancelled it later
  std::uint64_t sequence{};      // of the last fact in this view
  std::vector<RunStep> steps{};
};

struct RunEvent {
  enum class Kind {
    started,
    task,        // the task of a step was published
    step,        // a step ended
    signal,      // a signal arrived
    rate_retry,  // a start that the step's rate limit refused is tried again
    admit,       // a start that max_runs refused is tried again
    retried,     // a person retried the failed run
    ended,
  };
  std::uint64_t sequence{};
  Time at{};
  Kind kind{};
  std::string id{};
  std::string step{};
  std::string signal{};                  // the signal's name
  std::uint32_t n{};                     // the try of the step, or the round of the run
  std::optional<FlowOutcome> outcome{};  // of a step or of the run, if it ended
  std::optional<Body> value{};           // the input, the output, or the body of a signal
  std::string error{};
  By by{};  // if retried: the person and the reason, until the log deletes them
};

std::string_view to_string(RunEvent::Kind kind);

// The first signal of a name in the log. Only this signal counts; the log refuses later ones.
struct FirstSignal {
  std::string id{};
  std::uint64_t sequence{};
  Time at{};
  std::string by{};  // the sender; empty if no longer known
};

struct SignalResult {
  bool counts{};      // false if another signal of that name was first; nothing was added
  Receipt receipt{};  // the receipt of this signal; set if `counts`
  FirstSignal first{};
};

struct Approved {
  bool approved{};           // the verdict that is in force
  bool duplicate{};          // true if the verdict existed before this call
  std::string by{};          // the person who gave the verdict first
  std::uint64_t sequence{};  // of the verdict
  Time at{};
};

struct RunnerOptions {
  int concurrency = 64;  // the most events in one batch; two batches may be in progress
  std::string name{};    // empty means host and process id
  // The same as WorkerOptions::on_store.
  std::function<void(const std::optional<Error>&)> on_store{};
};

// Drives the runs of a zone. Any number of runners may run, in any number of processes.
// Exactly one runner handles each event of a run to its end. A runner may be killed at any time.
// Only one thread may drive a runner. A runner keeps its zone open.
class WorkflowRunner {
 public:
  WorkflowRunner(WorkflowRunner&&) noexcept;
  WorkflowRunner& operator=(WorkflowRunner&&) noexcept;
  ~WorkflowRunner();

  Result<void> run(std::stop_token stop);
  // Returns when no run is active. The steps need workers on their queues.
  Result<void> run_until_empty(std::stop_token stop = {});
  // Handles at most one event on this thread. Returns false if no event was ready. Never waits.
  Result<bool> run_one();
  // Ends run() without waiting for the current events. Other runners then handle those events.
  // Any thread may call.
  void interrupt();
  WorkerMetrics metrics() const;  // its tasks are events; any thread may call

 private:
  friend struct detail::Access;
  explicit WorkflowRunner(std::unique_ptr<detail::RunnerState> state);
  std::unique_ptr<detail::RunnerState> state_;
};

// Any thread may call. A Flows object keeps its zone open.
class Flows {
 public:
  Flows(Flows&&) noexcept;
  Flows& operator=(Flows&&) noexcept;
  ~Flows();

  // Checks a definition without a zone. Adds nothing. The error lists every fault.
  static Result<FlowAdded> check(std::string_view json);
  // Adds a definition. A version never changes after add(). Returns conflicting_duplicate if the
  // version exists with another definition.
  Result<FlowAdded> add(std::string_view json);
  Result<FlowAdded> add(const Workflow& workflow);
  // Removes a version from list() and from start(). Existing runs of the version continue.
  // A later add() of the same version restores the version.
  Result<void> remove(std::string_view name, std::uint32_t version);
  Result<std::vector<FlowInfo>> list() const;
  // If `version` is 0, returns the newest version.
  Result<FlowView> definition(std::string_view name, std::uint32_t version = 0) const;

  // Returns the run for the key of this input. If no run has the key, start() creates a new run.
  // Returns conflicting_duplicate if a run has the key with another input. Conflict::id then
  // names that run. If an error has in_doubt set, the run may have started. Call start() again.
  Result<Started> start(std::string_view name, const Body& input, StartOptions options = {});

  // Returns the newest runs first. `after` continues a listing after this run of an earlier page.
  Result<std::vector<RunInfo>> runs(const RunFilter& filter, const RunInfo* after = nullptr) const;
  // If `at` is set, returns the run as it was when the log had reached that sequence.
  Result<RunView> show(std::string_view run, std::optional<std::uint64_t> at = {}) const;
  Result<std::vector<RunEvent>> events(std::string_view run) const;
  // Blocks until the run has ended. Returns Code::timed_out if `limit` expires first.
  Result<RunView> wait(std::string_view run, Duration limit) const;

  // Sends a signal to a run. The signal is idempotent by name and id. A repeated signal is a
  // duplicate. Returns conflicting_duplicate if the name and id exist with another body.
  // Returns wrong_state if the run ended before the signal arrived.
  Result<SignalResult> signal(std::string_view run, std::string_view name, const Body& body,
                              std::string_view id, const By& by = {});
  // Records a verdict. The first verdict is final. Returns conflicting_duplicate if the first
  // verdict was the opposite.
  Result<Approved> approve(std::string_view run, std::string_view step, bool yes, const By& by);
  // Cancels a run. No further step starts, and running steps are asked to stop.
  // If the run has already failed, cancel() closes it. Retention then applies to its record.
  Result<void> cancel(std::string_view run, const By& by);
  // Continues a failed run with its failed steps. Returns the names of those steps.
  Result<std::vector<std::string>> retry(std::string_view run, const By& by);

  Result<WorkflowRunner> runner(RunnerOptions options = {});

 private:
  friend struct detail::Access;
  explicit Flows(std::unique_ptr<detail::FlowsState> state);
  std::unique_ptr<detail::FlowsState> state_;
};

}  // namespace once::inline v1
