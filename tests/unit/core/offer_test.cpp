// The table of offers at the top of src/core/decide.cpp, cell by cell, and what an offer leaves
// behind: nothing.
#include <gtest/gtest.h>

#include <map>

#include "unit/core/examples.h"
#include "unit/core/table.h"

namespace once::core {
namespace {

using namespace examples;

constexpr const char* kTable = R"(
 the ledger holds      | offer to ben         | offer again   | claim by ben        | start              | renew               | release              | withdraw             | complete    | fail        | doubt       | probed      | step        | cancel
 nothing               | offered -> running   | offered -> running | claimed -> running | fenced             | fenced              | fenced               | fenced               | fenced      | fenced      | fenced      | fenced      | fenced      | cancelled -> cancelled
 offered               | held                 | already_done  | held                | started -> running | renewed -> running  | released -> waiting  | released -> waiting  | not_started | not_started | not_started | not_started | not_started | cancelled -> cancelled
 offered, lease over   | offered -> running   | already_done  | claimed -> running  | started -> running | renewed -> running  | released -> waiting  | released -> waiting  | not_started | not_started | not_started | not_started | not_started | cancelled -> cancelled
 offered, holder gone  | offered -> running   | already_done  | claimed -> running  | started -> running | renewed -> running  | released -> waiting  | released -> waiting  | not_started | not_started | not_started | not_started | not_started | cancelled -> cancelled
 offered for a retry   | held                 | already_done  | held                | started -> running | renewed -> running  | released -> retrying | released -> retrying | not_started | not_started | not_started | not_started | not_started | cancelled -> cancelled
 offered, 19 lapses    | lapsed -> retrying   | already_done  | lapsed -> retrying  | started -> running | renewed -> running  | released -> waiting  | released -> waiting  | not_started | not_started | not_started | not_started | not_started | cancelled -> cancelled
 offered, none left    | held                 | already_done  | held                | exhausted -> dead  | renewed -> running  | released -> retrying | released -> retrying | not_started | not_started | not_started | not_started | not_started | cancelled -> cancelled
 started               | held                 | already_done  | held                | already_done       | renewed -> running  | released -> waiting  | fenced               | completed -> completed | retrying -> retrying | retrying -> retrying | already_done | step_begun -> running | asked_to_stop -> running
 completed             | already_completed    | already_completed | already_completed | fenced           | fenced              | fenced               | fenced               | already_done | fenced     | fenced      | fenced      | fenced      | wrong_state
)";

Claim offer(const Nonce& by = kBen) {
  Claim made = claim(by);
  made.kind = Claim::Kind::offer;
  return made;
}

// Ana has an offer of a task that has no attempt yet.
Record offered(std::uint32_t lapsed = 0) {
  return {.sequence = kSequence,
          .digest = kDigest,
          .state = State::running,
          .nonce = kAna,
          .lease = seconds(10),
          .since = kThen,
          .offer = Offer{.worker = "ana", .at = kThen},
          .lapsed = lapsed};
}

// Ana has an offer of a task that failed before.
Record offered_for_retry(std::uint32_t count = 1) {
  Record record = ended(Ending::failed, State::running, count);
  record.lease = seconds(10);
  record.offer = Offer{.worker = "ana", .at = kThen, .before = State::retrying};
  return record;
}

Record started() {
  Record record = running();
  record.started = kStamp;
  record.attempts.back().nonce = kAna;
  return record;
}

struct Situation {
  std::optional<Stored> stored;
  Now now;
};

const std::map<std::string, Situation>& situations() {
  static const Now in_lease = after(seconds(5));
  static const Now lease_over = after(seconds(10));
  static const std::map<std::string, Situation> all{
      {"nothing", {std::nullopt, in_lease}},
      {"offered", {stored(offered()), in_lease}},
      {"offered, lease over", {stored(offered()), lease_over}},
      {"offered, holder gone", {holder_gone(offered()), in_lease}},
      {"offered for a retry", {stored(offered_for_retry()), in_lease}},
      {"offered, 19 lapses", {stored(offered(kLapsesInARow - 1)), lease_over}},
      {"offered, none left", {stored(offered_for_retry(3)), in_lease}},
      {"started", {stored(started()), in_lease}},
      {"completed", {stored(completed()), in_lease}},
  };
  return all;
}

std::map<std::string, Command> commands_by(const Nonce& who) {
  return {{"offer to ben", offer()},
          {"offer again", offer(who)},
          {"claim by ben", claim()},
          {"start", Start{.nonce = who}},
          {"renew", renew(who)},
          {"release", release(who)},
          {"withdraw", Release{.nonce = who, .if_offered = true}},
          {"complete", complete(who)},
          {"fail", fail(who)},
          {"doubt", doubt(who)},
          {"probed", it_did_not_happen(who)},
          {"step", StepBegin{.nonce = who, .name = "s"}},
          {"cancel", cancel()}};
}

Decision ask(const Situation& situation, const Command& command, const Policy& rules = policy()) {
  return decide(situation.stored ? &*situation.stored : nullptr, command, rules, situation.now);
}

TEST(OfferTable, EveryCellAnswersAsWritten) {
  const auto rows = rows_of(kTable);
  const auto commands = commands_by(kAna);
  for (std::size_t r = 1; r < rows.size(); ++r)
    for (std::size_t c = 1; c < rows[0].size(); ++c)
      EXPECT_EQ(in_words(ask(situations().at(rows[r][0]), commands.at(rows[0][c]))), rows[r].at(c))
          << "the ledger holds: " << rows[r][0] << "; asked: " << rows[0][c];
}

TEST(OfferTable, HasARowForEverySituationAndAColumnForEveryCommand) {
  const auto rows = rows_of(kTable);
  EXPECT_EQ(rows.size() - 1, situations().size());
  EXPECT_EQ(rows[0].size() - 1, commands_by(kAna).size());
}

TEST(OfferTable, AHoldersCommandThatIsNotMineIsFenced) {
  for (const auto& [holds, situation] : situations())
    for (const auto& [asked, command] : commands_by(kBen)) {
      if (asked.starts_with("offer") || asked.starts_with("claim") || asked == "cancel") continue;
      EXPECT_EQ(in_words(ask(situation, command)), "fenced") << holds << "; " << asked;
    }
}

// What an offer may change: the claim's own fields, and the count of lapses.
Record without_offer(Record record) {
  record.nonce = {};
  record.member = {};
  record.lease = {};
  record.delay = {};
  record.since = {};
  record.lapsed = 0;
  return record;
}

TEST(Offer, ThatEndsWithoutAStartLeavesTheRecordAsItWas) {
  for (Record before : {waiting(), retrying(), with(retrying(), {begun("s", 1)})}) {
    before.reason.clear();
    const Stored holds = stored(before);
    const Now due = after(seconds(10));
    const Decision made = decide_on(holds, offer(), policy(), due);
    ASSERT_EQ(in_words(made), "offered -> running");
    EXPECT_EQ(made.next->claims, before.claims);
    EXPECT_EQ(made.next->counted, before.counted);
    EXPECT_EQ(made.next->attempts, before.attempts);
    const Stored taken = stored(*made.next);
    const Decision back = decide_on(taken, release(kBen), policy(), due);
    EXPECT_EQ(without_offer(*back.next), without_offer(before));
    // The same by its lease: the next offer stands on the record before the first.
    const Decision next = decide_on(taken, offer(kAna), policy(), after(seconds(10)));
    ASSERT_EQ(in_words(next), "offered -> running");
    EXPECT_EQ(next.next->attempts, before.attempts);
    EXPECT_EQ(next.next->in_doubt, before.in_doubt);
    EXPECT_EQ(next.next->lapsed, 1U);
  }
}

TEST(Offer, OfALostAttemptRecordsTheLoss) {
  const Decision made = decide_on(holder_gone(running()), offer(), policy(), after(seconds(1)));
  ASSERT_EQ(in_words(made), "offered -> running");
  EXPECT_EQ(made.next->attempts.size(), 1U);
  EXPECT_EQ(made.next->attempts[0].ending, Ending::lost);
  EXPECT_TRUE(made.next->in_doubt);
  EXPECT_EQ(made.next->offer->before, State::retrying);
  const Decision held =
      decide_on(holder_gone(running()), offer(), policy(InDoubt::hold), after({}));
  EXPECT_EQ(in_words(held), "doubted -> in_doubt") << "the policy decides before any offer";
}

TEST(Offer, LastsTenSecondsAtMostAndTheQueuesLeaseAtMost) {
  Policy rules = policy();
  EXPECT_EQ(ask({std::nullopt, after({})}, offer(), rules).next->lease, kOfferLease);
  rules.lease = seconds(3);
  EXPECT_EQ(ask({std::nullopt, after({})}, offer(), rules).next->lease, seconds(3));
  const Decision renewed = decide_on(stored(offered()), renew(), policy(), after(seconds(5)));
  EXPECT_EQ(renewed.next->lease, kOfferLease);
  EXPECT_TRUE(renewed.next->offer) << "a renewal does not start it";
}

TEST(Offer, StartCountsTheAttemptAndKeepsItsTimeAndNonce) {
  const Decision made =
      decide_on(stored(offered(5)), Start{.nonce = kAna}, policy(), after(seconds(5)));
  ASSERT_EQ(in_words(made), "started -> running");
  const Record& record = *made.next;
  EXPECT_FALSE(record.offer);
  EXPECT_EQ(record.claims, 1U);
  EXPECT_EQ(record.counted, 1U);
  EXPECT_EQ(record.lapsed, 0U);
  EXPECT_EQ(record.lease, kLease);
  EXPECT_EQ(record.started, kStamp + seconds(5));
  ASSERT_EQ(record.attempts.size(), 1U);
  EXPECT_EQ(record.attempts[0].worker, "ana");
  EXPECT_EQ(record.attempts[0].nonce, kAna);
  EXPECT_EQ(token_of(record, Revision{77}), Token{77});
}

TEST(Offer, AnExpiredTaskDoesNotStart) {
  const Start late{.nonce = kAna, .expires = kStamp + seconds(1)};
  EXPECT_EQ(in_words(decide_on(stored(offered()), late, policy(), after(seconds(5)))),
            "expired -> cancelled");
}

TEST(Offer, StartAsksTheProbeIfAnEarlierAttemptIsInDoubt) {
  Record record = offered_for_retry();
  record.attempts.back().ending = Ending::lost;
  record.in_doubt = true;
  record.probe = true;
  const Start start{.nonce = kAna};
  EXPECT_EQ(in_words(decide_on(stored(record), start, policy(InDoubt::probe), after({}))),
            "doubted -> in_doubt")
      << "its worker has no probe";
  record.offer->can_probe = true;
  const Decision made = decide_on(stored(record), start, policy(InDoubt::probe), after({}));
  ASSERT_EQ(in_words(made), "started -> running");
  EXPECT_TRUE(made.next->attempts.back().probing);
}

TEST(Offer, BacksOffAfterTwentyLapses) {
  const Decision made =
      decide_on(stored(offered(kLapsesInARow - 1)), offer(), policy(), after(seconds(10)));
  ASSERT_EQ(made.verdict, Verdict::lapsed);
  EXPECT_EQ(made.next->lapsed, kLapsesInARow);
  EXPECT_EQ(made.next->delay, seconds(10));
  EXPECT_EQ(made.until, kStamp + seconds(20));
  EXPECT_TRUE(made.next->attempts.empty()) << "no attempt is used up";
}

TEST(Offer, ARenewalOfAStartedClaimKnowsHowLongItRan) {
  Policy rules = policy();
  rules.timeout = seconds(60);
  Record record = started();
  const Decision renewed = decide_on(stored(record), renew(), rules, after(seconds(50)));
  EXPECT_EQ(renewed.next->lease, seconds(10)) << "what is left of the timeout";
  EXPECT_EQ(renewed.next->started, kStamp);
  EXPECT_EQ(decide_on(stored(record), renew(), rules, after(seconds(60))).verdict,
            Verdict::overdue);
}

TEST(Offer, ARepeatedVerdictIsKnownAfterLaterAttempts) {
  Record record = started();
  record = *decide_on(stored(record), fail(), policy(), after(seconds(1))).next;
  EXPECT_EQ(record.attempts[0].nonce, kAna);
  record = *decide_on(stored(record), claim(), policy(), after(seconds(30))).next;
  EXPECT_EQ(decide_on(stored(record), fail(), policy(), after(seconds(31))).verdict,
            Verdict::already_done);
  EXPECT_EQ(decide_on(stored(record), complete(), policy(), after(seconds(31))).verdict,
            Verdict::fenced)
      << "it said something else";
}

TEST(Offer, AnOrderIsAppliedByTheOfferAndStaysApplied) {
  Claim wanted = offer(kAna);
  wanted.order = Order{.nonce = kEve, .claims = 1, .by = "eve"};
  const Decision made = decide_on(stored(dead()), wanted, policy(), after({}));
  ASSERT_EQ(in_words(made), "offered -> running");
  EXPECT_EQ(made.next->story.size(), 1U);
  const Decision next = decide_on(stored(*made.next), offer(), policy(), after(seconds(10)));
  EXPECT_EQ(in_words(next), "offered -> running");
  EXPECT_EQ(next.next->story.size(), 1U);
  EXPECT_EQ(next.next->counted, 0U);
}

TEST(Step, AnotherCallOfAStepUnderWayIsRefused) {
  StepBegin begin{.nonce = kAna, .name = "s", .call = "first"};
  const Record record = *decide_on(stored(started()), begin, policy(), after({})).next;
  EXPECT_EQ(decide_on(stored(record), begin, policy(), after({})).verdict, Verdict::already_done);
  begin.call = "second";
  EXPECT_EQ(decide_on(stored(record), begin, policy(), after({})).verdict, Verdict::step_under_way);
  begin.call.clear();
  EXPECT_EQ(decide_on(stored(record), begin, policy(), after({})).verdict, Verdict::step_under_way);
}

}  // namespace
}  // namespace once::core
