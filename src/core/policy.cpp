// The policy of attempts and steps that a queue's definition gives.
#include <algorithm>

#include "core/decide.h"

namespace once::core {
namespace {

const std::vector<Duration> kDefaultBackoff{Duration{30'000}, Duration{120'000}, Duration{300'000}};

}  // namespace

Policy policy_of(const Queue& queue) {
  Policy policy{.lease = queue.lease,
                .timeout = queue.timeout,
                .attempts = static_cast<std::uint32_t>(queue.attempts),
                .backoff = queue.backoff.empty() ? kDefaultBackoff : queue.backoff,
                .in_doubt = queue.in_doubt,
                .same_key = queue.same_key,
                .max_result = queue.max_result > 0 ? queue.max_result : kMaxResult};
  if (policy.attempts == 0) policy.attempts = static_cast<std::uint32_t>(policy.backoff.size()) + 1;
  return policy;
}

Result<void> check_result(const Queue& queue, const Body& result) {
  const std::uint64_t limit = policy_of(queue).max_result;
  if (result.text().size() <= limit) return {};
  return Error{.code = Code::too_large,
               .message = "the result has " + std::to_string(result.text().size()) +
                          " bytes; queue '" + queue.name + "' keeps at most " +
                          std::to_string(limit) +
                          ". Nothing was recorded. Give a smaller result, or raise the limit.",
               .reason = Reason::result_too_large,
               .facts = {{"queue", queue.name}, {"limit", std::to_string(limit)}}};
}

Policy applied(Policy queue, const TaskPolicy& own) {
  if (own.attempts > 0) queue.attempts = own.attempts;
  if (!own.backoff.empty()) queue.backoff = own.backoff;
  if (own.timeout > Duration{0}) queue.timeout = own.timeout;
  queue.in_doubt = own.in_doubt.value_or(queue.in_doubt);
  queue.jitter_permille = own.jitter_permille;
  return queue;
}

InDoubt step_policy(const Policy& policy, std::optional<InDoubt> own) {
  switch (own.value_or(policy.in_doubt)) {
    case InDoubt::retry: return InDoubt::retry;
    case InDoubt::steps:
    case InDoubt::hold: return InDoubt::hold;
    case InDoubt::probe: return own ? InDoubt::probe : InDoubt::retry;
  }
  return InDoubt::hold;
}

Duration backoff_after(const Policy& policy, std::uint32_t counted, double jitter) {
  const std::size_t last = policy.backoff.size() - 1;
  const Duration base = policy.backoff[std::min<std::size_t>(counted > 0 ? counted - 1 : 0, last)];
  const double most = static_cast<double>(base.count()) * policy.jitter_permille / 1000;
  return base + Duration{static_cast<Duration::rep>(most * jitter)};
}

}  // namespace once::core
