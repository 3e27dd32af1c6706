// The ledger without the log, for loops that get their work from another system.
#include <algorithm>

#include "api/access.h"
#include "codec/digest.h"
#include "core/names.h"
#include "once/ledger.h"
#include "work/ledger_writer.h"

namespace once::inline v1 {

struct detail::LedgerState {
  std::shared_ptr<detail::ZoneState> zone;  // kept open while the client lives
  Queue queue{};
  std::string name{};
  std::unique_ptr<store::Membership> membership{};  // null: claims go by their leases alone
  engine::LedgerWriter writer;

  store::Address address(std::string_view key) const {
    return {.queue = queue.name, .key = std::string(key)};
  }

  Result<std::optional<core::Stored>> read(const store::Address& at) const {
    if (auto ok = core::check_id(at.key); !ok) return ok.error();
    return std::move(zone->store->get(std::span(&at, 1)).front());
  }

  // Does what the holder of the token may do. The token stands for the nonce of its claim: whoever
  // shows another one is answered like any stranger.
  template <class Make>
  Result<State> as_holder(std::string_view key, std::uint64_t token, Make make) {
    const store::Address at = address(key);
    auto stored = read(at);
    if (!stored) return stored.error();
    if (!*stored)
      return Error{.code = Code::not_found,
                   .message = "queue '" + queue.name + "' knows no key '" + at.key +
                              "'; nothing was recorded: claim it first"};
    core::Nonce nonce{};
    if (core::token_of((*stored)->record, (*stored)->revision).value == token)
      nonce = (*stored)->record.nonce;
    auto written = writer.write({.at = at, .known = std::move(*stored), .command = make(nonce)});
    if (!written) return written.error();
    if (written->decision.verdict == core::Verdict::asked_to_stop)
      return Error{.code = Code::wrong_state,
                   .message = "key '" + at.key + "' of queue '" + queue.name +
                              "' was cancelled; it is still held: stop, then fail or complete it"};
    if (written->decision.verdict != core::Verdict::fenced) return written->stored->record.state;
    return Error{
        .code = Code::fenced,
        .message = "key '" + at.key + "' of queue '" + queue.name + "' is not held with token " +
                   std::to_string(token) +
                   "; nothing was recorded: another has claimed it since, it is settled or "
                   "given back, or it never was"};
  }
};

LedgerClient::LedgerClient(std::unique_ptr<detail::LedgerState> state) : state_(std::move(state)) {}
LedgerClient::LedgerClient(LedgerClient&&) noexcept = default;
LedgerClient& LedgerClient::operator=(LedgerClient&&) noexcept = default;
LedgerClient::~LedgerClient() = default;

Result<ClaimResult> LedgerClient::claim(std::string_view key, Duration lease,
                                        std::string_view nonce) {
  const store::Address at = state_->address(key);
  auto stored = state_->read(at);
  if (!stored) return stored.error();
  auto definition = state_->zone->queue(state_->queue.name);
  if (!definition) return definition.error();
  state_->writer.set_policy(core::policy_of(*definition));
  core::Claim claim{.worker = state_->name, .lease = lease};
  if (state_->membership) claim.member = state_->membership->number();
  if (nonce.empty())
    state_->zone->scheduler->random_bytes(claim.nonce.bytes.data(), claim.nonce.bytes.size());
  else
    claim.nonce = encoding::nonce_of(encoding::sha256(nonce));
  auto written =
      state_->writer.write({.at = at, .known = std::move(*stored), .command = std::move(claim)});
  if (!written) return written.error();

  const core::Stored& now = *written->stored;
  const Duration left = std::max(Duration{0}, written->decision.until - state_->zone->store->now());
  switch (written->decision.verdict) {
    case core::Verdict::claimed:
    case core::Verdict::already_done:
      return ClaimResult{.kind = ClaimResult::Kind::claimed,
                         .token = core::token_of(now.record, now.revision).value,
                         .attempt = static_cast<int>(now.record.claims),
                         .in_doubt = now.record.in_doubt,
                         .wait = now.record.lease};
    case core::Verdict::held: return ClaimResult{.kind = ClaimResult::Kind::held, .wait = left};
    case core::Verdict::not_due:
      return ClaimResult{.kind = ClaimResult::Kind::not_due, .wait = left};
    case core::Verdict::already_completed:
      if (now.record.result_cut)
        return ClaimResult{.kind = ClaimResult::Kind::completed,
                           .why = "an older Once kept only the first MiB of its result"};
      return ClaimResult{.kind = ClaimResult::Kind::completed,
                         .result = now.record.result.value_or(Body{})};
    case core::Verdict::awaits_decision:
    case core::Verdict::doubted:
      return ClaimResult{.kind = ClaimResult::Kind::in_doubt, .why = now.record.reason};
    case core::Verdict::already_dead:
    case core::Verdict::exhausted:
      return ClaimResult{.kind = ClaimResult::Kind::dead,
                         .why = now.record.error.empty() ? now.record.reason : now.record.error};
    default: return ClaimResult{.kind = ClaimResult::Kind::cancelled, .why = now.record.reason};
  }
}

Result<State> LedgerClient::renew(std::string_view key, std::uint64_t token, Duration lease) {
  return state_->as_holder(key, token, [&](const core::Nonce& nonce) {
    return core::Renew{.nonce = nonce, .lease = lease};
  });
}

Result<State> LedgerClient::complete(std::string_view key, std::uint64_t token, Body result) {
  if (auto fits = core::check_result(state_->queue, result); !fits) return fits.error();
  return state_->as_holder(key, token, [&](const core::Nonce& nonce) {
    return core::Complete{.nonce = nonce, .result = result};
  });
}

Result<State> LedgerClient::fail(std::string_view key, std::uint64_t token, std::string why,
                                 std::optional<Duration> retry_in) {
  return state_->as_holder(key, token, [&](const core::Nonce& nonce) {
    return core::Fail{.nonce = nonce,
                      .error = why,
                      .retry_in = retry_in,
                      .jitter = state_->zone->scheduler->random()};
  });
}

Result<State> LedgerClient::dead(std::string_view key, std::uint64_t token, std::string why) {
  return state_->as_holder(key, token, [&](const core::Nonce& nonce) {
    return core::Fail{.nonce = nonce, .error = why, .final = true};
  });
}

Result<LedgerClient> Zone::ledger(std::string_view queue, LedgerOptions options) {
  if (auto ok =
          detail::ZoneState::not_own(queue, "nothing was claimed; make a ledger of another name");
      !ok)
    return ok.error();
  auto definition = state_->queue(queue);
  if (!definition) return definition.error();
  if (!definition->ledger)
    return Error{.code = Code::invalid_input,
                 .message = "queue '" + definition->name +
                            "' has a log and workers that claim from it; nothing was claimed. A "
                            "loop of your own needs a ledger-only queue.",
                 .reason = Reason::queue_is_not_ledger_only,
                 .facts = {{"queue", definition->name}}};
  std::unique_ptr<store::Membership> membership;
  std::string name = options.name.empty() ? default_worker_name() : std::move(options.name);
  if (!options.claims_outlive_process) {
    auto joined = state_->store->join(queue, name);
    if (!joined) return joined.error();
    membership = std::move(*joined);
  }
  core::Policy policy = core::policy_of(*definition);
  return detail::Access::make<LedgerClient>(
      std::unique_ptr<detail::LedgerState>(new detail::LedgerState{
          state_, std::move(*definition), std::move(name), std::move(membership),
          engine::LedgerWriter(*state_->store, std::move(policy))}));
}

}  // namespace once::inline v1
