// Workflows of a zone: their definitions, their runs, and the runner that drives them. A definition
// says which steps there are and what each depends on (workflow.h, or the JSON that `once flow add`
// takes); a run is one walk through it, known by a key from its input, so that however often it is
// started there is one. docs/workflows.md.
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

struct FlowAdded {
  std::string workflow{};
  std::uint32_t version{};
  bool added{};  // false: this version was there, and means the same
  std::size_t steps{};
  // What keeps its steps from running as yet, and what is allowed but perhaps not meant.
  std::vector<std::string> hints{};
};

struct FlowInfo {
  std::string workflow{};
  std::uint32_t version{};
  std::size_t steps{};
  std::string idempotency_key{};  // a template; empty: the digest of the input
  KeyFormat key_format = KeyFormat::plain;
};

// A definition as it is drawn: every step comes after those it depends on.
struct FlowView {
  struct Step {
    std::string step{};
    std::string kind{};    // task sleep signal approval
    std::string detail{};  // its topic, how long it sleeps, the signal's name, what is asked
    std::vector<std::string> depends_on{};
    std::string on_failure{};  // the step that handles its failure; empty: none
  };
  std::string workflow{};
  std::uint32_t version{};
  std::vector<Step> steps{};
  std::string json{};  // canonical
};

struct StartOptions {
  std::uint32_t version{};  // zero: the newest
  bool unique = false;      // a run of its own, whatever its key
};

struct Started {
  std::string run{};
  bool duplicate{};         // the run that this key had already
  std::uint32_t version{};  // of the run
};

struct RunFilter {
  std::string workflow{};   // empty: every one
  std::uint32_t version{};  // zero: every one
  // As RunInfo has it; none: every one. With a workflow the run that has the key, or had it last, for
  // one read; without one every run that had it, of whichever workflow.
  std::optional<std::string> key{};
  std::optional<RunPhase> state{};  // none: every one
  std::optional<Time> since{};      // started then or later
  std::size_t limit = 100;
};

struct RunInfo {
  std::string run{};
  std::string workflow{};
  std::uint32_t version{};
  std::optional<std::string> key{};  // none: a run without one
  RunPhase state{};
  std::size_t steps_done{};  // completed, skipped
  std::size_t steps{};
  Time started_at{};
  std::optional<Time> ended_at{};
  std::string waits_for{};  // the steps that are active
  std::string error{};
};

struct RunStep {
  std::string step{};
  std::string kind{};  // as in FlowView
  StepStatus status{};
  std::optional<State> task_state{};  // how its task stands; none: there is none to be seen
  std::string why{};                  // what it waits for, or why it failed or did not run
  std::string task{};                 // the topic
  std::string queue{};                // that replies, as far as it is known
  int attempts{};                     // of its task
  std::optional<Body> output{};
  std::uint64_t sequence{};     // of the event that ended it
  std::optional<Time> at{};     // when that was
  std::optional<Time> until{};  // active: when its time is up, or its next attempt comes
};

struct RunView {
  RunInfo info{};
  Body input{};
  std::optional<Body> output{};  // completed
  std::uint32_t round{};         // 1, and one more with each retry of the run
  bool closed{};                 // it had failed, and was cancelled since
  std::uint64_t sequence{};      // of the last fact that is in this
  std::vector<RunStep> steps{};
};

struct RunEvent {
  std::uint64_t sequence{};
  Time at{};
  std::string event{};  // started task step signal rate_retry admit retried ended
  std::string id{};
  std::string step{};
  std::string signal{};         // its name
  std::uint32_t n{};            // which try of the step, or round of the run
  std::string outcome{};        // completed failed cancelled timed_out
  std::optional<Body> value{};  // input, output, the body of a signal
  std::string error{};
  By by{};  // retried: who said so, and why; while the log has it
};

// The signal of a name that counts: the first in the log, which takes no other of that name.
struct FirstSignal {
  std::string id{};
  std::uint64_t sequence{};
  Time at{};
  std::string by{};  // who sent it; empty: not known any more
};

struct SignalResult {
  bool counts{};      // false: another signal of that name was first, and nothing was added
  Receipt receipt{};  // counts: of this signal
  FirstSignal first{};
};

struct Approved {
  bool approved{};           // what stands now
  bool duplicate{};          // it stood before
  std::string by{};          // who said so first
  std::uint64_t sequence{};  // of that verdict
  Time at{};
};

struct RunnerOptions {
  int concurrency = 64;  // events that are handled at a time
  std::string name{};    // empty: host and process id
  // As in WorkerOptions.
  std::function<void(const std::optional<Error>&)> on_store{};
};

// Drives the runs of a zone. Any number may run, in any processes, and be killed at any time: each event
// of a run is handled to its end by one of them. One thread drives it. Keeps its zone open.
class WorkflowRunner {
 public:
  WorkflowRunner(WorkflowRunner&&) noexcept;
  WorkflowRunner& operator=(WorkflowRunner&&) noexcept;
  ~WorkflowRunner();

  Result<void> run(std::stop_token stop);
  // Returns when no run is active; steps need workers on their queues.
  Result<void> run_until_empty(std::stop_token stop = {});
  // Handles at most one event on this thread; false: there was none. Never waits.
  Result<bool> run_one();
  // Ends run() without waiting for the events that are being handled: others handle them again. From any
  // thread.
  void interrupt();
  WorkerMetrics metrics() const;  // events are its tasks; any thread

  struct Impl;
  explicit WorkflowRunner(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Any thread may call. Keeps its zone open.
class Flows {
 public:
  Flows(Flows&&) noexcept;
  Flows& operator=(Flows&&) noexcept;
  ~Flows();

  // What is wrong with a definition in itself, without any zone; nothing is added.
  static Result<FlowAdded> check(std::string_view json);
  // A version, once added, never changes: another definition under it is conflicting_duplicate.
  Result<FlowAdded> add(std::string_view json);
  Result<FlowAdded> add(const Workflow& workflow);
  // The workflow is not listed and not started any more. Runs that began stay as they are, and go on;
  // added again, it is there again.
  Result<void> remove(std::string_view name, std::uint32_t version);
  Result<std::vector<FlowInfo>> list() const;
  Result<FlowView> definition(std::string_view name, std::uint32_t version = 0) const;  // 0: newest

  // The run of this input's key: a new one, or the one that has it already, in which case another
  // input is conflicting_duplicate (Conflict::id is the run that has the key). An error with in_doubt
  // means that it may have been started: start it again.
  Result<Started> start(std::string_view name, const Body& input, StartOptions options = {});

  // The last started first; `after`: go on behind this one of an earlier answer.
  Result<std::vector<RunInfo>> runs(const RunFilter& filter, const RunInfo* after = nullptr) const;
  // `at`: as it stood when the log had reached that sequence.
  Result<RunView> show(std::string_view run, std::optional<std::uint64_t> at = {}) const;
  Result<std::vector<RunEvent>> events(std::string_view run) const;
  // Blocks until the run has ended; Code::timed_out.
  Result<RunView> wait(std::string_view run, Duration limit) const;

  // Idempotent by name and id: the same again is a duplicate, another body under them is
  // conflicting_duplicate. A run that ended before the signal came is wrong_state.
  Result<SignalResult> signal(std::string_view run, std::string_view name, const Body& body,
                              std::string_view id, const By& by = {});
  // The first verdict stands; the other one is conflicting_duplicate.
  Result<Approved> approve(std::string_view run, std::string_view step, bool yes, const By& by);
  // Nothing more is begun, and what runs is told to stop. A run that failed is closed: its record ages.
  Result<void> cancel(std::string_view run, const By& by);
  // A run that failed goes on with the steps that failed; answers which.
  Result<std::vector<std::string>> retry(std::string_view run, const By& by);

  Result<WorkflowRunner> runner(RunnerOptions options = {});

  struct Impl;
  explicit Flows(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace once::inline v1
