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

// What the ledger holds, as a store read it.
struct Stored {
  Record record{};
  Revision revision{};
  StoreTime stamp{};         // when the store wrote it
  bool holder_gone = false;  // the store knows that the worker of the last claim no longer runs

  friend bool operator==(const Stored&, const Stored&) = default;
};

// What a queue says about attempts; see Queue.
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
// As it is for a task that has something to say of its own.
Policy applied(Policy queue, const TaskPolicy& own);

// What becomes of a step that is cut off, when it does not say so itself: what the queue says of
// attempts. Where a probe speaks for the whole task, the step is run again after it.
InDoubt step_policy(const Policy& policy, std::optional<InDoubt> own);

// The wait before the next attempt, after `counted` attempts were used: the backoff value and up to
// a fifth more (or what the policy says), by `jitter` in [0, 1).
Duration backoff_after(const Policy& policy, std::uint32_t counted, double jitter);

// --- Commands -------------------------------------------------------------------------------

struct Claim {  // I want to run this task
  Sequence sequence{};
  Digest digest{};
  std::string worker{};
  Member member{};
  Nonce nonce{};
  bool can_probe = false;                 // I know how to ask whether it happened
  std::optional<StoreTime> not_before{};  // of the task
  std::optional<StoreTime> expires{};     // of the task
  std::optional<Order> order{};           // a person's, that came with the delivery
  Duration lease{};                       // zero: the queue's
  std::optional<ReplyTo> reply{};         // for a task that has no record yet, like the next one
  std::optional<TaskPolicy> own{};
};
struct Renew {  // I am still at it
  Nonce nonce{};
  Duration spent{};  // how long the attempt has run
  Duration grace{};  // how long ending the handler may take once the timeout has passed
  Duration lease{};  // zero: the queue's
};
// `oversize`: the bytes of a result that was above the queue's limit and is not here; zero: it is.
struct Complete {
  Nonce nonce{};
  Body result{};
  std::uint64_t oversize{};
  std::string probed_by{};  // who asked the probe, when this is the probe's answer
  std::string log{};        // see Attempt; the same in every command that ends an attempt
};
struct Fail {  // it did not finish; `final`: and never will
  Nonce nonce{};
  std::string error{};
  std::optional<Duration> retry_in{};
  bool final = false;
  double jitter{};
  std::string log{};
};
struct Doubt {  // it ended without a verdict: unknown or timed_out
  Nonce nonce{};
  Ending ending = Ending::unknown;
  std::string error{};
  double jitter{};
  std::string log{};
};
struct Release {  // give it back: never started (released), or stopped in the middle (interrupted)
  Nonce nonce{};
  bool started = false;
  std::string error{};
  std::string log{};
};
struct SetAside {  // a record for an entry that has none under its key, before its delivery is done
  Sequence sequence{};
  Digest digest{};
  State state = State::duplicate;  // or dead, cancelled; in_doubt: its record was lost
  std::string reason{};
  std::optional<Body> result{};  // a duplicate that owes a reply: of the task that has its key
  std::optional<ReplyTo> reply{};
  std::optional<TaskPolicy> own{};
};

struct Replied {  // the reply was appended: it reported this state and these claims
  std::uint32_t claims{};
  State state{};
};

// A claim that asks the probe: what it answered, when that is not "it happened" (see Complete).
struct Probed {
  Nonce nonce{};
  bool known = false;  // it did not happen; false: nobody knows
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
};
struct StepEnd {
  Nonce nonce{};
  std::string name{};
  Body result{};
  std::uint64_t oversize{};  // see Complete
};
struct StepFail {  // it ended, and its word is that nothing happened; `error` says why
  Nonce nonce{};
  std::string name{};
  std::string error{};
};
struct StepHold {  // nobody knows whether it happened: a person decides
  Nonce nonce{};
  std::string name{};
  std::string by{};
  std::string why{};
};

// A person's.
struct Resolve {  // an in-doubt task: it happened, with this result
  Nonce nonce{};
  Body result{};
  std::string by{};
  std::string why{};
};
struct Retry {  // a dead or in-doubt task of a queue that has no feed to wake
  Order order{};
};
struct Drop {  // a dead or in-doubt task: leave it
  Nonce nonce{};
  std::string by{};
  std::string why{};
};
struct Cancel {                  // any unsettled task; one that runs is asked to end
  std::optional<Order> order{};  // by which it is to run again, and which waits
  Sequence sequence{};
  Digest digest{};
  Nonce nonce{};
  std::string by{};
  std::string why{};
  std::optional<ReplyTo> reply{};  // for a task that has no record yet
};

using Command =
    std::variant<Claim, Renew, Complete, Fail, Doubt, Release, SetAside, Probed, StepBegin, StepEnd,
                 StepFail, StepHold, Resolve, Retry, Drop, Cancel, Replied>;

// --- Outcomes -------------------------------------------------------------------------------

enum class Verdict {
  claimed,  // yours; the token is the revision of the write
  renewed,
  overdue,          // past the queue's timeout: the lease is not renewed any more
  completed,        // recorded now
  retrying,         // recorded; due at `until`
  dead,             // recorded as a dead letter
  released,         // recorded; claimable at once
  set_aside,        // recorded
  doubted,          // recorded as in doubt: held for a person
  cancelled,        // recorded
  expired,          // recorded as cancelled: its time is over
  asked_to_stop,    // recorded (cancel), or renewed (renew): it is to end as soon as it can
  probed,           // recorded: it did not happen, run it
  step_begun,       // recorded: run it
  step_remembered,  // done before: the record holds its result
  step_in_doubt,    // begun in an earlier attempt and cut off: ask its probe; nothing to write
  step_recorded,
  step_refused,       // too many steps, or none of that name has begun
  replied,            // recorded: no reply is owed any more
  already_done,       // this very command was recorded before: nothing to write
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
  wrong_state,        // what a person asks for does not fit the state
  fenced,             // reclaimed or settled by another: you may not write
};
std::string_view to_string(Verdict verdict);

struct Decision {
  Verdict verdict{};
  std::optional<Record> next{};  // to be written on the revision that was read; none: write nothing
  StoreTime until{};             // held, not_due, retrying
  Sequence of{};                 // duplicate_key, conflicting_key
};

// `stored` is null when the ledger holds nothing.
Decision decide(const Stored* stored, const Command& command, const Policy& policy, Now now);

// --- Publishing -----------------------------------------------------------------------------

enum class AppendVerdict {
  accepted,   // in the log now, by this very append
  duplicate,  // the log had it: same content
  conflict,   // the log had the id with other content: nothing was added
};

// What an append means that met an entry with the same id.
AppendVerdict judge_append(const Nonce& my_nonce, const Digest& my_digest, const Nonce& its_nonce,
                           const Digest& its_digest);

}  // namespace once::core
