// The rules of exactly-once, all of them: given what the ledger holds, a command and the time,
// what the ledger should hold next and what to tell the caller. Pure: no I/O, no clock, no threads.
// The caller makes it true by a compare-and-swap on the revision it read, and asks again when
// another was faster.
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

  friend bool operator==(const Policy&, const Policy&) = default;
};
Policy policy_of(const Queue& queue);  // with the defaults filled in

// The wait before the next attempt, after `counted` attempts were used: the backoff value and up to
// a fifth more, by `jitter` in [0, 1).
Duration backoff_after(const Policy& policy, std::uint32_t counted, double jitter);

// --- Commands -------------------------------------------------------------------------------

struct Claim {  // I want to run this task
  Sequence sequence{};
  Digest digest{};
  std::string worker{};
  Member member{};
  Nonce nonce{};
};
struct Renew {  // I am still at it
  Nonce nonce{};
  Duration spent{};  // how long the attempt has run
  Duration grace{};  // how long ending the handler may take once the timeout has passed
};
struct Complete {
  Nonce nonce{};
  Body result{};
  bool result_cut = false;
};
struct Fail {  // it did not finish; `final`: and never will
  Nonce nonce{};
  std::string error{};
  std::optional<Duration> retry_in{};
  bool final = false;
  double jitter{};
};
struct Doubt {  // it ended without a verdict: unknown or timed_out
  Nonce nonce{};
  Ending ending = Ending::unknown;
  std::string error{};
  double jitter{};
};
struct Release {  // give it back: never started (released), or stopped in the middle (interrupted)
  Nonce nonce{};
  bool started = false;
  std::string error{};
};
struct SetAside {  // a record for an entry that has none under its key, before its delivery is done
  Sequence sequence{};
  Digest digest{};
  State state = State::duplicate;  // or dead, cancelled
  std::string reason{};
};

using Command = std::variant<Claim, Renew, Complete, Fail, Doubt, Release, SetAside>;

// --- Outcomes -------------------------------------------------------------------------------

enum class Verdict {
  claimed,  // yours; the token is the revision of the write
  renewed,
  overdue,            // past the queue's timeout: the lease is not renewed any more
  completed,          // recorded now
  retrying,           // recorded; due at `until`
  dead,               // recorded as a dead letter
  released,           // recorded; claimable at once
  set_aside,          // recorded
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
