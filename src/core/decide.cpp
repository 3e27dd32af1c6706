// The transition table of decide(). Rows: the record's state. Columns: the command. Cells: the next
// state and verdict.
//
//            | claim                           | renew   | complete  | fail, doubt       | release
//  ----------+---------------------------------+---------+-----------+-------------------+--------
//  nothing   | running: claimed                | fenced  | fenced    | fenced            | fenced
//  waiting   | running: claimed                | fenced  | repeat    | repeat            | repeat
//  running   | mine: repeat; lease runs: held  | mine:   | mine:     | mine: what comes  | mine:
//            | lease over or holder gone: the  | renewed | completed | next (below), or  | waiting,
//            | attempt is lost, what comes     | overdue |           | dead when it is   | or what
//            | next (below) is running at once | or to   |           | final             | comes
//            |                                 | stop    |           |                   | next
//  retrying  | due: running: claimed           | fenced  | repeat    | repeat            | repeat
//            | else: not_due                   |         |           |                   |
//  completed | already_completed               | fenced  | repeat    | repeat            | repeat
//  dead      | with an order: running          | fenced  | repeat    | repeat            | repeat
//            | else: already_dead              |         |           |                   |
//  in_doubt  | with an order: running          | fenced  | repeat    | repeat            | repeat
//            | else: awaits_decision           |         |           |                   |
//  cancelled | already_cancelled               | fenced  | repeat    | repeat            | repeat
//  duplicate | already_set_aside               | fenced  | fenced    | fenced            | fenced
//
//  mine: the command's nonce is the record's nonce. Otherwise the command is fenced.
//  repeat: already_done if the last attempt is mine and ended in this way. This holds whatever a
//  person has done to the task since. Otherwise fenced.
//  A completion covers the whole task. But if a step with the policy hold is cut off, the task is
//  held. If the result is above the queue's limit, the task is dead: the result is never truncated,
//  and the task does not run again by itself.
//  An offer is a claim that has not started (Record::offer). The task did not begin, so the offer
//  leaves no attempt. The record returns to the state before the offer, and `lapsed` counts it:
//
//            | claim                      | start   | renew   | release | cancel    | verdicts, steps
//  ----------+----------------------------+---------+---------+---------+-----------+----------------
//  offered   | mine: repeat; lease runs:  | mine:   | mine:   | mine:   | cancelled | mine:
//            | held; lease over: as from  | started | renewed | the     | at once   | not_started
//            | the state before it, or    |         |         | state   |           |
//            | lapsed: it waits (20 in a  |         |         | before  |           |
//            | row)                       |         |         |         |           |
//  running   | as above                   | mine:   | as above                    | as above
//            |                            | repeat  |         |         |           |
//  others    | as above                   | fenced  | as above                    | as above
//
//  A release with `if_offered` is fenced in every other row: it takes back an offer that its caller
//  never received, and nothing else.
//  A start checks again what the claim checked: the policy may have changed since the offer, and the
//  task may have expired. An attempt that began as an offer keeps its nonce. So a repeated verdict
//  is already_done even if later attempts followed.
//
//  A claim for another sequence than the record's is duplicate_key or conflicting_key, in every
//  state. SetAside writes only if there is no record. If its own record exists, it is already_done.
//  A task whose record was lost is set aside as in_doubt. It may have run, so only a person's order
//  lets it run again.
//  A claim that would run the handler waits for the task's not-before. If the queue now allows
//  fewer attempts, the task becomes dead (exhausted). If the task has expired, it is cancelled,
//  unless a person has ordered it to run again since. These two limits do not stop a claim that
//  asks the probe.
//  An order is applied once, and only to the dead or doubtful state that the person saw. An order
//  that completes a step needs that step unfinished. The task stays in_doubt while another step
//  must be held.
//
//  What comes next if an attempt ended and did not complete. The first line that applies:
//    a cancel was asked for                             cancelled; also after a final failure, a
//                                                       probe's answer, or a held step
//    a step is cut off, and its policy is hold          in_doubt
//    no verdict, and the policy is hold                 in_doubt
//    no verdict, and the policy is probe                retrying, and the next claim asks the probe;
//                                                       in_doubt if that claim cannot ask, or if
//                                                       this attempt asked and was the last
//    it was the last attempt                            dead
//    otherwise                                          retrying
//
//            | resolve    | drop       | cancel                        | retry (without a feed)
//  ----------+------------+------------+-------------------------------+------------------------
//  nothing   | wrong      | wrong      | cancelled                     | wrong
//  waiting,  | wrong      | wrong      | cancelled                     | wrong
//  retrying  |            |            |                               |
//  running   | wrong      | wrong      | asked_to_stop; cancelled when | wrong
//            |            |            | its lease or its worker is    |
//            |            |            | gone                          |
//  in_doubt  | completed  | cancelled  | cancelled                     | waiting
//  dead      | wrong      | cancelled  | cancelled while an order to   | waiting
//            |            |            | run it again waits, or wrong  |
//  others    | wrong      | wrong      | wrong                         | wrong
//
//  wrong: wrong_state. A repeated command finds its nonce in the story and is already_done. Any
//  other command with the claims that the person saw is wrong if the task was claimed since.
//
//  Only the holder of the claim may write steps. Other writers are fenced. After a cancel was asked
//  for, no step begins (asked_to_stop).
//  A step whose result is above the limit has happened. So its task is in_doubt with every policy.
//  step      | begin                                            | end           | fail    | hold
//  ----------+--------------------------------------------------+---------------+---------+---------
//  none      | begun                                            | refused       | repeat  | refused
//  begun now | repeat; another call: step_under_way             | done          | again   | in_doubt
//  cut off   | retry, or its probe said no: begun               | done (by its  | again   | in_doubt
//            | probe: step_in_doubt; hold: the task is in_doubt | probe)        |         |
//  again     | begun                                            | refused       | repeat  | refused
//  done      | remembered                                       | repeat        | refused | refused
//  A begin may carry a call id, and then its end, fail or hold carries the same. For a step that
//  another call has begun in this attempt, end and hold are step_under_way and fail is a repeat. A
//  begin with the call id of a try that failed in this attempt is refused: it arrived late.
//
//  A task with a ReplyTo owes a reply from its end (completed, dead, cancelled or duplicate, but
//  not in_doubt) until this command is written:
//            | replied
//  ----------+-------------------------------------------------------------------------------------
//  owes      | replied if the command has the state and claims of the record; else already_done
//  otherwise | already_done
//  A task that runs again owes nothing until its next end.
//
//  A task's own policy (TaskPolicy) overrides the queue's. Lease and keys are always the queue's.
//
// A claim counts as an attempt from its write on; a release takes the count back. So a task that
// kills every worker that claims it uses up its attempts.
#include "core/decide.h"

#include <algorithm>

#include "core/utf8.h"

namespace once::core {
namespace {

// The longest wait or lease that a caller may ask for. It is far below the overflow of time.
constexpr Duration kLongestWait = std::chrono::hours{24 * 365 * 10};

// At most `most` bytes, never cut inside a character.
std::string bounded(std::string text, std::size_t most = kErrorKept) {
  text.resize(first_bytes(text, most).size());
  return text;
}

Decision just(Verdict verdict) { return {.verdict = verdict}; }

class Rules {
 public:
  Rules(const Stored* stored, const Policy& policy, Now now)
      : stored_(stored), policy_(policy), now_(now) {}

  // --- Attempts -----------------------------------------------------------------------------

  Decision operator()(const Claim& claim) const {
    if (!stored_)
      return first_claim(Record{.sequence = claim.sequence,
                                .digest = claim.digest,
                                .reply = claim.reply,
                                .own = claim.own},
                         claim);
    const Record& record = stored_->record;
    if (record.sequence != claim.sequence) return other_task(claim);
    switch (record.state) {
      case State::scheduled:
      case State::waiting: return first_claim(record, claim);
      case State::running: return reclaim(claim);
      case State::retrying: {
        const StoreTime due = stored_->stamp + record.delay;
        if (now_.store < due) return {.verdict = Verdict::not_due, .until = due};
        return next_claim(record, claim);
      }
      case State::completed: return just(Verdict::already_completed);
      case State::dead:
        return ordered(claim) ? apply(*claim.order, claim) : just(Verdict::already_dead);
      case State::in_doubt:
        return ordered(claim) ? apply(*claim.order, claim) : just(Verdict::awaits_decision);
      case State::cancelled: return just(Verdict::already_cancelled);
      case State::duplicate: return just(Verdict::already_set_aside);
    }
    return just(Verdict::fenced);
  }

  Decision operator()(const Start& start) const {
    if (held_by(start.nonce)) return just(Verdict::already_done);
    if (!offered_to(start.nonce)) return just(Verdict::fenced);
    Record next = before_offer();
    const Offer& offer = *stored_->record.offer;
    const bool probing = next.probe && policy_.in_doubt == InDoubt::probe;
    if (probing && !offer.can_probe)
      return hold(std::move(next), offer.worker, "this worker has no probe to ask");
    if (!probing && next.counted >= policy_.attempts) return exhausted(std::move(next));
    if (!probing && expired(start.expires, next)) return call_off_expired(std::move(next));
    take(next, {.worker = offer.worker,
                .member = stored_->record.member,
                .nonce = start.nonce,
                .lease = start.lease});
    begin_attempt(next, offer.worker, probing);
    keep_start(next);
    const StoreTime until = now_.store + next.lease;
    return {.verdict = Verdict::started, .next = std::move(next), .until = until};
  }

  Decision operator()(const Renew& renew) const {
    if (offered_to(renew.nonce)) return renew_offer(renew);
    if (!held_by(renew.nonce)) return just(Verdict::fenced);
    Duration lease = lease_for(renew.lease);
    if (policy_.timeout > Duration{0}) {
      const Duration left = policy_.timeout + renew.grace - spent(renew);
      if (left <= Duration{0}) return just(Verdict::overdue);
      lease = std::min(lease, left);
    }
    Record next = current();
    next.lease = lease;
    return {.verdict = next.cancel_asked ? Verdict::asked_to_stop : Verdict::renewed,
            .next = std::move(next),
            .until = now_.store + lease};
  }

  Decision operator()(const Complete& complete) const {
    const std::string too_large = above_limit(complete.result, complete.oversize);
    const Ending ending = too_large.empty() ? Ending::completed : Ending::dead;
    if (!held_by(complete.nonce)) return not_held(complete.nonce, ending);
    Record next = current();
    end_attempt(next, ending, too_large.empty() ? too_large : "it completed, but " + too_large,
                complete.log);
    if (!complete.probed_by.empty()) {
      add(next, {.act = OperatorAction::Act::happened, .by = complete.probed_by});
    } else if (const Step* step = to_be_held(next)) {
      const std::string name = step->name;
      const std::string worker = next.attempts.back().worker;
      return hold_step(std::move(next), name, worker, {});
    }
    if (!too_large.empty()) return bury(std::move(next), "its result is too large");
    enter(next, State::completed);
    next.result = complete.result;
    next.result_cut = false;
    next.error.clear();
    return {.verdict = Verdict::completed, .next = std::move(next)};
  }

  Decision operator()(const Fail& fail) const {
    const Ending ending = fail.final ? Ending::dead : Ending::failed;
    if (!held_by(fail.nonce)) return not_held(fail.nonce, ending);
    Record next = current();
    end_attempt(next, ending, fail.error, fail.log);
    if (fail.final) return bury(std::move(next), "the handler said so");
    const Duration wait = fail.retry_in.value_or(backoff_after(policy_, next.counted, fail.jitter));
    return what_comes_next(std::move(next), wait);
  }

  Decision operator()(const Doubt& doubt) const {
    if (!held_by(doubt.nonce)) return not_held(doubt.nonce, doubt.ending);
    Record next = current();
    end_attempt(next, doubt.ending, doubt.error, doubt.log);
    const Duration wait = backoff_after(policy_, next.counted, doubt.jitter);
    return what_comes_next(std::move(next), wait);
  }

  Decision operator()(const Release& release) const {
    if (offered_to(release.nonce))
      return {.verdict = Verdict::released, .next = before_offer(), .until = now_.store};
    if (release.if_offered) return just(Verdict::fenced);
    const Ending ending = release.started ? Ending::interrupted : Ending::released;
    if (!held_by(release.nonce)) return not_held(release.nonce, ending);
    Record next = current();
    end_attempt(next, ending, release.error, release.log);
    --next.counted;
    if (release.started || next.cancel_asked || to_be_held(next)) {
      Decision decision = what_comes_next(std::move(next), Duration{0});
      if (decision.verdict == Verdict::retrying) decision.verdict = Verdict::released;
      return decision;
    }
    enter(next, State::waiting);
    next.delay = Duration{0};
    return {.verdict = Verdict::released, .next = std::move(next), .until = now_.store};
  }

  Decision operator()(const SetAside& aside) const {
    if (stored_) {
      const bool mine =
          stored_->record.sequence == aside.sequence && stored_->record.state == aside.state;
      return just(mine ? Verdict::already_done : Verdict::fenced);
    }
    Record next{.sequence = aside.sequence,
                .digest = aside.digest,
                .result = aside.result,
                .reply = aside.reply,
                .own = aside.own};
    if (aside.state == State::in_doubt) return hold(std::move(next), {}, bounded(aside.reason));
    enter(next, aside.state);
    next.reason = bounded(aside.reason);
    return {.verdict = Verdict::set_aside, .next = std::move(next)};
  }

  Decision operator()(const Replied& replied) const {
    const bool owes = stored_ && stored_->record.reply_due &&
                      stored_->record.state == replied.state &&
                      stored_->record.claims == replied.claims;
    if (!owes) return just(Verdict::already_done);
    Record next = current();
    next.reply_due = false;
    return {.verdict = Verdict::replied, .next = std::move(next)};
  }

  Decision operator()(const Probed& probed) const {
    const Ending ending = probed.known ? Ending::failed : Ending::unknown;
    if (!held_by(probed.nonce)) return not_held(probed.nonce, ending);
    Record next = current();
    if (!next.attempts.back().probing) return just(Verdict::already_done);
    if (!probed.known) {
      end_attempt(next, ending, probed.why, probed.log);
      return hold(std::move(next), probed.by, "the probe does not know whether it happened");
    }
    add(next, {.act = OperatorAction::Act::did_not_happen, .by = probed.by, .why = probed.why});
    next.probe = false;
    next.attempts.back().probing = false;
    if (next.cancel_asked || next.counted > policy_.attempts) {
      end_attempt(next, ending, "the probe says that it did not happen", probed.log);
      return bury(std::move(next), "no attempts are left");
    }
    return {.verdict = Verdict::probed,
            .next = std::move(next),
            .until = now_.store + stored_->record.lease};
  }

  // --- Steps --------------------------------------------------------------------------------

  Decision operator()(const StepBegin& begin) const {
    if (!held_by(begin.nonce)) return not_mine(begin.nonce);
    Record next = current();
    Step* step = find(next, begin.name);
    if (!step) {
      if (next.steps.size() >= kMostSteps) forget_failed_step(next);
      if (next.steps.size() >= kMostSteps) return just(Verdict::step_refused);
      next.steps.push_back({.name = begin.name});
      step = &next.steps.back();
    } else if (step->state == Step::State::done) {
      return just(Verdict::step_remembered);
    } else if (step->state == Step::State::begun && step->attempt == next.claims) {
      return just(step->call == begin.call ? Verdict::already_done : Verdict::step_under_way);
    } else if (is_late_begin(*step, begin, next)) {
      return just(Verdict::step_refused);
    } else if (step->state == Step::State::begun) {
      const std::string worker = next.attempts.back().worker;
      if (begin.asked)
        add(next, {.act = OperatorAction::Act::did_not_happen, .by = worker, .step = begin.name});
      else if (begin.policy == InDoubt::probe)
        return just(Verdict::step_in_doubt);
      else if (begin.policy == InDoubt::hold)
        return hold_step(std::move(next), begin.name, worker, {});
    }
    if (next.cancel_asked) return just(Verdict::asked_to_stop);
    step->state = Step::State::begun;
    step->policy = begin.policy;
    step->call = begin.call;
    step->attempt = next.claims;
    ++step->runs;
    step->started_at = now_.wall;
    step->ended_at.reset();
    return recorded(Verdict::step_begun, std::move(next));
  }

  Decision operator()(const StepEnd& end) const {
    if (!held_by(end.nonce)) return not_mine(end.nonce);
    Record next = current();
    Step* step = find(next, end.name);
    if (!step || step->state == Step::State::again) return just(Verdict::step_refused);
    if (step->state == Step::State::done) return just(Verdict::already_done);
    if (is_of_another_call(*step, end.call, next)) return just(Verdict::step_under_way);
    std::string too_large = above_limit(end.result, end.oversize);
    if (too_large.empty()) too_large = above_limit_together(next, end.result);
    if (!too_large.empty()) {
      const std::string worker = next.attempts.back().worker;
      return hold_step(std::move(next), end.name, worker,
                       "step '" + end.name + "' happened, but " + too_large);
    }
    // This attempt did not run the step. So its probe said that the step happened.
    if (step->attempt != next.claims)
      add(next, {.act = OperatorAction::Act::happened,
                 .by = next.attempts.back().worker,
                 .step = end.name});
    step->state = Step::State::done;
    step->attempt = next.claims;
    step->ended_at = now_.wall;
    step->result = end.result;
    step->result_cut = false;
    return recorded(Verdict::step_recorded, std::move(next));
  }

  Decision operator()(const StepFail& fail) const {
    if (!held_by(fail.nonce)) return not_mine(fail.nonce);
    Record next = current();
    Step* step = find(next, fail.name);
    if (!step || step->state == Step::State::again) return just(Verdict::already_done);
    if (step->state == Step::State::done) return just(Verdict::step_refused);
    // The try that failed has been recorded before. This one is another call's.
    if (is_of_another_call(*step, fail.call, next)) return just(Verdict::already_done);
    step->state = Step::State::again;
    step->attempt = next.claims;
    step->ended_at = now_.wall;
    step->failed = next.claims;
    step->error = bounded(fail.error, kOldErrorKept);
    return recorded(Verdict::step_recorded, std::move(next));
  }

  Decision operator()(const StepHold& held) const {
    if (!held_by(held.nonce)) return not_held(held.nonce, Ending::unknown);
    Record next = current();
    const Step* step = find(next, held.name);
    if (!step || step->state != Step::State::begun) return just(Verdict::step_refused);
    if (is_of_another_call(*step, held.call, next)) return just(Verdict::step_under_way);
    return hold_step(std::move(next), held.name, held.by, held.why);
  }

  // --- People -------------------------------------------------------------------------------

  Decision operator()(const Resolve& resolve) const {
    if (told(resolve.nonce)) return just(Verdict::already_done);
    if (!stands_at({State::in_doubt}) || claimed_since(resolve.claims))
      return just(Verdict::wrong_state);
    Record next = current();
    add(next, {.act = OperatorAction::Act::completed,
               .by = resolve.by,
               .why = resolve.why,
               .nonce = resolve.nonce});
    enter(next, State::completed);
    next.reason.clear();
    next.result = resolve.result;
    next.result_cut = false;
    next.error.clear();
    return {.verdict = Verdict::completed, .next = std::move(next)};
  }

  Decision operator()(const Retry& retry) const {
    if (told(retry.order.nonce)) return just(Verdict::already_done);
    if (!stands_at({State::in_doubt, State::dead}) || !fits(retry.order))
      return just(Verdict::wrong_state);
    Record next = revived(retry.order);
    enter(next, State::waiting);
    next.delay = Duration{0};
    return {.verdict = Verdict::released, .next = std::move(next), .until = now_.store};
  }

  Decision operator()(const Drop& drop) const {
    if (told(drop.nonce)) return just(Verdict::already_done);
    if (!stands_at({State::in_doubt, State::dead}) || claimed_since(drop.claims))
      return just(Verdict::wrong_state);
    Record next = current();
    add(next,
        {.act = OperatorAction::Act::dropped, .by = drop.by, .why = drop.why, .nonce = drop.nonce});
    return call_off(std::move(next), "dropped", drop.by, drop.why);
  }

  Decision operator()(const Cancel& cancel) const {
    if (told(cancel.nonce)) return just(Verdict::already_done);
    if (claimed_since(cancel.claims)) return just(Verdict::wrong_state);
    Record next{.sequence = cancel.sequence, .digest = cancel.digest, .reply = cancel.reply};
    if (stored_) {
      if (stored_->record.sequence != cancel.sequence) return just(Verdict::wrong_state);
      next = current();
    }
    // The order is not applied any more, but the story keeps it.
    if (cancel.order && stands_at({State::dead, State::in_doubt}) && !told(cancel.order->nonce))
      add(next, action_of(*cancel.order));
    OperatorAction action{.act = OperatorAction::Act::cancelled,
                          .by = cancel.by,
                          .why = cancel.why,
                          .nonce = cancel.nonce};
    switch (next.state) {
      case State::scheduled:
      case State::waiting:
      case State::retrying:
      case State::in_doubt: break;
      case State::dead:
        if (!cancel.order) return just(Verdict::wrong_state);
        break;
      case State::running:
        if (next.offer) {
          next = before_offer();
          break;
        }
        if (lease_runs()) {
          action.act = OperatorAction::Act::cancel_asked;
          add(next, std::move(action));
          next.cancel_asked = true;
          // The write must not extend the lease.
          next.lease = stored_->stamp + stored_->record.lease - now_.store;
          return {.verdict = Verdict::asked_to_stop,
                  .next = std::move(next),
                  .until = stored_->stamp + stored_->record.lease};
        }
        end_attempt(next, Ending::lost, why_lost());
        break;
      default: return just(Verdict::wrong_state);
    }
    add(next, std::move(action));
    return call_off(std::move(next), "cancelled", cancel.by, cancel.why);
  }

 private:
  // --- Claiming -----------------------------------------------------------------------------

  Decision other_task(const Claim& claim) const {
    const Record& record = stored_->record;
    const bool same = record.digest == claim.digest || policy_.same_key == SameKey::ignore;
    return {.verdict = same ? Verdict::duplicate_key : Verdict::conflicting_key,
            .of = record.sequence};
  }

  Decision first_claim(Record next, const Claim& claim) const {
    if (claim.not_before && now_.store < *claim.not_before)
      return {.verdict = Verdict::not_due, .until = *claim.not_before};
    return next_claim(std::move(next), claim);
  }

  // Claims a task that is due, unless it has expired, has no attempt left, or needs a probe first.
  Decision next_claim(Record next, const Claim& claim) const {
    if (next.probe && policy_.in_doubt == InDoubt::probe)
      return probe_first(std::move(next), claim);
    if (next.counted >= policy_.attempts) return exhausted(std::move(next));
    if (expired(claim.expires, next)) return call_off_expired(std::move(next));
    return claimed(std::move(next), claim, false);
  }

  bool expired(const std::optional<StoreTime>& expires, const Record& record) const {
    return expires && *expires <= now_.store && !was_ordered(record);
  }

  Decision call_off_expired(Record next) const {
    Decision decision = call_off(std::move(next), "expired", {}, {});
    decision.verdict = Verdict::expired;
    return decision;
  }

  Decision probe_first(Record next, const Claim& claim) const {
    if (!claim.can_probe)
      return hold(std::move(next), claim.worker, "this worker has no probe to ask");
    return claimed(std::move(next), claim, true);
  }

  Decision reclaim(const Claim& claim) const {
    if (stored_->record.nonce == claim.nonce) return just(Verdict::already_done);
    if (lease_runs())
      return {.verdict = Verdict::held, .until = stored_->stamp + stored_->record.lease};
    if (stored_->record.offer) return after_lapse(claim);
    Record next = current();
    end_attempt(next, Ending::lost, why_lost());
    Decision decision = what_comes_next(std::move(next), Duration{0}, claim.worker);
    if (decision.verdict == Verdict::dead) decision.verdict = Verdict::exhausted;
    if (decision.verdict != Verdict::retrying) return decision;
    return next_claim(std::move(*decision.next), claim);
  }

  Decision claimed(Record next, const Claim& claim, bool probing) const {
    if (claim.kind == Claim::Kind::offer) return offered(std::move(next), claim);
    take(next, claim);
    begin_attempt(next, claim.worker, probing);
    if (claim.kind == Claim::Kind::start_and_keep) keep_start(next);
    const StoreTime until = now_.store + next.lease;
    return {.verdict = Verdict::claimed, .next = std::move(next), .until = until};
  }

  void take(Record& next, const Claim& claim) const {
    enter(next, State::running);
    next.nonce = claim.nonce;
    next.member = claim.member;
    next.lease = lease_for(claim.lease);
    next.delay = Duration{0};
    next.reason.clear();
    next.started.reset();
  }

  void begin_attempt(Record& next, const std::string& worker, bool probing) const {
    ++next.claims;
    ++next.counted;
    next.lapsed = 0;
    if (next.attempts.size() == kAttemptsKept) next.attempts.erase(next.attempts.begin());
    if (next.attempts.size() >= kAttemptsWhole) {
      std::string& old = next.attempts[next.attempts.size() - kAttemptsWhole].error;
      old = bounded(std::move(old), kOldErrorKept);
    }
    next.attempts.push_back(
        {.number = next.claims, .worker = worker, .started_at = now_.wall, .probing = probing});
  }

  void keep_start(Record& next) const {
    next.started = now_.store;
    next.attempts.back().nonce = next.nonce;
  }

  // --- Offers -------------------------------------------------------------------------------

  Decision offered(Record next, const Claim& claim) const {
    Offer offer{.worker = claim.worker,
                .at = now_.wall,
                .before = next.state == State::retrying ? State::retrying : State::waiting,
                .can_probe = claim.can_probe};
    take(next, claim);
    next.lease = std::min(next.lease, kOfferLease);
    next.offer = std::move(offer);
    const StoreTime until = now_.store + next.lease;
    return {.verdict = Verdict::offered, .next = std::move(next), .until = until};
  }

  // The record as it was before the offer. Its nonce is gone, so the offer's holder is fenced.
  Record before_offer() const {
    Record next = current();
    enter(next, next.offer->before);
    next.offer.reset();
    next.nonce = {};
    next.member = {};
    next.lease = Duration{0};
    next.delay = Duration{0};
    return next;
  }

  Decision after_lapse(const Claim& claim) const {
    Record next = before_offer();
    if (++next.lapsed < kLapsesInARow) return next_claim(std::move(next), claim);
    const Duration wait = backoff_after(policy_, next.lapsed - kLapsesInARow + 1, 0);
    Decision decision = try_again(std::move(next), wait);
    decision.verdict = Verdict::lapsed;
    return decision;
  }

  Decision renew_offer(const Renew& renew) const {
    Record next = current();
    next.lease = std::min(lease_for(renew.lease), kOfferLease);
    const StoreTime until = now_.store + next.lease;
    return {.verdict = Verdict::renewed, .next = std::move(next), .until = until};
  }

  Duration spent(const Renew& renew) const {
    if (renew.spent > Duration{0} || !stored_->record.started) return renew.spent;
    return now_.store - *stored_->record.started;
  }

  Duration lease_for(Duration asked) const {
    return asked > Duration{0} ? std::min(asked, kLongestWait) : policy_.lease;
  }

  // --- What people order --------------------------------------------------------------------

  bool ordered(const Claim& claim) const {
    return claim.order && !told(claim.order->nonce) && fits(*claim.order);
  }

  // An order applies only to the attempt that the person saw. An order that completes a step needs
  // that step unfinished; it does not allow the task to run without the step.
  bool fits(const Order& order) const {
    if (order.claims != stored_->record.claims) return false;
    if (order.kind != Order::Kind::complete_step) return true;
    const Step* step = find_step(stored_->record, order.step);
    return step && step->state != Step::State::done && !is_trace(*step);
  }

  // A task that a person has ordered to run does not expire before it is settled.
  static bool was_ordered(const Record& record) {
    return std::any_of(record.story.begin(), record.story.end(), [](const OperatorAction& action) {
      return action.act == OperatorAction::Act::retried ||
             action.act == OperatorAction::Act::step_completed;
    });
  }

  Decision apply(const Order& order, const Claim& claim) const {
    Record next = revived(order);
    if (const Step* step = to_be_held(next)) {
      next.reason = was_cut_off(step->name);
      return {.verdict = Verdict::doubted, .next = std::move(next)};
    }
    return claimed(std::move(next), claim, false);
  }

  // The record as the order changes it. All attempts are available again.
  Record revived(const Order& order) const {
    Record next = current();
    if (order.kind == Order::Kind::complete_step) {
      Step* step = find(next, order.step);
      step->state = Step::State::done;
      step->ended_at = now_.wall;
      step->result = order.result;
      step->result_cut = false;
    } else {
      for (Step& each : next.steps)
        if (each.state == Step::State::begun) each.state = Step::State::again;
    }
    add(next, action_of(order));
    next.counted = 0;
    next.probe = false;
    return next;
  }

  static OperatorAction action_of(const Order& order) {
    return {.act = order.kind == Order::Kind::complete_step ? OperatorAction::Act::step_completed
                                                            : OperatorAction::Act::retried,
            .at = order.at,
            .by = order.by,
            .why = order.why,
            .step = order.step,
            .nonce = order.nonce};
  }

  // --- After an attempt ---------------------------------------------------------------------

  // `found_by` is the worker that noticed the end of the attempt. Empty: the attempt's own worker.
  Decision what_comes_next(Record next, Duration wait, std::string found_by = {}) const {
    const Attempt ended = next.attempts.back();
    if (found_by.empty()) found_by = ended.worker;
    if (next.cancel_asked) return call_off_as_asked(std::move(next));
    if (const Step* step = to_be_held(next)) {
      const std::string name = step->name;
      return hold_step(std::move(next), name, found_by, {});
    }
    if (without_verdict(ended.ending)) {
      const std::string why = "attempt " + std::to_string(ended.number) +
                              " ended without a verdict (" + std::string(to_string(ended.ending)) +
                              ")";
      if (policy_.in_doubt == InDoubt::hold) return hold(std::move(next), found_by, why);
      if (policy_.in_doubt == InDoubt::probe) {
        if (ended.probing && next.counted >= policy_.attempts)
          return hold(std::move(next), found_by, why + " while it asked the probe");
        next.probe = true;
        return try_again(std::move(next), wait);
      }
    }
    if (next.counted < policy_.attempts) return try_again(std::move(next), wait);
    return bury(std::move(next), ended.ending == Ending::lost
                                     ? "the last attempt ended without a verdict"
                                     : "no attempts are left");
  }

  Decision try_again(Record next, Duration wait) const {
    next.delay = std::clamp(wait, Duration{0}, kLongestWait);
    enter(next, State::retrying);
    const StoreTime due = now_.store + next.delay;
    return {.verdict = Verdict::retrying, .next = std::move(next), .until = due};
  }

  Decision exhausted(Record next) const {
    Decision decision = bury(std::move(next), "no attempts are left");
    decision.verdict = Verdict::exhausted;
    return decision;
  }

  Decision bury(Record next, std::string reason) const {
    if (next.cancel_asked) return call_off_as_asked(std::move(next));
    enter(next, State::dead);
    next.reason = std::move(reason);
    return {.verdict = Verdict::dead, .next = std::move(next)};
  }

  Decision hold(Record next, std::string by, std::string why, std::string step = {}) const {
    if (next.cancel_asked) return call_off_as_asked(std::move(next));
    next.reason = why;
    next.in_doubt = true;
    add(next, {.act = OperatorAction::Act::held,
               .by = std::move(by),
               .why = std::move(why),
               .step = std::move(step)});
    enter(next, State::in_doubt);
    return {.verdict = Verdict::doubted, .next = std::move(next)};
  }

  Decision hold_step(Record next, const std::string& name, std::string by, std::string why) const {
    if (next.state == State::running && next.attempts.back().ending == Ending::running)
      end_attempt(next, Ending::unknown, why);
    if (why.empty()) why = was_cut_off(name);
    return hold(std::move(next), std::move(by), bounded(std::move(why)), name);
  }

  // The step's last try failed. The record only documents that: the step runs again in any case. A
  // step that was cut off, and that a person ordered to run again, has no end.
  static bool is_trace(const Step& step) {
    return step.state == Step::State::again && step.ended_at.has_value();
  }
  static void forget_failed_step(Record& record) {
    const auto failed = std::find_if(record.steps.begin(), record.steps.end(), is_trace);
    if (failed != record.steps.end()) record.steps.erase(failed);
  }

  // A request can arrive late and after its repeat. It must not change another call of the step.
  static bool is_of_another_call(const Step& step, const std::string& call, const Record& record) {
    return step.state == Step::State::begun && step.attempt == record.claims && step.call != call;
  }
  static bool is_late_begin(const Step& step, const StepBegin& begin, const Record& record) {
    return step.state == Step::State::again && step.attempt == record.claims &&
           !begin.call.empty() && step.call == begin.call;
  }

  // A step that was cut off and that must not run again without a person's decision.
  static const Step* to_be_held(const Record& record) {
    for (const Step& step : record.steps)
      if (step.state == Step::State::begun && step.policy == InDoubt::hold) return &step;
    return nullptr;
  }

  static std::string was_cut_off(const std::string& step) {
    return "step '" + step + "' was cut off";
  }

  // Why the result cannot be kept. Empty if it can.
  std::string above_limit(const Body& result, std::uint64_t oversize) const {
    const std::uint64_t size = oversize > 0 ? oversize : result.text().size();
    if (oversize == 0 && size <= policy_.max_result) return {};
    return "its result of " + std::to_string(size) + " bytes is above the queue's max_result of " +
           std::to_string(policy_.max_result) + " and was not kept";
  }

  std::string above_limit_together(const Record& record, const Body& result) const {
    std::uint64_t size = result.text().size();
    for (const Step& step : record.steps)
      if (step.state == Step::State::done) size += step.result.text().size();
    if (size <= policy_.max_result * kResultsTogether) return {};
    return "the results of the task's steps have " + std::to_string(size) +
           " bytes together, above " + std::to_string(kResultsTogether) +
           " times the queue's max_result of " + std::to_string(policy_.max_result) +
           ": its result was not kept";
  }

  Decision call_off_as_asked(Record next) const {
    const auto asked =
        std::find_if(next.story.rbegin(), next.story.rend(), [](const OperatorAction& action) {
          return action.act == OperatorAction::Act::cancel_asked;
        });
    const std::string by = asked == next.story.rend() ? std::string() : asked->by;
    const std::string why = asked == next.story.rend() ? std::string() : asked->why;
    return call_off(std::move(next), "cancelled", by, why);
  }

  // "dropped by ann: not worth it"
  Decision call_off(Record next, std::string reason, const std::string& by,
                    const std::string& why) const {
    enter(next, State::cancelled);
    if (!by.empty()) reason += " by " + by;
    if (!why.empty()) reason += ": " + why;
    next.reason = bounded(std::move(reason));
    return {.verdict = Verdict::cancelled, .next = std::move(next)};
  }

  // --- The record ---------------------------------------------------------------------------

  // The claim keeps the rest of its lease. Only a renewal extends it.
  Decision recorded(Verdict verdict, Record next) const {
    next.lease = std::max(Duration{0}, stored_->stamp + stored_->record.lease - now_.store);
    return {.verdict = verdict, .next = std::move(next)};
  }

  void enter(Record& next, State state) const {
    next.state = state;
    next.since = now_.wall;
    next.cancel_asked = next.cancel_asked && state == State::running;
    next.probe = next.probe && !settled(state);
    next.reply_due = next.reply && over(state);
    if (state != State::running) next.started.reset();
  }

  void end_attempt(Record& next, Ending ending, const std::string& error,
                   const std::string& log = {}) const {
    Attempt& attempt = next.attempts.back();
    attempt.ending = ending;
    attempt.ended_at = now_.wall;
    attempt.error = bounded(error);
    if (!attempt.error.empty()) next.error = attempt.error;
    attempt.log = last_bytes(log, kLogKept);
    drop_old_logs(next);
    if (without_verdict(ending)) next.in_doubt = true;
  }

  static void drop_old_logs(Record& next) {
    std::size_t kept = 0;
    for (auto attempt = next.attempts.rbegin(); attempt != next.attempts.rend(); ++attempt) {
      kept += attempt->log.size();
      if (kept > kLogsKept) attempt->log.clear();
    }
  }

  void add(Record& next, OperatorAction action) const {
    if (action.at == Time{}) action.at = now_.wall;
    action.by = bounded(std::move(action.by), kOldErrorKept);
    action.why = bounded(std::move(action.why), kOldErrorKept);
    if (next.story.size() == kActionsKept) next.story.erase(next.story.begin());
    next.story.push_back(std::move(action));
    ++next.actions;
  }

  static Step* find(Record& record, std::string_view name) {
    return const_cast<Step*>(find_step(record, name));
  }

  // The stored record, with the claim's token in its last attempt. The token is the revision of the
  // claim's write, so the claim could not contain it. A running record without an attempt gets one.
  Record current() const {
    Record record = stored_->record;
    if (record.offer) return record;
    if (record.attempts.empty() && record.state == State::running) record.attempts.emplace_back();
    if (!record.attempts.empty())
      record.attempts.back().token = token_of(record, stored_->revision);
    return record;
  }

  // --- What is known of it ------------------------------------------------------------------

  bool lease_runs() const {
    return now_.store < stored_->stamp + stored_->record.lease && !stored_->holder_gone;
  }

  const char* why_lost() const {
    return stored_->holder_gone ? "the worker died" : "the lease ended without a word";
  }

  bool held_by(const Nonce& nonce) const { return is_running(nonce) && !stored_->record.offer; }
  bool offered_to(const Nonce& nonce) const {
    return is_running(nonce) && stored_->record.offer.has_value();
  }
  bool is_running(const Nonce& nonce) const {
    return stored_ && stored_->record.state == State::running && stored_->record.nonce == nonce;
  }
  Decision not_mine(const Nonce& nonce) const {
    return just(offered_to(nonce) ? Verdict::not_started : Verdict::fenced);
  }

  bool stands_at(std::initializer_list<State> states) const {
    return stored_ &&
           std::find(states.begin(), states.end(), stored_->record.state) != states.end();
  }

  // Whether the task was claimed after the person looked at it.
  bool claimed_since(const std::optional<std::uint32_t>& seen) const {
    return seen && *seen != (stored_ ? stored_->record.claims : 0);
  }

  // Whether the story has that command.
  bool told(const Nonce& nonce) const {
    return stored_ &&
           std::any_of(stored_->record.story.begin(), stored_->record.story.end(),
                       [&](const OperatorAction& action) { return action.nonce == nonce; });
  }

  // A repeated command is already_done if its attempt ended in this way. An attempt that was recorded
  // as lost has another ending, so its worker is fenced.
  Decision not_held(const Nonce& nonce, Ending word) const {
    const bool heard = stored_ && !offered_to(nonce) && heard_before(stored_->record, nonce, word);
    return heard ? just(Verdict::already_done) : not_mine(nonce);
  }

  static bool heard_before(const Record& record, const Nonce& nonce, Ending word) {
    if (record.attempts.empty()) return false;
    if (record.nonce == nonce && record.attempts.back().ending == word) return true;
    return std::any_of(record.attempts.begin(), record.attempts.end(), [&](const Attempt& attempt) {
      return attempt.nonce != Nonce{} && attempt.nonce == nonce && attempt.ending == word;
    });
  }

  const Stored* stored_;
  const Policy& policy_;
  Now now_;
};

const TaskPolicy* own_policy(const Stored* stored, const Command& command) {
  if (stored) return stored->record.own ? &*stored->record.own : nullptr;
  const Claim* claim = std::get_if<Claim>(&command);
  return claim && claim->own ? &*claim->own : nullptr;
}

}  // namespace

Decision decide(const Stored* stored, const Command& command, const Policy& policy, Now now) {
  const TaskPolicy* own = own_policy(stored, command);
  if (!own) return std::visit(Rules{stored, policy, now}, command);
  const Policy effective = applied(policy, *own);
  return std::visit(Rules{stored, effective, now}, command);
}

AppendVerdict judge_append(const Nonce& my_nonce, const Digest& my_digest, const Nonce& its_nonce,
                           const Digest& its_digest) {
  if (my_nonce == its_nonce) return AppendVerdict::accepted;
  return my_digest == its_digest ? AppendVerdict::duplicate : AppendVerdict::conflict;
}

}  // namespace once::core
