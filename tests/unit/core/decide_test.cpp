// What a decision changes, beyond the state: the lease, the count of attempts, the doubt, the token,
// the story of attempts, the time of the next one. Rows read: given this, that is written.
#include "core/decide.h"

#include <gtest/gtest.h>

#include "unit/core/examples.h"

namespace once::core {
namespace {

using namespace examples;

Decision ask(const Stored& holds, const Command& command, Now now = after(seconds(5)),
             const Policy& rules = policy()) {
  return decide(&holds, command, rules, now);
}

// What was decided must be written; without it the rest of the test has nothing to look at.
Record written(const Decision& made) {
  EXPECT_TRUE(made.next) << "nothing was written: " << to_string(made.verdict);
  return made.next.value_or(Record{});
}

// --- Claim ----------------------------------------------------------------------------------

TEST(Claim, TheFirstOneMakesTheRecord) {
  const Decision made = decide(nullptr, claim(), policy(), after(seconds(5)));
  EXPECT_EQ(made.verdict, Verdict::claimed);
  EXPECT_EQ(made.until, kStamp + seconds(5) + kLease);
  const Record expected{
      .sequence = kSequence,
      .digest = kDigest,
      .state = State::running,
      .claims = 1,
      .counted = 1,
      .nonce = kBen,
      .member = kBenMember,
      .lease = kLease,
      .attempts = {{.number = 1, .worker = "ben", .started_at = kWallNow}},
      .since = kWallNow,
  };
  EXPECT_EQ(written(made), expected);
}

TEST(Claim, ALaterOneIsOneMoreAttemptAndKeepsTheStory) {
  Stored holds = stored(retrying());
  holds.record.error = "no ink";
  const Record next = written(ask(holds, claim(), after(seconds(10))));
  EXPECT_EQ(next.claims, 2U);
  EXPECT_EQ(next.counted, 2U);
  EXPECT_EQ(next.nonce, kBen);
  EXPECT_EQ(next.member, kBenMember);
  EXPECT_EQ(next.since, kWallNow);
  EXPECT_EQ(next.error, "no ink");
  EXPECT_FALSE(next.in_doubt);
  ASSERT_EQ(next.attempts.size(), 2U);
  EXPECT_EQ(next.attempts[0], holds.record.attempts[0]);
  EXPECT_EQ(next.attempts[1], (Attempt{.number = 2, .worker = "ben", .started_at = kWallNow}));
}

// Nobody here writes one; a bucket that others can write to may hold it.
TEST(Claim, OfARecordThatTellsOfNoAttemptGoesOn) {
  Stored holds = stored(running());
  holds.record.attempts.clear();
  const Record next = written(ask(holds, claim(), after(seconds(3600))));
  EXPECT_EQ(next.state, State::running);
  EXPECT_TRUE(next.in_doubt);
  EXPECT_EQ(next.attempts.back().worker, "ben");
}

TEST(Claim, TakesTheLeaseOfTheQueueAsItIsNow) {
  Policy rules = policy();
  rules.lease = seconds(90);
  const Decision made = ask(stored(waiting()), claim(), after(seconds(5)), rules);
  EXPECT_EQ(written(made).lease, seconds(90));
  EXPECT_EQ(made.until, kStamp + seconds(95));
}

// P5. A lease ends at stamp + duration; at that very moment it is over.
TEST(Claim, WaitsForTheLeaseOfAnotherUnlessThatWorkerIsGone) {
  struct Row {
    const char* what;
    Stored holds;
    Duration since_stamp;
    Verdict verdict;
    const char* lost_because;
  };
  const Row rows[] = {
      {"just claimed", stored(running()), ms(0), Verdict::held, ""},
      {"one ms before the end", stored(running()), kLease - ms(1), Verdict::held, ""},
      {"at the end", stored(running()), kLease, Verdict::claimed, "the lease ended without a word"},
      {"long after", stored(running()), kLease * 9, Verdict::claimed,
       "the lease ended without a word"},
      {"gone, lease runs", holder_gone(running()), ms(0), Verdict::claimed, "the worker died"},
      {"gone, lease over", holder_gone(running()), kLease, Verdict::claimed, "the worker died"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Decision made = ask(row.holds, claim(), after(row.since_stamp));
    EXPECT_EQ(made.verdict, row.verdict);
    if (row.verdict == Verdict::held) {
      EXPECT_EQ(made.until, kStamp + kLease);
      continue;
    }
    const Record next = written(made);
    EXPECT_EQ(next.nonce, kBen);
    EXPECT_TRUE(next.in_doubt);
    EXPECT_EQ(next.claims, 2U);
    EXPECT_EQ(next.counted, 2U);
    EXPECT_EQ(next.error, row.lost_because);
    ASSERT_EQ(next.attempts.size(), 2U);
    EXPECT_EQ(next.attempts[0].ending, Ending::lost);
    EXPECT_EQ(next.attempts[0].ended_at, kWallNow);
    EXPECT_EQ(next.attempts[0].error, row.lost_because);
    EXPECT_EQ(next.attempts[1].ending, Ending::running);
  }
}

TEST(Claim, GoesByTheLeaseInTheRecordNotByTheQueues) {
  Stored holds = stored(running());
  holds.record.lease = seconds(5);
  EXPECT_EQ(ask(holds, claim(), after(seconds(5) - ms(1))).verdict, Verdict::held);
  EXPECT_EQ(ask(holds, claim(), after(seconds(5))).verdict, Verdict::claimed);
}

TEST(Claim, WaitsUntilARetryIsDue) {
  const Decision early = ask(stored(retrying()), claim(), after(seconds(10) - ms(1)));
  EXPECT_EQ(early.verdict, Verdict::not_due);
  EXPECT_EQ(early.until, kStamp + seconds(10));
  EXPECT_EQ(ask(stored(retrying()), claim(), after(seconds(10))).verdict, Verdict::claimed);
}

// A task that kills every worker that touches it is counted out by its claims.
TEST(Claim, OfALastAttemptThatWasLostIsExhausted) {
  const Decision made = ask(holder_gone(running(3)), claim());
  EXPECT_EQ(made.verdict, Verdict::exhausted);
  Record expected = running(3);
  expected.state = State::dead;
  expected.in_doubt = true;
  expected.error = "the worker died";
  expected.reason = "the last attempt ended without a verdict";
  expected.since = kWallNow;
  expected.attempts[2].token = Token{kRevision.value};
  expected.attempts[2].ending = Ending::lost;
  expected.attempts[2].ended_at = kWallNow;
  expected.attempts[2].error = "the worker died";
  EXPECT_EQ(written(made), expected);
}

TEST(Claim, KeepsTheLastAttemptsAndStillCountsAll) {
  Policy rules = policy();
  rules.attempts = 1000;
  constexpr auto kept = static_cast<std::uint32_t>(kAttemptsKept);
  const Record full = written(ask(stored(running(kept - 1)), claim(), after(kLease), rules));
  EXPECT_EQ(full.claims, kept);
  ASSERT_EQ(full.attempts.size(), kAttemptsKept);
  EXPECT_EQ(full.attempts.front().number, 1U);

  const Record more = written(ask(stored(full), claim(kAna), after(kLease), rules));
  EXPECT_EQ(more.claims, kept + 1);
  EXPECT_EQ(more.counted, kept + 1);
  ASSERT_EQ(more.attempts.size(), kAttemptsKept);
  EXPECT_EQ(more.attempts.front().number, 2U);
  EXPECT_EQ(more.attempts.back().number, kept + 1);
  EXPECT_EQ(more.attempts[kAttemptsKept - 2].ending, Ending::lost);
}

// --- Renew ----------------------------------------------------------------------------------

TEST(Renew, StartsTheLeaseAnewAndNothingElse) {
  Renew still = renew();
  still.spent = seconds(12);
  const Decision made = ask(stored(running()), still);
  EXPECT_EQ(made.until, kStamp + seconds(5) + kLease);
  Record expected = running();
  expected.attempts[0].token = Token{kRevision.value};
  EXPECT_EQ(written(made), expected);
}

// Past the timeout the lease runs only as long as ending the handler may take.
TEST(Renew, NeverGoesBeyondTheTimeout) {
  struct Row {
    const char* what;
    Duration timeout, grace, spent;
    Verdict verdict;
    Duration lease;
  };
  const Row rows[] = {
      {"no timeout", ms(0), seconds(10), seconds(9999), Verdict::renewed, kLease},
      {"far from it", seconds(300), seconds(10), seconds(20), Verdict::renewed, kLease},
      {"a whole lease left", seconds(300), seconds(0), seconds(270), Verdict::renewed, kLease},
      {"less than a lease left", seconds(300), seconds(0), seconds(290), Verdict::renewed,
       seconds(10)},
      {"the grace counts", seconds(300), seconds(10), seconds(290), Verdict::renewed, seconds(20)},
      {"past it, in the grace", seconds(300), seconds(10), seconds(305), Verdict::renewed,
       seconds(5)},
      {"a moment of grace left", seconds(300), seconds(10), seconds(310) - ms(1), Verdict::renewed,
       ms(1)},
      {"at the end of the grace", seconds(300), seconds(10), seconds(310), Verdict::overdue, ms(0)},
      {"long past", seconds(300), seconds(10), seconds(900), Verdict::overdue, ms(0)},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Policy rules = policy();
    rules.timeout = row.timeout;
    const Decision made =
        ask(stored(running()), Renew{.nonce = kAna, .spent = row.spent, .grace = row.grace},
            after(seconds(5)), rules);
    EXPECT_EQ(made.verdict, row.verdict);
    if (row.verdict == Verdict::overdue) {
      EXPECT_FALSE(made.next);
      continue;
    }
    EXPECT_EQ(written(made).lease, row.lease);
    EXPECT_EQ(made.until, kStamp + seconds(5) + row.lease);
  }
}

// --- Complete -------------------------------------------------------------------------------

TEST(Complete, RecordsTheResultAndEndsTheStory) {
  Stored holds = stored(running(2));
  holds.record.error = "no paper";
  const Decision made = ask(holds, Complete{.nonce = kAna, .result = Body::bytes("page 1")});
  EXPECT_EQ(made.verdict, Verdict::completed);
  Record expected = running(2);
  expected.state = State::completed;
  expected.since = kWallNow;
  expected.result = Body::bytes("page 1");
  expected.attempts[1].token = Token{kRevision.value};
  expected.attempts[1].ending = Ending::completed;
  expected.attempts[1].ended_at = kWallNow;
  EXPECT_EQ(written(made), expected);
}

Policy with_limit(std::uint64_t limit) {
  Policy rules = policy();
  rules.max_result = limit;
  return rules;
}

TEST(Complete, OfAResultAboveTheLimitIsDeadAndSaysWhyAndKeepsNoPartOfIt) {
  const std::string why =
      "it completed, but its result of 6 bytes is above the queue's max_result of 5 and was not "
      "kept";
  const Complete commands[] = {{.nonce = kAna, .result = Body::bytes("page 1")},
                               {.nonce = kAna, .oversize = 6}};
  for (const Complete& complete : commands) {
    const Stored holds = stored(running());
    const Decision made = decide_on(holds, complete, with_limit(5), after(seconds(5)));
    EXPECT_EQ(made.verdict, Verdict::dead);
    const Record next = written(made);
    EXPECT_EQ(next.state, State::dead);
    EXPECT_EQ(next.reason, "its result is too large");
    EXPECT_EQ(next.error, why);
    EXPECT_EQ(next.attempts.back().ending, Ending::dead);
    EXPECT_FALSE(next.in_doubt);
    EXPECT_EQ(next.result, std::nullopt);
    EXPECT_EQ(decide_on(stored(next), complete, with_limit(5), after(seconds(5))).verdict,
              Verdict::already_done)
        << "a repeated write finds itself";
  }
  const Complete whole{.nonce = kAna, .result = Body::bytes("page 1")};
  EXPECT_EQ(decide_on(stored(running()), whole, with_limit(6), after(seconds(5))).verdict,
            Verdict::completed);
}

TEST(Complete, KeepsTheDoubtOfEarlierAttempts) {
  Stored holds = stored(running(2));
  holds.record.in_doubt = true;
  EXPECT_TRUE(written(ask(holds, complete())).in_doubt);
}

TEST(Complete, IsAllowedAfterTheLeaseWhileNobodyHasReclaimed) {
  EXPECT_EQ(ask(stored(running()), complete(), after(kLease * 100)).verdict, Verdict::completed);
  const Stored reclaimed = stored(written(ask(stored(running()), claim(), after(kLease))));
  EXPECT_EQ(ask(reclaimed, complete(), after(kLease)).verdict, Verdict::fenced);
}

// --- Fail and doubt -------------------------------------------------------------------------

TEST(Fail, WaitsForTheBackoffAndCountsTheAttempt) {
  struct Row {
    const char* what;
    std::uint32_t attempt;
    std::optional<Duration> retry_in;
    double jitter;
    Duration delay;
  };
  const Row rows[] = {
      {"after the first", 1, {}, 0.0, seconds(10)},
      {"after the second", 2, {}, 0.0, seconds(60)},
      {"the last value repeats", 3, {}, 0.0, seconds(60)},
      {"and repeats", 4, {}, 0.0, seconds(60)},
      {"jitter adds", 1, {}, 0.5, seconds(11)},
      {"at most a fifth", 1, {}, 0.999, ms(11'998)},
      {"the handler says when", 1, seconds(3), 0.5, seconds(3)},
      {"at once", 2, ms(0), 0.5, ms(0)},
  };
  Policy rules = policy();
  rules.attempts = 5;
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Fail failed = fail();
    failed.retry_in = row.retry_in;
    failed.jitter = row.jitter;
    const Decision made = ask(stored(running(row.attempt)), failed, after(seconds(5)), rules);
    EXPECT_EQ(made.verdict, Verdict::retrying);
    EXPECT_EQ(made.until, kStamp + seconds(5) + row.delay);
    const Record next = written(made);
    EXPECT_EQ(next.delay, row.delay);
    EXPECT_EQ(next.counted, row.attempt);
    EXPECT_EQ(next.claims, row.attempt);
    EXPECT_EQ(next.error, "no ink");
    EXPECT_EQ(next.attempts.back().ending, Ending::failed);
    EXPECT_EQ(next.attempts.back().error, "no ink");
    EXPECT_EQ(next.attempts.back().ended_at, kWallNow);
    EXPECT_FALSE(next.in_doubt);
    EXPECT_EQ(next.since, kWallNow);
  }
}

// A handler may ask for any wait. What is recorded is a wait: not below zero, and
// not so long that its end lies before now.
TEST(Fail, AWaitBeyondAllReasonIsStillAWait) {
  for (const Duration asked : {Duration::min(), ms(-1), Duration::max()}) {
    SCOPED_TRACE(asked.count());
    Fail failed = fail();
    failed.retry_in = asked;
    const Decision made = ask(stored(running()), failed);
    EXPECT_GE(written(made).delay, ms(0));
    EXPECT_GE(made.until, kStamp + seconds(5));
    EXPECT_EQ(made.until, kStamp + seconds(5) + written(made).delay);
  }
}

TEST(Fail, SaysWhyTheTaskIsDead) {
  Fail last = fail();
  last.retry_in = seconds(3);
  struct Row {
    const char* what;
    Stored holds;
    Command command;
    Ending ending;
    const char* error;
    const char* reason;
    bool in_doubt;
  };
  const Row rows[] = {
      {"the last attempt failed", stored(running(3)), fail(), Ending::failed, "no ink",
       "no attempts are left", false},
      {"more than the last, the queue allows fewer now", stored(running(5)), fail(), Ending::failed,
       "no ink", "no attempts are left", false},
      {"asking for a retry gives no attempt more", stored(running(3)), last, Ending::failed,
       "no ink", "no attempts are left", false},
      {"for good, at the first attempt", stored(running()), fail_for_good(), Ending::dead,
       "no such printer", "the handler said so", false},
      {"for good, at the last attempt", stored(running(3)), fail_for_good(), Ending::dead,
       "no such printer", "the handler said so", false},
      {"the last attempt without a verdict", stored(running(3)), doubt(), Ending::unknown, "killed",
       "no attempts are left", true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Decision made = ask(row.holds, row.command);
    EXPECT_EQ(made.verdict, Verdict::dead);
    const Record next = written(made);
    EXPECT_EQ(next.state, State::dead);
    EXPECT_EQ(next.reason, row.reason);
    EXPECT_EQ(next.error, row.error);
    EXPECT_EQ(next.in_doubt, row.in_doubt);
    EXPECT_EQ(next.attempts.back().ending, row.ending);
    EXPECT_EQ(next.attempts.back().ended_at, kWallNow);
    EXPECT_EQ(next.since, kWallNow);
  }
}

TEST(Doubt, MarksTheTaskAndRetriesAfterTheBackoff) {
  for (const Ending ending : {Ending::unknown, Ending::timed_out}) {
    SCOPED_TRACE(to_string(ending));
    const Decision made =
        ask(stored(running(2)),
            Doubt{.nonce = kAna, .ending = ending, .error = "killed", .jitter = 0.5});
    EXPECT_EQ(made.verdict, Verdict::retrying);
    const Record next = written(made);
    EXPECT_TRUE(next.in_doubt);
    EXPECT_EQ(next.delay, seconds(66));
    EXPECT_EQ(made.until, kStamp + seconds(5) + seconds(66));
    EXPECT_EQ(next.counted, 2U);
    EXPECT_EQ(next.error, "killed");
    EXPECT_EQ(next.attempts.back().ending, ending);
  }
}

TEST(Fail, KeepsTheErrorShortAndWhole) {
  const std::string a(kErrorKept - 1, 'a');
  struct Row {
    const char* what;
    std::string given, kept;
  };
  const Row rows[] = {
      {"short", "no ink", "no ink"},
      {"exactly as long as is kept", a + "b", a + "b"},
      {"one more", a + "bc", a + "b"},
      {"a two-byte character across the end", a + "é", a},
      {"a three-byte character across the end", a + "€", a},
      {"a four-byte character across the end", a + "𝄞", a},
      {"a character that ends there", a.substr(1) + "éx", a.substr(1) + "é"},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Fail failed = fail();
    failed.error = row.given;
    const Record next = written(ask(stored(running()), failed));
    EXPECT_EQ(next.error, row.kept);
    EXPECT_EQ(next.attempts.back().error, row.kept);
  }
}

TEST(Fail, WithoutAWordKeepsTheLastErrorThereWas) {
  Stored holds = stored(running(2));
  holds.record.error = "no paper";
  Fail silent = fail();
  silent.error.clear();
  const Record next = written(ask(holds, silent));
  EXPECT_EQ(next.error, "no paper");
  EXPECT_EQ(next.attempts.back().error, "");
}

// --- Release --------------------------------------------------------------------------------

TEST(Release, GivesTheAttemptBack) {
  struct Row {
    const char* what;
    Release release;
    State state;
    Ending ending;
    bool in_doubt;
  };
  const Row rows[] = {
      {"never started", release(), State::waiting, Ending::released, false},
      {"stopped in the middle", interrupt(), State::retrying, Ending::interrupted, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Stored holds = stored(running(3));
    holds.record.delay = seconds(60);  // left over from the retry before
    const Decision made = ask(holds, row.release);
    EXPECT_EQ(made.verdict, Verdict::released);
    EXPECT_EQ(made.until, kStamp + seconds(5));
    const Record next = written(made);
    EXPECT_EQ(next.state, row.state);
    EXPECT_EQ(next.claims, 3U);
    EXPECT_EQ(next.counted, 2U);
    EXPECT_EQ(next.in_doubt, row.in_doubt);
    EXPECT_EQ(next.delay, ms(0));
    EXPECT_EQ(next.since, kWallNow);
    EXPECT_EQ(next.attempts.back().ending, row.ending);
    EXPECT_EQ(next.attempts.back().ended_at, kWallNow);

    // Claimable at once, and as the same counted attempt under a number of its own.
    const Decision taken = ask(stored(next), claim(), after(ms(0)));
    EXPECT_EQ(taken.verdict, Verdict::claimed);
    EXPECT_EQ(written(taken).claims, 4U);
    EXPECT_EQ(written(taken).counted, 3U);
  }
}

// --- SetAside -------------------------------------------------------------------------------

TEST(SetAside, IsARecordWithoutAnAttempt) {
  for (const State state : {State::duplicate, State::dead, State::cancelled}) {
    SCOPED_TRACE(to_string(state));
    const SetAside aside{
        .sequence = kSequence, .digest = kDigest, .state = state, .reason = "duplicate of #3"};
    const Decision made = decide(nullptr, aside, policy(), after(seconds(5)));
    EXPECT_EQ(made.verdict, Verdict::set_aside);
    EXPECT_EQ(written(made), (Record{.sequence = kSequence,
                                     .digest = kDigest,
                                     .state = state,
                                     .reason = "duplicate of #3",
                                     .since = kWallNow}));
  }
}

TEST(SetAside, HoldsATaskWhoseRecordWasLostUntilAPersonDecides) {
  const SetAside aside{.sequence = kSequence,
                       .digest = kDigest,
                       .state = State::in_doubt,
                       .reason = "its record is gone"};
  const Decision made = decide(nullptr, aside, policy(), after(seconds(5)));
  EXPECT_EQ(made.verdict, Verdict::doubted);
  const Record held = written(made);
  EXPECT_EQ(held.state, State::in_doubt);
  EXPECT_TRUE(held.in_doubt);
  EXPECT_EQ(held.claims, 0U);
  EXPECT_EQ(held.reason, "its record is gone");
  const Stored stored{.record = held, .revision = Revision{5}};
  EXPECT_EQ(decide(&stored, claim(), policy(), after(seconds(9))).verdict,
            Verdict::awaits_decision);
  EXPECT_EQ(decide(&stored, aside, policy(), after(seconds(9))).verdict, Verdict::already_done);
}

TEST(SetAside, KeepsTheReasonShort) {
  const SetAside aside{.sequence = kSequence, .reason = std::string(kErrorKept + 100, 'r')};
  const Decision made = decide(nullptr, aside, policy(), after(ms(0)));
  EXPECT_EQ(written(made).reason.size(), kErrorKept);
}

// --- Token ----------------------------------------------------------------------------------

// The token of a claim is the revision at which the claim was written. It cannot stand in that very
// write; the next one puts it down, whichever that is, and no later write changes it.
TEST(Token, IsTheRevisionOfTheClaimForAsLongAsTheStoryIsKept) {
  const std::pair<const char*, Command> first_writes[] = {
      {"renew", renew()},         {"complete", complete()},
      {"fail", fail()},           {"fail for good", fail_for_good()},
      {"doubt", doubt()},         {"release", release()},
      {"interrupt", interrupt()}, {"reclaim", claim()},
  };
  for (const auto& [what, command] : first_writes) {
    SCOPED_TRACE(what);
    const Record next = written(ask(stored(running()), command, after(kLease)));
    EXPECT_EQ(next.attempts.front().token, Token{kRevision.value});
  }

  Stored renewed = stored(written(ask(stored(running()), renew())));
  renewed.revision = Revision{90};
  for (const auto& [what, command] : first_writes) {
    SCOPED_TRACE(what);
    const Record next = written(ask(renewed, command, after(kLease)));
    EXPECT_EQ(next.attempts.front().token, Token{kRevision.value});
  }
}

// --- Policy ---------------------------------------------------------------------------------

TEST(PolicyOf, FillsInTheDefaults) {
  struct Row {
    const char* what;
    int attempts;
    std::vector<Duration> backoff;
    std::uint32_t expected_attempts;
    std::vector<Duration> expected_backoff;
  };
  const std::vector<Duration> defaults{seconds(30), seconds(120), seconds(300)};
  const Row rows[] = {
      {"nothing said", 0, {}, 4, defaults},
      {"attempts said", 9, {}, 9, defaults},
      {"backoff said: one attempt more than values",
       0,
       {seconds(1), seconds(2)},
       3,
       {seconds(1), seconds(2)}},
      {"both said", 1, {seconds(1)}, 1, {seconds(1)}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const Policy made = policy_of(Queue{.attempts = row.attempts, .backoff = row.backoff});
    EXPECT_EQ(made.attempts, row.expected_attempts);
    EXPECT_EQ(made.backoff, row.expected_backoff);
  }
}

TEST(PolicyOf, TakesTheRestFromTheQueue) {
  const Policy plain = policy_of(Queue{});
  EXPECT_EQ(plain.lease, seconds(30));
  EXPECT_EQ(plain.timeout, ms(0));
  EXPECT_EQ(plain.same_key, SameKey::duplicate);

  const Policy told =
      policy_of(Queue{.lease = seconds(5), .timeout = seconds(60), .same_key = SameKey::ignore});
  EXPECT_EQ(told.lease, seconds(5));
  EXPECT_EQ(told.timeout, seconds(60));
  EXPECT_EQ(told.same_key, SameKey::ignore);
}

TEST(BackoffAfter, IsTheValueAndUpToAFifthMore) {
  for (const std::uint32_t counted : {0U, 1U, 2U, 3U, 1000U}) {
    SCOPED_TRACE(counted);
    const Duration base = counted <= 1 ? seconds(10) : seconds(60);
    EXPECT_EQ(backoff_after(policy(), counted, 0.0), base);
    EXPECT_EQ(backoff_after(policy(), counted, 0.5), base + base / 10);
    EXPECT_LT(backoff_after(policy(), counted, 0.999'999), base + base / 5);
  }
}

// --- Publishing -----------------------------------------------------------------------------

TEST(JudgeAppend, KnowsItsOwnEntryByTheNonceAndOthersByTheContent) {
  struct Row {
    const char* what;
    Nonce mine;
    Digest my_content;
    AppendVerdict verdict;
  };
  const Row rows[] = {
      // the log has the id: appended by ana, content kDigest
      {"sent again by the same append", kAna, kDigest, AppendVerdict::accepted},
      {"same content by another", kBen, kDigest, AppendVerdict::duplicate},
      {"other content by another", kBen, kOtherDigest, AppendVerdict::conflict},
  };
  for (const Row& row : rows)
    EXPECT_EQ(judge_append(row.mine, row.my_content, kAna, kDigest), row.verdict) << row.what;
}

TEST(Verdict, EveryOneHasANameOfItsOwn) {
  std::vector<std::string_view> names;
  for (int value = 0; value <= static_cast<int>(Verdict::fenced); ++value) {
    names.push_back(to_string(static_cast<Verdict>(value)));
    EXPECT_NE(names.back(), "?") << value;
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

}  // namespace
}  // namespace once::core
