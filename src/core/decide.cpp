// What the ledger holds (rows), what is asked (columns), what comes of it.
//
//            | claim                           | renew   | complete  | fail, doubt       | release
//  ----------+---------------------------------+---------+-----------+-------------------+--------
//  nothing   | running: claimed                | fenced  | fenced    | fenced            | fenced
//  waiting   | running: claimed                | fenced  | fenced    | fenced            | repeat
//  running   | mine: repeat; lease runs: held  | mine:   | mine:     | mine: retrying,   | mine:
//            | lease over or holder gone: the  | renewed | completed | or dead when it   | waiting
//            | attempt is lost, then running   | or      |           | is final or was   | or
//            | (in doubt), or dead when it was | overdue |           | the last one      | retrying
//            | the last one: exhausted         |         |           |                   |
//  retrying  | due: running: claimed           | fenced  | fenced    | repeat            | repeat
//            | else: not_due                   |         |           |                   |
//  completed | already_completed               | fenced  | repeat    | fenced            | fenced
//  dead      | already_dead                    | fenced  | fenced    | repeat            | fenced
//  in_doubt  | awaits_decision                 | fenced  | fenced    | doubt: repeat     | fenced
//  cancelled | already_cancelled               | fenced  | fenced    | fenced            | fenced
//  duplicate | already_set_aside               | fenced  | fenced    | fenced            | fenced
//
//  mine: the command's nonce is the record's; otherwise fenced.
//  repeat: already_done when it is mine (a repeated write finds itself), otherwise fenced.
//  A claim for another sequence than the record's is duplicate_key or conflicting_key, whatever the
//  state. SetAside writes where there is nothing; where its own record is, it is already_done.
//
// A claim counts as an attempt when it is made; release gives the count back. So a task that kills
// every worker that touches it is counted out by its claims.
#include "core/decide.h"

#include <algorithm>

namespace once::core {
namespace {

const std::vector<Duration> kDefaultBackoff{Duration{30'000}, Duration{120'000}, Duration{300'000}};

// Of what a handler may ask for; beyond all reason, and far from where time overflows.
constexpr Duration kLongestWait = std::chrono::hours{24 * 365 * 10};

// At most kErrorKept bytes, never cut inside a character.
std::string bounded(std::string text) {
  if (text.size() <= kErrorKept) return text;
  std::size_t end = kErrorKept;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

Decision just(Verdict verdict) { return {.verdict = verdict}; }

class Rules {
 public:
  Rules(const Stored* stored, const Policy& policy, Now now)
      : stored_(stored), policy_(policy), now_(now) {}

  Decision operator()(const Claim& claim) const {
    if (!stored_) return claimed(Record{.sequence = claim.sequence, .digest = claim.digest}, claim);
    const Record& record = stored_->record;
    if (record.sequence != claim.sequence) return other_task(claim);
    switch (record.state) {
      case State::scheduled:
      case State::waiting: return claimed(record, claim);
      case State::running: return reclaim(claim);
      case State::retrying: {
        const StoreTime due = stored_->stamp + record.delay;
        if (now_.store < due) return {.verdict = Verdict::not_due, .until = due};
        return claimed(record, claim);
      }
      case State::completed: return just(Verdict::already_completed);
      case State::dead: return just(Verdict::already_dead);
      case State::in_doubt: return just(Verdict::awaits_decision);
      case State::cancelled: return just(Verdict::already_cancelled);
      case State::duplicate: return just(Verdict::already_set_aside);
    }
    return just(Verdict::fenced);
  }

  Decision operator()(const Renew& renew) const {
    if (!held_by(renew.nonce)) return just(Verdict::fenced);
    Duration lease = policy_.lease;
    if (policy_.timeout > Duration{0}) {
      const Duration left = policy_.timeout + renew.grace - renew.spent;
      if (left <= Duration{0}) return just(Verdict::overdue);
      lease = std::min(lease, left);
    }
    Record next = current();
    next.lease = lease;
    return {.verdict = Verdict::renewed, .next = std::move(next), .until = now_.store + lease};
  }

  Decision operator()(const Complete& complete) const {
    if (!held_by(complete.nonce)) return not_held(complete.nonce, {State::completed});
    Record next = current();
    end_attempt(next, Ending::completed, {});
    enter(next, State::completed);
    next.result = complete.result;
    next.result_cut = complete.result_cut;
    next.error.clear();
    return {.verdict = Verdict::completed, .next = std::move(next)};
  }

  Decision operator()(const Fail& fail) const {
    if (!held_by(fail.nonce)) return not_held(fail.nonce, {State::retrying, State::dead});
    Record next = current();
    end_attempt(next, fail.final ? Ending::dead : Ending::failed, fail.error);
    if (fail.final) return bury(std::move(next), "the handler said so");
    return again(std::move(next), fail.retry_in, fail.jitter);
  }

  Decision operator()(const Doubt& doubt) const {
    if (!held_by(doubt.nonce))
      return not_held(doubt.nonce, {State::retrying, State::dead, State::in_doubt});
    Record next = current();
    end_attempt(next, doubt.ending, doubt.error);
    return again(std::move(next), std::nullopt, doubt.jitter);
  }

  Decision operator()(const Release& release) const {
    if (!held_by(release.nonce)) return not_held(release.nonce, {State::waiting, State::retrying});
    Record next = current();
    end_attempt(next, release.started ? Ending::interrupted : Ending::released, release.error);
    --next.counted;
    enter(next, release.started ? State::retrying : State::waiting);
    next.delay = Duration{0};
    return {.verdict = Verdict::released, .next = std::move(next), .until = now_.store};
  }

  Decision operator()(const SetAside& aside) const {
    if (stored_) {
      const bool mine =
          stored_->record.sequence == aside.sequence && stored_->record.state == aside.state;
      return just(mine ? Verdict::already_done : Verdict::fenced);
    }
    Record next{.sequence = aside.sequence, .digest = aside.digest};
    enter(next, aside.state);
    next.reason = bounded(aside.reason);
    return {.verdict = Verdict::set_aside, .next = std::move(next)};
  }

 private:
  Decision other_task(const Claim& claim) const {
    const Record& record = stored_->record;
    const bool same = record.digest == claim.digest || policy_.same_key == SameKey::ignore;
    return {.verdict = same ? Verdict::duplicate_key : Verdict::conflicting_key,
            .of = record.sequence};
  }

  Decision reclaim(const Claim& claim) const {
    if (stored_->record.nonce == claim.nonce) return just(Verdict::already_done);
    const StoreTime until = stored_->stamp + stored_->record.lease;
    if (now_.store < until && !stored_->holder_gone)
      return {.verdict = Verdict::held, .until = until};
    Record next = current();
    end_attempt(next, Ending::lost,
                stored_->holder_gone ? "the worker died" : "the lease ended without a word");
    if (next.counted >= policy_.attempts) {
      Decision decision = bury(std::move(next), "the last attempt ended without a verdict");
      decision.verdict = Verdict::exhausted;
      return decision;
    }
    return claimed(std::move(next), claim);
  }

  Decision claimed(Record next, const Claim& claim) const {
    enter(next, State::running);
    ++next.claims;
    ++next.counted;
    next.nonce = claim.nonce;
    next.member = claim.member;
    next.lease = policy_.lease;
    if (next.attempts.size() == kAttemptsKept) next.attempts.erase(next.attempts.begin());
    next.attempts.push_back(
        {.number = next.claims, .worker = claim.worker, .started_at = now_.wall});
    return {
        .verdict = Verdict::claimed, .next = std::move(next), .until = now_.store + policy_.lease};
  }

  // The next attempt, or the end when that was the last.
  Decision again(Record next, std::optional<Duration> retry_in, double jitter) const {
    if (next.counted >= policy_.attempts) return bury(std::move(next), "no attempts are left");
    next.delay = std::clamp(retry_in.value_or(backoff_after(policy_, next.counted, jitter)),
                            Duration{0}, kLongestWait);
    enter(next, State::retrying);
    const StoreTime due = now_.store + next.delay;
    return {.verdict = Verdict::retrying, .next = std::move(next), .until = due};
  }

  Decision bury(Record next, std::string reason) const {
    enter(next, State::dead);
    next.reason = std::move(reason);
    return {.verdict = Verdict::dead, .next = std::move(next)};
  }

  void enter(Record& next, State state) const {
    next.state = state;
    next.since = now_.wall;
  }

  void end_attempt(Record& next, Ending ending, const std::string& error) const {
    Attempt& attempt = next.attempts.back();
    attempt.ending = ending;
    attempt.ended_at = now_.wall;
    attempt.error = bounded(error);
    if (!attempt.error.empty()) next.error = attempt.error;
    if (without_verdict(ending)) next.in_doubt = true;
  }

  // The stored record, with the token of its claim written into the attempt: at the claim itself it
  // could not be known.
  Record current() const {
    Record record = stored_->record;
    if (!record.attempts.empty())
      record.attempts.back().token = token_of(record, stored_->revision);
    return record;
  }

  bool held_by(const Nonce& nonce) const {
    return stored_ && stored_->record.state == State::running && stored_->record.nonce == nonce;
  }

  bool given_up() const {
    const std::vector<Attempt>& attempts = stored_->record.attempts;
    return !attempts.empty() && attempts.back().ending == Ending::lost;
  }

  Decision not_held(const Nonce& nonce, std::initializer_list<State> done_states) const {
    // Whoever was given up as lost was not heard, though the nonce is still the record's.
    const bool done = stored_ && stored_->record.nonce == nonce && !given_up() &&
                      std::find(done_states.begin(), done_states.end(), stored_->record.state) !=
                          done_states.end();
    return just(done ? Verdict::already_done : Verdict::fenced);
  }

  const Stored* stored_;
  const Policy& policy_;
  Now now_;
};

}  // namespace

Policy policy_of(const Queue& queue) {
  Policy policy{.lease = queue.lease,
                .timeout = queue.timeout,
                .attempts = static_cast<std::uint32_t>(queue.attempts),
                .backoff = queue.backoff.empty() ? kDefaultBackoff : queue.backoff,
                .in_doubt = queue.in_doubt,
                .same_key = queue.same_key};
  if (policy.attempts == 0) policy.attempts = static_cast<std::uint32_t>(policy.backoff.size()) + 1;
  return policy;
}

Duration backoff_after(const Policy& policy, std::uint32_t counted, double jitter) {
  const std::size_t last = policy.backoff.size() - 1;
  const Duration base = policy.backoff[std::min<std::size_t>(counted > 0 ? counted - 1 : 0, last)];
  return base +
         Duration{static_cast<Duration::rep>(static_cast<double>(base.count()) * 0.2 * jitter)};
}

Decision decide(const Stored* stored, const Command& command, const Policy& policy, Now now) {
  return std::visit(Rules{stored, policy, now}, command);
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::claimed: return "claimed";
    case Verdict::renewed: return "renewed";
    case Verdict::overdue: return "overdue";
    case Verdict::completed: return "completed";
    case Verdict::retrying: return "retrying";
    case Verdict::dead: return "dead";
    case Verdict::released: return "released";
    case Verdict::set_aside: return "set_aside";
    case Verdict::already_done: return "already_done";
    case Verdict::already_completed: return "already_completed";
    case Verdict::already_dead: return "already_dead";
    case Verdict::already_cancelled: return "already_cancelled";
    case Verdict::already_set_aside: return "already_set_aside";
    case Verdict::awaits_decision: return "awaits_decision";
    case Verdict::held: return "held";
    case Verdict::not_due: return "not_due";
    case Verdict::exhausted: return "exhausted";
    case Verdict::duplicate_key: return "duplicate_key";
    case Verdict::conflicting_key: return "conflicting_key";
    case Verdict::fenced: return "fenced";
  }
  return "?";
}

AppendVerdict judge_append(const Nonce& my_nonce, const Digest& my_digest, const Nonce& its_nonce,
                           const Digest& its_digest) {
  if (my_nonce == its_nonce) return AppendVerdict::accepted;
  return my_digest == its_digest ? AppendVerdict::duplicate : AppendVerdict::conflict;
}

}  // namespace once::core
