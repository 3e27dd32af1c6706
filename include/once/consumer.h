// Claims without a callback, for servers and event loops of your own. A Consumer offers tasks; the
// caller starts each task, runs it and settles it.
//
//   Consumer consumer = zone.consumer("orders").value();
//   for (const Offer& offer : consumer.offer(8, 30s).value()) {
//     StartedTask task = consumer.start(offer.claim).value();
//     consumer.settle({{.claim = offer.claim, .outcome = charge(task)}});
//   }
//
// A claim has two moments. An *offer* keeps the task for this caller for a short time. It shows no
// body, so that nobody begins by mistake. The *start* is the write that counts the attempt. So an
// answer that is lost on the way to the caller puts nothing in doubt:
//
// | what is lost                         | what happens                                            |
// |--------------------------------------|---------------------------------------------------------|
// | an offer, or its answer              | the offer ends by itself, and the task is offered again |
// | a start                              | nothing has started; the caller starts again            |
// | the answer to a start                | the caller starts again and gets the same answer        |
// | a renewal, or its answer             | the caller renews again                                 |
// | a begin of a step, or its answer     | the caller begins again with the same call id           |
// | a settlement, or its answer          | the caller settles again; it is recorded once           |
// | the caller, after its start          | the lease ends, and the queue's in-doubt policy decides |
//
// A claim is a text. Any process that has the zone open may use it, and it does not end with the
// process that got the offer.
//
// If the queue has max_running, each claim takes one of its slots, from the offer until the claim is
// settled or released. The renewals of a claim renew its slot. A claim whose client died gives its slot
// back a little after its lease, at most a second. A start or a renewal without the slot is refused with
// Code::fenced, because another claim may run in its place.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "once/task.h"
#include "once/view.h"
#include "once/worker.h"

namespace once::inline v1 {

struct StartedTask {
  std::string claim{};
  Task task{};
  std::string key{};
  std::uint64_t sequence{};
  std::uint64_t token{};  // fencing token for outside systems; grows with every start
  int attempt{};          // the first start is 1
  bool in_doubt = false;  // an earlier attempt ended without a verdict
  bool probing = false;   // ask whether the task happened; report it with Settlement::probe
  Duration lease{};       // counted from the call; renew() before it ends
  std::string idempotency_key{};
  std::vector<StepView> steps{};
};

struct Offer {
  std::string claim{};  // names the claim in every other call
  std::string id{};
  std::string key{};
  Duration lease{};        // of the offer; at most ten seconds, counted from the answer
  std::string worker{};    // the worker that the offer is for
  bool can_probe = false;  // of that worker
  std::optional<StartedTask> started{};  // only if OfferFor::start asked for it
};

struct RenewResult {
  enum class Kind {
    renewed,
    asked_to_stop,  // renewed, but a person cancelled the task: stop, then settle
    overdue,        // not renewed: the attempt has run for longer than the queue's timeout
  };
  Kind kind = Kind::renewed;
  Duration lease{};  // counted from the call
};

// The answer of a begin.
struct StepStart {
  enum class Kind {
    run,         // the start is recorded: run the step, then end_step() or fail_step()
    remembered,  // an earlier attempt recorded `result`: do not run the step
    ask,         // the step was cut off in an earlier attempt: ask its probe, then begin again with
                 // `asked`, or end_step(), or hold_step()
  };
  Kind kind = Kind::run;
  Body result{};
  std::string idempotency_key{};  // of the step, as Context::idempotency_key(step)
};

struct StepOptions {
  // Tells a repeated begin from a second caller of the same step. A second caller is refused with
  // Reason::step_under_way. A step that failed begins again with another call id.
  std::string call{};
  std::optional<InDoubt> policy{};  // nullopt: the queue's; InDoubt::steps means hold
  bool asked = false;               // the step's probe said that the step did not happen
};

// What became of a claim.
struct Settlement {
  enum class Probe {
    no,              // the claim did not ask a probe
    happened,        // `outcome` has the result
    did_not_happen,  // the claim goes on: run the task, then settle it
    unknown,         // the task is held for a person
  };
  std::string claim{};
  Outcome outcome{};
  bool release = false;  // gives the claim back. A started task may have had an effect, so it is in
                         // doubt; an offer leaves no trace
  Probe probe = Probe::no;
};

struct Settled {
  std::vector<Result<State>> states{};  // of the tasks, one per settlement, in order
  std::vector<Offer> next{};
};

struct ConsumerOptions {
  std::string name{};      // of the worker; empty means host and process id
  bool can_probe = false;  // the caller can ask whether a task happened
};

// Offers for another worker than the consumer's own, such as a client of a server.
struct OfferFor {
  std::string worker{};
  bool can_probe = false;
  // Starts the claim in the same commit. If the answer is then lost, the attempt is in doubt.
  bool start = false;
};

// Chooses the worker for the next task of a call that has offered `offered` tasks before. nullopt: no
// further task. The store calls it in the middle of a write, perhaps twice for the same task. So it
// must be quick and must not call the zone.
using ChooseWorker = std::function<std::optional<OfferFor>(std::size_t offered)>;

// Zone::consumer() returns a Consumer. It keeps its zone open, does the queue's housekeeping and
// counts as a worker. Any thread may call.
class Consumer {
 public:
  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;
  ~Consumer();

  // The queue that a claim belongs to.
  static Result<std::string> queue_of(std::string_view claim);

  // Offers up to `most` tasks. Waits for the first one for up to `wait`. Returns none if no task
  // came, or if a stop was requested. With max_running, it offers no more tasks than slots are free.
  Result<std::vector<Offer>> offer(std::size_t most, Duration wait = {}, std::stop_token stop = {},
                                   const std::optional<OfferFor>& to = {});
  // The same for several workers in one commit. After a lost answer of the store, a call may also
  // return offers of an earlier call.
  Result<std::vector<Offer>> offer(std::size_t most, Duration wait, std::stop_token stop,
                                   const ChooseWorker& to);
  // Takes back offers that their workers did not receive. A claim that has started goes on.
  void withdraw(std::span<const std::string> claims);

  // Starts an offer. The same start again returns the same answer. Returns Code::fenced if the
  // offer has ended, and Code::wrong_state if the task was cancelled, held or exhausted instead.
  Result<StartedTask> start(std::string_view claim);
  // Each of these returns one answer per claim, in order.
  std::vector<Result<StartedTask>> start(std::span<const std::string> claims);
  std::vector<Result<RenewResult>> renew(std::span<const std::string> claims);

  // Durable steps of a started claim.
  Result<StepStart> begin_step(std::string_view claim, std::string_view name,
                               StepOptions options = {});
  // `call` is the call id of the begin.
  Result<void> end_step(std::string_view claim, std::string_view name, Body result,
                        std::string call = {});
  Result<void> fail_step(std::string_view claim, std::string_view name, std::string why,
                         std::string call = {});
  // Nobody knows whether the step happened. The task is held for a person.
  Result<void> hold_step(std::string_view claim, std::string_view name, std::string why,
                         std::string call = {});

  // Records the verdicts and offers up to `next` further tasks, in one commit if the store can do
  // that. A settlement of a claim that has not started is Reason::claim_not_started, unless it
  // releases the claim. Repeating a settlement is safe.
  Settled settle(std::vector<Settlement> settlements, std::size_t next = 0,
                 const std::optional<OfferFor>& to = {});

 private:
  friend struct detail::Access;
  explicit Consumer(std::unique_ptr<detail::PullState> state);
  std::unique_ptr<detail::PullState> state_;
};

}  // namespace once::inline v1
