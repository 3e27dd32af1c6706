#include "work/consumer.h"

#include <algorithm>

#include "codec/step_headers.h"
#include "core/names.h"
#include "core/words.h"

namespace once::engine {
namespace {

constexpr Duration kFollowQueue = std::chrono::seconds{1};  // between two reads of the definition
constexpr std::size_t kMostOffers = 1000;                   // of one call
constexpr Duration kSlotLook{100};  // between two looks at whether a slot is free

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

std::optional<core::StoreTime> until_of(const std::optional<ClaimSlot>& slot) {
  return slot ? std::optional(slot->until) : std::nullopt;
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
      slots_(store, scheduler, settings_.queue, settings_.name) {
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
    slots_.set_queue(definition);
  }
}

// Every task of a call for one worker, or for the consumer's own.
ChooseWorker Consumer::chosen(const std::optional<OfferFor>& to) const {
  OfferFor one = to.value_or(OfferFor{.can_probe = settings_.can_probe});
  if (one.worker.empty()) one.worker = settings_.name;
  return [one = std::move(one)](std::size_t) { return one; };
}

// --- Offers -----------------------------------------------------------------------------------

Result<std::vector<Offer>> Consumer::offer(std::size_t most, Duration wait, std::stop_token stop,
                                           const std::optional<OfferFor>& to) {
  return offer(most, wait, std::move(stop), chosen(to));
}

Result<std::vector<Offer>> Consumer::offer(std::size_t most, Duration wait, std::stop_token stop,
                                           const ChooseWorker& to) {
  if (most == 0 || most > kMostOffers)
    return Error{.code = Code::invalid_input,
                 .message = "a call offers between 1 and " + std::to_string(kMostOffers) +
                            " tasks; nothing was claimed"};
  const Moment deadline = scheduler_.now() + wait;
  while (true) {
    follow_definition();
    const Duration left =
        std::max(Duration{0}, std::chrono::duration_cast<Duration>(deadline - scheduler_.now()));
    auto offers = offer_once(most, left, stop, to);
    // A delivery that could not be claimed (a duplicate, a settled task) is no end of the wait.
    if (!offers || !offers->empty() || left == Duration{0} || stop.stop_requested()) return offers;
  }
}

Result<std::vector<Offer>> Consumer::offer_once(std::size_t most, Duration wait,
                                                std::stop_token stop, const ChooseWorker& to) {
  if (slots_.limited()) {
    if (wait == Duration{0}) return offer_in_slots(most, wait, std::move(stop), to);
    // A caller that waits holds one slot. So an idle caller leaves the others to the busy ones.
    const Duration longest = std::min(writer_.policy()->lease, core::kOfferLease) / 3;
    auto first = offer_in_slots(1, std::min(wait, longest), stop, to);
    if (!first || first->empty() || first->size() >= most) return first;
    const auto after_first = [&](std::size_t offered) { return to(first->size() + offered); };
    if (auto more = offer_in_slots(most - first->size(), Duration{0}, stop, after_first))
      std::move(more->begin(), more->end(), std::back_inserter(*first));
    return first;
  }
  auto taken =
      intake_
          .commit(
              {},
              {.limit = most, .handlers = most, .wait = wait, .stop = std::move(stop), .to = to})
          .taken;
  if (!taken) return taken.error();
  if (wait > Duration{0}) follow_definition();  // it may have a max_running by now
  return offers_of(std::move(taken->tasks));
}

Result<std::vector<Offer>> Consumer::offer_in_slots(std::size_t most, Duration wait,
                                                    std::stop_token stop, const ChooseWorker& to) {
  const auto slots = slots_.take(most);
  if (!slots) return slots.error();
  if (slots->empty()) {
    if (wait > Duration{0}) slots_.await_free(std::min(wait, kSlotLook), std::move(stop));
    return std::vector<Offer>{};
  }
  IntakeRequest wanted{.limit = slots->size(),
                       .handlers = slots->size(),
                       .wait = wait,
                       .stop = std::move(stop),
                       .to = to};
  core::StoreTime until = core::StoreTime::max();
  for (const ClaimSlot& slot : *slots) {
    wanted.nonces.push_back(slot.nonce);
    until = std::min(until, slot.until);
  }
  // The leases of the slots may have expired since, for example if the process was suspended.
  wanted.allowed = [until](std::size_t, core::StoreTime now) { return now < until; };
  const std::vector<core::Nonce> nonces = wanted.nonces;
  auto taken = intake_.commit({}, std::move(wanted)).taken;
  auto offers = taken ? Result<std::vector<Offer>>(offers_of(std::move(taken->tasks)))
                      : Result<std::vector<Offer>>(taken.error());
  slots_.give_back_unused(nonces,
                          [this](const core::Nonce& nonce) { return intake_.unresolved(nonce); });
  return offers;
}

// Pairs each claim with the slot that it was made in. A caller that waited may have a slot that ends
// before its claim. Such a slot is renewed.
std::vector<std::optional<ClaimSlot>> Consumer::slots_of(const RunningTasks& tasks) {
  std::vector<std::optional<ClaimSlot>> slots;
  std::vector<ClaimSlot> shorter;
  std::vector<std::size_t> of;
  Duration longest{};
  for (const auto& task : tasks) {
    slots.push_back(slots_.use(task->nonce));
    const core::StoreTime end = task->stored.stamp + task->stored.record.lease;
    if (!slots.back() || slots.back()->until >= end) continue;
    shorter.push_back(*slots.back());
    of.push_back(slots.size() - 1);
    longest = std::max(longest, end - store_.now());
  }
  const auto kept = slots_.keep(shorter, longest);
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (kept[k])
      slots[of[k]]->until = *kept[k];
    else if (!kept[k].error().retryable)
      slots[of[k]].reset();
  }
  return slots;
}

// A claim whose answer was lost earlier may have ended since. Its start is then fenced.
std::vector<Offer> Consumer::offers_of(RunningTasks tasks) {
  std::vector<Offer> offers;
  std::vector<Intent> withdrawn;
  offers.reserve(tasks.size());
  const bool limited = slots_.limited();
  const auto slots = slots_of(tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    RunningTask& task = *tasks[i];
    if (!limited || slots[i]) {
      offers.push_back(offer_of(task, slots[i]));
      continue;
    }
    // Its slot is lost, or max_running is new.
    withdrawn.push_back({.at = task.address,
                         .known = task.stored,
                         .command = core::Release{.nonce = task.nonce},
                         .handle = task.handle});
  }
  // Nobody knows these claims. One that cannot be given back now ends by itself.
  if (!withdrawn.empty()) static_cast<void>(writer_.write(std::move(withdrawn)));
  return offers;
}

Offer Consumer::offer_of(RunningTask& task, const std::optional<ClaimSlot>& slot) const {
  const core::Record& record = task.stored.record;
  Handle handle{.zone = zone_,
                .queue = settings_.queue.name,
                .key = task.address.key,
                .sequence = task.sequence,
                .nonce = task.nonce,
                .delivery = task.handle};
  if (slot) handle.slot = slot->number;
  Offer made{.claim = encoding::text(handle),
             .id = task.task.id,
             .key = task.address.key,
             .lease = lease_left(task.stored, until_of(slot))};
  if (record.offer) {
    made.worker = record.offer->worker;
    made.can_probe = record.offer->can_probe;
  } else {
    made.worker = record.attempts.back().worker;
    made.started = started(made.claim, made.key, std::move(task.task), task.sequence, task.stored,
                           until_of(slot));
  }
  return made;
}

void Consumer::withdraw(std::span<const std::string> claims) {
  // An offer that cannot be taken back now ends by itself.
  static_cast<void>(write(
      claims, [](std::size_t, const core::Nonce& nonce, const core::Record*) -> core::Command {
        return core::Release{.nonce = nonce, .if_offered = true};
      }));
}

// A claim must not run without its slot.
Duration Consumer::lease_left(const core::Stored& stored,
                              const std::optional<core::StoreTime>& slot_until) const {
  core::StoreTime end = stored.stamp + stored.record.lease;
  if (slot_until) end = std::min(end, *slot_until);
  return std::max(Duration{0}, end - store_.now());
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

Consumer::Intents Consumer::intents_of(std::span<const std::string> claims, const Make& make,
                                       Needs needs) {
  Intents made{.errors = std::vector<std::optional<Error>>(claims.size()),
               .slots = std::vector<std::optional<ClaimSlot>>(claims.size())};
  std::vector<std::optional<Handle>> read(claims.size());
  for (std::size_t i = 0; i < claims.size(); ++i) {
    auto handle = handle_of(claims[i]);
    if (!handle) {
      made.errors[i] = handle.error();
      continue;
    }
    if (handle->slot) made.slots[i] = {.number = *handle->slot, .nonce = handle->nonce};
    read[i] = std::move(*handle);
  }
  if (needs == Needs::slot) keep_slots(made);
  std::vector<Handle> handles;
  std::vector<store::Address> addresses;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (made.errors[i]) continue;
    Handle& handle = *read[i];
    addresses.push_back({.queue = handle.queue, .key = handle.key, .sequence = handle.sequence});
    handles.push_back(std::move(handle));
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
    made.nonces.push_back(handles[k].nonce);
    readable.push_back(place);
  }
  made.places = std::move(readable);
  return made;
}

// The slots are renewed before the claims: a claim must not outlive its slot.
void Consumer::keep_slots(Intents& made) {
  std::vector<ClaimSlot> slots;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < made.slots.size(); ++i) {
    if (!made.slots[i]) continue;
    slots.push_back(*made.slots[i]);
    of.push_back(i);
  }
  const auto kept = slots_.keep(slots, writer_.policy()->lease);
  for (std::size_t k = 0; k < kept.size(); ++k) {
    if (kept[k])
      made.slots[of[k]]->until = *kept[k];
    else
      made.errors[of[k]] = kept[k].error();
  }
}

// The slots of the claims that are over are given back after the claims.
void Consumer::give_slots_back(const Intents& made, std::span<const Result<WriteResult>> written) {
  std::vector<ClaimSlot> over;
  for (std::size_t k = 0; k < written.size(); ++k) {
    const std::optional<ClaimSlot>& slot = made.slots[made.places[k]];
    if (!slot || !written[k]) continue;
    const auto& stored = written[k]->stored;
    if (core::gives_slot_back(stored ? &*stored : nullptr, slot->nonce)) over.push_back(*slot);
  }
  slots_.give_back(over);
}

void Consumer::keep_results(const Intents& made, std::span<const Result<WriteResult>> written) {
  for (std::size_t k = 0; k < written.size(); ++k)
    if (written[k] && written[k]->stored) kept_.saw(made.nonces[k], written[k]->stored->record);
}

std::vector<Result<Consumer::ClaimWrite>> Consumer::write(std::span<const std::string> claims,
                                                          const Make& make, Needs needs) {
  follow_definition();
  Intents made = intents_of(claims, make, needs);
  std::vector<Result<ClaimWrite>> results;
  results.reserve(claims.size());
  for (const auto& error : made.errors) results.emplace_back(error ? *error : Error{});
  auto written = writer_.write(std::move(made.intents));
  give_slots_back(made, written);
  keep_results(made, written);
  for (std::size_t k = 0; k < written.size(); ++k) {
    const core::Verdict verdict =
        written[k] ? written[k]->decision.verdict : core::Verdict::already_done;
    Result<ClaimWrite>& result = results[made.places[k]];
    if (!written[k])
      result = written[k].error();
    else if (verdict == core::Verdict::fenced)
      result = claim_fenced();
    else if (verdict == core::Verdict::not_started)
      result = claim_not_started();
    else
      result = ClaimWrite{std::move(*written[k]), until_of(made.slots[made.places[k]])};
  }
  return results;
}

Result<Consumer::ClaimWrite> Consumer::write(std::string_view claim, const core::Command& command) {
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
      found,
      [&](std::size_t k, const core::Nonce& nonce, const core::Record*) -> core::Command {
        const store::Entry& entry = entries[k];
        core::Start start{.nonce = nonce};
        if (entry.lives) start.expires = entry.appended_at + *entry.lives;
        return start;
      },
      Needs::slot);
  for (std::size_t k = 0; k < found.size(); ++k)
    answers[places[k]] = start_answer(found[k], std::move(entries[k]), written[k]);
  return answers;
}

Result<StartedTask> Consumer::start_answer(const std::string& claim, store::Entry entry,
                                           const Result<ClaimWrite>& written) const {
  if (!written) return written.error();
  const core::Verdict verdict = written->decision.verdict;
  if (verdict != core::Verdict::started && verdict != core::Verdict::already_done)
    return claim_ended(written->stored->record);
  Task task{.topic = std::move(entry.topic),
            .id = std::move(entry.id),
            .body = std::move(*entry.body),
            .headers = std::move(entry.headers)};
  if (entry.delay > Duration{0}) task.not_before = entry.published_at + entry.delay;
  if (entry.lives) task.expires = entry.published_at + *entry.lives;
  return started(claim, handle_of(claim)->key, std::move(task), entry.sequence, *written->stored,
                 written->slot_until);
}

StartedTask Consumer::started(std::string claim, std::string key, Task task,
                              core::Sequence sequence, const core::Stored& stored,
                              const std::optional<core::StoreTime>& slot_until) const {
  const core::Record& record = stored.record;
  StartedTask made{.claim = std::move(claim),
                   .task = std::move(task),
                   .key = std::move(key),
                   .sequence = sequence.value,
                   .token = core::token_of(record, stored.revision).value,
                   .attempt = static_cast<int>(record.claims),
                   .in_doubt = record.in_doubt,
                   .probing = record.attempts.back().probing,
                   .lease = lease_left(stored, slot_until)};
  TaskAttempt attempt{
      .task = made.task, .zone = zone_, .queue = settings_.queue.name, .key = made.key};
  const auto step = settings_.queue.stream.empty()
                        ? encoding::read_step(made.task.headers, settings_.queue.name)
                        : std::nullopt;
  if (step) {
    attempt.run = step->run;
    attempt.step = step->step;
  }
  made.idempotency_key = idempotency_key(attempt);
  for (const core::Step& each : record.steps) made.steps.push_back(core::step_view(record, each));
  return made;
}

std::vector<Result<RenewResult>> Consumer::renew(std::span<const std::string> claims) {
  const auto written = write(
      claims,
      [](std::size_t, const core::Nonce& nonce, const core::Record*) -> core::Command {
        return core::Renew{.nonce = nonce};
      },
      Needs::slot);
  std::vector<Result<RenewResult>> answers;
  answers.reserve(written.size());
  for (const auto& each : written) {
    if (!each) {
      answers.emplace_back(each.error());
      continue;
    }
    RenewResult renewed{.lease = lease_left(*each->stored, each->slot_until)};
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
  Intents made = intents_of(
      claims,
      [&](std::size_t place, const core::Nonce& nonce, const core::Record*) {
        return command_of(settlements[place], nonce);
      },
      Needs::nothing);
  Settled settled;
  for (const auto& error : made.errors) settled.states.emplace_back(error ? *error : Error{});
  LedgerBatch batch = writer_.begin(std::move(made.intents));
  next = std::min(next, kMostOffers);
  const bool limited = slots_.limited();
  if (next > 0 && !limited) {
    Intake::CommitResult both =
        intake_.commit(batch.swaps(), {.limit = next, .handlers = next, .to = chosen(to)});
    if (!batch.swaps().empty()) writer_.answered(batch, std::move(both.swapped));
    // Without offers the caller asks for them again. The verdicts are recorded in any case.
    if (both.taken) settled.next = offers_of(std::move(both.taken->tasks));
  }
  const auto written = writer_.finish(std::move(batch));
  give_slots_back(made, written);
  keep_results(made, written);
  // The slots must be free before the next claims can have them.
  if (next > 0 && limited)
    if (auto offers = offer_in_slots(next, {}, {}, chosen(to))) settled.next = std::move(*offers);
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
