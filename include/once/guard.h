// The ledger alone, for consumer loops of one's own around any broker: claim a key before the work,
// record the outcome after it. The same rules and the same fencing as for a Worker; what is missing
// is the log, so nothing is delivered and nothing is retried by itself.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "once/view.h"

namespace once::inline v1 {

// What a claim was answered with.
struct Admission {
  enum class Kind {
    claimed,    // yours: do it, then complete() or fail() it with the token
    completed,  // done before; `result` is its result
    held,       // somebody else is at it, for `wait` unless renewed
    not_due,    // failed before, and to be tried again after `wait`
    dead,       // failed for good
    in_doubt,   // held until a person decides
    cancelled,
  };
  Kind kind = Kind::claimed;
  std::uint64_t token{};  // claimed: grows with every claim in the zone
  int attempt{};          // claimed: 1 for the first
  bool in_doubt = false;  // claimed: an earlier attempt ended without a verdict
  Duration wait{};        // claimed: how long the lease is; held, not_due: see there
  Body result{};          // completed
  std::string why{};      // dead, in_doubt, cancelled
};
std::string_view to_string(Admission::Kind kind);

struct GuardOptions {
  std::string name{};  // of the claimant; empty: host and process id
  // Claims outlive the guard and its process and go by their leases alone. Otherwise, where the
  // store can tell that the process is gone, its claims are free at once.
  bool outlived = false;
};

// Made by Zone::guard(), and keeps the zone open. Any thread.
class Guard {
 public:
  Guard(Guard&&) noexcept;
  Guard& operator=(Guard&&) noexcept;
  ~Guard();

  // `lease`: zero is the queue's. Nothing is renewed by itself.
  Result<Admission> claim(std::string_view key, Duration lease = {});
  // Code::fenced when another has claimed it since, or it is settled; Code::wrong_state when a
  // person has cancelled it: stop. `lease`: zero is the queue's.
  Result<State> renew(std::string_view key, std::uint64_t token, Duration lease = {});
  // Each answers where the key stands now: a failure can be the last one. Repeated with the same
  // token they are fine.
  Result<State> complete(std::string_view key, std::uint64_t token, Body result = {});
  Result<State> fail(std::string_view key, std::uint64_t token, std::string why,
                     std::optional<Duration> retry_in = {});
  Result<State> dead(std::string_view key, std::uint64_t token, std::string why);

  struct Impl;
  explicit Guard(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace once::inline v1
