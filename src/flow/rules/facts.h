// Workflows, as far as they are rules: what a run's facts are, how they add up, where its steps stand
// and what is to be done next. Pure: JSON is text here, encoding reads it.
//
// A run is a set of facts. Each is one log entry under an id of its own, so that of two who race for
// one the log takes the first. fold() puts a fact into its place; in whatever order they come, and
// however often, the state is the same. stand() says what the facts mean, plan() what an event is to
// cause; both look at the facts alone, so an event that is handled again causes the same again, and
// everything that is done for it can be done twice.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/record.h"
#include "core/types.h"
#include "once/workflow.h"

namespace once::core {

inline constexpr std::size_t kMostFlowSteps = 1000;

struct FlowStep {
  enum class Kind : std::uint8_t { task, sleep, signal, approval };
  std::string id{};
  Kind kind = Kind::task;
  std::string topic{};                      // task
  std::string queue{};                      // task; empty: the only one that takes the topic
  std::string signal{};                     // signal: its name
  std::string message{};                    // approval: what a person is asked
  std::vector<std::size_t> depends_on{};    // places in FlowDefinition::steps
  std::optional<std::size_t> on_failure{};  // the step that handles its failure
  std::vector<std::size_t> handles{};       // the steps whose failure it handles
  std::string input{};    // task: the mapping, canonical JSON; empty: the run's input as it is
  std::string skip_if{};  // the condition, canonical JSON; empty: never
  std::optional<RetryPolicy> retry{};  // task, the workflow's default included; none: the queue's
  Duration timeout{};                  // task: of an attempt; signal, approval: of the wait
  Duration sleep{};                    // sleep
  std::optional<RateLimit> rate{};     // task

  friend bool operator==(const FlowStep&, const FlowStep&) = default;
};
std::string_view to_string(FlowStep::Kind kind);

struct FlowDefinition {
  std::string name{};
  std::uint32_t version = 1;
  std::string key{};  // template over the input; empty: the digest of the input
  KeyFormat key_format = KeyFormat::plain;
  bool unprotected = false;  // an input without a key makes a run of its own
  Duration key_ttl{86'400'000};
  Duration timeout{};        // of one round; zero: none
  std::uint32_t max_runs{};  // zero: no limit
  std::string output{};      // the mapping, canonical JSON; empty: null
  std::vector<FlowStep>
      steps{};  // a step comes after those it depends on and whose failure it handles

  friend bool operator==(const FlowDefinition&, const FlowDefinition&) = default;
};
std::optional<std::size_t> index_of(const FlowDefinition& definition, std::string_view step);
// Some step waits for a signal of that name. Others are not folded: anybody may send any.
bool awaits(const FlowDefinition& definition, std::string_view signal);
// The waits between the attempts of a task, at most 100: the last one repeats.
std::vector<Duration> waits_of(const RetryPolicy& retry);

enum class StepOutcome : std::uint8_t { completed, failed, cancelled, timed_out };
enum class RunOutcome : std::uint8_t { completed, failed, cancelled, timed_out };
std::string_view to_string(StepOutcome outcome);
std::string_view to_string(RunOutcome outcome);
std::optional<StepOutcome> step_outcome_from(std::string_view name);
std::optional<RunOutcome> run_outcome_from(std::string_view name);

// The record that holds an output which is too large for an event.
struct FlowPlace {
  std::string queue{};
  std::string key{};  // empty: the record that the entry has for itself
  Sequence sequence{};

  friend bool operator==(const FlowPlace&, const FlowPlace&) = default;
};

// One log entry of a run. Which of the fields it has, its kind says.
struct FlowEvent {
  enum class Kind : std::uint8_t {
    started,     // version, key, value: the input
    step,        // step, n, outcome, value or error: how it ended
    signal,      // signal, signal_id, by_name, value
    rate_retry,  // step, n: a start that its rate refused is tried again
    admit,       // n: starts that max_runs refused are tried again
    timer,       // step or none, n: time is up. No fact: what comes of it is one
    retried,     // n: the new round; voided
    ended,       // n: the round; run_outcome, value or error, step: whose failure it was
  };
  Kind kind = Kind::started;
  std::string run{};
  std::string workflow{};
  std::uint32_t version{};
  std::optional<std::string> key{};  // none: an unprotected run
  std::string step{};
  std::uint32_t n{};  // the try of a step, from 1; zero: it got no task. Or the round, from 1
  StepOutcome outcome = StepOutcome::completed;
  RunOutcome run_outcome = RunOutcome::completed;
  std::string value{};                     // JSON
  std::optional<FlowPlace> value_place{};  // the value is there, and to be fetched before fold()
  bool elsewhere = false;  // the value was put away by the runner: it is not in the state
  std::string error{};
  std::string signal{};
  std::string signal_id{};
  bool by_name = false;  // signal: its entry has the id of its name, so the log has one of a name
  std::map<std::string, std::uint32_t>
      voided{};  // failed steps that run again, with the n that failed
  Sequence sequence{};
  Time at{};

  friend bool operator==(const FlowEvent&, const FlowEvent&) = default;
};
std::string_view to_string(FlowEvent::Kind kind);
std::optional<FlowEvent::Kind> flow_event_from(std::string_view name);

// "{run}.{step}": the step's task, and what the ids of its events begin with.
std::string step_id(std::string_view run, std::string_view step);
// The event's id in the log. What two may race for has one id.
std::string event_id(const FlowEvent& event);

// "$once.flow.{workflow}.{kind}"
std::string event_topic(std::string_view workflow, FlowEvent::Kind kind);

struct StepFact {
  StepOutcome outcome = StepOutcome::completed;
  std::string value{};     // completed: JSON
  std::string error{};     // else
  bool elsewhere = false;  // the value is kept outside of the state
  Sequence sequence{};
  Time at{};

  friend bool operator==(const StepFact&, const StepFact&) = default;
};
struct SignalFact {
  std::string id{};
  bool by_name = false;  // as in its event
  std::string value{};
  Sequence sequence{};
  Time at{};

  friend bool operator==(const SignalFact&, const SignalFact&) = default;
};
struct TryFact {
  std::uint32_t n{};
  Sequence sequence{};
  Time at{};

  friend bool operator==(const TryFact&, const TryFact&) = default;
};
struct EndFact {
  RunOutcome outcome = RunOutcome::completed;
  std::string value{};
  std::string error{};
  std::string step{};
  Sequence sequence{};
  Time at{};

  friend bool operator==(const EndFact&, const EndFact&) = default;
};
// From the start, or from a retry, to an end.
struct FlowRound {
  Sequence sequence{};  // of the event that began it; zero: that has not come yet
  Time at{};
  std::map<std::string, std::uint32_t> voided{};
  std::optional<EndFact> ended{};

  friend bool operator==(const FlowRound&, const FlowRound&) = default;
};

// Facts and nothing else: what they mean is not kept.
struct RunState {
  std::string run{};
  std::string workflow{};
  std::uint32_t version{};
  std::optional<std::string> key{};
  std::string input{};  // JSON
  Sequence started{};   // zero: that event has not come yet
  Time started_at{};
  std::map<std::string, std::map<std::uint32_t, StepFact>> steps{};  // by step and n
  std::map<std::string, SignalFact> signals{};                       // the first of each name
  std::map<std::string, TryFact> rate_retries{};                     // the last of each step
  TryFact admits{};                                                  // the last
  std::map<std::uint32_t, FlowRound> rounds{};                       // from 1, the start

  friend bool operator==(const RunState&, const RunState&) = default;
};
std::uint32_t round_of(const RunState& state);  // the last one
const EndFact* end_of(const RunState& state);   // of the last round; null: it goes on
bool over_for_good(const RunState& state);      // it can be neither retried nor closed
bool failed(const RunState& state);             // it is over, and may be retried
bool called_off(const RunState& state);         // it is over, and what was under way was called off

struct CountedFact {
  std::uint32_t n{};
  const StepFact* fact{};  // null: there is none
};
// Of what is known of a step the one that matters: a completion, the first in the log; else the last
// try.
CountedFact last_fact(const RunState& state, std::string_view step);
// The same, unless a retry of the run voided it: then the step runs again.
CountedFact counted_fact(const RunState& state, std::string_view step);

struct VoidedTry {
  std::uint32_t round{};  // of the retry
  std::uint32_t n{};
};
std::optional<VoidedTry> voided_try(const RunState& state, std::string_view step);  // the last one

struct StepStanding {
  StepStatus status = StepStatus::pending;
  std::uint32_t n{};  // the try that is active or decided
  std::string why{};  // for people: what it waits for, or why it failed, was skipped or not reached

  friend bool operator==(const StepStanding&, const StepStanding&) = default;
};
struct RunStanding {
  std::vector<StepStanding> steps{};  // as in the definition
  RunPhase phase = RunPhase::running;

  friend bool operator==(const RunStanding&, const RunStanding&) = default;
};

// What the core cannot read by itself. Pure: the same state, the same answer.
struct Judge {
  using Unreached = std::function<bool(std::string_view step)>;  // its output is missing, not null
  using Skips = std::function<bool(const FlowStep&, const Unreached&)>;
  // Is asked once for a state, so that what many conditions look at is read once. The state must outlive
  // the answer.
  std::function<Skips(const RunState&)> of{};
};

// What is to be done. Each can be done twice. `tries` makes a start that was refused another action
// when it is tried again, so that the event which says so causes it.
struct FlowTries {
  std::uint32_t admits{};
  std::uint32_t rate_retries{};
  auto operator<=>(const FlowTries&) const = default;
};
struct StartTask {  // append the step's task
  std::size_t step{};
  FlowTries tries{};
  auto operator<=>(const StartTask&) const = default;
};
struct RetryTask {  // have its dead task run again; one order per round
  std::size_t step{};
  std::uint32_t round{};
  std::uint32_t n{};  // the try that failed
  FlowTries tries{};
  auto operator<=>(const RetryTask&) const = default;
};
struct StartWait {  // arm its timer
  std::size_t step{};
  std::uint32_t n{};
  Duration after{};
  FlowTries tries{};
  auto operator<=>(const StartWait&) const = default;
};
struct EndStep {  // say how it ended
  std::size_t step{};
  std::uint32_t n{};
  StepOutcome outcome = StepOutcome::completed;
  std::string value{};
  std::string error{};
  FlowTries tries{};
  auto operator<=>(const EndStep&) const = default;
};
struct ArmRunTimer {
  std::uint32_t round{};
  Duration after{};
  auto operator<=>(const ArmRunTimer&) const = default;
};
struct EndRun {  // say how it ended; the output of a completed one is the definition's mapping
  std::uint32_t round{};
  RunOutcome outcome = RunOutcome::completed;
  std::string step{};  // failed: whose failure nobody handled
  std::string error{};
  auto operator<=>(const EndRun&) const = default;
};
struct CallOff {  // nobody may begin the step's task, and who runs it is told to stop
  std::size_t step{};
  auto operator<=>(const CallOff&) const = default;
};
struct CallOffTimer {                 // nothing waits for it any more
  std::optional<std::size_t> step{};  // none: the run's own
  std::uint32_t n{};
  auto operator<=>(const CallOffTimer&) const = default;
};
struct Finish {  // free its place among max_runs, and let the time of its key begin
  std::uint32_t round{};
  auto operator<=>(const Finish&) const = default;
};
// In the order in which they are to be done.
using FlowAction = std::variant<StartTask, RetryTask, StartWait, EndStep, ArmRunTimer, EndRun,
                                CallOff, CallOffTimer, Finish>;

// Puts the event's fact into its place; false: it is there already, or the event is no fact.
// Commutative and idempotent.
bool fold(RunState& state, const FlowEvent& event);
// The facts of the log up to there.
RunState at(const RunState& state, Sequence upto);

RunStanding stand(const FlowDefinition& definition, const RunState& state, const Judge& judge);

// What the event, which is folded already, is to cause: what should have been done for these facts,
// less what should have been done without this one.
std::vector<FlowAction> plan(const FlowDefinition& definition, const RunState& state,
                             const FlowEvent& event, const Judge& judge);

// Why the task of a step whose try `n` failed never says how a later try ended; empty: it runs, may be
// ordered to run again, or says so.
std::string why_never_again(const Record& record, std::uint32_t n);
// The number of the try that the record of a task that is over tells of.
std::uint32_t told_try(const Record& record);

// An event of that run, which its kind's own fields are still to be put into; `n` may be the round.
FlowEvent event_in(const RunState& state, FlowEvent::Kind kind, std::uint32_t n,
                   std::string step = {});

// The event that an action appends.
FlowEvent event_of(const FlowDefinition& definition, const RunState& state, const StartWait& wait);
FlowEvent event_of(const FlowDefinition& definition, const RunState& state, const EndStep& end);
FlowEvent event_of(const RunState& state, const ArmRunTimer& timer);
FlowEvent event_of(const RunState& state, const EndRun& end);  // without its output
FlowEvent event_of(const FlowDefinition& definition, const RunState& state,
                   const CallOffTimer& timer);

// What a retry of the run voids: the steps that failed and were not handled, each with its n; none,
// when people had them completed since. Code::wrong_state: the run has not failed, or could only fail
// again.
Result<std::map<std::string, std::uint32_t>> retry_of(const FlowDefinition& definition,
                                                      const RunState& state, const Judge& judge);

}  // namespace once::core
