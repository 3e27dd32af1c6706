#include "work/consumer.h"

#include <algorithm>

#include "codec/step_headers.h"
#include "core/names.h"
#include "core/words.h"

namespace once::engine {
namespace {

constexpr Duration kFollowQueue = std::chrono::seconds{1};  // between two reads of the definition
constexpr std::size_t kMostOffers = 1000;                   // of one call

Error claim_not_started() {
  return {.code = Code::wrong_state,
          .message = "the claim is only offered; nothing was recorded: start it first",
          .reason = Reason::claim_not_started};
}

Error claim_fenced() {
  return {.code = Code::fenced,
          .message =
              "this claim does not hold its task any more; nothing was recorded: its lease "
              "ended, or the task was settled or given back"};
}

// Why a claim that is not fenced cannot go on.
Error claim_ended(const core::Record& record) {
  std::string message = "the task is " + std::string(to_string(record.state));
  if (!record.reason.empty()) message += " (" + record.reason + ")";
  return {.code = Code::wrong_state, .message = message + ": this claim is over"};
}

Error step_under_way(std::string_view name) {
  return {.code = Code::wrong_state,
          .message = "another call has begun step " + core::quoted(name) +
                     " in this attempt; nothing was done",
          .reason = Reason::step_under_way,
          .facts = {{"step", std::string(name)}}};
}

}  // namespace

Result<std::unique_ptr<Consumer>> Consumer::make(store::Store& store, Scheduler& scheduler,
                                                 ConsumerSettings settings) {
  auto key = encoding::KeyTemplate::of(settings.queue);
  if (!key) return key.error();
  auto membership = store.join(settings.queue.name, settings.name);
  if (!membership) return membership.error();
  return std::unique_ptr<Consumer>(
      new Consumer(store, scheduler, std::move(settings), std::move(*key), std::move(*membership)));
}

Consumer::Consumer(store::Store& store, Scheduler& scheduler, ConsumerSettings settings,
                   encoding::KeyTemplate key, std::unique_ptr<store::Membership> membership)
    : store_(store),
      scheduler_(scheduler),
      settings_(std::move(settings)),
      zone_(store.uuid()),
      membership_(std::move(membership)),
      writer_(store, core::policy_of(settings_.queue)),
      counters_(store, scheduler),
      intake_(store, scheduler, writer_, counters_, std::move(key),
              {.queue = settings_.queue,
               .worker = settings_.name,
               .member = membership_->number(),
               .can_probe = settings_.can_probe,
               .kind = core::Claim::Kind::offer}),
      limited_(settings_.queue.max_running > 0) {
  if (settings_.keeps_house)
    housekeeper_.emplace(store, scheduler, settings_.queue.name, settings_.name,
                         membership_->number());
}

void Consumer::follow_definition() {
  {
    const std::lock_guard lock(mutex_);
    const Moment now = scheduler_.now();
    if (followed_at_ != Moment{} && now < followed_at_ + kFollowQueue) return;
    followed_at_ = now;
  }
  const auto queues = store_.queues();
  if (!queues) return;
  for (const Queue& definition : *queues) {
    if (definition.name != settings_.queue.name) continue;
    writer_.set_policy(core::policy_of(definition));
    limited_ = definition.max_running > 0;
  }
}

IntakeRequest Consumer::request(std::size_t most, const std::optional<OfferFor>& to) const {
  IntakeRequest made{.limit = most, .handlers = most};
  if (to) {
    made.worker = to->worker;
    made.can_probe = to->can_probe;
  }
  return made;
}

// --- Offers -----------------------------------------------------------------------------------

Result<std::vector<Offer>> Consumer::offer(std::size_t most, Duration wait, std::stop_token stop,
                                           const std::optional<OfferFor>& to) {
  if (most == 0 || most > kMostOffers)
    return Error{.code = Code::invalid_input,
                 .message = "a call offers between 1 and " + std::to_string(kMostOffers) +
                            " tasks; nothing was claimed"};
  follow_definition();
  if (limited_)
    return Error{.code = Code::invalid_input,
                 .message = "queue '" + settings_.queue.name +
                            "' has max_running, which only workers keep; nothing was claimed: use "
                            "a worker, or a queue without max_running"};
  const Moment deadline = scheduler_.now() + wait;
  while (true) {
    const Duration left =
        std::max(Duration{0}, std::chrono::duration_cast<Duration>(deadline - scheduler_.now()));
    IntakeRequest wanted = request(most, to);
    wanted.wait = left;
    wanted.stop = stop;
    auto taken = intake_.commit({}, std::move(wanted)).taken;
    if (!taken) return taken.error();
    // A delivery that could not be claimed (a duplicate, a settled task) is no end of the wait.
    if (!taken->tasks.empty() || left == Duration{0} || stop.stop_requested())
      return offers_of(std::move(taken->tasks));
  }
}

// A claim whose answer was lost earlier may have ended since. Its start is then fenced.
std::vector<Offer> Consumer::offers_of(RunningTasks tasks) {
  std::vector<Offer> offers;
  offers.reserve(tasks.size());
  for (const auto& task : tasks)
    offers.push_back(
        {.claim = encoding::text(Handle{.zone = zone_,
                                        .queue = settings_.queue.name,
                                        .key = task->address.key,
                                        .sequence = task->sequence,
                                        .nonce = task->nonce,
                                        .delivery = task->handle}),
         .id = task->task.id,
         .key = task->address.key,
         .lease =
             std::max(Duration{0}, task->stored.stamp + task->stored.record.lease - store_.now())});
  return offers;
}

// --- Commands of a claim ------------------------------------------------------------------------

Result<Consumer::Handle> Consumer::handle_of(std::string_view claim) const {
  auto handle = encoding::claim_handle(claim);
  if (!handle) return handle;
  if (handle->zone == zone_ && handle->queue == settings_.queue.name) return handle;
  return Error{.code = Code::queue_mismatch,
               .message = "this claim belongs to " +
                          (handle->zone == zone_ ? "queue '" + handle->queue + "'"
                                                 : std::string("another zone")) +
                          " and not to queue '" + settings_.queue.name + "'; nothing was done"};
}

Consumer::Intents Consumer::intents_of(std::span<const std::string> claims, const Make& make) {
  Intents made{.errors = std::vector<std::optional<Error>>(claims.size())};
  std::vector<Handle> handles;
  std::vector<store::Address> addresses;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    auto handle = handle_of(claims[i]);
    if (!handle) {
      made.errors[i] = handle.error();
      continue;
    }
    addresses.push_back({.queue = handle->queue, .key = handle->key, .sequence = handle->sequence});
    handles.push_back(std::move(*handle));
    made.places.push_back(i);
  }
  auto found = writer_.read(addresses);
  std::vector<std::size_t> readable;
  for (std::size_t k = 0; k < handles.size(); ++k) {
    const std::size_t place = made.places[k];
    if (!found[k]) {
      made.errors[place] = found[k].error();
      continue;
    }
    const core::Record* const record = *found[k] ? &(*found[k])->record : nullptr;
    core::Command command = make(place, handles[k].nonce, record);
    made.intents.push_back({.at = std::move(addresses[k]),
                            .known = std::move(*found[k]),
                            .command = std::move(command),
                            .handle = std::move(handles[k].delivery)});
    readable.push_back(place);
  }
  made.places = std::move(readable);
  return made;
}

std::vector<Result<WriteResult>> Consumer::write(std::span<const std::string> claims,
                                                 const Make& make) {
  follow_definition();
  Intents made = intents_of(claims, make);
  std::vector<Result<WriteResult>> results;
  results.reserve(claims.size());
  for (const auto& error : made.errors) results.emplace_back(error ? *error : Error{});
  auto written = writer_.write(std::move(made.intents));
  for (std::size_t k = 0; k < written.size(); ++k) {
    const core::Verdict verdict =
        written[k] ? written[k]->decision.verdict : core::Verdict::already_done;
    Result<WriteResult>& result = results[made.places[k]];
    if (verdict == core::Verdict::fenced)
      result = claim_fenced();
    else if (verdict == core::Verdict::not_started)
      result = claim_not_started();
    else
      result = std::move(written[k]);
  }
  return results;
}

Result<WriteResult> Consumer::write(std::string_view claim, const core::Command& command) {
  const std::string one(claim);
  return std::move(
      write(std::span(&one, 1),
            [&](std::size_t, const core::Nonce& nonce, const core::Record*) -> core::Command {
              return std::visit(
                  [&](auto copy) -> core::Command {
                    if constexpr (requires { copy.nonce; }) copy.nonce = nonce;
                    return copy;
                  },
                  command);
            })
          .front());
}

// --- Start and renew ----------------------------------------------------------------------------

Result<store::Entry> Consumer::entry_of(std::string_view claim) const {
  const auto handle = handle_of(claim);
  if (!handle) return handle.error();
  auto entry = store_.entry(settings_.queue.name, handle->sequence);
  if (!entry) return entry.error();
  if (!*entry || !(*entry)->body)
    return Error{
        .code = Code::not_found,
        .message = "the task of this claim is not in the log any more; nothing was started"};
  return std::move(**entry);
}

std::vector<Result<StartedTask>> Consumer::start(std::span<const std::string> claims) {
  // The body is read first: a start whose task cannot be shown must not count an attempt.
  std::vector<Result<StartedTask>> answers;
  std::vector<std::string> found;
  std::vector<store::Entry> entries;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    auto entry = entry_of(claims[i]);
    answers.emplace_back(entry ? Error{} : entry.error());
    if (!entry) continue;
    found.push_back(claims[i]);
    entries.push_back(std::move(*entry));
    places.push_back(i);
  }
  auto written = write(
      found, [&](std::size_t k, const core::Nonce& nonce, const core::Record*) -> core::Command {
        const store::Entry& entry = entries[k];
        core::Start start{.nonce = nonce};
        if (entry.lives) start.expires = entry.appended_at + *entry.lives;
        return start;
      });
  for (std::size_t k = 0; k < found.size(); ++k)
    answers[places[k]] = written[k] ? started(found[k], std::move(entries[k]), *written[k])
                                    : Result<StartedTask>(written[k].error());
  return answers;
}

Result<StartedTask> Consumer::started(const std::string& claim, store::Entry entry,
                                      const WriteResult& written) const {
  const core::Stored& stored = *written.stored;
  const core::Record& record = stored.record;
  const core::Verdict verdict = written.decision.verdict;
  if (verdict != core::Verdict::started && verdict != core::Verdict::already_done)
    return claim_ended(record);
  StartedTask task{.claim = claim,
                   .task = {.topic = std::move(entry.topic),
                            .id = std::move(entry.id),
                            .body = std::move(*entry.body),
                            .headers = std::move(entry.headers)},
                   .key = handle_of(claim)->key,
                   .sequence = entry.sequence.value,
                   .token = core::token_of(record, stored.revision).value,
                   .attempt = static_cast<int>(record.claims),
                   .in_doubt = record.in_doubt,
                   .probing = record.attempts.back().probing,
                   .lease = std::max(Duration{0}, stored.stamp + record.lease - store_.now())};
  if (entry.delay > Duration{0}) task.task.not_before = entry.published_at + entry.delay;
  if (entry.lives) task.task.expires = entry.published_at + *entry.lives;
  TaskAttempt attempt{
      .task = task.task, .zone = zone_, .queue = settings_.queue.name, .key = task.key};
  const auto step = settings_.queue.stream.empty()
                        ? encoding::read_step(task.task.headers, settings_.queue.name)
                        : std::nullopt;
  if (step) {
    attempt.run = step->run;
    attempt.step = step->step;
  }
  task.idempotency_key = idempotency_key(attempt);
  for (const core::Step& each : record.steps) task.steps.push_back(core::step_view(record, each));
  return task;
}

std::vector<Result<RenewResult>> Consumer::renew(std::span<const std::string> claims) {
  const auto written = write(
      claims, [](std::size_t, const core::Nonce& nonce, const core::Record*) -> core::Command {
        return core::Renew{.nonce = nonce};
      });
  std::vector<Result<RenewResult>> answers;
  answers.reserve(written.size());
  for (const auto& each : written) {
    if (!each) {
      answers.emplace_back(each.error());
      continue;
    }
    const core::Stored& stored = *each->stored;
    RenewResult renewed{
        .lease = std::max(Duration{0}, stored.stamp + stored.record.lease - store_.now())};
    if (each->decision.verdict == core::Verdict::asked_to_stop)
      renewed.kind = RenewResult::Kind::asked_to_stop;
    if (each->decision.verdict == core::Verdict::overdue) renewed.kind = RenewResult::Kind::overdue;
    answers.emplace_back(renewed);
  }
  return answers;
}

// --- Steps ----------------------------------------------------------------------------------------

std::string Consumer::key_of(std::string_view claim, std::string_view step) const {
  const auto handle = handle_of(claim);
  const Task no_task;
  return idempotency_key(
      TaskAttempt{
          .task = no_task, .zone = zone_, .queue = settings_.queue.name, .key = handle->key},
      step);
}

Result<StepStart> Consumer::begin_step(std::string_view claim, std::string_view name,
                                       StepOptions options) {
  if (auto ok = core::check_step_name(name); !ok) return ok.error();
  if (options.call.size() > core::kCallKept)
    return Error{.code = Code::invalid_input,
                 .message = "the call id of a step has at most " + std::to_string(core::kCallKept) +
                            " bytes; nothing was run"};
  // A task can have a policy of its own.
  const auto begin = [&](std::size_t, const core::Nonce& nonce,
                         const core::Record* record) -> core::Command {
    const core::Policy policy =
        record && record->own ? core::applied(*writer_.policy(), *record->own) : *writer_.policy();
    return core::StepBegin{.nonce = nonce,
                           .name = std::string(name),
                           .policy = core::step_policy(policy, options.policy),
                           .asked = options.asked,
                           .call = options.call};
  };
  const std::string one(claim);
  const auto written = std::move(write(std::span(&one, 1), begin).front());
  if (!written) return written.error();
  const core::Record& record = written->stored->record;
  switch (written->decision.verdict) {
    case core::Verdict::step_begun:
    case core::Verdict::already_done: return StepStart{.idempotency_key = key_of(claim, name)};
    case core::Verdict::step_in_doubt:
      return StepStart{.kind = StepStart::Kind::ask, .idempotency_key = key_of(claim, name)};
    case core::Verdict::step_remembered: {
      const core::Step* step = core::find_step(record, name);
      if (!step->result_cut)
        return StepStart{.kind = StepStart::Kind::remembered,
                         .result = step->result,
                         .idempotency_key = key_of(claim, name)};
      return Error{.code = Code::too_large,
                   .message = "step " + core::quoted(name) +
                              " has run, but an older Once kept only the first MiB of its result; "
                              "nothing was run again"};
    }
    case core::Verdict::step_under_way: return step_under_way(name);
    case core::Verdict::asked_to_stop:
      return Error{.code = Code::wrong_state,
                   .message = "a person cancelled the task; step " + core::quoted(name) +
                              " was not run: stop, then settle this claim"};
    case core::Verdict::step_refused:
      if (core::find_step(record, name))
        return Error{.code = Code::wrong_state,
                     .message = "this call of step " + core::quoted(name) +
                                " has failed; nothing was run: begin with another call id"};
      return Error{.code = Code::invalid_input,
                   .message = "a task can have at most " + std::to_string(core::kMostSteps) +
                              " steps; step " + core::quoted(name) + " was not run"};
    default: return claim_ended(record);
  }
}

Result<void> Consumer::record_step(std::string_view claim, std::string_view name,
                                   const core::Command& command) {
  const auto written = write(claim, command);
  if (!written) return written.error();
  switch (written->decision.verdict) {
    case core::Verdict::step_recorded:
    case core::Verdict::already_done: return {};
    case core::Verdict::step_under_way: return step_under_way(name);
    case core::Verdict::step_refused:
      return Error{.code = Code::invalid_input,
                   .message = "step " + core::quoted(name) + " has not begun in this attempt"};
    default: return claim_ended(written->stored->record);
  }
}

Result<void> Consumer::end_step(std::string_view claim, std::string_view name, Body result,
                                std::string call) {
  return record_step(
      claim, name,
      core::StepEnd{
          .name = std::string(name), .result = std::move(result), .call = std::move(call)});
}

Result<void> Consumer::fail_step(std::string_view claim, std::string_view name, std::string why,
                                 std::string call) {
  return record_step(
      claim, name,
      core::StepFail{.name = std::string(name), .error = std::move(why), .call = std::move(call)});
}

Result<void> Consumer::hold_step(std::string_view claim, std::string_view name, std::string why,
                                 std::string call) {
  const auto written = write(claim, core::StepHold{.name = std::string(name),
                                                   .by = settings_.name,
                                                   .why = std::move(why),
                                                   .call = std::move(call)});
  if (!written) return written.error();
  switch (written->decision.verdict) {
    case core::Verdict::step_under_way: return step_under_way(name);
    case core::Verdict::step_refused:
      return Error{.code = Code::invalid_input,
                   .message = "step " + core::quoted(name) + " has not begun in this attempt"};
    default: return {};
  }
}

// --- Settle ---------------------------------------------------------------------------------------

core::Command Consumer::command_of(const Settlement& settlement, const core::Nonce& nonce) const {
  const Outcome& outcome = settlement.outcome;
  if (settlement.release)
    return core::Release{.nonce = nonce, .started = true, .error = outcome.why()};
  if (settlement.probe == Settlement::Probe::did_not_happen ||
      settlement.probe == Settlement::Probe::unknown)
    return core::Probed{.nonce = nonce,
                        .known = settlement.probe == Settlement::Probe::did_not_happen,
                        .by = settings_.name,
                        .why = outcome.why()};
  switch (outcome.kind()) {
    case Outcome::Kind::completed: {
      core::Complete complete{.nonce = nonce, .result = outcome.result()};
      if (settlement.probe == Settlement::Probe::happened) complete.probed_by = settings_.name;
      return complete;
    }
    case Outcome::Kind::unknown:
      return core::Doubt{.nonce = nonce, .error = outcome.why(), .jitter = scheduler_.random()};
    case Outcome::Kind::failed:
    case Outcome::Kind::dead: break;
  }
  return core::Fail{.nonce = nonce,
                    .error = outcome.why(),
                    .retry_in = outcome.retry_in(),
                    .final = outcome.kind() == Outcome::Kind::dead,
                    .jitter = scheduler_.random()};
}

Settled Consumer::settle(std::vector<Settlement> settlements, std::size_t next,
                         const std::optional<OfferFor>& to) {
  follow_definition();
  std::vector<std::string> claims;
  for (const Settlement& settlement : settlements) claims.push_back(settlement.claim);
  Intents made =
      intents_of(claims, [&](std::size_t place, const core::Nonce& nonce, const core::Record*) {
        return command_of(settlements[place], nonce);
      });
  Settled settled;
  for (const auto& error : made.errors) settled.states.emplace_back(error ? *error : Error{});
  LedgerBatch batch = writer_.begin(std::move(made.intents));
  if (next > 0 && !limited_) {
    next = std::min(next, kMostOffers);
    Intake::CommitResult both = intake_.commit(batch.swaps(), request(next, to));
    if (!batch.swaps().empty()) writer_.answered(batch, std::move(both.swapped));
    // Without offers the caller asks for them again. The verdicts are recorded in any case.
    if (both.taken) settled.next = offers_of(std::move(both.taken->tasks));
  }
  const auto written = writer_.finish(std::move(batch));
  for (std::size_t k = 0; k < written.size(); ++k) {
    Result<State>& state = settled.states[made.places[k]];
    if (!written[k])
      state = written[k].error();
    else if (written[k]->decision.verdict == core::Verdict::fenced)
      state = claim_fenced();
    else if (written[k]->decision.verdict == core::Verdict::not_started)
      state = claim_not_started();
    else
      state = written[k]->stored->record.state;
  }
  return settled;
}

}  // namespace once::engine
