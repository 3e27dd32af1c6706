#include "work/intake.h"

#include <algorithm>
#include <utility>

namespace once::engine {
namespace {

// The delay of the next delivery if a task must not be claimed now.
constexpr Duration kSoon{50};

// True if no earlier attempt ran: all of them were claimed ahead and given back.
bool first_start(const core::Record& record) {
  return !record.attempts.empty() && record.claims == record.attempts.size() &&
         std::all_of(
             record.attempts.begin(), record.attempts.end() - 1,
             [](const core::Attempt& attempt) { return attempt.ending == core::Ending::released; });
}

}  // namespace

Intake::Intake(store::Store& store, Scheduler& scheduler, LedgerWriter& writer,
               WorkerCounters& counters, encoding::KeyTemplate key, IntakeSettings settings)
    : store_(store),
      scheduler_(scheduler),
      writer_(writer),
      counters_(counters),
      key_(std::move(key)),
      settings_(std::move(settings)) {}

Intake::CommitResult Intake::commit(std::span<const store::Swap> records, IntakeRequest request) {
  if (records.empty()) {
    RunningTasks found;
    const Result<void> all_known = recover(found, request.limit);
    if (!found.empty()) return {.taken = IntakeResult{std::move(found), true}};
    if (!all_known && unresolved() >= request.limit) return {.taken = all_known.error()};
  } else if (unresolved() > 0) {
    return {.swapped = store_.swap(records)};
  }
  Round round(*this, std::move(request));
  auto both = store_.commit(records, round.wanted());
  return {.swapped = std::move(both.swapped), .taken = take(round, std::move(both.delivered))};
}

Result<Intake::IntakeResult> Intake::take(Round& round,
                                          Result<std::vector<store::Delivery>> deliveries) {
  if (!deliveries) {
    if (!deliveries.error().in_doubt) return deliveries.error();
    for (Proposal& proposal : round.proposals) ask_again(std::move(proposal));
    RunningTasks found;
    static_cast<void>(recover(found, round.most()));
    if (found.empty()) return deliveries.error();
    return IntakeResult{std::move(found), true};
  }
  IntakeResult taken{.delivered = !deliveries->empty()};
  std::vector<store::Delivery> unclaimed;
  std::vector<Debt> debts;
  for (store::Delivery& delivery : *deliveries) {
    if (delivery.unanswered) {
      const core::Nonce nonce = delivery.stored->record.nonce;
      ask_again({delivery.entry.sequence, nonce, std::move(delivery)});
    } else if (!delivery.claimed) {
      unclaimed.push_back(std::move(delivery));
    } else if (delivery.stored->record.state == State::running) {
      store::Address at = *address(delivery.entry);
      taken.tasks.push_back(running_task(std::move(delivery), std::move(at)));
    } else {  // the claim settled the task as dead, in doubt or cancelled
      counters_.recorded(delivery.stored->record);
      if (delivery.stored->record.reply_due)
        debts.push_back({.at = *address(delivery.entry),
                         .stored = std::move(*delivery.stored),
                         .handle = std::move(delivery.handle)});
    }
  }
  if (!debts.empty()) writer_.pay(debts);
  // Claims that stay unresolved are tried again later.
  static_cast<void>(recover(taken.tasks, round.most()));
  if (!unclaimed.empty()) {
    auto answered = answer(round, std::move(unclaimed), taken.tasks);
    // The claimed tasks run. The store delivers an unanswered delivery again.
    if (!answered && taken.tasks.empty()) return answered.error();
  }
  return taken;
}

std::optional<store::Address> Intake::address(const store::Entry& entry) const {
  auto key = key_of(entry);
  if (!key) return std::nullopt;
  return store::Address{
      .queue = settings_.queue.name, .key = std::move(*key), .sequence = entry.sequence};
}

store::Address Intake::own_place(const store::Entry& entry) const {
  return {.kind = store::Address::Kind::entry,
          .queue = settings_.queue.name,
          .sequence = entry.sequence};
}

// --- A round ----------------------------------------------------------------------------------

Intake::Round::Round(Intake& intake, IntakeRequest request)
    : intake_(intake),
      most_(request.limit),
      perhaps_(intake.unresolved()),
      request_(std::move(request)) {
  request_.limit -= std::min(request_.limit, perhaps_);
}

store::Fetch Intake::Round::wanted() {
  return {.queue = intake_.settings_.queue.name,
          .member = intake_.settings_.member,
          .limit = request_.limit,
          .again = request_.handlers,
          .claimer = this,
          .wait = request_.wait,
          .stop = request_.stop};
}

std::optional<store::Address> Intake::Round::address(const store::Entry& entry) {
  return intake_.address(entry);
}

std::optional<core::Record> Intake::Round::claim(const store::Entry& entry,
                                                 const core::Stored* stored,
                                                 const core::Order* order, core::Now now) {
  if (!entry.body) return std::nullopt;
  auto to = claimant(now.store);
  if (!to) return std::nullopt;
  core::Claim wanted = intake_.command(entry, order, std::move(*to));
  wanted.nonce = nonce();
  core::Decision decision = core::decide(stored, wanted, *intake_.writer_.policy(), now);
  if (decision.verdict == core::Verdict::claimed || decision.verdict == core::Verdict::offered)
    proposals.push_back({entry.sequence, wanted.nonce});
  return std::move(decision.next);
}

// Unresolved claims of earlier rounds count as claimed.
std::optional<OfferFor> Intake::Round::claimant(core::StoreTime now) const {
  if (!request_.nonces.empty() && proposals.size() >= request_.nonces.size()) return std::nullopt;
  const std::size_t claimed = perhaps_ + proposals.size();
  if (request_.allowed && !request_.allowed(claimed, now)) return std::nullopt;
  if (request_.to) return request_.to(claimed);
  return OfferFor{.worker = intake_.settings_.worker, .can_probe = intake_.settings_.can_probe};
}

core::Nonce Intake::Round::nonce() const {
  if (!request_.nonces.empty()) return request_.nonces[proposals.size()];
  core::Nonce random;
  intake_.scheduler_.random_bytes(random.bytes.data(), random.bytes.size());
  return random;
}

// --- Deliveries become running tasks, or are answered ------------------------------------------

// Any process may hold a claim of a consumer. So it must not end with this process.
core::Member Intake::holder() const {
  return settings_.kind == core::Claim::Kind::start ? settings_.member : core::Member{};
}

core::Claim Intake::command(const store::Entry& entry, const core::Order* order,
                            OfferFor to) const {
  core::Claim claim{.sequence = entry.sequence,
                    .digest = entry.digest,
                    .worker = std::move(to.worker),
                    .member = holder(),
                    .can_probe = to.can_probe,
                    .kind = to.start ? core::Claim::Kind::start_and_keep : settings_.kind};
  if (entry.delay > Duration{0}) claim.not_before = entry.not_before();
  if (entry.lives) claim.expires = entry.appended_at + *entry.lives;
  if (order) claim.order = *order;
  if (auto step = step_of(entry)) {
    claim.reply = encoding::reply_to(*step);
    claim.own = std::move(step->policy);
  }
  return claim;
}

// On a stream of others, any publisher can set any header. So its tasks are never steps.
std::optional<encoding::StepTask> Intake::step_of(const store::Entry& entry) const {
  if (!settings_.queue.stream.empty()) return std::nullopt;
  return encoding::read_step(entry.headers, settings_.queue.name);
}

Result<std::string> Intake::key_of(const store::Entry& entry) const {
  return key_.key(entry.id, entry.topic, entry.body ? *entry.body : Body{}, entry.headers);
}

std::unique_ptr<RunningTask> Intake::running_task(store::Delivery&& delivery,
                                                  store::Address at) const {
  auto running = std::make_unique<RunningTask>();
  if (auto step = step_of(delivery.entry)) {
    running->run = std::move(step->run);
    running->step = std::move(step->step);
  }
  running->task = {.topic = std::move(delivery.entry.topic),
                   .id = std::move(delivery.entry.id),
                   .body = std::move(*delivery.entry.body),
                   .headers = std::move(delivery.entry.headers)};
  if (delivery.entry.delay > Duration{0})
    running->task.not_before = delivery.entry.published_at + delivery.entry.delay;
  if (delivery.entry.lives)
    running->task.expires = delivery.entry.published_at + *delivery.entry.lives;
  running->sequence = delivery.entry.sequence;
  running->digest = delivery.entry.digest;
  running->published_at = delivery.entry.published_at;
  running->address = std::move(at);
  running->handle = std::move(delivery.handle);
  running->stored = std::move(*delivery.stored);
  running->nonce = running->stored.record.nonce;
  running->token = core::token_of(running->stored.record, running->stored.revision);
  running->attempt = running->stored.record.claims;
  running->in_doubt = running->stored.record.in_doubt;
  running->probing =
      !running->stored.record.offer && running->stored.record.attempts.back().probing;
  running->first = first_start(running->stored.record);
  running->claimed_for = running->stored.record.lease;
  running->own = running->stored.record.own;
  // The lease begins with the write, even if the answer arrives late.
  running->renewed_at =
      scheduler_.now() - std::max(Duration{0}, store_.now() - running->stored.stamp);
  counters_.claimed(running->stored.record);
  return running;
}

// --- Unclaimed deliveries are answered ----------------------------------------------------------

void Intake::Answers::settle(const store::Delivery& delivery, std::optional<Duration> again) {
  settlements.push_back({.queue = queue,
                         .sequence = delivery.entry.sequence,
                         .handle = delivery.handle,
                         .again = again});
}

Result<void> Intake::answer(Round& round, std::vector<store::Delivery> unclaimed,
                            RunningTasks& tasks) {
  Answers answers{.round = round, .tasks = tasks, .queue = settings_.queue.name};
  std::optional<Error> failed;  // the store delivers it again, or its claim is unresolved
  for (store::Delivery& delivery : unclaimed)
    if (const auto answered = answer_one(answers, delivery); !answered) failed = answered.error();
  if (!answers.settlements.empty())
    if (auto settled = store_.settle(answers.settlements); !settled) return settled;
  if (failed) return *failed;
  return {};
}

Result<void> Intake::answer_one(Answers& answers, store::Delivery& delivery) {
  // An order for a task whose body is retired came too late: the task was settled before.
  const bool nothing_to_run = !delivery.order || !delivery.entry.body;
  if (delivery.stored && nothing_to_run && core::settled(delivery.stored->record.state) &&
      delivery.stored->record.sequence == delivery.entry.sequence) {
    answer_settled(answers, delivery);
    return {};
  }
  if (!delivery.entry.body) return set_aside_bodiless(answers, delivery);
  if (const auto key = key_of(delivery.entry); !key)
    return set_aside(answers, delivery, State::dead, key.error().message);
  if (auto to = answers.round.claimant(store_.now()))
    return claim_one(answers, delivery, std::move(*to));
  answers.settle(delivery, kSoon);
  return {};
}

void Intake::answer_settled(Answers& answers, const store::Delivery& delivery) {
  if (!delivery.stored->record.reply_due) {
    counters_.stopped_settled();
    answers.settle(delivery, std::nullopt);
  } else if (const auto debt = pay(delivery); !debt) {
    answers.settle(delivery, kSoon);
  } else if (!debt->answered) {
    answers.settle(delivery, core::look_again(debt->stored.record));
  }
}

Result<void> Intake::set_aside(Answers& answers, const store::Delivery& delivery, State state,
                               std::string reason, const core::Record* holder) {
  core::SetAside aside{.sequence = delivery.entry.sequence,
                       .digest = delivery.entry.digest,
                       .state = state,
                       .reason = std::move(reason)};
  if (const auto step = step_of(delivery.entry)) {
    aside.reply = encoding::reply_to(*step);
    if (state == State::duplicate && holder && holder->state == State::completed)
      aside.result = holder->result;
  }
  const auto written = writer_.write(
      {.at = own_place(delivery.entry), .command = std::move(aside), .handle = delivery.handle});
  if (!written) return written.error();
  if (written->decision.verdict == core::Verdict::set_aside)
    counters_.recorded(written->stored->record);
  else
    answers.settle(delivery, core::look_again(written->stored->record));
  return {};
}

Result<void> Intake::set_aside_bodiless(Answers& answers, const store::Delivery& delivery) {
  const std::string& stream = settings_.queue.stream;
  if (stream.empty())
    return set_aside(answers, delivery, State::cancelled,
                     "the body was retired before this queue could run it");
  return set_aside(answers, delivery, State::dead,
                   "its message is gone from the stream " + stream +
                       ": it was deleted or aged out before it was done");
}

Result<void> Intake::claim_one(Answers& answers, store::Delivery& delivery, OfferFor to) {
  store::Address at = *address(delivery.entry);
  core::Claim wanted =
      command(delivery.entry, delivery.order ? &*delivery.order : nullptr, std::move(to));
  wanted.nonce = answers.round.nonce();
  auto written = writer_.write(
      {.at = at, .known = delivery.stored, .command = wanted, .handle = delivery.handle});
  if (written) return answer_claim(answers, delivery, std::move(at), std::move(*written));
  if (written.error().code == Code::wrong_state) {
    // The entry has got an own record a moment ago: it was cancelled.
    answers.settle(delivery, kSoon);
    return {};
  }
  if (written.error().in_doubt) {
    const core::Sequence sequence = delivery.entry.sequence;
    answers.round.proposals.push_back({sequence, wanted.nonce});
    ask_again({sequence, wanted.nonce, std::move(delivery)});
  }
  return written.error();
}

Result<void> Intake::answer_claim(Answers& answers, store::Delivery& delivery, store::Address at,
                                  WriteResult written) {
  const core::Decision& decision = written.decision;
  const std::string of = "#" + std::to_string(decision.of.value);
  switch (decision.verdict) {
    case core::Verdict::claimed:
    case core::Verdict::offered:
    case core::Verdict::already_done:  // an unanswered write of this claim was durable
      answers.round.proposals.push_back({delivery.entry.sequence, written.stored->record.nonce});
      delivery.stored = std::move(written.stored);
      answers.tasks.push_back(running_task(std::move(delivery), std::move(at)));
      return {};
    case core::Verdict::held: counters_.stopped_held(); [[fallthrough]];
    case core::Verdict::not_due:
      answers.settle(delivery, std::max(Duration{1}, decision.until - store_.now()));
      return {};
    case core::Verdict::duplicate_key:
      return set_aside(answers, delivery, State::duplicate, "same key as " + of,
                       &written.stored->record);
    case core::Verdict::conflicting_key:
      counters_.stopped_same_key();
      return set_aside(answers, delivery, State::dead,
                       std::string(core::kConflictingKey) + ": the key '" + at.key +
                           "' belongs to " + of + " with other content");
    case core::Verdict::lapsed:
    case core::Verdict::exhausted:
    case core::Verdict::doubted:
    case core::Verdict::expired:
    case core::Verdict::cancelled:  // the write settled the task and its delivery
      counters_.recorded(written.stored->record);
      return {};
    default:
      counters_.stopped_settled();
      answers.settle(delivery, core::look_again(written.stored->record));
      return {};
  }
}

// A delivery does not say whether its record is the own record or the one of the key. It is the one
// with the delivery's revision. Returns nullopt if that revision has changed or cannot be read.
std::optional<Debt> Intake::pay(const store::Delivery& delivery) {
  std::vector<store::Address> places{own_place(delivery.entry)};
  if (auto at = address(delivery.entry)) places.push_back(std::move(*at));
  auto found = writer_.read(places);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!found[i] || !*found[i] || (*found[i])->revision != delivery.stored->revision) continue;
    Debt debt{
        .at = std::move(places[i]), .stored = std::move(**found[i]), .handle = delivery.handle};
    writer_.pay(std::span(&debt, 1));
    return debt;
  }
  return std::nullopt;
}

Result<void> Intake::recover(RunningTasks& tasks, std::size_t most) {
  std::vector<Proposal> asked;
  {
    const std::lock_guard lock(mutex_);
    asked.swap(unresolved_);
  }
  Result<void> all_known;
  for (Proposal& proposal : asked) {
    if (tasks.size() >= most) {  // the next caller gets it
      ask_again(std::move(proposal));
      continue;
    }
    Result<void> known = recover(proposal, tasks);
    // If the error is permanent, the worker that reclaims the task finds out.
    if (known || !known.error().retryable) continue;
    all_known = std::move(known);
    ask_again(std::move(proposal));
  }
  return all_known;
}

void Intake::ask_again(Proposal proposal) {
  const std::lock_guard lock(mutex_);
  unresolved_.push_back(std::move(proposal));
}

std::size_t Intake::unresolved() const {
  const std::lock_guard lock(mutex_);
  return unresolved_.size();
}

bool Intake::unresolved(const core::Nonce& nonce) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(unresolved_.begin(), unresolved_.end(),
                     [&](const Proposal& each) { return each.nonce == nonce; });
}

// The answer to a claim was lost. If the record has the claim's nonce, the claim was written and
// the task is ours. Otherwise it was not written, and the store delivers the task again. If the
// delivery was lost too, there is no handle. Then only the record says when the feed looks again.
Result<void> Intake::recover(Proposal& proposal, RunningTasks& tasks) {
  if (!proposal.delivery) {
    auto entry = store_.entry(settings_.queue.name, proposal.sequence);
    if (!entry) return entry.error();
    if (!*entry) return {};
    proposal.delivery = store::Delivery{.entry = std::move(**entry)};
  }
  store::Delivery& delivery = *proposal.delivery;
  auto at = address(delivery.entry);
  if (!at || !delivery.entry.body) return {};
  auto stored = std::move(store_.get(std::span(&*at, 1)).front());
  if (!stored) return stored.error();
  if (!*stored || (*stored)->record.nonce != proposal.nonce ||
      (*stored)->record.state != State::running)
    return {};
  delivery.stored = std::move(*stored);
  tasks.push_back(running_task(std::move(delivery), std::move(*at)));
  return {};
}

}  // namespace once::engine
