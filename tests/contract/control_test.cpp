// Control over tasks and queues: cancel, not-before, expiry, pause, changed definitions.
#include "contract/effects.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ControlContract : public Effects {
 protected:
  void publish_at(std::string id, std::optional<Duration> delay, std::optional<Duration> lives) {
    Task task{.topic = "t", .id = std::move(id)};
    if (delay) task.not_before = clock->now() + *delay;
    if (lives) task.expires = clock->now() + *lives;
    zone.publish(task).value();
  }
};
ONCE_FOR_EVERY_STORE(ControlContract);

// --- Doomed tasks ---------------------------------------------------------------------------

TEST_P(ControlContract, ATaskThatCouldNeverStartIsRefused) {
  const auto refused = [&](std::optional<Duration> delay, Duration lives) {
    Task task{.topic = "t", .id = "a"};
    if (delay) task.not_before = clock->now() + *delay;
    task.expires = clock->now() + lives;
    const auto receipt = zone.publish(task);
    return !receipt && receipt.error().code == Code::invalid_input;
  };
  EXPECT_TRUE(refused({}, -1h));
  EXPECT_TRUE(refused({}, 0h));
  EXPECT_TRUE(refused(2h, 1h));
  EXPECT_TRUE(refused(1h, 1h));
  EXPECT_THAT(zone.tasks().log(0, 10).value(), IsEmpty());
  EXPECT_FALSE(refused(1h, 2h));
  EXPECT_FALSE(refused(2h, 1h)) << "what is in the log is answered with its receipt";
}

// --- Cancel ---------------------------------------------------------------------------------

TEST_P(ControlContract, AWaitingTaskIsCancelled) {
  add({});
  publish("a");
  EXPECT_EQ(zone.tasks().cancel("a", "q", by).value(), State::cancelled);
  EXPECT_EQ(state(), State::cancelled);
  EXPECT_EQ(view().reason, "cancelled by ann: she looked");
  EXPECT_EQ(count(State::cancelled), 1U);
  EXPECT_EQ(count(State::waiting), 0U);
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(zone.tasks().cancel("a", "q", by).error().code, Code::wrong_state);
}

// An answer that is lost makes the caller ask again.
TEST_P(ControlContract, AnActWithAKeyIsDoneOnceHoweverOftenItIsAsked) {
  add({.attempts = 1, .in_doubt = InDoubt::hold});
  const ActOptions first{.idempotency_key = "k1"};
  publish("a");
  for (int again = 0; again < 2; ++again)
    EXPECT_EQ(zone.tasks().cancel("a", "q", by, first).value(), State::cancelled);
  EXPECT_EQ(zone.tasks().cancel("a", "q", by, {.idempotency_key = "k2"}).error().code,
            Code::wrong_state);
  publish("b");
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("who knows"); }));
  for (int again = 0; again < 2; ++again) EXPECT_TRUE(zone.tasks().retry("b", "q", by, first));
  EXPECT_EQ(zone.tasks().retry("b", "q", by, {.idempotency_key = "k2"}).error().code,
            Code::wrong_state);
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("who knows"); }));
  EXPECT_TRUE(zone.tasks().retry("b", "q", by, first)) << "it was carried out";
  EXPECT_EQ(state("b"), State::in_doubt);
  for (int again = 0; again < 2; ++again) EXPECT_TRUE(zone.tasks().drop("b", "q", by, first));
  publish("c");
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("who knows"); }));
  for (int again = 0; again < 2; ++again)
    EXPECT_TRUE(zone.tasks().complete("c", "q", Body::json("1").value(), by, first));
  EXPECT_EQ(state("c"), State::completed);
}

TEST_P(ControlContract, AnActIsRefusedIfTheTaskWasClaimedSince) {
  add({.attempts = 1, .in_doubt = InDoubt::hold});
  publish("a");
  EXPECT_EQ(view("a").claims, 0U);
  const ActOptions seen{.claims = 0};
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("who knows"); }));
  EXPECT_EQ(view("a").claims, 1U);
  EXPECT_EQ(zone.tasks().cancel("a", "q", by, seen).error().code, Code::wrong_state);
  EXPECT_EQ(zone.tasks().retry("a", "q", by, seen).error().code, Code::wrong_state);
  EXPECT_EQ(zone.tasks().drop("a", "q", by, seen).error().code, Code::wrong_state);
  const auto completed = zone.tasks().complete("a", "q", {}, by, seen);
  EXPECT_EQ(completed.error().code, Code::wrong_state);
  EXPECT_THAT(completed.error().message, ::testing::HasSubstr("claimed 1 times, and not 0"));
  EXPECT_EQ(state("a"), State::in_doubt);
  EXPECT_TRUE(zone.tasks().drop("a", "q", by, {.claims = 1}));
}

TEST_P(ControlContract, ACancelledTaskOfAKeyedQueueTakesNobodysKey) {
  add({.key = "{doc}"});
  publish("a", R"({"doc":1})");
  publish("b", R"({"doc":1})");
  publish("c", R"({"doc":1})");
  EXPECT_EQ(zone.tasks().cancel("b", "q", by).value(), State::cancelled);
  EXPECT_TRUE(run_ok());
  EXPECT_EQ(state("a"), State::completed) << "the key is still its own";
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state("b"), State::cancelled);
  EXPECT_EQ(state("c"), State::duplicate);
  publish("without", "{}");
  EXPECT_EQ(zone.tasks().cancel("without", "q", by).value(), State::cancelled);
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state("without"), State::cancelled);
}

TEST_P(ControlContract, AScheduledAndARetryingTaskAreCancelled) {
  add({});
  publish_at("later", 1h, {});
  publish("a");
  EXPECT_TRUE(run([](Context&) { return Outcome::failed("no"); }));
  EXPECT_EQ(zone.tasks().cancel("later", "q", by).value(), State::cancelled);
  EXPECT_EQ(zone.tasks().cancel("a", "q", by).value(), State::cancelled);
  pass(2h);
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(count(State::cancelled), 2U);
}

TEST_P(ControlContract, ARunningTaskThatStopsIsCancelled) {
  add({});
  publish("a");
  EXPECT_TRUE(run([&](Context&) {
    EXPECT_EQ(zone.tasks().cancel("a", "q", by).value(), State::running);
    EXPECT_EQ(state(), State::running);
    return Outcome::failed("stopped");
  }));
  EXPECT_EQ(state(), State::cancelled);
  EXPECT_EQ(view().reason, "cancelled by ann: she looked");
  EXPECT_THAT(story(), ElementsAre("cancel_asked"));
  EXPECT_FALSE(run_ok());
}

TEST_P(ControlContract, ARunningTaskIsToldByItsStopToken) {
  add({});
  publish("a");
  EXPECT_TRUE(run([&](Context& context) {
    zone.tasks().cancel("a", "q", by).value();
    EXPECT_TRUE(is_told_to_stop(context));
    return Outcome::failed("stopped");
  }));
  EXPECT_EQ(state(), State::cancelled);
}

TEST_P(ControlContract, ARunningTaskThatCompletesAllTheSameIsCompleted) {
  add({});
  publish("a");
  EXPECT_TRUE(run([&](Context&) {
    zone.tasks().cancel("a", "q", by).value();
    return Outcome::completed();
  }));
  EXPECT_EQ(state(), State::completed);
}

TEST_P(ControlContract, ARunningTaskWhoseWorkerIsLostIsCancelledInsteadOfTakenOver) {
  add({});
  publish("a");
  EXPECT_TRUE(run([&](Context&) {
    zone.tasks().cancel("a", "q", by).value();
    hang([&] { EXPECT_FALSE(run_ok()); });
    return Outcome::completed();
  }));
  EXPECT_EQ(state(), State::cancelled);
}

TEST_P(ControlContract, ADoubtfulTaskCanBeCancelledADeadOneMustBeDropped) {
  add({.in_doubt = InDoubt::hold});
  publish("a");
  publish("dead");
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("?"); }));
  EXPECT_TRUE(run([](Context&) { return Outcome::dead("no"); }));
  EXPECT_EQ(zone.tasks().cancel("a", "q", by).value(), State::cancelled);
  EXPECT_EQ(zone.tasks().cancel("dead", "q", by).error().code, Code::wrong_state);
}

TEST_P(ControlContract, ATaskThatIsToRunAgainCanBeCancelled) {
  add({.in_doubt = InDoubt::hold});
  publish("dead");
  publish("held");
  EXPECT_TRUE(run([](Context&) { return Outcome::dead("no"); }));
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("?"); }));
  for (const char* id : {"dead", "held"}) {
    zone.tasks().retry(id, "q", by).value();
    EXPECT_EQ(zone.tasks().drop(id, "q", by).error().code, Code::wrong_state);
    EXPECT_EQ(zone.tasks().cancel(id, "q", by).value(), State::cancelled);
    EXPECT_EQ(state(id), State::cancelled);
  }
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(count(State::cancelled), 2U);
}

// The order still lies there when retention has taken the body of what was cancelled meanwhile.
TEST_P(ControlContract, AnOrderThatACancelOvertookIsDoneWithAlsoWithoutABody) {
  add({});
  zone.set_retention({.bodies = 1h, .records = 24h * 365, .ids = 1h}).value();
  publish("a");
  run([](Context&) { return Outcome::dead("never"); });
  zone.tasks().retry("a", "q", by).value();
  EXPECT_EQ(zone.tasks().cancel("a", "q", by).value(), State::cancelled);
  pass(2h);
  zone.retire().value();
  ASSERT_FALSE(zone.tasks().inspect("a").value().entry.body);
  EXPECT_FALSE(run_ok());
  pass(2 * kLease);
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state(), State::cancelled);
}

TEST_P(ControlContract, ACancelThatMeetsAClaimAsksItsHolder) {
  add({.key = "{doc}"});
  publish("a", R"({"doc":1})");
  EXPECT_TRUE(run([&](Context&) {
    EXPECT_EQ(zone.tasks().cancel("a", "q", by).value(), State::running);
    return Outcome::failed("stopped");
  }));
  EXPECT_EQ(state(), State::cancelled);
}

// Two people decide at once: one is heard, the other told so.
TEST_P(ControlContract, OfTwoOrdersTheSecondIsRefused) {
  add({});
  publish("a");
  EXPECT_TRUE(run([](Context&) { return Outcome::dead("no"); }));
  core::Order first{.claims = 1, .by = "ann"};
  first.nonce.bytes.fill(7);
  const store::Wake wake{.sequence = {1}, .order = first};
  impl->store->wake("q", std::span(&wake, 1)).value();
  EXPECT_EQ(zone.tasks().retry("a", "q", by).error().code, Code::wrong_state);
  ASSERT_FALSE(view().story.empty());
  EXPECT_EQ(view().story.back().kind, ActionView::Kind::retry_asked);
  EXPECT_EQ(view().story.back().by, "ann");
}

// --- Not-before and expiry ------------------------------------------------------------------

TEST_P(ControlContract, AScheduledTaskRunsWhenItsTimeHasCome) {
  add({});
  publish_at("later", 1h, {});
  publish("now");
  EXPECT_EQ(state("later"), State::scheduled);
  EXPECT_EQ(count(State::scheduled), 1U);
  EXPECT_EQ(count(State::waiting), 1U);
  EXPECT_THAT(listed(State::scheduled), ElementsAre("later"));
  EXPECT_TRUE(run_ok());
  EXPECT_FALSE(run_ok());
  pass(1h - 1ms);
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state("later"), State::scheduled);
  pass(1ms);
  EXPECT_EQ(state("later"), State::waiting);
  EXPECT_EQ(count(State::scheduled), 0U);
  EXPECT_TRUE(run_ok());
  EXPECT_EQ(state("later"), State::completed);
}

TEST_P(ControlContract, AQueueThatComesLaterKeepsToTheTime) {
  add({});
  publish_at("later", 1h, {});
  zone.queues().add({.name = "second", .topic = "t"}).value();
  auto worker = zone.worker("second", [](Context&) { return Outcome::completed(); }).value();
  EXPECT_FALSE(worker.run_one().value());
  pass(1h);
  EXPECT_TRUE(worker.run_one().value());
}

TEST_P(ControlContract, ATaskThatIsNotBegunInItsTimeIsCancelled) {
  add({});
  publish_at("a", {}, 10s);
  publish_at("b", {}, 10s);
  EXPECT_TRUE(run_ok()) << "in time";
  pass(10s);
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state("b"), State::cancelled);
  EXPECT_EQ(view("b").reason, "expired");
}

TEST_P(ControlContract, ARetryThatComesTooLateIsNotBegun) {
  add({.backoff = {1min}});
  publish_at("a", {}, 10s);
  EXPECT_TRUE(run([](Context&) { return Outcome::failed("no"); }));
  pass(2min);
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state(), State::cancelled);
}

TEST_P(ControlContract, TimesAreNoContent) {
  add({});
  publish_at("a", 1h, {});
  EXPECT_TRUE(zone.publish({.topic = "t", .id = "a"}).value().duplicate);
  EXPECT_EQ(state(), State::scheduled) << "the first one stands";
}

// --- Queues ---------------------------------------------------------------------------------

TEST_P(ControlContract, APausedQueueClaimsNothingUntilItIsResumed) {
  add({});
  publish("a");
  zone.queues().pause("q").value();
  EXPECT_FALSE(run_ok());
  EXPECT_EQ(state(), State::waiting);
  EXPECT_TRUE(zone.queues().list().value().at(0).paused);
  zone.queues().resume("q").value();
  EXPECT_TRUE(run_ok());
}

TEST_P(ControlContract, WorkersFollowAChangedDefinition) {
  add({.attempts = 1});
  publish("a");
  auto worker = zone.worker("q", [](Context&) { return Outcome::failed("no"); }).value();
  const auto changed = zone.queues().change("q", [](Queue& queue) {
    queue.attempts = 3;
    queue.in_doubt = InDoubt::hold;
  });
  EXPECT_EQ(changed.value().attempts, 3);
  EXPECT_TRUE(worker.run_one().value());
  EXPECT_EQ(state(), State::retrying);
  pass(2s);
  EXPECT_TRUE(run([](Context&) { return Outcome::unknown("?"); }));
  EXPECT_EQ(state(), State::in_doubt);
}

TEST_P(ControlContract, TopicKeyAndStartAreFixed) {
  add({});
  for (const auto change :
       {+[](Queue& queue) { queue.topic = "other"; }, +[](Queue& queue) { queue.key = "{doc}"; },
        +[](Queue& queue) { queue.from = 7; }, +[](Queue& queue) { queue.name = "other"; }})
    EXPECT_EQ(zone.queues().change("q", change).error().code, Code::queue_mismatch);
  EXPECT_EQ(zone.queues().change("nowhere", [](Queue&) {}).error().code, Code::not_found);
  EXPECT_EQ(zone.queues().change("q", [](Queue& queue) { queue.lease = 0s; }).error().code,
            Code::invalid_input);
}

TEST_P(ControlContract, TwoWhoChangeAQueueAtOnceUndoNothingOfEachOther) {
  add({});
  bool first = true;
  zone.queues()
      .change("q",
              [&](Queue& queue) {
                if (std::exchange(first, false))
                  zone.queues().change("q", [](Queue& other) { other.paused = true; }).value();
                queue.attempts = 7;
              })
      .value();
  EXPECT_TRUE(zone.queues().list().value().at(0).paused);
  EXPECT_EQ(zone.queues().list().value().at(0).attempts, 7);
}

// --- Ledger-only queues ---------------------------------------------------------------------

class LedgerClientContract : public Effects {
 protected:
  LedgerClient ledger(std::string name = "loop") {
    return zone.ledger("q", {.name = std::move(name), .claims_outlive_process = true}).value();
  }
  ClaimResult claim(LedgerClient& by_whom, Duration lease = {}) {
    return by_whom.claim("k", lease).value();
  }
};
ONCE_FOR_EVERY_STORE(LedgerClientContract);

TEST_P(LedgerClientContract, AKeyIsDoneOnce) {
  add({.ledger = true});
  LedgerClient loop = ledger();
  const ClaimResult first = claim(loop);
  ASSERT_EQ(first.kind, ClaimResult::Kind::claimed);
  EXPECT_EQ(first.attempt, 1);
  EXPECT_FALSE(first.in_doubt);
  EXPECT_EQ(first.wait, kLease);
  EXPECT_EQ(claim(loop).kind, ClaimResult::Kind::held) << "also for the same loop";
  loop.complete("k", first.token, Body::json("7").value()).value();
  const ClaimResult again = claim(loop);
  EXPECT_EQ(again.kind, ClaimResult::Kind::completed);
  EXPECT_EQ(again.result.text(), "7");
  EXPECT_EQ(count(State::completed), 1U);
  EXPECT_THAT(listed(State::completed), ElementsAre("k"));
  EXPECT_EQ(view("k").state, State::completed);
  loop.complete("k", first.token, Body::json("7").value()).value();
}

TEST_P(LedgerClientContract, AFailedKeyIsDueAfterItsBackoffAndDeadInTheEnd) {
  add({.attempts = 2, .backoff = {1s}, .ledger = true});
  LedgerClient loop = ledger();
  loop.fail("k", claim(loop).token, "no").value();
  EXPECT_EQ(claim(loop).kind, ClaimResult::Kind::not_due);
  pass(1200ms);
  const ClaimResult second = claim(loop);
  ASSERT_EQ(second.kind, ClaimResult::Kind::claimed);
  EXPECT_EQ(second.attempt, 2);
  loop.fail("k", second.token, "no again").value();
  EXPECT_EQ(claim(loop).kind, ClaimResult::Kind::dead);
  EXPECT_EQ(claim(loop).why, "no again");
  zone.tasks().retry("k", "q", by).value();
  EXPECT_EQ(claim(loop).kind, ClaimResult::Kind::claimed);
}

TEST_P(LedgerClientContract, WhoLostTheLeaseIsFenced) {
  add({.ledger = true});
  LedgerClient loop = ledger();
  LedgerClient other = ledger("other");
  const ClaimResult first = claim(loop, 5s);
  EXPECT_EQ(first.wait, 5s);
  pass(4s);
  loop.renew("k", first.token, 5s).value();
  pass(4s);
  EXPECT_EQ(claim(other).kind, ClaimResult::Kind::held);
  pass(1s);
  const ClaimResult second = claim(other);
  ASSERT_EQ(second.kind, ClaimResult::Kind::claimed);
  EXPECT_TRUE(second.in_doubt);
  EXPECT_GT(second.token, first.token);
  EXPECT_EQ(loop.renew("k", first.token).error().code, Code::fenced);
  EXPECT_EQ(loop.complete("k", first.token).error().code, Code::fenced);
  EXPECT_EQ(loop.fail("k", first.token, "no").error().code, Code::fenced);
  EXPECT_EQ(loop.complete("k", second.token + 1).error().code, Code::fenced);
  other.complete("k", second.token).value();
  EXPECT_EQ(loop.complete("k", first.token).error().code, Code::fenced);
}

TEST_P(LedgerClientContract, CompletingLateIsFineWhileNobodyHasReclaimed) {
  add({.ledger = true});
  LedgerClient loop = ledger();
  const ClaimResult first = claim(loop);
  pass(2 * kLease);
  loop.complete("k", first.token).value();
}

TEST_P(LedgerClientContract, ALostKeyIsHeldWhenThePolicySaysSo) {
  add({.in_doubt = InDoubt::hold, .ledger = true});
  LedgerClient loop = ledger();
  claim(loop);
  pass(kLease);
  EXPECT_EQ(claim(loop).kind, ClaimResult::Kind::in_doubt);
  EXPECT_THAT(listed(State::in_doubt), ElementsAre("k"));
  zone.tasks().complete("k", "q", Body::json("1").value(), by).value();
  EXPECT_EQ(claim(loop).kind, ClaimResult::Kind::completed);
}

TEST_P(LedgerClientContract, AClaimOfALedgerClientThatIsGoneIsFreeAtOnce) {
  if (!GetParam().knows_who_left) GTEST_SKIP() << "this store goes by leases alone";
  add({.ledger = true});
  {
    LedgerClient dies = zone.ledger("q", {.name = "dies"}).value();
    claim(dies);
  }
  LedgerClient loop = ledger();
  EXPECT_EQ(claim(loop).kind, ClaimResult::Kind::claimed);
  EXPECT_EQ(view("k").attempts.at(0).outcome, AttemptOutcome::lost);
}

TEST_P(LedgerClientContract, ACancelReachesWhoHoldsTheKey) {
  add({.ledger = true});
  LedgerClient loop = ledger();
  const ClaimResult first = claim(loop);
  EXPECT_EQ(zone.tasks().cancel("k", "q", by).value(), State::running);
  EXPECT_EQ(loop.renew("k", first.token).error().code, Code::wrong_state);
  loop.fail("k", first.token, "stopped").value();
  EXPECT_EQ(claim(loop).kind, ClaimResult::Kind::cancelled);
}

TEST_P(LedgerClientContract, AChangedDefinitionIsFollowed) {
  add({.attempts = 9, .ledger = true});
  LedgerClient loop = ledger();
  zone.queues().change("q", [](Queue& queue) { queue.lease = 7s; }).value();
  EXPECT_EQ(claim(loop).wait, 7s);
}

TEST_P(LedgerClientContract, OnlyALedgerOnlyQueueHasLedgerClientsAndItHasNoWorkers) {
  add({.ledger = true});
  zone.queues().add({.name = "tasks", .topic = "t"}).value();
  EXPECT_EQ(zone.ledger("tasks").error().code, Code::invalid_input);
  EXPECT_EQ(zone.worker("q", [](Context&) { return Outcome::completed(); }).error().code,
            Code::invalid_input);
  EXPECT_EQ(ledger().renew("unknown", 1).error().code, Code::not_found);
  EXPECT_EQ(ledger().claim("").error().code, Code::invalid_input);
}

}  // namespace
}  // namespace once::contract
