// The ledger's record of a task, per queue and key. decide() computes the next record from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "once/view.h"

namespace once::core {

using Ending = AttemptOutcome;

struct Attempt {
  std::uint32_t number{};
  std::string worker{};
  Token token{};  // zero until the next write; then the revision of the claim. See token_of()
  Time started_at{};
  std::optional<Time> ended_at{};
  Ending ending = Ending::running;
  std::string error{};
  std::string log{};     // the end of what its program wrote to stderr, see kLogKept
  bool probing = false;  // asks the probe first; the handler has not begun
  Nonce nonce{};         // of its claim, if it began as an offer; a repeated verdict is found by it

  friend bool operator==(const Attempt&, const Attempt&) = default;
};
bool without_verdict(Ending ending);

// A durable step. Its intent is recorded before it runs and its result after it. A step that began
// in an ended attempt and has no end was cut off. It is in doubt.
struct Step {
  enum class State : std::uint8_t {
    begun = 0,
    done = 1,
    again = 2,  // runs again: it failed, or a person ordered it
  };
  std::string name{};
  State state = State::begun;
  InDoubt policy = InDoubt::retry;  // applies if the step is cut off: retry, hold or probe
  std::uint32_t attempt{};          // the attempt that last began or finished it
  std::uint32_t runs{};             // how often it was begun
  Time started_at{};
  std::optional<Time> ended_at{};
  Body result{};            // done
  bool result_cut = false;  // see Record
  std::uint32_t failed{};   // the attempt of its last failed try; zero if no try failed
  std::string error{};      // of that try
  std::string call{};       // the caller's id of the call that began it; empty: none

  friend bool operator==(const Step&, const Step&) = default;
};

// What a person, a probe or the policy did to the task.
struct OperatorAction {
  using Act = ActionView::Kind;  // a record contains only the first nine
  Act act = Act::retried;
  Time at{};
  std::string by{};
  std::string why{};
  std::string step{};
  Nonce nonce{};  // of the command; a repeated command is recognised by it

  friend bool operator==(const OperatorAction&, const OperatorAction&) = default;
};

// A person's order to run a settled task again. A wake carries it to the worker that applies it. So
// the order is one durable write.
struct Order {
  enum class Kind : std::uint8_t { retry = 0, complete_step = 1 };
  Kind kind = Kind::retry;
  Nonce nonce{};
  std::uint32_t claims{};  // of the record that the person saw; the order is for no later attempt
  Time at{};
  std::string by{};
  std::string why{};
  std::string step{};  // complete_step
  Body result{};       // complete_step

  friend bool operator==(const Order&, const Order&) = default;
};

// The reply that a waiting run expects: an event with this topic. Its id begins with `id`.
struct ReplyTo {
  std::string topic{};
  std::string id{};

  friend bool operator==(const ReplyTo&, const ReplyTo&) = default;
};

inline constexpr std::uint32_t kJitter = 200;  // permille

// The task's own policy, which overrides the queue's.
struct TaskPolicy {
  std::uint32_t attempts{};         // zero: the queue's
  std::vector<Duration> backoff{};  // empty: the queue's
  std::uint32_t jitter_permille = kJitter;
  Duration timeout{};                 // zero: the queue's
  std::optional<InDoubt> in_doubt{};  // nullopt: the queue's

  friend bool operator==(const TaskPolicy&, const TaskPolicy&) = default;
};

// A claim that has not started. The task did not begin to run, so the offer can end without a trace.
// The record's nonce, member and lease are the offer's.
struct Offer {
  std::string worker{};
  Time at{};
  State before = State::waiting;  // or retrying: the state that the task returns to
  bool can_probe = false;

  friend bool operator==(const Offer&, const Offer&) = default;
};

// A record has one of these states: waiting, running, retrying, in_doubt, completed, dead,
// cancelled, duplicate.
struct Record {
  Sequence sequence{};  // of its log entry; zero: a record without a log entry
  Digest digest{};      // of that entry's content
  State state = State::waiting;
  std::uint32_t claims{};           // all attempts so far
  std::uint32_t counted{};          // the attempts that count against the queue's limit
  bool in_doubt = false;            // an attempt ended without a verdict
  Nonce nonce{};                    // of the last claim; only its worker may write while running
  Member member{};                  // the worker of the last claim
  Duration lease{};                 // running: the lease ends at stamp + lease
  Duration delay{};                 // retrying: due at stamp + delay
  std::vector<Attempt> attempts{};  // the last ones, at most kAttemptsKept
  std::vector<Step> steps{};        // in the order in which they first began
  std::vector<OperatorAction> story{};  // the last ones, at most kActionsKept
  std::uint32_t actions{};              // all of them
  bool probe = false;                   // the next claim asks the probe before it runs the handler
  bool cancel_asked = false;            // running: the attempt is asked to stop
  std::optional<Body> result{};         // completed
  bool result_cut = false;              // an older Once kept only the first MiB of the result
  std::string error{};                  // of the last attempt that had one
  std::string reason{};                 // dead, cancelled, duplicate: why
  Time since{};                         // in this state since, wall time
  std::optional<ReplyTo> reply{};       // nullopt if no run waits
  bool reply_due = false;               // the record owes a reply
  std::optional<TaskPolicy> own{};      // nullopt: only the queue's policy applies
  std::optional<Offer> offer{};         // running: the claim is offered and has not started
  std::uint32_t lapsed{};               // offers that ended without a start, since the last start
  std::optional<StoreTime> started{};   // running, begun as an offer: when the attempt started

  friend bool operator==(const Record&, const Record&) = default;
};

// The reason of a task begins with this if its key belongs to a task with other content.
inline constexpr std::string_view kConflictingKey = "conflicting_duplicate";

inline constexpr std::size_t kAttemptsKept = 64;
inline constexpr std::size_t kErrorKept = 4096;
// Older attempts keep only the beginning of their errors.
inline constexpr std::size_t kAttemptsWhole = 8;
inline constexpr std::size_t kOldErrorKept = 256;
// Each attempt keeps the end of its log. A record keeps at most kLogsKept of logs; the oldest are
// dropped first.
inline constexpr std::size_t kLogKept = 16 << 10;
inline constexpr std::size_t kLogsKept = 256 << 10;
inline constexpr std::size_t kActionsKept = 256;
inline constexpr std::size_t kMostSteps = 1000;
inline constexpr std::size_t kCallKept = 128;  // bytes of a step's call id
// The longest lease of an offer. After kLapsesInARow offers without a start, the task backs off.
inline constexpr Duration kOfferLease{10'000};
inline constexpr std::uint32_t kLapsesInARow = 20;
// The limit of one result of a task or step: the default of max_result, and its largest value.
inline constexpr std::uint64_t kMaxResult = 16 << 20;
inline constexpr std::uint64_t kHighestMaxResult = 256 << 20;
// The results of all steps of a task together may have this many times the limit of one result.
inline constexpr std::uint64_t kResultsTogether = 16;

// The step of that name, or null.
const Step* find_step(const Record& record, std::string_view name);
// Whether the step began in an ended attempt and has no recorded end.
bool cut_off(const Record& record, const Step& step);

StepView step_view(const Record& record, const Step& step);

// Whether no worker runs the task by itself any more.
bool settled(State state);
// Settled and not in doubt. The task has an end that a reply can report.
bool over(State state);

// The delay until an ended task that owes a reply is delivered again.
inline constexpr Duration kReplyAgain{10'000};

// The delay, from the record's stamp, after which the feed delivers the task again. nullopt if the
// task is finished. A task that owes a reply is not finished.
std::optional<Duration> look_again(const Record& record);

// The error of the last attempt that had one, or a text that the attempt timed out.
std::string last_error(const Record& record);

// The token of the running claim. `revision` is that of the record when it was read or written.
Token token_of(const Record& record, Revision revision);

}  // namespace once::core
