// Random lives of one task: three workers claim, renew, settle, die and come back late, while the
// store's time moves by any amount. Beside it runs a model that shares nothing with decide(): it
// keeps the list of what happened and answers every question by looking through that list.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "core/decide.h"

namespace once::core {
namespace {

constexpr int kWorkers = 3;
constexpr Sequence kSequence{7};

enum class Act {
  claim,
  claim_again,
  claim_for_other,
  renew,
  complete,
  fail,
  fail_for_good,
  doubt,
  time_out,
  release,
  interrupt,
  die,     // whoever holds the task, and the store sees that it is gone
  vanish,  // the same, and the store does not see it: only the lease tells
};

// Instead of milliseconds to pass: to where a lease or a delay ends, or to just before that.
constexpr int kToTheEnd = -1;
constexpr int kAlmostToTheEnd = -2;

struct Step {
  Act act = Act::claim;
  int worker = 0;
  int pass = 0;      // ms that go by before it, or where to
  int lag = 0;       // ms between the decision and the store's stamp
  int retry_in = 0;  // fail: zero: the backoff decides
};

void showValue(const Step& step, std::ostream& out) {
  static constexpr std::array kNames{
      "claim", "claim_again", "claim_for_other", "renew",     "complete", "fail",  "fail_for_good",
      "doubt", "time_out",    "release",         "interrupt", "die",      "vanish"};
  out << "+" << step.pass << "ms " << kNames.at(static_cast<std::size_t>(step.act)) << " by "
      << step.worker << " (lag " << step.lag << ", retry_in " << step.retry_in << ")\n";
}

// --- The model: what happened, and what follows from it -------------------------------------

struct Event {
  enum Kind { claimed, renewed, ended } kind;
  Nonce by{};
  StoreTime at{};
  Ending ending = Ending::running;  // ended
  Duration wait{};                  // claimed, renewed: the lease; ended: until the next attempt
  bool over = false;                // ended: for good
};

struct History {
  std::vector<Event> events;

  auto number_of(auto which) const { return std::count_if(events.begin(), events.end(), which); }
  std::uint32_t claims() const {
    return static_cast<std::uint32_t>(number_of([](auto& e) { return e.kind == Event::claimed; }));
  }
  std::uint32_t given_back() const {
    return static_cast<std::uint32_t>(number_of(
        [](auto& e) { return e.ending == Ending::released || e.ending == Ending::interrupted; }));
  }
  std::uint32_t used() const { return claims() - given_back(); }
  bool in_doubt() const {
    return number_of([](auto& e) {
             return e.ending == Ending::lost || e.ending == Ending::unknown ||
                    e.ending == Ending::timed_out || e.ending == Ending::interrupted;
           }) > 0;
  }
  bool untouched() const { return events.empty(); }
  bool runs() const { return !untouched() && events.back().kind != Event::ended; }
  bool over() const { return !untouched() && events.back().over; }
  StoreTime wait_ends() const { return events.back().at + events.back().wait; }
  Nonce last() const { return untouched() ? Nonce{} : events.back().by; }
  Ending last_ending() const { return events.back().ending; }
  State state() const {
    if (runs()) return State::running;
    if (last_ending() == Ending::completed) return State::completed;
    if (over()) return State::dead;
    return last_ending() == Ending::released ? State::waiting : State::retrying;
  }
};

// --- The world: a ledger with one record, and the workers -----------------------------------

class World {
 public:
  explicit World(Policy policy) : policy_(std::move(policy)) {}

  void take(const Step& step) {
    pass(step.pass);
    Worker& worker = workers_.at(static_cast<std::size_t>(step.worker));
    if (step.act == Act::die || step.act == Act::vanish) {
      const auto holder = std::find_if(workers_.begin(), workers_.end(),
                                       [this](const Worker& w) { return holds(w); });
      if (holder == workers_.end()) return;
      stored_->holder_gone = step.act == Act::die;
      *holder = Worker{Member{++members_}, {}};
    } else if (step.act != Act::claim_for_other || stored_) {
      // Every claim has a nonce of its own, unless it is the repeat of a write.
      Worker acting = worker;
      const bool repeats = step.act == Act::claim_again && holds(worker);
      if (is_claim(step.act) && !repeats) acting.nonce = fresh_nonce();
      if (command(step, acting) == Verdict::claimed) worker = acting;
    }
  }

 private:
  struct Worker {
    Member member{};
    Nonce nonce{};
  };

  Verdict command(const Step& step, const Worker& worker) {
    const Decision made = ask(command_of(step, worker));
    const std::optional<Stored> before = stored_;
    check_verdict(step, worker, made);
    check_write(step, worker, made);
    if (made.next) write(*made.next, step.lag);
    follow(step, worker, made);
    check_record(before);
    if (made.next) check_repeat(step, worker, made);
    return made.verdict;
  }

  void pass(int how_long) {
    if (how_long >= 0)
      now_ += Duration{how_long};
    else if (!history_.untouched())
      now_ = std::max(now_, history_.wait_ends() - Duration{how_long == kToTheEnd ? 0 : 1});
  }

  Command command_of(const Step& step, const Worker& worker) const {
    const Nonce& nonce = worker.nonce;
    const Claim claim{
        .sequence = kSequence, .worker = "w", .member = worker.member, .nonce = nonce};
    switch (step.act) {
      case Act::claim_for_other: return Claim{.sequence = Sequence{8}, .nonce = nonce};
      case Act::renew: return Renew{.nonce = nonce, .spent = Duration{1}};
      case Act::complete: return Complete{.nonce = nonce};
      case Act::fail: return Fail{nonce, "e", retry_in(step), false, 0.0};
      case Act::fail_for_good: return Fail{nonce, "e", retry_in(step), true, 0.0};
      case Act::doubt: return Doubt{nonce, Ending::unknown, "e", 0.0};
      case Act::time_out: return Doubt{nonce, Ending::timed_out, "e", 0.0};
      case Act::release: return Release{.nonce = nonce, .started = false};
      case Act::interrupt: return Release{.nonce = nonce, .started = true};
      default: return claim;
    }
  }
  static std::optional<Duration> retry_in(const Step& step) {
    return step.retry_in > 0 ? std::optional{Duration{step.retry_in}} : std::nullopt;
  }
  static Ending ending_of(Act act) {
    switch (act) {
      case Act::complete: return Ending::completed;
      case Act::fail: return Ending::failed;
      case Act::fail_for_good: return Ending::dead;
      case Act::doubt: return Ending::unknown;
      case Act::time_out: return Ending::timed_out;
      case Act::release: return Ending::released;
      case Act::interrupt: return Ending::interrupted;
      default: return Ending::running;
    }
  }
  static bool is_claim(Act act) { return act == Act::claim || act == Act::claim_again; }

  Decision ask(const Command& command) const {
    return decide(stored_ ? &*stored_ : nullptr, command, policy_, {now_, Time{}});
  }

  // What the model says must be answered.
  Verdict expected(const Step& step, const Worker& worker) const {
    const History& h = history_;
    const bool mine = !h.untouched() && h.last() == worker.nonce;
    if (step.act == Act::claim_for_other) return Verdict::duplicate_key;
    if (is_claim(step.act)) {
      if (h.untouched()) return Verdict::claimed;
      if (h.runs()) {
        if (mine) return Verdict::already_done;
        if (now_ < h.wait_ends() && !holder_gone()) return Verdict::held;
        return h.used() < policy_.attempts ? Verdict::claimed : Verdict::exhausted;
      }
      if (h.over())
        return h.last_ending() == Ending::completed ? Verdict::already_completed
                                                    : Verdict::already_dead;
      return now_ < h.wait_ends() ? Verdict::not_due : Verdict::claimed;
    }
    if (!mine) return Verdict::fenced;
    if (!h.runs())
      return h.last_ending() == ending_of(step.act) ? Verdict::already_done : Verdict::fenced;
    const bool last = h.used() >= policy_.attempts;
    switch (step.act) {
      case Act::renew: return Verdict::renewed;
      case Act::complete: return Verdict::completed;
      case Act::fail_for_good: return Verdict::dead;
      case Act::release:
      case Act::interrupt: return Verdict::released;
      default: return last ? Verdict::dead : Verdict::retrying;
    }
  }

  // A holder that settles twice, in two ways, is told that it is done or that it is fenced; the
  // model asks no more of the answer than that.
  bool second_word(const Step& step, const Worker& worker) const {
    const Ending ending = ending_of(step.act);
    return ending != Ending::running && !history_.untouched() && !history_.runs() &&
           history_.last() == worker.nonce && history_.last_ending() != Ending::lost &&
           history_.last_ending() != ending;
  }

  void check_verdict(const Step& step, const Worker& worker, const Decision& made) const {
    if (second_word(step, worker))
      RC_ASSERT(made.verdict == Verdict::already_done || made.verdict == Verdict::fenced);
    else
      RC_ASSERT(std::string(to_string(made.verdict)) ==
                std::string(to_string(expected(step, worker))));
  }

  void check_write(const Step& step, const Worker& worker, const Decision& made) const {
    if (made.verdict == Verdict::claimed) RC_ASSERT(made.next->member == worker.member);
    if (!made.next || !stored_) return;
    RC_ASSERT(made.verdict != Verdict::fenced && made.verdict != Verdict::already_done);
    // Fencing: only a claim may write over a record that is not the writer's.
    if (!is_claim(step.act)) RC_ASSERT(stored_->record.nonce == worker.nonce);
    // P3: what is over stays as it is.
    RC_ASSERT(stored_->record.state != State::completed);
    RC_ASSERT(stored_->record.state != State::dead);
    // P5: a claim over a running record needs an ended lease or a holder that is gone.
    if (is_claim(step.act) && stored_->record.state == State::running)
      RC_ASSERT(holder_gone() || now_ >= stored_->stamp + stored_->record.lease);
    // P6: each claim is one attempt more, nothing else is.
    const std::uint32_t more = made.verdict == Verdict::claimed ? 1 : 0;
    RC_ASSERT(made.next->claims == stored_->record.claims + more);
  }

  void write(const Record& record, int lag) {
    now_ += Duration{lag};
    stored_ = Stored{.record = record, .revision = Revision{++revision_}, .stamp = now_};
  }

  void follow(const Step& step, const Worker& worker, const Decision& made) {
    if (!made.next) return;
    auto& events = history_.events;
    const Duration backoff = policy_.backoff.at(
        std::min<std::size_t>(std::max(1U, history_.used()), policy_.backoff.size()) - 1);
    if (is_claim(step.act)) {
      const bool last = history_.used() >= policy_.attempts;
      if (history_.runs())
        events.push_back({Event::ended, history_.last(), now_, Ending::lost, {}, last});
      if (made.verdict == Verdict::exhausted) return;
      events.push_back({Event::claimed, worker.nonce, now_, Ending::running, policy_.lease});
      tokens_.push_back(Token{revision_});
    } else if (step.act == Act::renew) {
      events.push_back({Event::renewed, worker.nonce, now_, Ending::running, policy_.lease});
    } else {
      const Ending ending = ending_of(step.act);
      const bool back = ending == Ending::released || ending == Ending::interrupted;
      const bool over = ending == Ending::completed || ending == Ending::dead ||
                        (!back && history_.used() >= policy_.attempts);
      const Duration wait = back                    ? Duration{0}
                            : step.act == Act::fail ? retry_in(step).value_or(backoff)
                                                    : backoff;
      events.push_back({Event::ended, worker.nonce, now_, ending, wait, over});
    }
  }

  // The record says what the history says.
  void check_record(const std::optional<Stored>& before) const {
    if (before) RC_ASSERT(stored_.has_value());  // P4: nothing vanishes
    RC_ASSERT(stored_.has_value() == !history_.untouched());
    if (!stored_) return;
    const Record& record = stored_->record;
    RC_ASSERT(record.state == history_.state());
    RC_ASSERT(record.nonce == history_.last());
    RC_ASSERT(record.claims == history_.claims());
    RC_ASSERT(record.counted == history_.used());
    RC_ASSERT(record.counted <= policy_.attempts);
    RC_ASSERT(record.in_doubt == history_.in_doubt());
    RC_ASSERT(record.result.has_value() == (record.state == State::completed));
    if (record.state == State::running) RC_ASSERT(record.lease == history_.events.back().wait);
    if (record.state == State::retrying) RC_ASSERT(record.delay == history_.events.back().wait);

    std::vector<Ending> endings;
    for (const Event& event : history_.events)
      if (event.kind == Event::ended) endings.push_back(event.ending);
    if (history_.runs()) endings.push_back(Ending::running);
    RC_ASSERT(record.attempts.size() == std::min(endings.size(), kAttemptsKept));
    const std::size_t dropped = endings.size() - record.attempts.size();
    for (std::size_t i = 0; i < record.attempts.size(); ++i) {
      const Attempt& attempt = record.attempts[i];
      RC_ASSERT(attempt.number == i + dropped + 1);
      RC_ASSERT(attempt.ending == endings[i + dropped]);
      RC_ASSERT(attempt.ended_at.has_value() == (attempt.ending != Ending::running));
      if (attempt.ended_at) RC_ASSERT(attempt.token == tokens_[i + dropped]);
    }
    const auto completions = std::count(endings.begin(), endings.end(), Ending::completed);
    RC_ASSERT(completions <= 1);  // P3
    if (record.state == State::running)
      RC_ASSERT(token_of(record, stored_->revision) == tokens_.back());
  }

  // A write whose answer was lost is asked for again, and finds itself. (A renewal is renewed.)
  void check_repeat(const Step& step, const Worker& worker, const Decision& first) const {
    if (step.act == Act::renew || first.verdict == Verdict::exhausted) return;
    const Decision again = ask(command_of(step, worker));
    RC_ASSERT(!again.next);
    RC_ASSERT(again.verdict == Verdict::already_done);
  }

  bool holder_gone() const { return stored_ && stored_->holder_gone; }
  bool holds(const Worker& worker) const {
    return history_.runs() && history_.last() == worker.nonce;
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
  History history_{};
  std::vector<Token> tokens_{};
  std::uint64_t revision_ = 100;
  std::uint64_t nonces_ = 0;
  std::uint64_t members_ = kWorkers;
  std::array<Worker, kWorkers> workers_{Worker{Member{1}}, Worker{Member{2}}, Worker{Member{3}}};
};

// --- The properties -------------------------------------------------------------------------

rc::Gen<Step> steps(const rc::Gen<Act>& acts) {
  return rc::gen::build<Step>(
      rc::gen::set(&Step::act, acts), rc::gen::set(&Step::worker, rc::gen::inRange(0, kWorkers)),
      rc::gen::set(&Step::pass, rc::gen::element(0, 0, 0, 1, 10, 49, 50, 51, 500, kToTheEnd,
                                                 kToTheEnd, kAlmostToTheEnd)),
      rc::gen::set(&Step::lag, rc::gen::element(0, 0, 0, 1, 60)),
      rc::gen::set(&Step::retry_in, rc::gen::element(0, 0, 1, 70)));
}

Policy any_policy(std::uint32_t attempts) {
  const auto waits =
      rc::gen::map(rc::gen::element(0, 10, 100), [](int ms) { return Duration{ms}; });
  return {.lease = Duration{50},
          .attempts = attempts,
          .backoff = *rc::gen::nonEmpty(rc::gen::container<std::vector<Duration>>(waits))};
}

void live(const Policy& policy, const rc::Gen<Act>& acts, std::size_t most_steps) {
  const auto length = *rc::gen::inRange<std::size_t>(1, most_steps);
  const auto life = *rc::gen::container<std::vector<Step>>(length, steps(acts));
  World world(policy);
  for (const Step& step : life) world.take(step);
}

RC_GTEST_PROP(LifeOfATask, FollowsTheModel, ()) {
  const auto acts = rc::gen::weightedElement<Act>({{12, Act::claim},
                                                   {2, Act::claim_again},
                                                   {1, Act::claim_for_other},
                                                   {4, Act::renew},
                                                   {1, Act::complete},
                                                   {4, Act::fail},
                                                   {1, Act::fail_for_good},
                                                   {2, Act::doubt},
                                                   {2, Act::time_out},
                                                   {2, Act::release},
                                                   {2, Act::interrupt},
                                                   {2, Act::die},
                                                   {2, Act::vanish}});
  for (int lives = 0; lives < 10; ++lives)
    live(any_policy(*rc::gen::element(1U, 2U, 3U, 5U)), acts, 60);
}

// More attempts than a record keeps.
RC_GTEST_PROP(LifeOfATask, FollowsTheModelForVeryLong, ()) {
  const auto acts = rc::gen::weightedElement<Act>({{10, Act::claim},
                                                   {1, Act::renew},
                                                   {4, Act::fail},
                                                   {2, Act::doubt},
                                                   {2, Act::release},
                                                   {2, Act::interrupt},
                                                   {1, Act::die},
                                                   {1, Act::vanish}});
  live(any_policy(1000), acts, 400);
}

}  // namespace
}  // namespace once::core
