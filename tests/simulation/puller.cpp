#include "simulation/puller.h"

#include <algorithm>

namespace once::sim {

using engine::TaskAttempt;
using std::chrono::duration_cast;
using std::chrono::microseconds;

// The steps of a started claim, over the same network.
class Puller::PulledSteps final : public engine::Steps {
 public:
  PulledSteps(Puller& puller, std::string claim) : puller_(puller), claim_(std::move(claim)) {}

  BeginResult begin(std::string_view name, std::optional<InDoubt> policy, bool asked) override {
    const StepOptions options{
        .call = "call" + std::to_string(++puller_.memory_.calls), .policy = policy, .asked = asked};
    const auto begun =
        puller_.insist([&] { return puller_.consumer_.begin_step(claim_, name, options); });
    if (!begun) return {.kind = BeginResult::Kind::over, .error = Error{}};
    if (!*begun) return {.kind = BeginResult::Kind::over, .error = begun->error()};
    switch ((*begun)->kind) {
      case StepStart::Kind::run: return {};
      case StepStart::Kind::ask: return {.kind = BeginResult::Kind::ask};
      case StepStart::Kind::remembered: break;
    }
    return {.kind = BeginResult::Kind::remembered, .result = (*begun)->result};
  }
  Result<void> end(std::string_view name, Body result, std::uint64_t) override {
    return told([&] { return puller_.consumer_.end_step(claim_, name, result, call_); });
  }
  Result<void> fail(std::string_view name, std::string_view why) override {
    return told([&] { return puller_.consumer_.fail_step(claim_, name, std::string(why), call_); });
  }
  Error hold(std::string_view name, std::string why) override {
    static_cast<void>(told([&] { return puller_.consumer_.hold_step(claim_, name, why, call_); }));
    return {};
  }

 private:
  template <class Ask>
  Result<void> told(Ask ask) {
    auto answer = puller_.insist(ask);
    return answer ? std::move(*answer) : Result<void>(Error{});
  }

  Puller& puller_;
  const std::string claim_;
  std::string call_{};  // of the last begin
};

void Puller::run() {
  const std::stop_token stop = process_.stop().get_token();
  while (!process_.dead() && !stop.stop_requested()) round();
  while (calm_ && !process_.dead() && !memory_.unsettled.empty()) settle_all();
}

void Puller::round() {
  settle_all();
  if (process_.dead()) return;
  if (memory_.offers.empty()) {
    const auto offers = call([&] { return consumer_.offer(plan_.offers, {}, {}); });
    if (offers && *offers)
      for (const Offer& offer : **offers) memory_.offers.push_back(offer.claim);
    if (memory_.offers.empty()) process_.sleep(Duration{random().between(50, 400)});
    return;
  }
  const std::string claim = std::move(memory_.offers.front());
  memory_.offers.pop_front();
  if (rarely(0.1)) return;  // it lapses
  if (rarely(0.1)) {
    witness_.gives_back(encoding::claim_handle(claim)->nonce);
    static_cast<void>(
        call([&] { return consumer_.settle({{.claim = claim, .release = true}}, 0).states[0]; }));
    return;
  }
  if (rarely(0.2)) {
    process_.sleep(Duration{random().between(0, 3000)});
    static_cast<void>(call([&] { return consumer_.renew(std::span(&claim, 1)).at(0); }));
  }
  // A start that comes too late may find its task where it was, and its slot with another claim.
  if (rarely(0.1))
    process_.sleep(queue_.lease * 6 / 5 + Duration{random().between(0, queue_.lease.count())});
  take(claim);
}

// The lease counts from when the request was sent.
void Puller::take(const std::string& claim) {
  Instant sent{};
  auto started = insist([&] {
    sent = process_.world().now();
    return std::move(consumer_.start(std::span(&claim, 1)).at(0));
  });
  if (!started || !*started || process_.dead()) return;
  work(**started, sent + duration_cast<microseconds>((*started)->lease));
}

void Puller::work(const StartedTask& task, Instant lease_end) {
  // On the heap: gcc takes one on the stack for uninitialised, under a sanitizer.
  const auto stop = std::make_unique<std::stop_source>();
  PulledSteps steps(*this, task.claim);
  const TaskAttempt attempt{.task = task.task,
                            .sequence = {task.sequence},
                            .queue = queue_.name,
                            .key = task.key,
                            .token = {task.token},
                            .attempt = static_cast<std::uint32_t>(task.attempt),
                            .in_doubt = task.in_doubt,
                            .stop = stop->get_token(),
                            .steps = &steps};
  if (process_.world().now() >= lease_end) return;
  if (task.probing && !probe(task, attempt)) return;
  if (process_.dead() || process_.world().now() >= lease_end) return;
  witness_.may_run_until(task.token, lease_end);
  bool over = false;
  const auto keeper = process_.spawn([&] { keep_lease(task, *stop, over); });
  Outcome outcome;
  try {
    outcome = handlers_.handle(attempt).outcome;
  } catch (const std::exception& thrown) {
    outcome = Outcome::failed(thrown.what());
  }
  over = true;
  if (!process_.dead())
    memory_.unsettled.push_back({{.claim = task.claim, .outcome = std::move(outcome)}, task.token});
}

bool Puller::probe(const StartedTask& task, const TaskAttempt& attempt) {
  const Outcome said = handlers_.probe(attempt).outcome;
  if (process_.dead()) return false;
  Settlement settlement{.claim = task.claim, .outcome = said};
  settlement.probe = said.kind() == Outcome::Kind::completed ? Settlement::Probe::happened
                     : said.kind() == Outcome::Kind::failed  ? Settlement::Probe::did_not_happen
                                                             : Settlement::Probe::unknown;
  const auto answer = insist([&] { return consumer_.settle({settlement}, 0).states[0]; });
  return answer && *answer && **answer == State::running;
}

void Puller::keep_lease(const StartedTask& task, std::stop_source& stop, const bool& over) {
  while (!over && !process_.dead()) {
    process_.sleep(std::max(Duration{1}, queue_.lease / 4));
    if (over || process_.dead()) return;
    const Instant sent = process_.world().now();
    const auto renewed = call([&] { return consumer_.renew(std::span(&task.claim, 1)).at(0); });
    if (renewed && *renewed && !process_.dead())
      witness_.may_run_until(task.token, sent + duration_cast<microseconds>((*renewed)->lease));
    if (!renewed || (*renewed && (*renewed)->kind == RenewResult::Kind::renewed)) continue;
    if (!*renewed && (*renewed).error().retryable) continue;
    const World::Undisturbed alone(process_.world());
    stop.request_stop();
    return;
  }
}

void Puller::settle_all() {
  while (!memory_.unsettled.empty() && !process_.dead()) {
    const PullerMemory::Unsettled one = memory_.unsettled.front();
    const std::size_t next = rarely(0.5) ? plan_.offers : 0;
    const auto settled = call([&] { return consumer_.settle({one.settlement}, next); });
    if (!settled) {
      process_.sleep(Duration{random().between(1, 300)});
      continue;
    }
    for (const Offer& offer : settled->next) memory_.offers.push_back(offer.claim);
    const Result<State>& state = settled->states[0];
    if (!state && (state.error().retryable || state.error().in_doubt)) {
      process_.sleep(Duration{random().between(1, 300)});
      continue;
    }
    if (!state) witness_.puller_told(one.token);
    memory_.unsettled.pop_front();
  }
}

}  // namespace once::sim
