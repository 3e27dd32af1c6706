// What the ledger remembers per queue and key. A value: decide() makes the next one from it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/types.h"
#include "once/view.h"

namespace once::core {

// How an attempt ended. `lost`, `timed_out`, `unknown` and `interrupted` are no verdict: the effect
// may have happened.
enum class Ending : std::uint8_t {
  running = 0,
  completed = 1,
  failed = 2,       // the handler's word that it did not finish
  dead = 3,         // the handler's word that it never will
  lost = 4,         // the worker died, or let its lease go by and was reclaimed
  timed_out = 5,    // ended by the queue's timeout
  unknown = 6,      // the handler's word that it may have happened; died by a signal
  interrupted = 7,  // ended by the worker's own stop; does not use up an attempt
  released = 8,     // claimed and never started; does not use up an attempt
};
std::string_view to_string(Ending ending);

struct Attempt {
  std::uint32_t number{};
  std::string worker{};
  Token token{};  // zero while the claim that made it has not been stamped: then the revision
  Time started_at{};
  std::optional<Time> ended_at{};
  Ending ending = Ending::running;
  std::string error{};

  friend bool operator==(const Attempt&, const Attempt&) = default;
};
bool without_verdict(Ending ending);

// Only these of State occur in a record: waiting, running, retrying, in_doubt, completed, dead,
// cancelled, duplicate.
struct Record {
  Sequence sequence{};  // the log entry it is bound to; zero: a record without a log entry
  Digest digest{};      // of that entry's content
  State state = State::waiting;
  std::uint32_t claims{};           // attempts so far, every claim one
  std::uint32_t counted{};          // those that use up the queue's attempts
  bool in_doubt = false;            // some attempt ended without a verdict
  Nonce nonce{};                    // of the last claim: who may write while running
  Member member{};                  // the worker of the last claim
  Duration lease{};                 // running: the lease ends at stamp + lease
  Duration delay{};                 // retrying: due at stamp + delay
  std::vector<Attempt> attempts{};  // the last ones, at most kAttemptsKept
  std::optional<Body> result{};     // completed
  bool result_cut = false;          // the result was longer than what is kept
  std::string error{};              // of the last attempt that had one
  std::string reason{};             // dead, cancelled, duplicate: why
  Time since{};                     // in this state since, wall time

  friend bool operator==(const Record&, const Record&) = default;
};

inline constexpr std::size_t kAttemptsKept = 32;
inline constexpr std::size_t kErrorKept = 4096;

// Nothing will happen to it any more by itself.
bool settled(State state);

// When the feed should hand the task over again, counted from the record's stamp; none: never, the
// delivery is done with.
std::optional<Duration> look_again(const Record& record);

// The token of the running claim, given the revision the record was read at or written with.
Token token_of(const Record& record, Revision revision);

}  // namespace once::core
