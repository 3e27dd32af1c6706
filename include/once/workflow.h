// A workflow, put together in C++: the same definition that `once flow add` takes as JSON. Steps are
// tasks, sleeps, signals or approvals that depend on each other; docs/workflows.md says what each
// field means.
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

// How often a step's task is tried, and how long it waits in between: `wait` each time (fixed), once,
// twice, three times as long (linear), or doubled each time (exponential), never longer than `cap`.
struct RetryPolicy {
  enum class Backoff { fixed, linear, exponential };
  int attempts = 4;
  Backoff backoff = Backoff::exponential;
  Duration wait{30'000};
  Duration cap{600'000};
  double jitter = 0.2;  // up to this part of a wait is added to it

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};
std::string_view to_string(RetryPolicy::Backoff backoff);
std::optional<RetryPolicy::Backoff> backoff_from(std::string_view name);

// So many starts in each span of that length, over all runs of the workflow.
struct RateLimit {
  int limit{};
  Duration per{};

  friend bool operator==(const RateLimit&, const RateLimit&) = default;
};

// How a step of a run stands: waiting for others, begun, over, or not to be run.
enum class StepStatus : std::uint8_t { pending, active, completed, failed, skipped, unreached };
std::string_view to_string(StepStatus status);
// How a run stands; waiting: for a time, a signal or a person.
enum class RunPhase : std::uint8_t { running, waiting, completed, failed, cancelled };
std::string_view to_string(RunPhase phase);
std::optional<RunPhase> run_phase_from(std::string_view name);

// What a step is given: the value at one dot path, or an object that is put together from several.
// Paths begin with `input`, `steps.ID`, `errors.ID` or `run`.
class Input {
 public:
  static Input path(std::string dot_path);
  static Input object();

  // Members, of an object only.
  Input& with(std::string name, std::string dot_path);
  Input& with(std::string name, std::string dot_path, Body otherwise);  // when nothing is there
  Input& with_value(std::string name, Body json);

 private:
  friend class WorkflowText;
  struct Member {
    std::string name;
    std::optional<std::string> path;
    std::optional<Body> value;  // with a path: what stands in for it
  };
  std::string path_;
  std::vector<Member> members_;
};

class Workflow {
 public:
  // Exactly one of `task`, `sleep`, `signal` and `approval`.
  struct Step {
    std::string id{};
    std::string task{};                     // the topic
    std::string queue{};                    // empty: the only one that takes the topic
    std::vector<std::string> depends_on{};  // steps that must be completed or skipped
    std::optional<Input> input{};           // none: the run's input as it is
    std::optional<RetryPolicy> retry{};     // none: the workflow's, else the queue's
    Duration timeout{};                     // of an attempt, or of the wait; zero: none
    std::string skip_if{};                  // a dot path, or a condition as JSON
    std::string on_failure{};               // the step that runs when this one failed
    std::optional<RateLimit> rate{};
    std::optional<Duration> sleep{};
    std::string signal{};    // the name of the signal that it waits for
    std::string approval{};  // what a person is asked
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

  // The definition, checked, in canonical form; or everything that is wrong with it.
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
