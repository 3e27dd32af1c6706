// Builds a workflow definition in C++. `once flow add` takes the same definition as JSON.
// A step is a task, a sleep, a signal or an approval. Steps can depend on each other.
// docs/workflows.md explains each field.
//
//   Workflow payment("payment");
//   payment.idempotency_key("order.id")
//       .step({.id = "charge", .task = "pay.charge", .input = Input::path("input.order")})
//       .step({.id = "receipt", .task = "mail.receipt", .depends_on = {"charge"}});
//   const Result<std::string> json = payment.json();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "once/task.h"

namespace once::inline v1 {

// How often a step's task is attempted, and how long each retry waits.
// `fixed` waits for `wait` each time. `linear` waits for one, two, three times `wait`.
// `exponential` doubles the wait each time. No wait is longer than `cap`.
struct RetryPolicy {
  enum class Backoff { fixed, linear, exponential };
  int attempts = 4;
  Backoff backoff = Backoff::exponential;
  Duration wait{30'000};
  Duration cap{600'000};
  double jitter = 0.2;  // adds a random part of the wait, up to this fraction

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};
std::string_view to_string(RetryPolicy::Backoff backoff);
std::optional<RetryPolicy::Backoff> backoff_from(std::string_view name);

// Allows `limit` starts in each period `per`, across all runs of the workflow.
struct RateLimit {
  int limit{};
  Duration per{};

  friend bool operator==(const RateLimit&, const RateLimit&) = default;
};

// What a step does: it runs a task, sleeps, waits for a signal, or asks a person.
enum class StepKind : std::uint8_t { task, sleep, signal, approval };
std::string_view to_string(StepKind kind);
// How a step or a run ended.
enum class FlowOutcome : std::uint8_t { completed, failed, cancelled, timed_out };
std::string_view to_string(FlowOutcome outcome);
std::optional<FlowOutcome> flow_outcome_from(std::string_view name);
// The status of a step in a run. A pending step waits for other steps. An active step has started.
// A completed or failed step has ended. A skipped or unreached step does not run.
enum class StepStatus : std::uint8_t { pending, active, completed, failed, skipped, unreached };
std::string_view to_string(StepStatus status);
// The state of a run. A waiting run waits for a time, a signal or a person.
// A run is unreadable if its record or its definition is damaged, or if a newer version wrote it. Only lists
// show such a run.
enum class RunPhase : std::uint8_t { running, waiting, completed, failed, cancelled, unreadable };
std::string_view to_string(RunPhase phase);
std::optional<RunPhase> run_phase_from(std::string_view name);

// The input of a step: the value at one dot path, or an object with values from several paths.
// Paths start with `input`, `steps.ID`, `errors.ID` or `run`.
class Input {
 public:
  static Input path(std::string dot_path);
  static Input object();

  // Adds a member. Call these only on an object().
  Input& with(std::string name, std::string dot_path);
  Input& with(std::string name, std::string dot_path, Body otherwise);  // if the path is missing
  Input& with_value(std::string name, Body json);

 private:
  friend class WorkflowText;
  struct Member {
    std::string name;
    std::optional<std::string> path;
    std::optional<Body> value;  // if `path` is set: its default
  };
  std::string path_;
  std::vector<Member> members_;
};

class Workflow {
 public:
  // Set exactly one of `task`, `sleep`, `signal` and `approval`.
  struct Step {
    std::string id{};
    std::string task{};                     // the topic
    std::string queue{};                    // empty means the only queue that matches the topic
    std::vector<std::string> depends_on{};  // steps that must be completed or skipped first
    std::optional<Input> input{};           // nullopt means the unchanged input of the run
    std::optional<RetryPolicy> retry{};     // nullopt means the workflow's, or else the queue's
    Duration timeout{};                     // of an attempt or of the wait; zero means no timeout
    std::string skip_if{};                  // a dot path, or a condition as JSON
    std::string on_failure{};               // the step that runs if this step fails
    std::optional<RateLimit> rate{};
    std::optional<Duration> sleep{};
    std::string signal{};    // the name of the signal that the step waits for
    std::string approval{};  // the question for a person
  };

  explicit Workflow(std::string name, int version = 1);

  // A dot path into the input, or a template such as `{order.id}:{attempt}`.
  Workflow& idempotency_key(std::string path_or_template);
  Workflow& run_unprotected_without_key();
  Workflow& key_ttl(Duration after_the_finish);
  Workflow& timeout(Duration of_a_run);
  Workflow& max_runs(int at_once);
  Workflow& default_retry(RetryPolicy policy);
  Workflow& output(Input mapping);
  Workflow& step(Step step);

  // Checks the definition and returns its canonical form. The error lists every fault.
  Result<std::string> json() const;

 private:
  friend class WorkflowText;
  std::string name_;
  int version_;
  std::string key_;
  bool unprotected_ = false;
  std::optional<Duration> key_ttl_;
  Duration timeout_{};
  int max_runs_{};
  std::optional<RetryPolicy> default_retry_;
  std::optional<Input> output_;
  std::vector<Step> steps_;
};

}  // namespace once::inline v1
