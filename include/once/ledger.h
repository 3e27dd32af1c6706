// The ledger without the log, for a consumer loop of your own on any broker.
// The loop claims a key before the work and records the outcome after the work.
//
//   LedgerClient ledger = zone.ledger("orders").value();
//   const ClaimResult claim = ledger.claim(order.id).value();
//   if (claim.kind == ClaimResult::Kind::claimed) {
//     charge(order, claim.token);
//     ledger.complete(order.id, claim.token).value();
//   }
//
// A ledger client follows the same rules and the same fencing as a Worker. It does not deliver
// work and does not retry failed keys: the loop and its broker do that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "once/view.h"

namespace once::inline v1 {

namespace detail {
struct Access;
struct LedgerState;
}  // namespace detail

struct ClaimResult {
  enum class Kind {
    claimed,    // the caller holds the key; do the work, then report it with `token`
    completed,  // the work is already completed; see `result`
    held,       // another caller holds the key; its lease expires after `wait`
    not_due,    // an earlier attempt failed; a retry is due after `wait`
    dead,       // the key is a dead letter
    in_doubt,   // the key is held until a person decides
    cancelled,
  };
  Kind kind = Kind::claimed;
  std::uint64_t token{};  // if claimed; grows with every claim in the zone
  int attempt{};          // if claimed; the first attempt is 1
  bool in_doubt = false;  // if claimed; an earlier attempt ended without a verdict
  Duration wait{};        // if claimed, the length of the lease; else see held and not_due
  Body result{};          // if completed
  std::string why{};      // if dead, in_doubt or cancelled
};
std::string_view to_string(ClaimResult::Kind kind);

struct LedgerOptions {
  std::string name{};  // of the claimant; empty means host and process id
  // If true, a claim outlives the client and its process, and ends only when its lease expires.
  // If false, a store that detects the end of the process frees its claims at once.
  bool claims_outlive_process = false;
};

// Zone::ledger() returns a LedgerClient. It keeps its zone open. Any thread may call.
class LedgerClient {
 public:
  LedgerClient(LedgerClient&&) noexcept;
  LedgerClient& operator=(LedgerClient&&) noexcept;
  ~LedgerClient();

  // Claims the key for `lease`. If `lease` is zero, the queue's lease applies.
  // The client does not renew the lease; the caller must call renew().
  // With a `nonce`, a repeated claim() answers as the first did as long as the caller holds the key.
  // So a caller that got no answer may ask again. Each new claim needs another nonce.
  Result<ClaimResult> claim(std::string_view key, Duration lease = {}, std::string_view nonce = {});
  // Renews the lease of a claim. If `lease` is zero, the queue's lease applies.
  // Returns Code::fenced if another caller has claimed the key since, or the key is settled.
  // Returns Code::wrong_state if a person cancelled the key. The caller must then stop its work.
  Result<State> renew(std::string_view key, std::uint64_t token, Duration lease = {});
  // Each of these records an outcome and returns the new state of the key. If fail() used the
  // last attempt, the state is dead. Each returns Code::fenced as renew() does, and then records
  // nothing. A caller may safely repeat a call with the same token.
  Result<State> complete(std::string_view key, std::uint64_t token, Body result = {});
  Result<State> fail(std::string_view key, std::uint64_t token, std::string why,
                     std::optional<Duration> retry_in = {});
  Result<State> dead(std::string_view key, std::uint64_t token, std::string why);

 private:
  friend struct detail::Access;
  explicit LedgerClient(std::unique_ptr<detail::LedgerState> state);
  std::unique_ptr<detail::LedgerState> state_;
};

}  // namespace once::inline v1
