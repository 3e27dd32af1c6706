// The rules of exactly-once for tasks; flow/rules has those of workflows. Given the ledger's
// record, a command and the time, decide() returns the next record and a verdict. Pure: no I/O, no
// clock.
// The caller writes the next record by a compare-and-swap on the revision that it read. If another
// writer was faster, the caller asks again with the current record.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "core/record.h"

namespace once::core {

// A record as a store read it.
struct Stored {
  Record record{};
  Revision revision{};
  StoreTime stamp{};         // when the store wrote it
  bool holder_gone = false;  // the store knows that the worker of the last claim no longer runs

  friend bool operator==(const Stored&, const Stored&) = default;
};

// How a queue treats attempts; see Queue.
struct Policy {
  Duration lease{};
  Duration timeout{};  // zero: none
  std::uint32_t attempts{};
  std::vector<Duration> backoff{};
  InDoubt in_doubt = InDoubt::retry;
  SameKey same_key = SameKey::duplicate;
  std::uint64_t max_result = kMaxResult;
  std::uint32_t jitter_permille = kJitter;

  friend bool operator==(const Policy&, const Policy&) = default;
};
Policy policy_of(const Queue& queue);  // with the defaults filled in
// Refuses a result that the queue would not keep.
Result<void> check_result(const Queue& queue, const Body& result);
// The queue's policy with the task's own policy applied.
Policy applied(Policy queue, const TaskPolicy& own);

// The policy of a step that is cut off: its own, or else the queue's. If the queue's policy is
// probe, the probe covers the whole task, and the step runs again after it.
InDoubt step_policy(const Policy& policy, std::optional<InDoubt> own);

// The wait before the next attempt, after `counted` attempts: the backoff value plus a part of it.
// That part is `jitter`, in [0, 1), of the policy's jitter, which is a fifth by default.
Duration backoff_after(const Policy& policy, std::uint32_t counted, double jitter);

// --- Commands -------------------------------------------------------------------------------

struct Claim {  // this worker wants to run the task
  Sequence sequence{};
  Digest digest{};
  std::string worker{};
  Member member{};
  Nonce nonce{};
  bool can_probe = false;                 // the worker has a probe
  std::optional<StoreTime> not_before{};  // of the task
  std::optional<StoreTime> expires{};     // of the task
  std::optional<Order> order{};           // a person's order that came with the delivery
  Duration lease{};                       // zero: the queue's
  std::optional<ReplyTo> reply{};         // only for a task that has no record yet
  std::optional<TaskPolicy> own{};        // the same
  enum class Kind {
    start,           // the attempt starts with this write
    offer,           // a later Start begins the attempt
    start_and_keep,  // like start; the record keeps the time of the start and the nonce
  };
  Kind kind = Kind::start;
};
struct Start {  // begins the attempt of an offer
  Nonce nonce{};
  std::optional<StoreTime> expires{};  // of the task
  Duration lease{};                    // zero: the queue's
};
struct Renew {  // the attempt is still running, or the offer is still wanted
  Nonce nonce{};
  Duration spent{};  // how long the attempt has run; zero: the record knows when it started
  Duration grace{};  // how long the handler may take to end after the timeout
  Duration lease{};  // zero: the queue's
};
// `oversize` is the size of a result that was above the queue's limit and is not in `result`. Zero
// means that `result` has the result.
struct Complete {
  Nonce nonce{};
  Body result{};
  std::uint64_t oversize{};
  std::string probed_by{};  // the worker that asked the probe, if this is the probe's answer
  std::string log{};        // see Attempt; the same in every command that ends an attempt
};
struct Fail {  // the attempt failed; `final`: the task must not be retried
  Nonce nonce{};
  std::string error{};
  std::optional<Duration> retry_in{};
  bool final = false;
  double jitter{};
  std::string log{};
};
struct Doubt {  // the attempt ended without a verdict: unknown or timed_out
  Nonce nonce{};
  Ending ending = Ending::unknown;
  std::string error{};
  double jitter{};
  std::string log{};
};
struct Release {  // gives the claim back: never started (released), or stopped (interrupted)
  Nonce nonce{};
  bool started = false;
  bool if_offered = false;  // gives back only an offer: a claim that has started goes on
  std::string error{};
  std::string log{};
};
struct SetAside {  // writes a record for an entry that has none under its key
  Sequence sequence{};
  Digest digest{};
  State state = State::duplicate;  // or dead, cancelled; in_doubt if its record was lost
  std::string reason{};
  std::optional<Body> result{};  // for a duplicate that owes a reply: the result of its key's task
  std::optional<ReplyTo> reply{};
  std::optional<TaskPolicy> own{};
};

struct Replied {  // the reply was appended: it reported this state and these claims
  std::uint32_t claims{};
  State state{};
};

// The probe's answer, unless the answer is "it happened" (see Complete).
struct Probed {
  Nonce nonce{};
  bool known = false;  // true: it did not happen; false: the probe does not know
  std::string by{};
  std::string why{};
  std::string log{};  // kept if the attempt ends with this answer
};

// Steps of a running attempt.
struct StepBegin {
  Nonce nonce{};
  std::string name{};
  InDoubt policy = InDoubt::retry;  // see step_policy()
  bool asked = false;               // the step's probe said that it did not happen
  std::string call{};               // tells a repeated begin from a second caller; may be empty
};
struct StepEnd {
  Nonce nonce{};
  std::string name{};
  Body result{};
  std::uint64_t oversize{};  // see Complete
  std::string call{};        // of the begin that it ends; the same in the next two
};
struct StepFail {  // the step ended without an effect; `error` says why
  Nonce nonce{};
  std::string name{};
  std::string error{};
  std::string call{};
};
struct StepHold {  // it is unknown whether the step happened: a person decides
  Nonce nonce{};
  std::string name{};
  std::string by{};
  std::string why{};
  std::string call{};
};

// Commands of people.
struct Resolve {  // an in-doubt task happened, with this result
  Nonce nonce{};
  Body result{};
  std::string by{};
  std::string why{};
  std::optional<std::uint32_t> claims{};  // of the record that the person saw; the same below
};
struct Retry {  // runs a dead or in-doubt task again, in a queue without a feed
  Order order{};
};
struct Drop {  // cancels a dead or in-doubt task
  Nonce nonce{};
  std::string by{};
  std::string why{};
  std::optional<std::uint32_t> claims{};
};
struct Cancel {                  // cancels an unsettled task; a running task is asked to stop
  std::optional<Order> order{};  // the waiting order to run the task again
  Sequence sequence{};
  Digest digest{};
  Nonce nonce{};
  std::string by{};
  std::string why{};
  std::optional<ReplyTo> reply{};  // for a task that has no record yet
  std::optional<std::uint32_t> claims{};
};

using Command =
    std::variant<Claim, Start, Renew, Complete, Fail, Doubt, Release, SetAside, Probed, StepBegin,
                 StepEnd, StepFail, StepHold, Resolve, Retry, Drop, Cancel, Replied>;

// --- Outcomes -------------------------------------------------------------------------------

enum class Verdict {
  claimed,  // the worker has the task; the token is the revision of the write
  offered,  // recorded: the task is kept for this worker, and a Start begins it
  started,  // recorded: the attempt begins; the token is the revision of the write
  lapsed,   // recorded: too many offers ended without a start, so the task waits until `until`
  renewed,
  overdue,          // past the queue's timeout: the lease is not renewed any more
  completed,        // recorded now
  retrying,         // recorded; due at `until`
  dead,             // recorded as a dead letter
  released,         // recorded; claimable at once
  set_aside,        // recorded
  doubted,          // recorded as in doubt: held for a person
  cancelled,        // recorded
  expired,          // recorded as cancelled, because the task has expired
  asked_to_stop,    // recorded (cancel) or renewed (renew): the attempt must end soon
  probed,           // recorded: it did not happen; run the handler
  step_begun,       // recorded: run the step
  step_remembered,  // done before: the record holds its result
  step_in_doubt,    // begun in an earlier attempt and cut off: ask its probe; nothing to write
  step_recorded,
  step_under_way,     // another call has begun this step in this attempt
  step_refused,       // too many steps, or no step of that name has begun
  replied,            // recorded: the task owes no reply any more
  already_done,       // this command was recorded before: nothing to write
  already_completed,  // by an earlier attempt; the record holds the result
  already_dead,
  already_cancelled,
  already_set_aside,  // the record says duplicate
  awaits_decision,    // in doubt and held for a person
  held,               // another worker's lease runs until `until`
  not_due,            // a retry waits until `until`
  exhausted,          // the lost attempt was the last one: recorded as dead, not claimed
  duplicate_key,      // the key belongs to another task with the same content (`of`)
  conflicting_key,    // the key belongs to another task with other content (`of`)
  wrong_state,        // the state does not allow what a person asks for
  not_started,        // the claim is only offered: start it first
  fenced,             // another writer has reclaimed or settled the task: nothing is written
};
std::string_view to_string(Verdict verdict);

struct Decision {
  Verdict verdict{};
  std::optional<Record> next{};  // write it on the revision that was read; nullopt: write nothing
  StoreTime until{};             // held, not_due, retrying
  Sequence of{};                 // duplicate_key, conflicting_key
};

// `stored` is null if there is no record.
Decision decide(const Stored* stored, const Command& command, const Policy& policy, Now now);

// --- Publishing -----------------------------------------------------------------------------

enum class AppendVerdict {
  accepted,   // in the log, written by this append
  duplicate,  // the log has the id with the same content
  conflict,   // the log has the id with other content: nothing was added
};

// Judges an append that met an entry with the same id.
AppendVerdict judge_append(const Nonce& my_nonce, const Digest& my_digest, const Nonce& its_nonce,
                           const Digest& its_digest);

}  // namespace once::core
