#include "once/consumer.h"

#include "api/access.h"
#include "work/consumer.h"

namespace once::inline v1 {

struct detail::PullState {
  std::shared_ptr<detail::ZoneState> zone;  // kept open while the consumer lives
  std::unique_ptr<engine::Consumer> consumer;
};

Consumer::Consumer(std::unique_ptr<detail::PullState> state) : state_(std::move(state)) {}
Consumer::Consumer(Consumer&&) noexcept = default;
Consumer& Consumer::operator=(Consumer&&) noexcept = default;
Consumer::~Consumer() = default;

Result<std::string> Consumer::queue_of(std::string_view claim) {
  return encoding::claim_handle(claim).transform([](const auto& handle) { return handle.queue; });
}

Result<std::vector<Offer>> Consumer::offer(std::size_t most, Duration wait, std::stop_token stop,
                                           const std::optional<OfferFor>& to) {
  return state_->consumer->offer(most, wait, std::move(stop), to);
}
Result<std::vector<Offer>> Consumer::offer(std::size_t most, Duration wait, std::stop_token stop,
                                           const ChooseWorker& to) {
  return state_->consumer->offer(most, wait, std::move(stop), to);
}
void Consumer::withdraw(std::span<const std::string> claims) { state_->consumer->withdraw(claims); }
Result<StartedTask> Consumer::start(std::string_view claim) {
  const std::string one(claim);
  return std::move(state_->consumer->start(std::span(&one, 1)).front());
}
std::vector<Result<StartedTask>> Consumer::start(std::span<const std::string> claims) {
  return state_->consumer->start(claims);
}
std::vector<Result<RenewResult>> Consumer::renew(std::span<const std::string> claims) {
  return state_->consumer->renew(claims);
}
Result<StepStart> Consumer::begin_step(std::string_view claim, std::string_view name,
                                       StepOptions options) {
  return state_->consumer->begin_step(claim, name, std::move(options));
}
Result<void> Consumer::end_step(std::string_view claim, std::string_view name, Body result,
                                std::string call) {
  return state_->consumer->end_step(claim, name, std::move(result), std::move(call));
}
Result<void> Consumer::fail_step(std::string_view claim, std::string_view name, std::string why,
                                 std::string call) {
  return state_->consumer->fail_step(claim, name, std::move(why), std::move(call));
}
Result<void> Consumer::hold_step(std::string_view claim, std::string_view name, std::string why,
                                 std::string call) {
  return state_->consumer->hold_step(claim, name, std::move(why), std::move(call));
}
Settled Consumer::settle(std::vector<Settlement> settlements, std::size_t next,
                         const std::optional<OfferFor>& to) {
  return state_->consumer->settle(std::move(settlements), next, to);
}

Result<Consumer> Zone::consumer(std::string_view queue, ConsumerOptions options) {
  if (auto ok = detail::ZoneState::not_own(queue,
                                           "nothing was claimed: a runner of workflows handles it");
      !ok)
    return ok.error();
  auto definition = state_->queue(queue);
  if (!definition) return definition.error();
  if (definition->ledger)
    return Error{
        .code = Code::invalid_input,
        .message = "queue '" + definition->name +
                   "' is a ledger-only queue: nothing is delivered to it; claim its keys instead",
        .reason = Reason::queue_is_ledger_only,
        .facts = {{"queue", definition->name}}};
  auto made = engine::Consumer::make(
      *state_->store, *state_->scheduler,
      {.queue = std::move(*definition),
       .name = options.name.empty() ? default_worker_name() : std::move(options.name),
       .can_probe = options.can_probe});
  if (!made) return made.error();
  return detail::Access::make<Consumer>(
      std::unique_ptr<detail::PullState>(new detail::PullState{state_, std::move(*made)}));
}

}  // namespace once::inline v1
