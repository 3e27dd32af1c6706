// What the ledger remembers per queue and key. A value: decide() makes the next one from it.
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
  Token token{};  // zero while the claim that made it has not been stamped: then the revision
  Time started_at{};
  std::optional<Time> ended_at{};
  Ending ending = Ending::running;
  std::string error{};
  std::string log{};     // the end of what its program wrote to stderr, see kLogKept
  bool probing = false;  // asks the probe first; the handler has not begun

  friend bool operator==(const Attempt&, const Attempt&) = default;
};
bool without_verdict(Ending ending);

// A durable step. Its intent is recorded before it runs, its result after: one that has begun in an
// attempt that is over was cut off, and is in doubt by itself.
struct Step {
  enum class State : std::uint8_t {
    begun = 0,
    done = 1,
    again = 2,  // to be run again: it failed, or a person said so
  };
  std::string name{};
  State state = State::begun;
  InDoubt policy = InDoubt::retry;  // when it is cut off: retry, hold or probe
  std::uint32_t attempt{};          // that began or finished it last
  std::uint32_t runs{};             // how often it was begun
  Time started_at{};
  std::optional<Time> ended_at{};
  Body result{};            // done
  bool result_cut = false;  // see Record
  std::uint32_t failed{};   // the attempt of its last try that failed; zero: none did
  std::string error{};      // of that try

  friend bool operator==(const Step&, const Step&) = default;
};

// What somebody did to the task beside running it: a person, a probe, or the policy.
struct OperatorAction {
  using Act = ActionView::Kind;  // a record contains only the first nine
  Act act = Act::retried;
  Time at{};
  std::string by{};
  std::string why{};
  std::string step{};
  Nonce nonce{};  // of the command, so that one that is repeated finds itself

  friend bool operator==(const OperatorAction&, const OperatorAction&) = default;
};

// What a person asked of a settled task that must run again. A wake carries it to the worker that
// applies it, so that asking is one durable write.
struct Order {
  enum class Kind : std::uint8_t { retry = 0, complete_step = 1 };
  Kind kind = Kind::retry;
  Nonce nonce{};
  std::uint32_t claims{};  // of the record that the person saw: it is not about a later attempt
  Time at{};
  std::string by{};
  std::string why{};
  std::string step{};  // complete_step
  Body result{};       // complete_step

  friend bool operator==(const Order&, const Order&) = default;
};

// Who waits to hear how the task ended: an event with this topic and an id that begins with this.
struct ReplyTo {
  std::string topic{};
  std::string id{};

  friend bool operator==(const ReplyTo&, const ReplyTo&) = default;
};

inline constexpr std::uint32_t kJitter = 200;  // permille

// What a task itself says about its attempts, in place of what its queue says.
struct TaskPolicy {
  std::uint32_t attempts{};         // zero: the queue's
  std::vector<Duration> backoff{};  // empty: the queue's
  std::uint32_t jitter_permille = kJitter;
  Duration timeout{};                 // zero: the queue's
  std::optional<InDoubt> in_doubt{};  // none: the queue's

  friend bool operator==(const TaskPolicy&, const TaskPolicy&) = default;
};

// Only these of State occur in a record: waiting, running, retrying, in_doubt, completed, dead,
// cancelled, duplicate.
struct Record {
  Sequence sequence{};  // the log entry it is bound to; zero: a record without a log entry
  Digest digest{};      // of that entry's content
  State state = State::waiting;
  std::uint32_t claims{};               // attempts so far, every claim one
  std::uint32_t counted{};              // those that use up the queue's attempts
  bool in_doubt = false;                // some attempt ended without a verdict
  Nonce nonce{};                        // of the last claim: who may write while running
  Member member{};                      // the worker of the last claim
  Duration lease{};                     // running: the lease ends at stamp + lease
  Duration delay{};                     // retrying: due at stamp + delay
  std::vector<Attempt> attempts{};      // the last ones, at most kAttemptsKept
  std::vector<Step> steps{};            // in the order in which they first began
  std::vector<OperatorAction> story{};  // the last ones, at most kActionsKept
  std::uint32_t actions{};              // all of them
  bool probe = false;                   // the next claim asks the probe before it runs the handler
  bool cancel_asked = false;            // running: to end as soon as it can
  std::optional<Body> result{};         // completed
  bool result_cut = false;              // by an older Once: the result is its first MiB only
  std::string error{};                  // of the last attempt that had one
  std::string reason{};                 // dead, cancelled, duplicate: why
  Time since{};                         // in this state since, wall time
  std::optional<ReplyTo> reply{};       // none: nobody waits
  bool reply_due = false;               // over, and who waits has not been told for certain
  std::optional<TaskPolicy> own{};      // none: the queue's alone

  friend bool operator==(const Record&, const Record&) = default;
};

// What the reason of a task begins with whose key stands for other content.
inline constexpr std::string_view kConflictingKey = "conflicting_duplicate";

inline constexpr std::size_t kAttemptsKept = 64;
inline constexpr std::size_t kErrorKept = 4096;
// Of the errors of older attempts only the beginning is kept.
inline constexpr std::size_t kAttemptsWhole = 8;
inline constexpr std::size_t kOldErrorKept = 256;
// Of each attempt's log the end is kept. All logs of a record are bounded: the oldest go first.
inline constexpr std::size_t kLogKept = 16 << 10;
inline constexpr std::size_t kLogsKept = 64 << 10;
inline constexpr std::size_t kActionsKept = 256;
inline constexpr std::size_t kMostSteps = 1000;
// The limit of one result of a task or step: the default of max_result, and its largest value.
inline constexpr std::uint64_t kMaxResult = 16 << 20;
inline constexpr std::uint64_t kHighestMaxResult = 256 << 20;
// The results of a task's steps together may have so many times what one may have.
inline constexpr std::uint64_t kResultsTogether = 16;

// The step of that name, or null.
const Step* find_step(const Record& record, std::string_view name);
// It began in an attempt that is over, and nobody knows how far it came.
bool cut_off(const Record& record, const Step& step);

// Nothing will happen to it any more by itself.
bool settled(State state);
// Settled, and not for a person to decide: whoever waits for the task can be told.
bool over(State state);

// How soon a task that is over comes again while it owes a reply.
inline constexpr Duration kReplyAgain{10'000};

// When the feed should hand the task over again, counted from the record's stamp; none: never, the
// delivery is done with. What owes a reply is not done with, whatever its state.
std::optional<Duration> look_again(const Record& record);

// What the last attempt that had one gave as its error; that it ran out of time, when it did.
std::string last_error(const Record& record);

// The token of the running claim, given the revision the record was read at or written with.
Token token_of(const Record& record, Revision revision);

}  // namespace once::core
