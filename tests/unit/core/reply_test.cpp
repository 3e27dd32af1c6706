// Tasks that somebody waits for, and tasks that have something to say about attempts themselves.
#include <gtest/gtest.h>

#include <map>

#include "unit/core/examples.h"
#include "unit/core/table.h"

namespace once::core {
namespace {

using namespace examples;

const ReplyTo kTo{.topic = "$once.flow.payment.step", .id = "payment-1.charge"};

Record awaited(Record record) {
  record.reply = kTo;
  return record;
}
Record owing(Record record) {
  record = awaited(std::move(record));
  record.reply_due = true;
  return record;
}

// What is written, and whether it owes a reply then.
constexpr const char* kTable = R"(
 the ledger holds   | asked               | comes of it              | owes
 nothing            | claim               | claimed -> running       | no
 nothing            | claim, expired      | expired -> cancelled     | yes
 nothing            | cancel              | cancelled -> cancelled   | yes
 nothing            | set aside           | set_aside -> duplicate   | yes
 nothing            | bury                | set_aside -> dead        | yes
 running            | complete            | completed -> completed   | yes
 running            | fail                | retrying -> retrying     | no
 running            | fail for good       | dead -> dead             | yes
 running            | release             | released -> waiting      | no
 running            | cancel              | asked_to_stop -> running | no
 running, held      | doubt               | doubted -> in_doubt      | no
 running, lease over| claim               | claimed -> running       | no
 last, lease over   | claim               | exhausted -> dead        | yes
 retrying           | cancel              | cancelled -> cancelled   | yes
 in_doubt           | resolve             | completed -> completed   | yes
 in_doubt           | drop                | cancelled -> cancelled   | yes
 dead               | drop                | cancelled -> cancelled   | yes
 dead, owes         | claim, ordered      | claimed -> running       | no
 dead, owes         | retry               | released -> waiting      | no
 completed, owes    | replied             | replied -> completed     | no
 dead, owes         | replied dead        | replied -> dead          | no
 dead, owes         | replied             | already_done             | -
 completed, owes    | replied, other claims | already_done           | -
 completed, owes    | claim               | already_completed        | -
 completed          | replied             | already_done             | -
 running            | replied             | already_done             | -
 nothing            | replied             | already_done             | -
)";

const std::map<std::string, std::optional<Stored>>& situations() {
  static const std::map<std::string, std::optional<Stored>> all{
      {"nothing", std::nullopt},
      {"running", stored(awaited(running()))},
      {"running, held", stored(awaited(running()))},
      {"running, lease over", stored(awaited(running()))},
      {"last, lease over", stored(awaited(running(3)))},
      {"retrying", stored(awaited(retrying()))},
      {"in_doubt", stored(awaited(in_doubt()))},
      {"dead", stored(awaited(dead()))},
      {"dead, owes", stored(owing(dead()))},
      {"completed", stored(awaited(completed()))},
      {"completed, owes", stored(owing(completed()))},
  };
  return all;
}

std::map<std::string, Command> commands(const std::optional<ReplyTo>& reply) {
  Claim claiming = claim();
  claiming.reply = reply;
  Claim expired = claiming;
  expired.expires = kStamp;
  Cancel cancelling = cancel();
  cancelling.reply = reply;
  SetAside aside{.sequence = kSequence, .digest = kDigest, .reply = reply};
  SetAside burial = aside;
  burial.state = State::dead;
  return {{"claim", claiming},
          {"claim, expired", expired},
          {"claim, ordered", claim_with(retry_order())},
          {"cancel", cancelling},
          {"set aside", aside},
          {"bury", burial},
          {"complete", complete()},
          {"fail", fail()},
          {"fail for good", fail_for_good()},
          {"release", release()},
          {"doubt", doubt()},
          {"resolve", resolve()},
          {"drop", drop()},
          {"retry", Retry{retry_order()}},
          {"replied", Replied{.claims = 1, .state = State::completed}},
          {"replied dead", Replied{.claims = 1, .state = State::dead}},
          {"replied, other claims", Replied{.claims = 2, .state = State::completed}}};
}

Decision decided(const std::string& holds, const Stored* stored, const Command& command) {
  const bool over = holds.ends_with("lease over");
  return decide(stored, command, policy(holds.ends_with("held") ? InDoubt::hold : InDoubt::retry),
                after(over ? kLease : seconds(5)));
}

TEST(Reply, IsOwedFromWhenATaskIsOverUntilItWasGiven) {
  const auto rows = rows_of(kTable);
  for (std::size_t r = 1; r < rows.size(); ++r) {
    const std::string& holds = rows[r][0];
    SCOPED_TRACE(holds + "; " + rows[r][1]);
    const auto& there = situations().at(holds);
    const Decision made = decided(holds, there ? &*there : nullptr, commands(kTo).at(rows[r][1]));
    EXPECT_EQ(in_words(made), rows[r][2]);
    EXPECT_EQ(!made.next ? "-" : made.next->reply_due ? "yes" : "no", rows[r].at(3));
    if (made.next) {
      EXPECT_EQ(made.next->reply, kTo) << "who waits is not forgotten";
    }
  }
}

TEST(Reply, NobodyWhomNobodyWaitsForOwesOne) {
  for (const auto& [holds, there] : situations())
    for (const auto& [asked, command] : commands(std::nullopt)) {
      Stored plain = there.value_or(Stored{});
      plain.record.reply.reset();
      plain.record.reply_due = false;
      const Decision made = decided(holds, there ? &plain : nullptr, command);
      if (!made.next) continue;
      EXPECT_FALSE(made.next->reply_due) << holds << "; " << asked;
      EXPECT_FALSE(made.next->reply) << holds << "; " << asked;
    }
}

// The reply may be given again and again: only what was told is taken off the record.
TEST(Reply, LeavesTheRestOfTheRecordAsItIs) {
  Record before = owing(completed());
  const Decision made =
      decide_on(stored(before), Replied{1, State::completed}, policy(), after(seconds(5)));
  ASSERT_TRUE(made.next);
  before.reply_due = false;
  EXPECT_EQ(*made.next, before);
}

TEST(Reply, ADuplicateKeepsTheResultThatItsReplyTells) {
  const SetAside aside{.sequence = kSequence,
                       .digest = kDigest,
                       .reason = "same key as #3",
                       .result = Body::bytes("paid"),
                       .reply = kTo};
  const Decision made = decide(nullptr, aside, policy(), after(seconds(5)));
  ASSERT_TRUE(made.next);
  EXPECT_EQ(made.next->result, Body::bytes("paid"));
}

TEST(Reply, WhatOwesOneIsLookedAtAgain) {
  EXPECT_EQ(look_again(awaited(completed())), std::nullopt);
  EXPECT_EQ(look_again(owing(completed())), kReplyAgain);
  EXPECT_EQ(look_again(owing(dead())), kReplyAgain);
}

// --- A task's own policy --------------------------------------------------------------------

Record with_own(Record record, TaskPolicy own) {
  record.own = std::move(own);
  return record;
}

TEST(OwnPolicy, ComesWithTheFirstClaimAndStaysInTheRecord) {
  Claim claiming = claim();
  claiming.own = TaskPolicy{.attempts = 1};
  const Decision made = decide(nullptr, claiming, policy(), after(seconds(0)));
  ASSERT_TRUE(made.next);
  EXPECT_EQ(made.next->own, claiming.own);
  EXPECT_EQ(made.next->lease, kLease) << "the lease is the queue's";

  claiming.nonce = kAna;
  const Decision first = decide(nullptr, claiming, policy(), after(seconds(0)));
  EXPECT_EQ(in_words(decide_on(stored(*first.next), fail(), policy(), after(seconds(5)))),
            "dead -> dead")
      << "one attempt is all that it has";
}

TEST(OwnPolicy, GivesMoreAttemptsThanTheQueue) {
  const Record fourth = with_own(running(4), {.attempts = 5});
  EXPECT_EQ(in_words(decide_on(stored(fourth), fail(), policy(), after(seconds(5)))),
            "retrying -> retrying");
  EXPECT_EQ(in_words(decide_on(stored(running(4)), fail(), policy(), after(seconds(5)))),
            "dead -> dead");
}

TEST(OwnPolicy, HasItsOwnWaits) {
  Fail failing = fail();
  failing.jitter = 0.5;
  const auto wait = [&](TaskPolicy own) {
    return decide_on(stored(with_own(running(), std::move(own))), failing, policy(),
                     after(seconds(5)))
        .next->delay;
  };
  EXPECT_EQ(wait({}), seconds(11)) << "the queue's, and half of a fifth";
  EXPECT_EQ(wait({.backoff = {seconds(2)}}), ms(2200));
  EXPECT_EQ(wait({.backoff = {seconds(2)}, .jitter_permille = 0}), seconds(2));
  EXPECT_EQ(wait({.jitter_permille = 1000}), seconds(15));
}

TEST(OwnPolicy, HasItsOwnTimeout) {
  Renew renewing = renew();
  renewing.spent = seconds(61);
  const auto verdict = [&](TaskPolicy own, Duration queue) {
    Policy rules = policy();
    rules.timeout = queue;
    return decide_on(stored(with_own(running(), std::move(own))), renewing, rules,
                     after(seconds(5)))
        .verdict;
  };
  EXPECT_EQ(verdict({.timeout = seconds(60)}, {}), Verdict::overdue);
  EXPECT_EQ(verdict({.timeout = seconds(90)}, seconds(30)), Verdict::renewed);
  EXPECT_EQ(verdict({}, seconds(30)), Verdict::overdue) << "none of its own: the queue's";
}

TEST(OwnPolicy, MaySayWhatBecomesOfDoubt) {
  const auto answer = [&](TaskPolicy own, InDoubt queue) {
    return in_words(decide_on(stored(with_own(running(), std::move(own))), doubt(), policy(queue),
                              after(seconds(5))));
  };
  EXPECT_EQ(answer({.in_doubt = InDoubt::hold}, InDoubt::retry), "doubted -> in_doubt");
  EXPECT_EQ(answer({.in_doubt = InDoubt::retry}, InDoubt::hold), "retrying -> retrying");
  EXPECT_EQ(answer({}, InDoubt::hold), "doubted -> in_doubt");
}

}  // namespace
}  // namespace once::core
