// Random lives of one task with everything that decides about its effects: steps, the policies for
// doubt, probes, people's orders and cancels, while workers compete, die and repeat what was not
// answered. Beside it runs a witness that shares nothing with decide(): it notes what happened
// outside (what ran, what was asked, what was said) and complains when that should not have been.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "core/decide.h"

namespace once::core {
namespace {

constexpr int kWorkers = 3;
constexpr Sequence kSequence{7};
constexpr Duration kLease{50};

enum class Act {
  claim,
  claim_with_order,
  claim_with_stale_order,
  claim_to_complete_a_step,
  renew,
  complete,
  fail,
  fail_for_good,
  doubt,
  time_out,
  release,
  interrupt,
  probe_says_no,
  probe_does_not_know,
  begin,
  begin_asked,
  end,
  fail_step,
  hold_step,
  resolve,
  retry,
  retry_stale,
  drop,
  cancel,
  reply,
  reply_to_what_was,
  die,     // whoever holds the task, and the store sees that it is gone
  vanish,  // the same, and the store does not see it
  repeat,  // somebody's word whose answer was lost, late
};

struct Move {
  Act act = Act::claim;
  int worker = 0;
  int step = 0;
  int policy = 0;
  int pass = 0;       // ms that go by before it
  bool lost = false;  // its answer is: it is repeated at once, and once more later
};

void showValue(const Move& move, std::ostream& out) {
  static constexpr std::array kNames{"claim",
                                     "claim_with_order",
                                     "claim_with_stale_order",
                                     "claim_to_complete_a_step",
                                     "renew",
                                     "complete",
                                     "fail",
                                     "fail_for_good",
                                     "doubt",
                                     "time_out",
                                     "release",
                                     "interrupt",
                                     "probe_says_no",
                                     "probe_does_not_know",
                                     "begin",
                                     "begin_asked",
                                     "end",
                                     "fail_step",
                                     "hold_step",
                                     "resolve",
                                     "retry",
                                     "retry_stale",
                                     "drop",
                                     "cancel",
                                     "reply",
                                     "reply_to_what_was",
                                     "die",
                                     "vanish",
                                     "repeat"};
  out << "+" << move.pass << "ms " << kNames.at(static_cast<std::size_t>(move.act)) << " by "
      << move.worker << " step " << move.step << " policy " << move.policy
      << (move.lost ? " (answer lost)\n" : "\n");
}

// --- The witness ----------------------------------------------------------------------------

struct Witness {
  struct Effect {  // of a step, in the world outside
    enum { untouched, open, done } state = untouched;
    InDoubt policy{};       // that it began with
    std::uint32_t claim{};  // in which it began
    bool person_said_again = false;
  };
  std::map<std::string, Effect> effects{};
  std::uint32_t claims = 0;
  std::vector<std::uint32_t> ends{};  // deaths and doubts that people saw: after so many claims
  int completions = 0;
  bool doubt_open = false;  // an attempt ended without a verdict, and nobody has answered since
  bool cancel_asked = false;
  State stands = State::waiting;
  bool owes = false;             // it is over, and who waits has not been told
  std::vector<Replied> overs{};  // how it stood whenever it was over
  std::vector<OperatorAction::Act> actions{};
  std::set<Nonce> heard{};  // of people's commands that were recorded
};

// --- The world ------------------------------------------------------------------------------

class World {
 public:
  World(Policy policy, bool awaited) : policy_(std::move(policy)) {
    if (awaited) reply_ = ReplyTo{.topic = "t", .id = "r"};
  }

  void take(const Move& move) {
    now_ += Duration{move.pass};
    if (move.act == Act::die || move.act == Act::vanish) return lose_holder(move.act == Act::die);
    if (move.act == Act::repeat) return repeat_late(move);
    const std::optional<Command> command = command_of(move);
    if (!command) return;
    carry_out(*command);
    if (!move.lost) return;
    repeat_at_once(*command);
    unanswered_.push_back(*command);
  }

  // P4: no state that nobody leaves. Left to itself it settles; what is held for people, people
  // can run.
  void expect_not_stuck() {
    for (int i = 0; i < 100 && !(stored_ && settled(stored_->record.state)); ++i) {
      now_ += Duration{1'000'000};
      act(Act::claim);
      act(Act::probe_does_not_know);
      act(Act::doubt);
    }
    RC_ASSERT(settled(stored_->record.state));
    if (stored_->record.state == State::dead || stored_->record.state == State::in_doubt) {
      act(Act::claim_with_order);
      RC_ASSERT(stored_->record.state == State::running);
      act(Act::complete);
      RC_ASSERT(stored_->record.state == State::completed);
    }
    act(Act::reply);
    RC_ASSERT(!stored_->record.reply_due);
  }

 private:
  void act(Act what) { take({.act = what}); }

  void lose_holder(bool seen) {
    if (running()) stored_->holder_gone = seen;
    for (Nonce& nonce : workers_)
      if (holds(nonce)) nonce = {};
  }

  std::optional<Command> command_of(const Move& move) {
    Nonce& mine = workers_.at(static_cast<std::size_t>(move.worker));
    const bool asking = holds(mine) && stored_->record.attempts.back().probing;
    const std::string step = "s" + std::to_string(move.step);
    static constexpr InDoubt kOwn[] = {InDoubt::retry, InDoubt::hold, InDoubt::probe};
    const InDoubt own = kOwn[move.policy];
    // A handler does not run while its worker asks the probe.
    if (asking && (move.act == Act::fail || move.act == Act::fail_for_good ||
                   (move.act >= Act::begin && move.act <= Act::hold_step)))
      return std::nullopt;
    switch (move.act) {
      case Act::claim: return claim(mine, move.worker, {});
      case Act::claim_with_order: return claim(mine, move.worker, order());
      case Act::claim_with_stale_order: return claim(mine, move.worker, stale_order(move));
      case Act::claim_to_complete_a_step: return claim(mine, move.worker, step_order(step));
      case Act::renew: return Renew{.nonce = mine, .spent = Duration{1}};
      case Act::complete: return Complete{.nonce = mine, .probed_by = asking ? "p" : ""};
      case Act::fail: return Fail{.nonce = mine, .retry_in = Duration{0}};
      case Act::fail_for_good: return Fail{.nonce = mine, .final = true};
      case Act::doubt: return Doubt{.nonce = mine};
      case Act::time_out: return Doubt{.nonce = mine, .ending = Ending::timed_out};
      case Act::release: return Release{.nonce = mine};
      case Act::interrupt: return Release{.nonce = mine, .started = true};
      case Act::probe_says_no: return Probed{.nonce = mine, .known = true, .by = "p"};
      case Act::probe_does_not_know: return Probed{.nonce = mine, .by = "p"};
      case Act::begin: return StepBegin{.nonce = mine, .name = step, .policy = own};
      case Act::begin_asked: {
        if (!cut_off_outside(step)) return std::nullopt;  // nobody asks about anything else
        return StepBegin{.nonce = mine, .name = step, .policy = InDoubt::probe, .asked = true};
      }
      case Act::end: return StepEnd{.nonce = mine, .name = step};
      case Act::fail_step: return StepFail{.nonce = mine, .name = step};
      case Act::hold_step: return StepHold{.nonce = mine, .name = step, .by = "p"};
      case Act::resolve: return Resolve{.nonce = fresh(), .by = "eve"};
      case Act::retry: return order_alone(order());
      case Act::retry_stale: return order_alone(stale_order(move));
      case Act::drop: return Drop{.nonce = fresh(), .by = "eve"};
      case Act::cancel: {
        Cancel cancel{.sequence = kSequence, .nonce = fresh(), .by = "eve"};
        if (move.policy == 0) cancel.order = order();
        cancel.reply = reply_;
        return cancel;
      }
      case Act::reply:
        if (witness_.overs.empty()) return std::nullopt;
        return witness_.overs.back();
      case Act::reply_to_what_was:
        if (witness_.overs.empty()) return std::nullopt;
        return witness_.overs[static_cast<std::size_t>(move.pass) % witness_.overs.size()];
      default: return std::nullopt;
    }
  }

  // About the last death or doubt; nobody orders anything before there was one.
  std::optional<Order> order() {
    if (witness_.ends.empty()) return std::nullopt;
    return Order{.nonce = fresh(), .claims = witness_.ends.back(), .by = "eve"};
  }
  std::optional<Order> stale_order(const Move& move) {
    if (witness_.ends.size() < 2) return std::nullopt;
    const auto which = static_cast<std::size_t>(move.pass) % (witness_.ends.size() - 1);
    return Order{.nonce = fresh(), .claims = witness_.ends[which], .by = "eve"};
  }
  std::optional<Order> step_order(const std::string& step) {
    auto made = order();
    if (!made) return std::nullopt;
    made->kind = Order::Kind::complete_step;
    made->step = step;
    return made;
  }
  static std::optional<Command> order_alone(std::optional<Order> order) {
    if (!order) return std::nullopt;
    return Retry{std::move(*order)};
  }

  Command claim(Nonce& mine, int worker, std::optional<Order> order) {
    const Nonce made = fresh();
    claimant_ = &mine;
    return Claim{.sequence = kSequence,
                 .worker = std::to_string(worker),
                 .nonce = made,
                 .can_probe = worker != 2,
                 .order = std::move(order),
                 .reply = reply_};
  }

  void carry_out(const Command& command) {
    const Decision made = ask(command);
    check(command, made);
    if (made.next)
      stored_ = Stored{.record = *made.next, .revision = Revision{++revision_}, .stamp = now_};
    note(command, made);
    if (made.verdict == Verdict::claimed) *claimant_ = std::get<Claim>(command).nonce;
    check_record();
  }

  // What was recorded finds itself; what was not is answered the same, or does what it would have.
  void repeat_at_once(const Command& command) {
    const Decision again = ask(command);
    if (std::holds_alternative<Renew>(command)) return;
    if (const auto* begin = std::get_if<StepBegin>(&command);
        begin && again.verdict == Verdict::step_in_doubt)
      return;
    RC_ASSERT((!again.next || refused_before_));
    if (!refused_before_)
      RC_ASSERT((again.verdict == Verdict::already_done || settled_by_claim(again.verdict) ||
                 (std::holds_alternative<StepBegin>(command) && again.verdict == Verdict::fenced)));
  }
  static bool settled_by_claim(Verdict verdict) {
    return verdict == Verdict::already_dead || verdict == Verdict::awaits_decision ||
           verdict == Verdict::already_cancelled;
  }

  // Somebody else may have written since. Nothing is written twice, and people are told the truth.
  void repeat_late(const Move& move) {
    if (unanswered_.empty()) return;
    const Command& command =
        unanswered_[static_cast<std::size_t>(move.pass + move.step) % unanswered_.size()];
    const Nonce* person = nonce_of_person(command);
    // An order that comes late is not about what has become of the task since.
    if (const Order* order = order_in(command); order && waits_for_a_person())
      if (order->claims != witness_.claims) RC_ASSERT(!ask(command).next);
    if (person && witness_.heard.count(*person)) {
      const Decision again = ask(command);
      if (std::holds_alternative<Claim>(command)) {
        if (again.next) RC_ASSERT(times_told(*again.next, *person) <= 1);
      } else {
        RC_ASSERT(!again.next);
        RC_ASSERT(again.verdict == Verdict::already_done);
      }
    }
    const bool last_word =
        std::holds_alternative<Complete>(command) || std::holds_alternative<Fail>(command) ||
        std::holds_alternative<Doubt>(command) || std::holds_alternative<Release>(command);
    if (last_word && !holds(nonce_of(command))) RC_ASSERT(!ask(command).next);
  }

  Decision ask(const Command& command) const {
    return decide(stored_ ? &*stored_ : nullptr, command, policy_, {now_, Time{}});
  }

  // --- What may be written -----------------------------------------------------------------

  void check(const Command& command, const Decision& made) {
    refused_before_ = !made.next;
    const std::string verdict(to_string(made.verdict));
    if (verdict.starts_with("already_") || made.verdict == Verdict::fenced ||
        made.verdict == Verdict::wrong_state || made.verdict == Verdict::step_refused ||
        made.verdict == Verdict::step_remembered || made.verdict == Verdict::step_in_doubt)
      RC_ASSERT(!made.next);
    if (const Order* order = order_in(command); order && waits_for_a_person())
      RC_ASSERT(static_cast<bool>(made.next) == to_be_applied(*order));
    if (!made.next) return;
    if (!stored_) return;
    // A write that changes nothing is none; only the stamp of a renewal counts.
    if (!std::holds_alternative<Renew>(command)) RC_ASSERT(*made.next != stored_->record);
    const Record& before = stored_->record;
    const Record& next = *made.next;
    if (const auto* replied = std::get_if<Replied>(&command))
      return check_only_replied(*replied, before, next);
    switch (before.state) {
      case State::completed:
      case State::cancelled:
      case State::duplicate: RC_FAIL("what is done was written over"); break;
      case State::dead:
        if (const auto* cancel = std::get_if<Cancel>(&command))
          RC_ASSERT(cancel->order.has_value());
        [[fallthrough]];
      case State::in_doubt: RC_ASSERT(nonce_of_person(command) != nullptr); break;
      case State::running:
        if (std::holds_alternative<Cancel>(command)) {
          if (next.state == State::running) check_only_asked(before, next);
        } else if (!std::holds_alternative<Claim>(command)) {
          RC_ASSERT(nonce_of(command) == before.nonce);
        } else {
          RC_ASSERT((stored_->holder_gone || now_ >= stored_->stamp + before.lease));  // P5
        }
        // Once it is called off, it ends as soon as it can.
        if (witness_.cancel_asked)
          RC_ASSERT((next.state == State::running || next.state == State::completed ||
                     next.state == State::cancelled));
        if (witness_.cancel_asked && next.state == State::running)
          RC_ASSERT(next.nonce == before.nonce);
        break;
      default: break;
    }
  }

  // An order counts where the task has not run since its person saw it, and only there.
  bool to_be_applied(const Order& order) const {
    if (order.claims != witness_.claims) return false;
    if (order.kind == Order::Kind::retry) return true;
    const auto found = witness_.effects.find(order.step);
    return found != witness_.effects.end() && found->second.state == Witness::Effect::open;
  }

  // Asking the holder to stop says so, and takes nothing from it and gives nothing to it.
  void check_only_asked(const Record& before, Record next) const {
    RC_ASSERT(next.cancel_asked);
    RC_ASSERT(now_ + next.lease == stored_->stamp + before.lease);
    next.cancel_asked = before.cancel_asked;
    next.lease = before.lease;
    next.story = before.story;
    next.actions = before.actions;
    next.attempts.back().token = before.attempts.back().token;
    RC_ASSERT(next == before);
  }

  // That who waits was told is said of the end that was told, and nothing else is changed.
  void check_only_replied(const Replied& replied, Record before, const Record& next) const {
    RC_ASSERT(witness_.owes);
    RC_ASSERT(before.state == replied.state);
    RC_ASSERT(before.claims == replied.claims);
    before.reply_due = false;
    if (!before.attempts.empty()) before.attempts.back().token = next.attempts.back().token;
    RC_ASSERT(next == before);
  }

  // --- What happened outside ---------------------------------------------------------------

  void note(const Command& command, const Decision& made) {
    if (!made.next) return;
    Witness& w = witness_;
    const bool was_asked = w.cancel_asked;
    if (made.next->state != State::running) w.cancel_asked = false;
    if (made.verdict == Verdict::completed) RC_ASSERT(++w.completions == 1);  // P3
    if (const Nonce* person = nonce_of_person(command)) {
      const bool applied = !std::holds_alternative<Claim>(command) || order_applied(command, made);
      if (applied) RC_ASSERT(w.heard.insert(*person).second);
    }
    std::visit([&](const auto& each) { note(each, made, was_asked); }, command);
    if (!std::holds_alternative<Replied>(command)) note_end(*made.next);
    if (waits_for_a_person() && (w.ends.empty() || w.ends.back() != w.claims))
      w.ends.push_back(w.claims);
  }

  bool order_applied(const Command& command, const Decision& made) const {
    return times_told(*made.next, std::get<Claim>(command).order->nonce) > 0;
  }
  static std::ptrdiff_t times_told(const Record& record, const Nonce& person) {
    return std::count_if(record.story.begin(), record.story.end(),
                         [&](const OperatorAction& action) { return action.nonce == person; });
  }

  void note_end(const Record& next) {
    const bool over = next.state == State::completed || next.state == State::dead ||
                      next.state == State::cancelled || next.state == State::duplicate;
    // What is said about one that stays as it is, is no end.
    if (std::exchange(witness_.stands, next.state) == next.state && over) return;
    witness_.owes = over && reply_;
    if (over) witness_.overs.push_back({.claims = next.claims, .state = next.state});
  }
  void note(const Replied&, const Decision& made, bool) {
    RC_ASSERT(made.verdict == Verdict::replied);
    witness_.owes = false;
  }
  void note(const Claim& claim, const Decision& made, bool was_asked) {
    Witness& w = witness_;
    const bool ordered = claim.order && w.heard.count(claim.order->nonce);
    if (ordered) note_order(*claim.order);
    if (held_ && !ordered) RC_ASSERT(made.verdict != Verdict::claimed);
    if (!ordered && attempt_runs_outside_) {  // it was lost
      w.doubt_open = true;
      attempt_runs_outside_ = false;
      if (was_asked) RC_ASSERT(made.verdict == Verdict::cancelled);
    }
    if (made.verdict == Verdict::doubted && !ordered)
      w.actions.push_back(OperatorAction::Act::held);
    if (made.verdict != Verdict::claimed) return;
    ++w.claims;
    attempt_runs_outside_ = true;
    const bool probing = made.next->attempts.back().probing;
    // P6: what is in doubt runs again only when the policy, the probe or a person says so.
    if (w.doubt_open) {
      RC_ASSERT(policy_.in_doubt != InDoubt::hold);
      if (policy_.in_doubt == InDoubt::probe) RC_ASSERT(probing);
    } else {
      RC_ASSERT(!probing);
    }
    RC_ASSERT(!somebody_must_decide_about_a_step());
  }

  void note_order(const Order& order) {
    Witness& w = witness_;
    RC_ASSERT(order.claims == w.claims);
    w.doubt_open = false;
    if (order.kind == Order::Kind::complete_step) {
      RC_ASSERT(w.effects[order.step].state == Witness::Effect::open);
      w.effects[order.step].state = Witness::Effect::done;
      w.actions.push_back(OperatorAction::Act::step_completed);
      return;
    }
    for (auto& [name, effect] : w.effects) effect.person_said_again = true;
    w.actions.push_back(OperatorAction::Act::retried);
  }

  // No move makes an offer; the simulator's pullers do.
  void note(const Start&, const Decision&, bool) { RC_FAIL("nothing was offered"); }
  void note(const Renew&, const Decision& made, bool was_asked) {
    RC_ASSERT((made.verdict == Verdict::asked_to_stop) == was_asked);
  }
  void note(const Complete& complete, const Decision& made, bool was_asked) {
    // Whoever says that all is done has not said how a step ended that is to be held.
    if (complete.probed_by.empty() && somebody_must_decide_about_a_step()) {
      RC_ASSERT(made.verdict != Verdict::completed);
      return ended(made, was_asked, true);
    }
    RC_ASSERT(made.verdict == Verdict::completed);
    if (!complete.probed_by.empty()) witness_.actions.push_back(OperatorAction::Act::happened);
    attempt_runs_outside_ = false;
  }
  bool somebody_must_decide_about_a_step() const {
    return std::any_of(witness_.effects.begin(), witness_.effects.end(), [](const auto& each) {
      const Witness::Effect& effect = each.second;
      return effect.state == Witness::Effect::open && effect.policy == InDoubt::hold &&
             !effect.person_said_again;
    });
  }
  void note(const Fail&, const Decision& made, bool was_asked) { ended(made, was_asked, false); }
  void note(const Doubt&, const Decision& made, bool was_asked) { ended(made, was_asked, true); }
  void note(const Release& release, const Decision& made, bool was_asked) {
    ended(made, was_asked, release.started);
  }
  void note(const SetAside&, const Decision&, bool) {}
  void note(const Probed& probed, const Decision& made, bool was_asked) {
    if (probed.known) {
      witness_.doubt_open = false;
      witness_.actions.push_back(OperatorAction::Act::did_not_happen);
      if (was_asked) RC_ASSERT(made.verdict == Verdict::cancelled);
      if (made.verdict != Verdict::probed) attempt_runs_outside_ = false;
    } else {
      ended(made, was_asked, true);
    }
  }
  void ended(const Decision& made, bool was_asked, bool in_doubt) {
    attempt_runs_outside_ = false;
    if (in_doubt) witness_.doubt_open = true;
    if (was_asked) RC_ASSERT(made.verdict == Verdict::cancelled);
    if (made.verdict == Verdict::doubted) witness_.actions.push_back(OperatorAction::Act::held);
    if (in_doubt && policy_.in_doubt == InDoubt::hold && !was_asked)
      RC_ASSERT(made.verdict == Verdict::doubted);
  }

  void note(const StepBegin& begin, const Decision& made, bool was_asked) {
    if (made.verdict != Verdict::step_begun) return ended(made, was_asked, true);
    RC_ASSERT(!was_asked);
    Witness::Effect& effect = witness_.effects[begin.name];
    RC_ASSERT(effect.state != Witness::Effect::done);
    if (effect.state == Witness::Effect::open) {  // it runs a second time: who said so?
      if (begin.asked && !effect.person_said_again)
        witness_.actions.push_back(OperatorAction::Act::did_not_happen);
      RC_ASSERT(effect.claim != witness_.claims);
      RC_ASSERT((effect.person_said_again || begin.asked || begin.policy == InDoubt::retry));
      RC_ASSERT((effect.person_said_again || effect.policy != InDoubt::hold));
    }
    effect = {.state = Witness::Effect::open, .policy = begin.policy, .claim = witness_.claims};
  }
  void note(const StepEnd& end, const Decision&, bool) {
    Witness::Effect& effect = witness_.effects[end.name];
    RC_ASSERT(effect.state == Witness::Effect::open);
    // It did not run in this attempt: its probe has found it.
    if (effect.claim != witness_.claims) witness_.actions.push_back(OperatorAction::Act::happened);
    effect.state = Witness::Effect::done;
  }
  void note(const StepFail& fail, const Decision&, bool) {
    RC_ASSERT(witness_.effects[fail.name].state == Witness::Effect::open);
    witness_.effects[fail.name] = {};
  }
  void note(const StepHold& held, const Decision& made, bool was_asked) {
    RC_ASSERT(witness_.effects[held.name].state == Witness::Effect::open);
    ended(made, was_asked, true);
  }
  void note(const Resolve&, const Decision&, bool) {
    witness_.actions.push_back(OperatorAction::Act::completed);
  }
  void note(const Retry& retry, const Decision&, bool) { note_order(retry.order); }
  void note(const Drop&, const Decision&, bool) {
    witness_.actions.push_back(OperatorAction::Act::dropped);
  }
  void note(const Cancel& cancel, const Decision& made, bool) {
    const auto& story = made.next->story;
    if (cancel.order && std::any_of(story.begin(), story.end(), [&](const OperatorAction& action) {
          return action.nonce == cancel.order->nonce;
        }))
      witness_.actions.push_back(OperatorAction::Act::retried);
    const bool asked = made.verdict == Verdict::asked_to_stop;
    witness_.cancel_asked = asked;
    if (!asked) attempt_runs_outside_ = false;
    witness_.actions.push_back(asked ? OperatorAction::Act::cancel_asked
                                     : OperatorAction::Act::cancelled);
  }

  bool cut_off_outside(const std::string& step) const {
    const auto found = witness_.effects.find(step);
    return found != witness_.effects.end() && found->second.state == Witness::Effect::open &&
           found->second.claim != witness_.claims;
  }

  // --- What the record says ----------------------------------------------------------------

  void check_record() {
    if (!stored_) return;
    const Record& record = stored_->record;
    const Witness& w = witness_;
    RC_ASSERT(record.claims == w.claims);
    RC_ASSERT(record.attempts.size() == std::min<std::size_t>(w.claims, kAttemptsKept));
    RC_ASSERT((record.attempts.empty() || record.attempts.back().number == w.claims));
    const bool may_ask_once_more = policy_.in_doubt == InDoubt::probe;
    RC_ASSERT(record.counted <= policy_.attempts + (may_ask_once_more ? 1 : 0));
    if (record.state == State::running && record.counted > policy_.attempts)
      RC_ASSERT(record.attempts.back().probing);
    RC_ASSERT(record.cancel_asked == w.cancel_asked);
    RC_ASSERT(record.reply_due == w.owes);
    RC_ASSERT(record.reply == reply_);
    RC_ASSERT((record.state == State::completed) == (w.completions == 1));
    held_ = record.state == State::in_doubt;
    check_story(record);
    for (const auto& [name, effect] : w.effects) {
      const Step* step = find_step(record, name);
      const bool failed = step && step->state == Step::State::again && step->ended_at;
      RC_ASSERT((step && !failed) == (effect.state != Witness::Effect::untouched));
      if (!step) continue;
      RC_ASSERT((step->state == Step::State::done) == (effect.state == Witness::Effect::done));
    }
    const bool runs = record.state == State::running;
    RC_ASSERT(
        (runs == (!record.attempts.empty() && record.attempts.back().ending == Ending::running)));
    if (settled(record.state)) RC_ASSERT(!record.probe);
  }

  void check_story(const Record& record) const {
    RC_ASSERT(record.actions == witness_.actions.size());
    RC_ASSERT(record.story.size() == std::min(witness_.actions.size(), kActionsKept));
    const std::size_t dropped = witness_.actions.size() - record.story.size();
    for (std::size_t i = 0; i < record.story.size(); ++i)
      RC_ASSERT(record.story[i].act == witness_.actions[i + dropped]);
  }

  // --- Who is who --------------------------------------------------------------------------

  bool running() const { return stored_ && stored_->record.state == State::running; }
  bool holds(const Nonce& nonce) const { return running() && stored_->record.nonce == nonce; }

  bool waits_for_a_person() const {
    return stored_ &&
           (stored_->record.state == State::dead || stored_->record.state == State::in_doubt);
  }

  static const Order* order_in(const Command& command) {
    if (const auto* retry = std::get_if<Retry>(&command)) return &retry->order;
    const auto* claim = std::get_if<Claim>(&command);
    return claim && claim->order ? &*claim->order : nullptr;
  }
  static const Nonce* nonce_of_person(const Command& command) {
    if (const Order* order = order_in(command)) return &order->nonce;
    if (const auto* resolve = std::get_if<Resolve>(&command)) return &resolve->nonce;
    if (const auto* drop = std::get_if<Drop>(&command)) return &drop->nonce;
    if (const auto* cancel = std::get_if<Cancel>(&command)) return &cancel->nonce;
    return nullptr;
  }
  static Nonce nonce_of(const Command& command) {
    return std::visit(
        [](const auto& each) {
          if constexpr (requires { each.nonce; })
            return each.nonce;
          else
            return Nonce{};
        },
        command);
  }
  Nonce fresh() {
    Nonce made;
    ++nonces_;
    for (std::size_t i = 0; i < 8; ++i)
      made.bytes.at(i) = static_cast<std::uint8_t>(nonces_ >> (8 * i));
    return made;
  }

  Policy policy_;
  std::optional<ReplyTo> reply_{};
  StoreTime now_{Duration{1'000'000}};
  std::optional<Stored> stored_{};
  Witness witness_{};
  bool attempt_runs_outside_ = false;
  bool held_ = false;
  bool refused_before_ = false;
  std::vector<Command> unanswered_{};
  Nonce* claimant_ = nullptr;
  std::uint64_t revision_ = 100;
  std::uint64_t nonces_ = 0;
  std::array<Nonce, kWorkers> workers_{};
};

// --- The property ---------------------------------------------------------------------------

rc::Gen<Move> moves() {
  const auto acts = rc::gen::weightedElement<Act>({
      {16, Act::claim},
      {4, Act::claim_with_order},
      {2, Act::claim_with_stale_order},
      {3, Act::claim_to_complete_a_step},
      {3, Act::renew},
      {1, Act::complete},
      {3, Act::fail},
      {1, Act::fail_for_good},
      {3, Act::doubt},
      {1, Act::time_out},
      {2, Act::release},
      {2, Act::interrupt},
      {3, Act::probe_says_no},
      {1, Act::probe_does_not_know},
      {10, Act::begin},
      {3, Act::begin_asked},
      {4, Act::end},
      {2, Act::fail_step},
      {1, Act::hold_step},
      {1, Act::resolve},
      {1, Act::retry},
      {1, Act::retry_stale},
      {1, Act::drop},
      {1, Act::cancel},
      {2, Act::reply},
      {1, Act::reply_to_what_was},
      {3, Act::die},
      {2, Act::vanish},
      {3, Act::repeat},
  });
  // Mostly the same worker, so that attempts get somewhere.
  return rc::gen::build<Move>(
      rc::gen::set(&Move::act, acts),
      rc::gen::set(&Move::worker, rc::gen::element(0, 0, 0, 0, 1, 2)),
      rc::gen::set(&Move::step, rc::gen::inRange(0, 3)),
      rc::gen::set(&Move::policy, rc::gen::inRange(0, 3)),
      rc::gen::set(&Move::pass, rc::gen::element(0, 0, 0, 0, 1, 49, 50, 500)),
      rc::gen::set(&Move::lost, rc::gen::element(false, false, true)));
}

RC_GTEST_PROP(EffectsOnce, NothingRunsAgainThatNobodySaidMayRun, ()) {
  for (const InDoubt in_doubt : {InDoubt::retry, InDoubt::steps, InDoubt::hold, InDoubt::probe}) {
    const Policy policy{.lease = kLease,
                        .attempts = *rc::gen::element(1U, 2U, 3U, 5U),
                        .backoff = {Duration{10}},
                        .in_doubt = in_doubt};
    for (int lives = 0; lives < 5; ++lives) {
      const auto length = *rc::gen::inRange<std::size_t>(1, 80);
      const auto life = *rc::gen::container<std::vector<Move>>(length, moves());
      World world(policy, lives % 2 == 0);
      for (const Move& move : life) world.take(move);
      world.expect_not_stuck();
    }
  }
}

}  // namespace
}  // namespace once::core
