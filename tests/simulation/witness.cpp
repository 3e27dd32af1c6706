#include "simulation/witness.h"

#include <algorithm>

#include "core/names.h"
#include "inspect/auditor.h"
#include "simulation/flow_witness.h"

namespace once::sim {
namespace {

using core::Ending;
using core::Record;
using store::Stored;

constexpr Duration kRounding{5};  // of leases, between clocks that count in other units

bool is_final(State state) {
  return state == State::completed || state == State::cancelled || state == State::duplicate;
}

bool is_offer(const Record& record) { return record.state == State::running && record.offer; }

// The write with which an attempt begins.
bool is_claim(const Record* before, const Record& now) {
  return now.state == State::running && !now.offer &&
         (!before || before->state != State::running || before->nonce != now.nonce ||
          before->offer);
}

// The actions that were added to the story.
std::vector<core::OperatorAction> new_actions(const Record* before, const Record& now) {
  const std::size_t old = before ? before->actions : 0;
  const std::size_t added = std::min<std::size_t>(now.actions - old, now.story.size());
  return {now.story.end() - static_cast<std::ptrdiff_t>(added), now.story.end()};
}

// Or by a run that a person had retried.
bool by_person(const core::OperatorAction& action) {
  return action.by.starts_with("person") || action.by == "workflow";
}

bool ordered_to_run(const core::OperatorAction& action) {
  return by_person(action) && (action.act == core::OperatorAction::Act::retried ||
                               action.act == core::OperatorAction::Act::step_completed);
}

const core::Attempt* attempt(const Record& record, std::uint32_t number) {
  for (const core::Attempt& each : record.attempts)
    if (each.number == number) return &each;
  return nullptr;
}

// Who waited for it has been told, and nothing else was written.
bool only_told(const Record& before, Record now) {
  if (!before.reply_due || now.reply_due) return false;
  now.reply_due = true;
  return now == before;
}

std::string named(State state) { return std::string(to_string(state)); }

}  // namespace

Witness::Witness(World& world, SimZone& zone, std::vector<Queue> queues)
    : world_(world), zone_(zone) {
  for (Queue& queue : queues) queues_[queue.name] = std::move(queue);
}

std::string Witness::text(const Place& place) { return place.first + "/" + place.second; }

const Queue& Witness::queue(const std::string& name) const { return queues_.at(name); }

// --- Publishers -----------------------------------------------------------------------------

void Witness::answered(const Process& publisher, const std::string& id, int content,
                       const Result<Receipt>& answer) {
  world_.trace().note(world_.now(), publisher.name(), "is answered",
                      answer ? answer->sequence * 2 + (answer->duplicate ? 1 : 0) : 1'000'000, [&] {
                        if (!answer) return id + ": " + answer.error().message;
                        return id + ": #" + std::to_string(answer->sequence) +
                               (answer->duplicate ? " duplicate" : "");
                      });
  const auto known = published_.find(id);
  if (!answer) {
    if (answer.error().code != Code::conflicting_duplicate) return;
    if (known != published_.end() && known->second.content == content)
      broken("P1: the id " + id + " was refused as a conflict with content that is its own");
    return;
  }
  if (known == published_.end()) {
    published_[id] = {.sequence = answer->sequence,
                      .content = content,
                      .digest = answer->digest,
                      .first_receipts = answer->duplicate ? 0 : 1};
    return;
  }
  Published& published = known->second;
  if (published.sequence != answer->sequence || published.digest != answer->digest)
    broken("P1: the id " + id + " is #" + std::to_string(published.sequence) + " and was also #" +
           std::to_string(answer->sequence));
  if (published.content != content)
    broken("P1: the id " + id + " was acknowledged with two contents");
  if (!answer->duplicate && ++published.first_receipts > 1)
    broken("P1: two publishers were told that they appended " + id + " first");
}

// --- The store ------------------------------------------------------------------------------

void Witness::appended(const store::Append& item) {
  if (flows_) flows_->appended(item);
}

void Witness::wrote(Process& by, const store::KeyWrite& value) { flows_->wrote(by, value); }

void Witness::wrote(Process& by, const store::Address& at, const Stored& now, Write how) {
  const Record& next = now.record;
  if (core::own_queue(at.queue)) return flows_->wrote(by, at, now);
  if (at.kind == store::Address::Kind::entry) {
    world_.trace().note(world_.now(), by.name(), "sets aside", at.sequence.value, [&] {
      return at.queue + " #" + std::to_string(at.sequence.value) + " as " + named(next.state);
    });
    check_entry_record(at, next);
    own_[{at.queue, at.sequence.value}] = {
        .record = next, .revision = now.revision, .stamp = now.stamp};
    return;
  }
  const Place place{at.queue, at.key};
  const bool is_task = at.kind == store::Address::Kind::task;
  world_.trace().note(
      world_.now(), by.name(), "writes",
      now.revision.value * 16 + static_cast<unsigned>(next.state), [&] {
        return text(place) + " r" + std::to_string(now.revision.value) + " #" +
               std::to_string(next.sequence.value) + " " + named(next.state) + ", attempt " +
               std::to_string(next.claims) +
               (next.attempts.empty() ? std::string()
                                      : " " + std::string(to_string(next.attempts.back().ending))) +
               (next.state == State::running ? ", lease " + std::to_string(next.lease.count())
                                             : "") +
               (next.cancel_asked ? ", to stop" : "") + " at " +
               std::to_string(now.stamp.time_since_epoch().count() % 100'000'000) +
               (next.reason.empty() ? "" : " (" + next.reason + ")");
      });
  auto& records = is_task ? records_ : lone_;
  const auto known = records.find(place);
  Seen* const before = known == records.end() ? nullptr : &known->second;
  if (before && now.revision <= before->revision)
    broken("P3: the revision of " + text(place) + " did not grow");
  const bool claim = is_claim(before ? &before->record : nullptr, next);
  const bool of_run = flows_ && is_task && at.queue == kOrderQueue;
  if (of_run) flows_->owes(at.key, next.reply_due);
  if (before && only_told(before->record, next)) {
    before->record = next;
    before->revision = now.revision;
    return;
  }
  if (of_run) flows_->wrote_step(at.key, before ? &before->record : nullptr, next, claim);
  if (before) check_lease(by, place, *before, now);
  if (is_task) {
    if (before) {
      check_transition(place, *before, next);
      check_ending(place, *before, now);
    }
    check_steps(place, before, next);
    if (claim) check_claim(by, place, before, now, how);
    if (is_offer(next)) check_offer(place, before, now);
  }
  Seen seen{.record = next,
            .revision = now.revision,
            .stamp = now.stamp,
            .claimant = before ? before->claimant : nullptr,
            .token = before ? before->token : 0,
            .used = before ? before->used : 0,
            .ordered = before && before->ordered,
            .pulled = is_offer(next) || (!claim && before && before->pulled)};
  for (const core::OperatorAction& action : new_actions(before ? &before->record : nullptr, next))
    if (ordered_to_run(action)) {
      seen.used = 0;
      seen.ordered = true;
    }
  if (claim) {
    if (!is_task && before && before->record.state == State::running && before->claimant != &by)
      lost_slots_.insert(before->claimant);
    seen.claimant = &by;
    seen.token = now.revision.value;
    ++seen.used;
    seen.ordered = false;
    seen.pulled = is_task ? before && is_offer(before->record) && before->record.nonce == next.nonce
                          : at.key.starts_with("slot.") && by.name().starts_with("puller");
    if (is_task)
      claims_[seen.token] = {
          .place = place, .claimant = &by, .pulled = seen.pulled, .attempt = next.claims};
  } else if (is_offer(next)) {
    seen.claimant = &by;
  }
  records[place] = std::move(seen);
}

// P5, and P3's fence: as long as a lease runs in the store's time and its holder lives, nobody else
// writes, except to ask the holder to stop.
void Witness::check_lease(const Process& by, const Place& place, const Seen& before,
                          const Stored& now) {
  if (before.record.state != State::running || !before.claimant) return;
  const bool same = now.record.nonce == before.record.nonce;
  if (before.pulled) return check_pulled_lease(by, place, before, now);
  const bool asks = same && now.record.state == State::running && now.record.cancel_asked;
  const core::StoreTime end = before.stamp + before.record.lease;
  if (&by == before.claimant || asks) return;
  if (same && now.record.state == State::running)
    broken("P3: " + by.name() + " wrote to " + text(place) + ", which " + before.claimant->name() +
           " holds");
  if (now.stamp < end && !before.claimant->gone())
    broken("P5: " + by.name() + " took " + text(place) + " while " + before.claimant->name() +
           " holds it for " + std::to_string((end - now.stamp).count()) + " ms more");
}

// A claim of a consumer belongs to whoever has its handle, in any process. An offer ends at once when a
// person cancels the task, or when its holder gives it back. So does the consumer that made it, if it
// has not handed it out.
void Witness::check_pulled_lease(const Process& by, const Place& place, const Seen& before,
                                 const Stored& now) {
  if (now.record.nonce == before.record.nonce) return;
  if (before.record.offer && now.record.state == State::cancelled) return;
  if (before.record.offer && given_back_.contains(before.record.nonce)) return;
  if (before.record.offer && before.claimant == &by && now.record.state != State::running) return;
  const core::StoreTime end = before.stamp + before.record.lease;
  if (now.stamp < end)
    broken("P5: " + by.name() + " took " + text(place) + ", which a consumer holds for " +
           std::to_string((end - now.stamp).count()) + " ms more");
}

// An offer uses up no attempt, and none is made of a task that must wait or be decided about.
void Witness::check_offer(const Place& place, const Seen* before, const Stored& now) {
  const Record& next = now.record;
  const std::string what = "an offer of " + text(place);
  const auto entry = zone_.inner->entry(place.first, next.sequence);
  if (!entry || !*entry || !(*entry)->body) return broken("P4: " + what + " has no task");
  if (now.stamp < (*entry)->not_before()) broken("P4: " + what + " comes before its time");
  if (own_.contains({place.first, next.sequence.value}))
    broken("P4: " + what + " is made, and its entry was set aside before");
  if (next.claims != (before ? before->record.claims : 0))
    broken("P6: " + what + " counts as an attempt");
  if (!before || is_offer(before->record)) return;
  const Record& prior = before->record;
  if (prior.state == State::retrying && now.stamp < before->stamp + prior.delay)
    broken("P6: " + what + " comes before its retry is due");
  if (prior.state != State::running) return;
  const core::Attempt* const last = attempt(next, prior.claims);
  if (!last || !core::without_verdict(last->ending))
    broken("P6: " + what + " is made, and the attempt before it was cut off without a trace");
  else if (queue(place.first).in_doubt == InDoubt::hold)
    broken("P6: " + what +
           " is made though the attempt before it is in doubt, in a queue that "
           "holds those");
}

// P5 of slots: no worker runs more than it holds of them, and so all together no more than the queue's
// max-running. Who could not renew a slot and lost it ends what it had claimed.
void Witness::check_slots(const Process& by, const std::string& name) {
  if (queue(name).max_running == 0 || lost_slots_.contains(&by)) return;
  const auto held = std::count_if(lone_.begin(), lone_.end(), [&](const auto& lone) {
    const auto& [place, seen] = lone;
    return place.first == name && place.second.starts_with("slot.") && seen.claimant == &by &&
           seen.record.state == State::running;
  });
  const int handlers = handlers_[{&by, name}];
  if (handlers > held)
    broken("P5: " + by.name() + " runs " + std::to_string(handlers) + " tasks of " + name +
           " with " + std::to_string(held) + " slots");
}

// P5 of slots, over all: the handlers that run are no more than the queue's max-running. A client whose
// lease is over, as it was told, has stopped. Leases are compared only where all clocks go alike.
void Witness::check_max_running(const std::string& name) {
  const int most = queue(name).max_running;
  if (most == 0 || !zone_.clock->punctual()) return;
  int running = 0;
  for (const auto& [of, count] : handlers_)
    if (of.second == name && !of.first->gone() && !lost_slots_.contains(of.first)) running += count;
  for (const auto& [token, claim] : claims_)
    running += claim.runner && claim.place.first == name && !claim.word && !claim.over &&
               !claim.runner->gone() && world_.now() + kRounding < claim.until;
  if (running > most)
    broken("P5: " + std::to_string(running) + " tasks of " + name + " run at once, and " +
           std::to_string(most) + " may");
}

// P3 and P4: what is settled stays so; what a person must decide, a person decides.
void Witness::check_transition(const Place& place, const Seen& before, const Record& now) {
  const State was = before.record.state;
  if (before.record.sequence != now.sequence)
    broken("P3: the record of " + text(place) + " was about #" +
           std::to_string(before.record.sequence.value) + " and is now about #" +
           std::to_string(now.sequence.value));
  if (is_final(was))
    broken("P3: " + text(place) + " was " + named(was) + " and was written again as " +
           named(now.state));
  if (was == State::dead || was == State::in_doubt) {
    const auto actions = new_actions(&before.record, now);
    if (std::none_of(actions.begin(), actions.end(), by_person))
      broken("P6: " + text(place) + " was " + named(was) + " and became " + named(now.state) +
             " without a person");
  }
  if (now.claims < before.record.claims || now.claims > before.record.claims + 1)
    broken("P6: the attempts of " + text(place) + " were miscounted");
}

// P6: what is recorded of an attempt is what its handler said; without a word there is no verdict.
void Witness::check_ending(const Place& place, Seen& before, const Stored& now) {
  if (before.record.state != State::running) return;
  if (before.record.offer) {
    if (now.record.in_doubt && !before.record.in_doubt)
      broken("P6: " + text(place) + " was offered and not started, and is in doubt");
    return;
  }
  const core::Attempt* const last = attempt(now.record, before.record.claims);
  if (!last) return broken("P6: an attempt of " + text(place) + " is missing");
  if (last->ending == Ending::running) return;
  Claim& claim = claims_.at(before.token);
  claim.recorded = last->ending;
  const auto said = [&](Outcome::Kind kind) { return claim.word == kind && !claim.over; };
  const std::string what = "attempt " + std::to_string(claim.attempt) + " of " + text(place) +
                           " is recorded as " + std::string(to_string(last->ending));
  switch (last->ending) {
    case Ending::completed:
      if (!said(Outcome::Kind::completed) && claim.probed != true)
        broken("P3: " + what + ", and nobody said so");
      break;
    case Ending::failed:
      if (!said(Outcome::Kind::failed) && claim.probed != false)
        broken("P6: " + what + ", and its handler did not say so");
      break;
    case Ending::dead:
      if (!said(Outcome::Kind::dead)) broken("P6: " + what + ", and its handler did not say so");
      break;
    case Ending::released:
      if (claim.started) broken("P6: " + what + ", and its handler had begun");
      break;
    case Ending::interrupted:
      if (!interrupted_.contains(claim.claimant))
        broken("P6: " + what + ", and nobody interrupted its worker");
      break;
    case Ending::timed_out:
      if (queue(place.first).timeout == Duration{0} && !now.record.own)
        broken("P6: " + what + ", and its queue has no timeout");
      break;
    default: break;
  }
  if (last->ending == Ending::released || last->ending == Ending::interrupted) --before.used;
  const State state = now.record.state;
  if (queue(place.first).in_doubt == InDoubt::hold && core::without_verdict(last->ending) &&
      state != State::in_doubt && state != State::cancelled && state != State::running)
    broken("P6: " + what + " in a queue that holds those, and the task is " + named(state));
}

void Witness::check_claim(const Process&, const Place& place, const Seen* before, const Stored& now,
                          Write how) {
  const Record& next = now.record;
  const Queue& rules = queue(place.first);
  const auto entry = zone_.inner->entry(place.first, next.sequence);
  if (!entry || !*entry)
    return broken("P4: " + text(place) + " is claimed for #" + std::to_string(next.sequence.value) +
                  ", which is not in the log");
  if (!(*entry)->body)
    return broken("P4: " + text(place) + " is claimed, and its body is gone by its age");
  const auto actions = new_actions(before ? &before->record : nullptr, next);
  const bool ordered =
      (before && before->ordered) || std::any_of(actions.begin(), actions.end(), ordered_to_run);
  const bool ever_ordered = std::any_of(next.story.begin(), next.story.end(), ordered_to_run);
  const std::string what = "attempt " + std::to_string(next.claims) + " of " + text(place);
  if (now.stamp < (*entry)->not_before()) broken("P4: " + what + " begins before its time");
  if (how == Write::claim && (*entry)->lives && !ever_ordered &&
      (*entry)->appended_at + *(*entry)->lives <= now.stamp && !next.attempts.back().probing)
    broken("P4: " + what + " begins though the task has expired");
  if (own_.contains({place.first, next.sequence.value}))
    broken("P4: " + what + " begins, and its entry was set aside before");
  if (!before) return;
  const Record& prior = before->record;
  if (prior.state == State::retrying && now.stamp < before->stamp + prior.delay)
    broken("P6: " + what + " begins before its retry is due");
  if (ordered) return;
  const bool probing = next.attempts.back().probing;
  const std::uint32_t allowed = core::policy_of(rules).attempts;
  if (!next.own && before->used >= allowed + (rules.in_doubt == InDoubt::probe ? 1 : 0))
    broken("P6: " + what + " is more than the queue allows");
  const core::Attempt* const last = attempt(next, prior.claims);
  if (!last || !core::without_verdict(last->ending)) return;
  if (rules.in_doubt == InDoubt::hold)
    broken("P6: " + what + " runs without a person, and the one before ended as " +
           std::string(to_string(last->ending)) + " in a queue that holds those");
  if (rules.in_doubt == InDoubt::probe && !probing)
    broken("P6: " + what + " does not ask the probe, and the one before ended as " +
           std::string(to_string(last->ending)));
}

// A finished step is finished; one that was cut off and is to be held does not begin by itself.
void Witness::check_steps(const Place& place, const Seen* before, const Record& now) {
  for (const core::Step& step : now.steps) {
    const core::Step* const prior = before ? core::find_step(before->record, step.name) : nullptr;
    const bool begins =
        step.state == core::Step::State::begun &&
        (!prior || prior->state != core::Step::State::begun || prior->attempt != step.attempt);
    if (!begins) continue;
    StepSeen& seen = steps_[{place, step.name}];
    ++seen.begun;
    seen.held = step.policy == InDoubt::hold;
    if (prior && prior->state == core::Step::State::begun && prior->policy == InDoubt::hold)
      broken("P6: step " + step.name + " of " + text(place) +
             " was cut off and begins again without a person");
  }
  if (!before) return;
  for (const core::Step& prior : before->record.steps) {
    const core::Step* const step = core::find_step(now, prior.name);
    if (prior.state != core::Step::State::done) continue;
    if (!step || step->state != core::Step::State::done || step->result != prior.result)
      broken("P6: step " + prior.name + " of " + text(place) + " was done and is not any more");
  }
}

void Witness::check_entry_record(const store::Address& at, const Record& now) {
  const std::string what = "#" + std::to_string(at.sequence.value) + " in " + at.queue;
  const auto known = own_.find({at.queue, at.sequence.value});
  if (known != own_.end() && known->second.record.state != State::dead &&
      !only_told(known->second.record, now))
    broken("P4: " + what + " was set aside and was written again");
  for (const auto& [place, seen] : records_)
    if (place.first == at.queue && seen.record.sequence == at.sequence)
      broken("P4: " + what + " is set aside as " + named(now.state) + ", and " + text(place) +
             " is its record");
}

void Witness::acknowledged(const Process& by, const std::string& queue, core::Sequence sequence) {
  world_.trace().note(world_.now(), by.name(), "acknowledges", sequence.value,
                      [&] { return queue + " #" + std::to_string(sequence.value); });
  if (core::own_queue(queue)) return;
  if (const auto own = own_.find({queue, sequence.value}); own != own_.end()) return;
  for (const auto& [place, seen] : records_) {
    if (place.first != queue || seen.record.sequence != sequence) continue;
    // A person may have ordered it to run again since the acknowledgement was sent.
    const auto& story = seen.record.story;
    if (std::any_of(story.begin(), story.end(), ordered_to_run)) return;
    if (!core::settled(seen.record.state))
      broken("P4: " + by.name() + " acknowledged #" + std::to_string(sequence.value) + " of " +
             queue + ", which is " + named(seen.record.state));
    return;
  }
  // What was forgotten by age is not missed.
  const auto row = zone_.inner->entry(queue, sequence);
  if (*row && (*row)->body)
    broken("P4: " + by.name() + " acknowledged #" + std::to_string(sequence.value) + " of " +
           queue + ", which has no record");
}

void Witness::retired() {
  std::erase_if(records_, [&](const auto& record) {
    const store::Address at{.queue = record.first.first, .key = record.first.second};
    const auto stored = zone_.inner->get(std::span(&at, 1));
    if (*stored.front()) return false;
    const Seen& seen = record.second;
    const auto ages = zone_.inner->retention();
    if (zone_.inner->now() < seen.stamp + ages->bodies + ages->records)
      broken("P3: the record of " + text(record.first) + " was forgotten before its time");
    if (!is_final(seen.record.state))
      broken("P4: the record of " + text(record.first) + " was forgotten while it was " +
             named(seen.record.state));
    return true;
  });
}

// --- Handlers -------------------------------------------------------------------------------

void Witness::started(const Process& by, const engine::TaskAttempt& a) {
  world_.trace().note(world_.now(), by.name(), "begins", a.token.value, [&] {
    return std::string(a.queue) + "/" + std::string(a.key) + " " + a.task.id + " attempt " +
           std::to_string(a.attempt) + " token " + std::to_string(a.token.value);
  });
  const std::string what = "attempt " + std::to_string(a.attempt) + " of " + std::string(a.queue) +
                           "/" + std::string(a.key);
  const auto found = claims_.find(a.token.value);
  if (found == claims_.end())
    return broken("P6: " + what + " began with the token " + std::to_string(a.token.value) +
                  ", which no claim has");
  Claim& claim = found->second;
  if (claim.place != Place{a.queue, a.key} || claim.attempt != a.attempt ||
      (claim.claimant != &by && !claim.pulled))
    broken("P6: " + what + " began with the token of another claim");
  if (claim.started) broken("P6: " + what + " began twice with one claim");
  // Where no clock is wrong and nobody was frozen, nobody begins what is another's by now.
  const Seen& seen = records_.at(claim.place);
  if (by.punctual() && zone_.clock->punctual() && seen.token != a.token.value &&
      zone_.inner->now() - seen.stamp > kRounding)
    broken("P5: " + what + " begins though " + seen.claimant->name() +
           " has claimed the task since");
  claim.started = true;
  claim.id = a.task.id;
  if (claim.pulled) {
    claim.runner = &by;
  } else {
    ++handlers_[{&by, std::string(a.queue)}];
    check_slots(by, std::string(a.queue));
  }
  check_max_running(std::string(a.queue));
}

void Witness::said(const Process& by, const engine::TaskAttempt& a, Outcome::Kind word) {
  static constexpr std::string_view kWords[] = {"completed", "failed", "dead", "unknown"};
  world_.trace().note(world_.now(), by.name(), "says",
                      a.token.value * 4 + static_cast<unsigned>(word), [&] {
                        return std::string(a.queue) + "/" + std::string(a.key) + " attempt " +
                               std::to_string(a.attempt) + " " +
                               std::string(kWords[static_cast<std::size_t>(word)]);
                      });
  const auto claim = claims_.find(a.token.value);
  if (claim != claims_.end()) claim->second.word = word;
  if (claim == claims_.end() || !claim->second.pulled) --handlers_[{&by, std::string(a.queue)}];
}

void Witness::attempt_over(const engine::TaskAttempt& a) {
  if (const auto claim = claims_.find(a.token.value); claim != claims_.end())
    claim->second.over = true;
}

void Witness::probe_said(const engine::TaskAttempt& a, bool happened) {
  if (const auto claim = claims_.find(a.token.value); claim != claims_.end())
    claim->second.probed = happened;
}

void Witness::told_fenced(const Process& by, std::string_view id) {
  world_.trace().note(world_.now(), by.name(), "is fenced", 0, [&] { return std::string(id); });
  fenced_.emplace(&by, id);
}

void Witness::puller_told(std::uint64_t token) {
  if (const auto claim = claims_.find(token); claim != claims_.end()) claim->second.told = true;
}

void Witness::may_run_until(std::uint64_t token, Instant until) {
  if (const auto claim = claims_.find(token); claim != claims_.end()) claim->second.until = until;
}

void Witness::worker_failed(const Process& by) { failed_.insert(&by); }
void Witness::interrupted(const Process& by) { interrupted_.insert(&by); }

void Witness::effect(const engine::TaskAttempt& a) {
  ++effects_[{std::string(a.queue), std::string(a.key)}];
}

bool Witness::effect_happened(const engine::TaskAttempt& a) const {
  return effects_.contains({std::string(a.queue), std::string(a.key)});
}

void Witness::step_effect(const engine::TaskAttempt& a, const std::string& step) {
  ++steps_[{{std::string(a.queue), std::string(a.key)}, step}].ran;
}

bool Witness::step_happened(const engine::TaskAttempt& a, const std::string& step) const {
  const auto found = steps_.find({{std::string(a.queue), std::string(a.key)}, step});
  return found != steps_.end() && found->second.ran > 0;
}

void Witness::step_recorded(const engine::TaskAttempt& a, const std::string& step,
                            const std::string& result) {
  steps_[{{std::string(a.queue), std::string(a.key)}, step}].result = result;
}

void Witness::step_remembered(const engine::TaskAttempt& a, const std::string& step,
                              std::string_view result) {
  const StepSeen& seen = steps_[{{std::string(a.queue), std::string(a.key)}, step}];
  if (seen.result && *seen.result != result && !result.starts_with("person"))
    broken("P6: step " + step + " of " + std::string(a.key) + " is remembered with another result");
}

// --- People ---------------------------------------------------------------------------------

void Witness::promised(const std::string& queue, const std::string& id, const std::string& tag) {
  promises_.push_back({queue, id, tag});
}

// --- At the end -----------------------------------------------------------------------------

bool Witness::all_settled() const {
  for (const auto& [name, queue] : queues_) {
    const auto counts = zone_.inner->counts(name);
    for (const auto& [state, count] : counts->tasks)
      if (count > 0 && !core::settled(state)) return false;
  }
  return true;
}

void Witness::check_the_end() {
  check_log();
  for (const auto& [name, queue] : queues_) check_rows(queue);
  check_words();
  check_promises();
  check_effects();
  check_steps_at_end();
  check_audit();
}

void Witness::check_after_ageing() {
  check_log();
  for (const auto& [name, queue] : queues_) check_rows(queue);
  check_audit();
}

// What happened here is nothing that the audit cannot explain, and what was counted once stays so.
void Witness::check_audit() {
  const AuditOptions options{.by = AuditOptions::Period::all};
  const auto audit = engine::Auditor(*zone_.inner, options).run();
  for (const Discrepancy& found : audit->discrepancies)
    broken("P6: the audit does not explain: " + found.queue + ": " + found.what);
  for (const AuditLine& line : audit->lines) {
    std::uint64_t& before = audited_[line.queue];
    if (line.totals.published < before || line.totals.completed_twice > 0)
      broken("P4: the audit has " + std::to_string(line.totals.published) + " tasks of " +
             line.queue + ", and " + std::to_string(line.totals.completed_twice) +
             " completions too many; before, there were " + std::to_string(before) + " tasks");
    before = line.totals.published;
  }
}

// P1 and P2: every receipt stands.
void Witness::check_log() {
  for (const auto& [id, published] : published_) {
    const auto entry = zone_.inner->find(id);
    if (!*entry) {
      broken("P2: " + id + " was acknowledged as #" + std::to_string(published.sequence) +
             " and is not in the log");
    } else if ((*entry)->sequence.value != published.sequence) {
      broken("P1: " + id + " was acknowledged as #" + std::to_string(published.sequence) +
             " and is #" + std::to_string((*entry)->sequence.value));
    }
  }
}

// P4: every entry that the queue takes is there, once, settled.
void Witness::check_rows(const Queue& queue) {
  const auto page = zone_.inner->rows({.queue = queue.name}, nullptr, 10'000);
  std::map<std::uint64_t, int> rows;
  for (const store::Row& row : page->rows) {
    ++rows[row.entry.sequence.value];
    const State state = store::state_of(row, zone_.inner->now());
    if (!core::settled(state))
      broken("P4: #" + std::to_string(row.entry.sequence.value) + " (" + row.entry.id + ") in " +
             queue.name + " is still " + named(state) + " long after the faults stopped");
  }
  const auto entries = zone_.inner->read({}, 10'000, queue.topic);
  for (const store::Entry& entry : *entries)
    if (rows[entry.sequence.value] != 1 && entry.body)
      broken("P4: #" + std::to_string(entry.sequence.value) + " (" + entry.id + ") is " +
             std::to_string(rows[entry.sequence.value]) + " times in " + queue.name);
}

// P3: a completion is recorded, or its worker was told that it is not.
void Witness::check_words() {
  for (const auto& [token, claim] : claims_) {
    if (claim.word != Outcome::Kind::completed || claim.over || claim.claimant->dead()) continue;
    if (claim.recorded == Ending::completed || failed_.contains(claim.claimant)) continue;
    if (!claim.told && !fenced_.contains({claim.claimant, claim.id}))
      broken("P3: " + claim.claimant->name() + " completed attempt " +
             std::to_string(claim.attempt) + " of " + text(claim.place) + ", it is recorded as " +
             std::string(to_string(claim.recorded)) + ", and the worker was not told");
  }
}

// An order that somebody was promised is in the story, or another person has settled the task.
void Witness::check_promises() {
  for (const Promise& promise : promises_) {
    const bool kept = std::any_of(records_.begin(), records_.end(), [&](const auto& record) {
      if (record.first.first != promise.queue) return false;
      const auto& story = record.second.record.story;
      return std::any_of(story.begin(), story.end(), [&](const core::OperatorAction& action) {
        return action.why == promise.tag;
      });
    });
    const auto entry = zone_.inner->find(promise.id);
    if (kept || !*entry || !(*entry)->body) continue;
    const bool settled_by_person =
        std::any_of(records_.begin(), records_.end(), [&](const auto& record) {
          return record.first.first == promise.queue &&
                 record.second.record.sequence == (*entry)->sequence &&
                 is_final(record.second.record.state);
        });
    if (!settled_by_person)
      broken("P4: the order " + promise.tag + " about " + promise.id + " in " + promise.queue +
             " was acknowledged and never carried out");
  }
}

std::uint64_t Witness::orders(const Place& place) const {
  const auto found = records_.find(place);
  if (found == records_.end()) return 0;
  const auto& story = found->second.record.story;
  return static_cast<std::uint64_t>(std::count_if(story.begin(), story.end(), ordered_to_run));
}

// Handlers here fail only before their effect. So where doubt is held, there is one effect, and one
// more for each time that a person said so.
void Witness::check_effects() {
  for (const auto& [place, count] : effects_)
    if (queue(place.first).in_doubt == InDoubt::hold && count > 1 + orders(place))
      broken("P6: " + text(place) + " had its effect " + std::to_string(count) +
             " times in a queue that holds what is in doubt, and people ordered it to run again " +
             std::to_string(orders(place)) + " times");
}

void Witness::check_steps_at_end() {
  for (const auto& [which, seen] : steps_) {
    if (seen.held && seen.ran > 1 + orders(which.first))
      broken("P6: step " + which.second + " of " + text(which.first) + " ran " +
             std::to_string(seen.ran) + " times, and is to be held when it is cut off");
    if (seen.ran > seen.begun)
      broken("P6: step " + which.second + " of " + text(which.first) + " ran " +
             std::to_string(seen.ran) + " times and was begun " + std::to_string(seen.begun) +
             " times");
    const auto record = records_.find(which.first);
    if (!seen.result || record == records_.end()) continue;
    const core::Step* const step = core::find_step(record->second.record, which.second);
    if (!step || step->state != core::Step::State::done)
      broken("P6: step " + which.second + " of " + text(which.first) +
             " was recorded as done and is not");
  }
}

}  // namespace once::sim
