// The rules of workflows, as pure functions. JSON is text here; flow/definition reads it.
//
//   fold()   puts the fact of an event into the run's state (fold.cpp)
//   stand()  says the status of each step and of the run (plan.cpp)
//   plan()   returns the actions that an event causes (plan.cpp)
//
// A run is a set of facts. Each fact is one log entry with a fixed id. If two writers race for a
// fact, the log keeps the first one. fold() is commutative and idempotent, so the order of events
// and repeated events do not change the state. stand() and plan() use only the facts. So an event
// that is handled again causes the same actions again, and every action can be performed twice.
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
  using Kind = StepKind;
  std::string id{};
  Kind kind = Kind::task;
  std::string topic{};                      // task
  std::string queue{};                      // task; empty: the only queue that takes the topic
  std::string signal{};                     // signal: its name
  std::string message{};                    // approval: what a person is asked
  std::vector<std::size_t> depends_on{};    // places in FlowDefinition::steps
  std::optional<std::size_t> on_failure{};  // the step that handles its failure
  std::vector<std::size_t> handles{};       // the steps whose failure it handles
  std::string input{};    // task: the mapping, canonical JSON; empty: the run's input as it is
  std::string skip_if{};  // the condition, canonical JSON; empty: never
  std::optional<RetryPolicy> retry{};  // task; the step's or the workflow's, else the queue's
  Duration timeout{};                  // task: of an attempt; signal, approval: of the wait
  Duration sleep{};                    // sleep
  std::optional<RateLimit> rate{};     // task

  friend bool operator==(const FlowStep&, const FlowStep&) = default;
};

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
// Whether a step waits for a signal of that name. Other signals do not become facts.
bool awaits(const FlowDefinition& definition, std::string_view signal);
// The waits between the attempts of a task, at most 100: the last one repeats.
std::vector<Duration> waits_of(const RetryPolicy& retry);

using StepOutcome = FlowOutcome;
using RunOutcome = FlowOutcome;

// The address of the record that holds an output which is too large for an event.
struct FlowPlace {
  std::string queue{};
  std::string key{};  // empty: the entry's own record
  Sequence sequence{};

  friend bool operator==(const FlowPlace&, const FlowPlace&) = default;
};

// One log entry of a run. Its kind says which of the fields it uses.
struct FlowEvent {
  enum class Kind : std::uint8_t {
    started,     // version, key, value: the input
    step,        // step, n, outcome, value or error: how the step ended
    signal,      // signal, signal_id, by_name, value
    rate_retry,  // step, n: a start that its rate refused is tried again
    admit,       // n: starts that max_runs refused are tried again
    timer,       // step, or empty for the run; n: time is up. No fact itself; it causes one
    retried,     // n: the new round; voided
    ended,       // n: the round; run_outcome, value or error, step: whose failure it was
  };
  Kind kind = Kind::started;
  std::string run{};
  std::string workflow{};
  std::uint32_t version{};
  std::optional<std::string> key{};  // nullopt for an unprotected run
  std::string step{};
  std::uint32_t n{};  // the try of a step, from 1; zero: it got no task. Or the round, from 1
  StepOutcome outcome = StepOutcome::completed;
  RunOutcome run_outcome = RunOutcome::completed;
  std::string value{};                     // JSON
  std::optional<FlowPlace> value_place{};  // where the value is; it is read before fold()
  bool elsewhere = false;  // the value is large: it is a value of its own and not in the state
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
// The event's id in the log. Events that exclude each other have the same id.
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

// The facts of a run, and nothing that follows from them. It is stored as the run's value.
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
bool called_off(const RunState& state);         // it is over, and its active steps were cancelled

struct CountedFact {
  std::uint32_t n{};
  const StepFact* fact{};  // null: there is none
};
// The fact of a step that counts: the first completion in the log, else the last try.
CountedFact last_fact(const RunState& state, std::string_view step);
// The same. If a retry of the run voided that fact, there is none, and the step runs again.
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

// Evaluates skip_if, which is JSON. It must be pure: the same state gives the same answer.
struct Judge {
  using Unreached = std::function<bool(std::string_view step)>;  // its output is missing, not null
  using Skips = std::function<bool(const FlowStep&, const Unreached&)>;
  // Called once per state, so that outputs that several conditions use are read once. The state
  // must outlive the result.
  std::function<Skips(const RunState&)> of{};
};

// Actions. Each can be performed twice. A start that the limits refused is tried again by a later
// event. `tries` makes that start a different action, so that plan() returns it for that event.
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
struct RetryTask {  // order its dead task to run again; one order per round
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
struct EndStep {  // append how the step ended
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
struct EndRun {  // append how the run ended; a completed run's output is the definition's mapping
  std::uint32_t round{};
  RunOutcome outcome = RunOutcome::completed;
  std::string step{};  // failed: whose failure nobody handled
  std::string error{};
  auto operator<=>(const EndRun&) const = default;
};
struct CallOff {  // the step's task must not start; if it runs, its handler is told to stop
  std::size_t step{};
  auto operator<=>(const CallOff&) const = default;
};
struct CallOffTimer {                 // nothing waits for the timer any more
  std::optional<std::size_t> step{};  // nullopt for the run's own timer
  std::uint32_t n{};
  auto operator<=>(const CallOffTimer&) const = default;
};
struct Finish {  // free the run's place among max_runs, and cancel events that nothing waits for
  std::uint32_t round{};
  auto operator<=>(const Finish&) const = default;
};
// In the order in which they are performed.
using FlowAction = std::variant<StartTask, RetryTask, StartWait, EndStep, ArmRunTimer, EndRun,
                                CallOff, CallOffTimer, Finish>;

// Adds the event's fact to the state. Returns false if the state has it already, or if the event is
// no fact. Commutative and idempotent.
bool fold(RunState& state, const FlowEvent& event);
// The facts up to that sequence of the log.
RunState at(const RunState& state, Sequence upto);

RunStanding stand(const FlowDefinition& definition, const RunState& state, const Judge& judge);

// The actions that the event causes; `state` contains it already. It is a difference: the actions
// for all facts, without the actions for all facts but this one.
std::vector<FlowAction> plan(const FlowDefinition& definition, const RunState& state,
                             const FlowEvent& event, const Judge& judge);

// Why the task of a step whose try `n` failed will never report a later try. Empty if it may.
std::string why_never_again(const Record& record, std::uint32_t n);
// The number of the try that the record of an ended task reports.
std::uint32_t told_try(const Record& record);

// An event of that run without the fields of its kind. `n` may be the round.
FlowEvent event_in(const RunState& state, FlowEvent::Kind kind, std::uint32_t n,
                   std::string step = {});

// The event that an action appends.
FlowEvent event_of(const FlowDefinition& definition, const RunState& state, const StartWait& wait);
FlowEvent event_of(const FlowDefinition& definition, const RunState& state, const EndStep& end);
FlowEvent event_of(const RunState& state, const ArmRunTimer& timer);
FlowEvent event_of(const RunState& state, const EndRun& end);  // without its output
FlowEvent event_of(const FlowDefinition& definition, const RunState& state,
                   const CallOffTimer& timer);

// What a retry of the run voids: the steps that failed and were not handled, each with its n. It is
// empty if people have completed these steps since. Code::wrong_state: the run has not failed, or
// could only fail again.
Result<std::map<std::string, std::uint32_t>> retry_of(const FlowDefinition& definition,
                                                      const RunState& state, const Judge& judge);

}  // namespace once::core
