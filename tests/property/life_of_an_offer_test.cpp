// Random lives of one task that consumers and workers share: offers, starts, lapses, late repeats and
// claims by workers, while the store's time moves by any amount. Beside it runs a model that shares
// nothing with decide(): it keeps who has the task, until when, and how each attempt ended.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "core/decide.h"

namespace once::core {
namespace {

constexpr int kCallers = 3;

enum class Act { offer, offer_again, claim, start, renew, complete, fail, doubt, release };

constexpr int kToTheEnd = -1;
constexpr int kAlmostToTheEnd = -2;

struct OfferStep {
  Act act = Act::offer;
  int caller = 0;
  int pass = 0;  // ms that go by before it, or where to
};

void showValue(const OfferStep& step, std::ostream& out) {
  static constexpr std::array kNames{"offer",    "offer_again", "claim", "start",  "renew",
                                     "complete", "fail",        "doubt", "release"};
  out << "+" << step.pass << "ms " << kNames.at(static_cast<std::size_t>(step.act)) << " by "
      << step.caller << "\n";
}

// What is true of the task, as people would say it.
struct Model {
  enum class Phase { untouched, waiting, retrying, offered, running, completed, dead };
  struct Try {
    Nonce by{};
    bool offered = false;  // it began as an offer
    Ending ending = Ending::running;
  };
  Phase phase = Phase::untouched;
  Phase before_offer = Phase::waiting;
  Nonce holder{};
  StoreTime until{};  // of a lease, or when a retry is due
  std::vector<Try> tries{};
  std::uint32_t given_back = 0;
  std::uint32_t lapses = 0;  // in a row
  bool in_doubt = false;
  bool last_word_known = false;  // the nonce of the last try is still in the record

  std::uint32_t used() const { return static_cast<std::uint32_t>(tries.size()) - given_back; }
  bool has(const Nonce& who, Phase in) const { return phase == in && holder == who; }
  bool said(const Nonce& who, Ending word) const {
    if (last_word_known && !tries.empty() && tries.back().by == who && tries.back().ending == word)
      return true;
    return std::any_of(tries.begin(), tries.end(), [&](const Try& each) {
      return each.offered && each.by == who && each.ending == word;
    });
  }
};
using Phase = Model::Phase;

class SharedTask {
 public:
  explicit SharedTask(Policy policy) : policy_(std::move(policy)) {}

  void take(const OfferStep& step) {
    pass(step.pass);
    Nonce& mine = callers_.at(static_cast<std::size_t>(step.caller));
    // Every claim has a nonce of its own, unless it is the repeat of a write.
    const bool repeats = step.act == Act::offer_again &&
                         (model_.has(mine, Phase::offered) || model_.has(mine, Phase::running));
    const bool takes = step.act == Act::offer || step.act == Act::claim ||
                       (step.act == Act::offer_again && !repeats);
    const Nonce nonce = takes ? fresh_nonce() : mine;
    const Decision made =
        decide(stored_ ? &*stored_ : nullptr, command(step.act, nonce), policy_, {now_, Time{}});
    const Verdict expected = follow(step.act, nonce);
    RC_ASSERT(std::string(to_string(made.verdict)) == std::string(to_string(expected)));
    if (made.next)
      stored_ = Stored{.record = *made.next, .revision = Revision{++revision_}, .stamp = now_};
    if (made.verdict == Verdict::offered || made.verdict == Verdict::claimed) mine = nonce;
    check_record();
  }

 private:
  static Command command(Act act, const Nonce& nonce) {
    switch (act) {
      case Act::start: return Start{.nonce = nonce};
      case Act::renew: return Renew{.nonce = nonce};
      case Act::complete: return Complete{.nonce = nonce};
      case Act::fail: return Fail{.nonce = nonce, .error = "e"};
      case Act::doubt: return Doubt{.nonce = nonce, .error = "e"};
      case Act::release: return Release{.nonce = nonce, .started = true};
      default: break;
    }
    return Claim{.sequence = Sequence{7},
                 .worker = "w",
                 .nonce = nonce,
                 .kind = act == Act::claim ? Claim::Kind::start : Claim::Kind::offer};
  }

  // What must be answered, and what is true after it.
  Verdict follow(Act act, const Nonce& by) {
    switch (act) {
      case Act::offer:
      case Act::offer_again:
      case Act::claim: return take_task(act == Act::claim, by);
      case Act::start:
        if (model_.has(by, Phase::running)) return Verdict::already_done;
        if (!model_.has(by, Phase::offered)) return Verdict::fenced;
        begin(by, true);
        return Verdict::started;
      case Act::renew:
        if (model_.has(by, Phase::offered))
          model_.until = now_ + offer_lease();
        else if (model_.has(by, Phase::running))
          model_.until = now_ + policy_.lease;
        else
          return Verdict::fenced;
        return Verdict::renewed;
      case Act::complete: return end(by, Ending::completed);
      case Act::fail: return end(by, Ending::failed);
      case Act::doubt: return end(by, Ending::unknown);
      case Act::release:
        if (!model_.has(by, Phase::offered)) return end(by, Ending::interrupted);
        end_offer();
        return Verdict::released;
    }
    return Verdict::fenced;
  }

  Verdict take_task(bool starts, const Nonce& by) {
    switch (model_.phase) {
      case Phase::completed: return Verdict::already_completed;
      case Phase::dead: return Verdict::already_dead;
      case Phase::retrying:
        if (now_ < model_.until) return Verdict::not_due;
        break;
      case Phase::untouched:
      case Phase::waiting: break;
      case Phase::offered:
      case Phase::running:
        if (model_.holder == by) return Verdict::already_done;
        if (now_ < model_.until) return Verdict::held;
        if (model_.phase == Phase::running) {
          model_.tries.back().ending = Ending::lost;
          model_.in_doubt = true;
          model_.last_word_known = true;
          model_.phase = Phase::retrying;
          if (model_.used() < policy_.attempts) break;
          model_.phase = Phase::dead;
          return Verdict::exhausted;
        }
        end_offer();
        if (++model_.lapses < 20) break;
        model_.phase = Phase::retrying;
        model_.until = now_ + backoff(model_.lapses - 19);
        return Verdict::lapsed;
    }
    if (starts) {
      begin(by, false);
      return Verdict::claimed;
    }
    model_.before_offer = model_.phase == Phase::retrying ? Phase::retrying : Phase::waiting;
    model_.phase = Phase::offered;
    model_.holder = by;
    model_.until = now_ + offer_lease();
    model_.last_word_known = false;
    return Verdict::offered;
  }

  void begin(const Nonce& by, bool offered) {
    model_.tries.push_back({.by = by, .offered = offered});
    model_.phase = Phase::running;
    model_.holder = by;
    model_.until = now_ + policy_.lease;
    model_.lapses = 0;
    model_.last_word_known = true;
  }

  // The task is as it was before, and is due at once.
  void end_offer() {
    model_.phase = model_.before_offer;
    model_.until = now_;
    model_.last_word_known = false;
  }

  Verdict end(const Nonce& by, Ending word) {
    if (model_.has(by, Phase::offered)) return Verdict::not_started;
    if (!model_.has(by, Phase::running))
      return model_.said(by, word) ? Verdict::already_done : Verdict::fenced;
    model_.tries.back().ending = word;
    model_.in_doubt |= word == Ending::unknown || word == Ending::interrupted;
    if (word == Ending::completed) {
      model_.phase = Phase::completed;
      return Verdict::completed;
    }
    const std::uint32_t used = model_.used();
    if (word == Ending::interrupted) ++model_.given_back;
    if (model_.used() >= policy_.attempts) {
      model_.phase = Phase::dead;
      return Verdict::dead;
    }
    model_.phase = Phase::retrying;
    model_.until = now_ + (word == Ending::interrupted ? Duration{0} : backoff(used));
    return word == Ending::interrupted ? Verdict::released : Verdict::retrying;
  }

  Duration backoff(std::uint32_t after) const {
    return policy_.backoff.at(std::min<std::size_t>(after, policy_.backoff.size()) - 1);
  }
  Duration offer_lease() const { return std::min(policy_.lease, Duration{10'000}); }

  void check_record() const {
    RC_ASSERT(stored_.has_value() == (model_.phase != Phase::untouched));
    if (!stored_) return;
    const Record& record = stored_->record;
    static constexpr std::array kStates{State::waiting, State::waiting, State::retrying,
                                        State::running, State::running, State::completed,
                                        State::dead};
    RC_ASSERT(record.state == kStates.at(static_cast<std::size_t>(model_.phase)));
    RC_ASSERT(record.offer.has_value() == (model_.phase == Phase::offered));
    RC_ASSERT(record.started.has_value() ==
              (model_.phase == Phase::running && model_.tries.back().offered));
    RC_ASSERT(record.claims == model_.tries.size());
    RC_ASSERT(record.counted == model_.used());
    RC_ASSERT(record.lapsed == model_.lapses);
    RC_ASSERT(record.in_doubt == model_.in_doubt);
    RC_ASSERT(record.attempts.size() == model_.tries.size());
    for (std::size_t i = 0; i < record.attempts.size(); ++i) {
      RC_ASSERT(record.attempts[i].ending == model_.tries[i].ending);
      RC_ASSERT(record.attempts[i].nonce ==
                (model_.tries[i].offered ? model_.tries[i].by : Nonce{}));
    }
    if (record.state == State::running) RC_ASSERT(stored_->stamp + record.lease == model_.until);
    if (record.state == State::retrying) RC_ASSERT(stored_->stamp + record.delay == model_.until);
  }

  void pass(int how_long) {
    if (how_long >= 0)
      now_ += Duration{how_long};
    else
      now_ = std::max(now_, model_.until - Duration{how_long == kToTheEnd ? 0 : 1});
  }
  Nonce fresh_nonce() {
    Nonce made;
    ++nonces_;
    for (std::size_t i = 0; i < 8; ++i)
      made.bytes.at(i) = static_cast<std::uint8_t>(nonces_ >> (8 * i));
    return made;
  }

  Policy policy_;
  StoreTime now_{Duration{1'000'000}};
  std::optional<Stored> stored_{};
  Model model_{};
  std::uint64_t revision_ = 100;
  std::uint64_t nonces_ = 1000;
  std::array<Nonce, kCallers> callers_{fresh_nonce(), fresh_nonce(), fresh_nonce()};
};

void live(const rc::Gen<Act>& acts, const rc::Gen<int>& passes, std::size_t most_steps) {
  const auto step =
      rc::gen::build<OfferStep>(rc::gen::set(&OfferStep::act, acts),
                                rc::gen::set(&OfferStep::caller, rc::gen::inRange(0, kCallers)),
                                rc::gen::set(&OfferStep::pass, passes));
  const auto length = *rc::gen::inRange<std::size_t>(1, most_steps);
  const auto life = *rc::gen::container<std::vector<OfferStep>>(length, step);
  SharedTask task({.lease = *rc::gen::element(Duration{50}, Duration{15'000}),
                   .attempts = *rc::gen::element(1U, 2U, 3U, 5U),
                   .backoff = {Duration{10}, Duration{100}}});
  for (const OfferStep& each : life) task.take(each);
}

RC_GTEST_PROP(LifeOfAnOffer, FollowsTheModel, ()) {
  const auto acts = rc::gen::weightedElement<Act>({{8, Act::offer},
                                                   {2, Act::offer_again},
                                                   {3, Act::claim},
                                                   {8, Act::start},
                                                   {4, Act::renew},
                                                   {1, Act::complete},
                                                   {3, Act::fail},
                                                   {2, Act::doubt},
                                                   {3, Act::release}});
  const auto passes = rc::gen::element(0, 0, 0, 1, 49, 50, 51, 10'000, kToTheEnd, kAlmostToTheEnd);
  for (int lives = 0; lives < 10; ++lives) live(acts, passes, 60);
}

// Offers that nobody starts, more than the twenty after which the task backs off.
RC_GTEST_PROP(LifeOfAnOffer, FollowsTheModelThroughManyLapses, ()) {
  const auto acts = rc::gen::weightedElement<Act>(
      {{40, Act::offer}, {1, Act::start}, {1, Act::renew}, {1, Act::release}, {1, Act::fail}});
  live(acts, rc::gen::element(50, 10'000, kToTheEnd, kToTheEnd, kToTheEnd), 200);
}

}  // namespace
}  // namespace once::core
