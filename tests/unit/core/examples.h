// The cast of the core's tests: one queue, one task, two workers and a person. Ana made the last
// claim; her commands are "mine". Ben is everybody else. Eve looks after the tasks. Every record is
// written out by hand, so that no rule under test makes its own examples.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>

#include "core/decide.h"

namespace once {

inline void PrintTo(State state, std::ostream* out) { *out << to_string(state); }
inline void PrintTo(AttemptOutcome outcome, std::ostream* out) { *out << to_string(outcome); }
inline void PrintTo(ActionView::Kind kind, std::ostream* out) { *out << to_string(kind); }

}  // namespace once

namespace once::core {

inline void PrintTo(Verdict verdict, std::ostream* out) { *out << to_string(verdict); }
inline void PrintTo(StoreTime time, std::ostream* out) {
  *out << time.time_since_epoch().count() << "ms";
}

template <class Tag>
void PrintTo(const Number<Tag>& number, std::ostream* out) {
  *out << '#' << number.value;
}

}  // namespace once::core

namespace once::core::examples {

constexpr Duration ms(std::int64_t count) { return Duration{count}; }
constexpr Duration seconds(std::int64_t count) { return std::chrono::seconds{count}; }

inline Nonce nonce(std::uint8_t fill) {
  Nonce made;
  made.bytes.fill(fill);
  return made;
}
inline Digest digest(std::uint8_t fill) {
  Digest made;
  made.bytes.fill(fill);
  return made;
}

inline const Nonce kAna = nonce(0xAA);
inline const Nonce kBen = nonce(0xBB);
inline const Nonce kEve = nonce(0xEE);
inline constexpr Member kAnaMember{1};
inline constexpr Member kBenMember{2};

inline constexpr Sequence kSequence{7};
inline const Digest kDigest = digest(0x11);
inline const Digest kOtherDigest = digest(0x22);

inline constexpr Revision kRevision{50};                      // of the record that was read
inline constexpr StoreTime kStamp{Duration{1'000'000}};       // when it was written
inline constexpr Time kThen{Duration{1'700'000'000'000}};     // the wall clock when it was written
inline constexpr Time kWallNow{Duration{1'700'000'005'000}};  // the wall clock of the command
inline constexpr Duration kLease{30'000};

inline constexpr Now after(Duration since_stamp) { return {kStamp + since_stamp, kWallNow}; }

// Three attempts, ten seconds after the first and a minute after any later one.
inline Policy policy() {
  return {.lease = kLease, .attempts = 3, .backoff = {seconds(10), seconds(60)}};
}

inline Policy policy(InDoubt in_doubt) {
  Policy made = policy();
  made.in_doubt = in_doubt;
  return made;
}

inline Stored stored(Record record) {
  return {.record = std::move(record), .revision = kRevision, .stamp = kStamp};
}
inline Stored holder_gone(Record record) {
  Stored made = stored(std::move(record));
  made.holder_gone = true;
  return made;
}

inline Decision decide_on(const Stored& holds, const Command& command, const Policy& rules,
                          Now now) {
  return decide(&holds, command, rules, now);
}

// --- What the ledger may hold ---------------------------------------------------------------

// Ana runs her `count`-th attempt; those before it failed.
inline Record running(std::uint32_t count = 1) {
  Record record{.sequence = kSequence, .digest = kDigest, .state = State::running};
  record.claims = record.counted = count;
  record.nonce = kAna;
  record.member = kAnaMember;
  record.lease = kLease;
  record.since = kThen;
  for (std::uint32_t number = 1; number <= count; ++number)
    record.attempts.push_back({.number = number,
                               .worker = "ana",
                               .token = Token{10 + number},
                               .started_at = kThen,
                               .ended_at = kThen,
                               .ending = Ending::failed,
                               .error = "no paper"});
  record.attempts.back() = {.number = count, .worker = "ana", .started_at = kThen};
  return record;
}

// Ana's attempt has ended so, and this is the state it left.
inline Record ended(Ending ending, State state, std::uint32_t count = 1) {
  Record record = running(count);
  record.attempts.back().token = Token{10 + count};
  record.attempts.back().ended_at = kThen;
  record.attempts.back().ending = ending;
  record.in_doubt = without_verdict(ending);
  record.state = state;
  return record;
}

inline Record waiting() {
  Record record = ended(Ending::released, State::waiting);
  record.counted = 0;
  return record;
}
inline Record retrying() {
  Record record = ended(Ending::failed, State::retrying);
  record.delay = seconds(10);
  return record;
}
inline Record completed() { return ended(Ending::completed, State::completed); }
inline Record dead() { return ended(Ending::dead, State::dead); }
inline Record in_doubt() { return ended(Ending::unknown, State::in_doubt); }
inline Record cancelled() { return ended(Ending::released, State::cancelled); }
inline Record duplicate() {
  return {.sequence = kSequence, .digest = kDigest, .state = State::duplicate};
}

// A step that Ana's `attempt` began and did not end.
inline Step begun(std::string name, std::uint32_t attempt, InDoubt policy = InDoubt::retry) {
  return {.name = std::move(name),
          .policy = policy,
          .attempt = attempt,
          .runs = 1,
          .started_at = kThen};
}
inline Step done(std::string name, std::uint32_t attempt = 1) {
  Step step = begun(std::move(name), attempt);
  step.state = Step::State::done;
  step.ended_at = kThen;
  step.result = Body::bytes("remembered");
  return step;
}
inline Step again(std::string name) {
  Step step = begun(std::move(name), 1);
  step.state = Step::State::again;
  return step;
}
inline Record with(Record record, std::vector<Step> steps) {
  record.steps = std::move(steps);
  return record;
}
inline Record cancel_asked(Record record) {
  record.cancel_asked = true;
  record.story.push_back({.act = OperatorAction::Act::cancel_asked,
                          .at = kThen,
                          .by = "eve",
                          .why = "not today",
                          .nonce = nonce(0xE0)});
  record.actions = 1;
  return record;
}

// Ana's attempt asks the probe, because the one before it was lost.
inline Record probing(std::uint32_t count = 2) {
  Record record = running(count);
  record.in_doubt = true;
  record.probe = true;
  record.attempts.back().probing = true;
  if (count > 1) record.attempts[count - 2].ending = Ending::lost;
  return record;
}

// --- What may be asked ----------------------------------------------------------------------

inline Claim claim(const Nonce& by = kBen) {
  return {.sequence = kSequence,
          .digest = kDigest,
          .worker = by == kAna ? "ana" : "ben",
          .member = by == kAna ? kAnaMember : kBenMember,
          .nonce = by};
}
inline Renew renew(const Nonce& by = kAna) { return {.nonce = by}; }
inline Complete complete(const Nonce& by = kAna) { return {.nonce = by}; }
inline Fail fail(const Nonce& by = kAna) { return {.nonce = by, .error = "no ink"}; }
inline Fail fail_for_good(const Nonce& by = kAna) {
  return {.nonce = by, .error = "no such printer", .final = true};
}
inline Doubt doubt(const Nonce& by = kAna) { return {.nonce = by, .error = "killed"}; }
inline Release release(const Nonce& by = kAna) { return {.nonce = by}; }
inline Release interrupt(const Nonce& by = kAna) { return {.nonce = by, .started = true}; }

inline Claim claim_that_can_probe(const Nonce& by = kBen) {
  Claim made = claim(by);
  made.can_probe = true;
  return made;
}
inline Probed it_did_not_happen(const Nonce& by = kAna) {
  return {.nonce = by, .known = true, .by = "ana", .why = "no such post"};
}
inline Probed nobody_knows(const Nonce& by = kAna) {
  return {.nonce = by, .by = "ana", .why = "the site is down"};
}
inline Complete it_happened(const Nonce& by = kAna) {
  return {.nonce = by, .result = Body::bytes("post 7"), .probed_by = "ana"};
}

inline Resolve resolve() {
  return {.nonce = kEve, .result = Body::bytes("sent"), .by = "eve", .why = "I saw it"};
}
inline Drop drop() { return {.nonce = kEve, .by = "eve", .why = "not worth it"}; }
inline Cancel cancel() {
  return {.sequence = kSequence, .digest = kDigest, .nonce = kEve, .by = "eve", .why = "not today"};
}
// About the end of Ana's first attempt, unless another is named.
inline Order retry_order(std::uint32_t claims = 1) {
  return {.nonce = kEve, .claims = claims, .at = kThen, .by = "eve", .why = "paper is there"};
}
// Of a task that is to run again by an order that waits.
inline Cancel cancel_ordered() {
  Cancel made = cancel();
  made.order = retry_order();
  made.order->nonce = nonce(0xE2);
  return made;
}
inline Order complete_step_order(std::string step, std::uint32_t claims = 1) {
  Order order = retry_order(claims);
  order.kind = Order::Kind::complete_step;
  order.step = std::move(step);
  order.result = Body::bytes("eve's word");
  return order;
}
inline Claim claim_with(Order order) {
  Claim made = claim();
  made.order = std::move(order);
  return made;
}

}  // namespace once::core::examples
