// The pull interface: offers that leave no trace, starts that count, handles that any process may
// use, and answers that may be lost.
#include "contract/effects.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ConsumerContract : public Effects {
 protected:
  static constexpr Duration kOffer = 10s;

  Consumer consumer(ConsumerOptions options = {}) {
    if (options.name.empty()) options.name = "puller";
    return zone.consumer("q", std::move(options)).value();
  }
  static std::vector<Offer> offers(Consumer& from, std::size_t most = 10) {
    return from.offer(most).value();
  }
  static std::string offered(Consumer& from) { return offers(from).at(0).claim; }
  static Result<State> settle(Consumer& by, const std::string& claim, Outcome outcome) {
    return by.settle({{.claim = claim, .outcome = std::move(outcome)}}).states.at(0);
  }
  static Result<State> release(Consumer& by, const std::string& claim) {
    return by.settle({{.claim = claim, .release = true}}).states.at(0);
  }
  std::vector<std::string> contradictions() {
    std::vector<std::string> found;
    for (const Discrepancy& each : zone.audit({.deep = true}).value().discrepancies)
      found.push_back(each.what);
    return found;
  }
  static RenewResult renewed(Consumer& by, const std::string& claim) {
    return by.renew(std::span(&claim, 1)).at(0).value();
  }
};
ONCE_FOR_EVERY_STORE(ConsumerContract);

TEST_P(ConsumerContract, AnOfferIsStartedRunAndSettled) {
  add({});
  publish("a", R"({"n":1})");
  Consumer puller = consumer();
  const std::vector<Offer> got = offers(puller);
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].id, "a");
  EXPECT_EQ(got[0].key, "a");
  EXPECT_EQ(got[0].lease, kOffer);
  EXPECT_THAT(view().attempts, IsEmpty()) << "nothing has started";
  EXPECT_THAT(contradictions(), IsEmpty());
  EXPECT_EQ(view().next.kind, NextView::Kind::offered);
  EXPECT_EQ(view().next.by, "puller");
  EXPECT_THAT(offers(puller), IsEmpty());

  const StartedTask task = puller.start(got[0].claim).value();
  EXPECT_EQ(task.task.id, "a");
  EXPECT_EQ(task.task.topic, "t");
  EXPECT_EQ(task.task.body.text(), R"({"n":1})");
  EXPECT_EQ(task.attempt, 1);
  EXPECT_FALSE(task.in_doubt);
  EXPECT_EQ(task.lease, kLease);
  EXPECT_GT(task.token, 0U);
  EXPECT_THAT(view().attempts, SizeIs(1));
  EXPECT_EQ(view().attempts[0].worker, "puller");

  EXPECT_EQ(settle(puller, got[0].claim, Outcome::completed(Body::json("7").value())).value(),
            State::completed);
  EXPECT_EQ(view().result->text(), "7");
  EXPECT_THAT(contradictions(), IsEmpty());
}

TEST_P(ConsumerContract, TheIdempotencyKeyIsTheOneThatAWorkerGets) {
  add({.attempts = 2, .backoff = {1s}});
  publish("a");
  std::string key;
  run([&](Context& context) {
    key = context.idempotency_key();
    return Outcome::failed("later");
  });
  pass(2s);
  Consumer puller = consumer();
  EXPECT_EQ(puller.start(offered(puller)).value().idempotency_key, key);
}

TEST_P(ConsumerContract, AnOfferThatIsNotStartedLeavesNoTrace) {
  add({.attempts = 1, .in_doubt = InDoubt::hold});
  publish("a");
  Consumer puller = consumer();
  const std::string lost = offered(puller);
  pass(kOffer);
  EXPECT_EQ(puller.start(lost).value().attempt, 1) << "nobody has taken it over yet";
  EXPECT_EQ(release(puller, lost).value(), State::in_doubt) << "it had started";
}

TEST_P(ConsumerContract, LapsedOffersUseUpNoAttemptAndPutNothingInDoubt) {
  add({.attempts = 1, .in_doubt = InDoubt::hold});
  publish("a");
  Consumer puller = consumer();
  std::vector<std::string> lost;
  for (int i = 0; i < 5; ++i, pass(kOffer)) lost.push_back(offered(puller));
  const std::string claim = offered(puller);
  for (const std::string& each : lost) {
    EXPECT_EQ(puller.start(each).error().code, Code::fenced);
    EXPECT_EQ(settle(puller, each, Outcome::completed()).error().code, Code::fenced);
    EXPECT_EQ(release(puller, each).error().code, Code::fenced);
    EXPECT_EQ(puller.renew(std::span(&each, 1)).at(0).error().code, Code::fenced);
  }
  const StartedTask task = puller.start(claim).value();
  EXPECT_EQ(task.attempt, 1);
  EXPECT_FALSE(task.in_doubt);
  EXPECT_EQ(settle(puller, claim, Outcome::completed()).value(), State::completed);
  EXPECT_THAT(contradictions(), IsEmpty());
}

TEST_P(ConsumerContract, AWorkerTakesOverALapsedOffer) {
  add({.attempts = 1, .in_doubt = InDoubt::hold});
  publish("a");
  Consumer puller = consumer();
  const std::string lost = offered(puller);
  EXPECT_FALSE(run_ok()) << "the offer's lease runs";
  pass(kOffer);
  EXPECT_TRUE(run_ok());
  EXPECT_EQ(state(), State::completed);
  EXPECT_EQ(puller.start(lost).error().code, Code::fenced);
}

TEST_P(ConsumerContract, AReleasedOfferIsOfferedAtOnce) {
  add({});
  publish("a");
  Consumer puller = consumer();
  const std::string first = offered(puller);
  EXPECT_EQ(release(puller, first).value(), State::waiting);
  EXPECT_NE(offered(puller), first);
}

TEST_P(ConsumerContract, AWithdrawnOfferIsOfferedAtOnceAndAStartedClaimGoesOn) {
  add({.in_doubt = InDoubt::hold});
  publish("a");
  Consumer puller = consumer();
  const std::string first = offered(puller);
  puller.withdraw(std::span(&first, 1));
  EXPECT_EQ(puller.start(first).error().code, Code::fenced);
  const std::string second = offered(puller);
  EXPECT_TRUE(puller.start(second));
  puller.withdraw(std::span(&second, 1));
  EXPECT_EQ(settle(puller, second, Outcome::completed()).value(), State::completed);
  EXPECT_THAT(view().attempts, SizeIs(1));
}

TEST_P(ConsumerContract, OneCallOffersToSeveralWorkers) {
  add({});
  for (const char* id : {"a", "b", "c"}) publish(id);
  Consumer puller = consumer();
  const std::vector<std::string> names{"ana", "ben"};
  const ChooseWorker choose = [&](std::size_t offered) -> std::optional<OfferFor> {
    if (offered >= names.size()) return std::nullopt;
    return OfferFor{.worker = names[offered]};
  };
  const std::vector<Offer> got = puller.offer(10, {}, {}, choose).value();
  ASSERT_THAT(got, SizeIs(2)) << "nobody is chosen for the third task";
  EXPECT_THAT((std::vector{got[0].worker, got[1].worker}),
              ::testing::UnorderedElementsAreArray(names));
  for (const Offer& each : got) {
    EXPECT_TRUE(puller.start(each.claim));
    EXPECT_EQ(zone.tasks().inspect(each.id).value().queues.at(0).attempts.at(0).worker,
              each.worker);
  }
  pass(1s);
  EXPECT_THAT(offers(puller), SizeIs(1)) << "the third task waits for a worker";
}

TEST_P(ConsumerContract, AnOfferMayBeStartedInTheSameCommit) {
  add({.timeout = 40s});
  publish("a", R"({"n":1})");
  Consumer puller = consumer();
  const std::vector<Offer> got =
      puller.offer(10, {}, {}, OfferFor{.worker = "ana", .start = true}).value();
  ASSERT_THAT(got, SizeIs(1));
  ASSERT_TRUE(got[0].started);
  EXPECT_EQ(got[0].worker, "ana");
  EXPECT_EQ(got[0].started->task.body.text(), R"({"n":1})");
  EXPECT_EQ(got[0].started->attempt, 1);
  EXPECT_EQ(got[0].started->lease, kLease);
  const StartedTask again = puller.start(got[0].claim).value();
  EXPECT_EQ(again.token, got[0].started->token);
  EXPECT_EQ(again.idempotency_key, got[0].started->idempotency_key);
  EXPECT_THAT(view().attempts, SizeIs(1));
  for (int i = 0; i < 4; ++i, pass(10s))
    EXPECT_EQ(renewed(puller, got[0].claim).kind, RenewResult::Kind::renewed);
  EXPECT_EQ(renewed(puller, got[0].claim).kind, RenewResult::Kind::overdue)
      << "the record knows when the attempt started";
  EXPECT_EQ(settle(puller, got[0].claim, Outcome::completed()).value(), State::completed);
  EXPECT_THAT(contradictions(), IsEmpty());
}

TEST_P(ConsumerContract, TheSameStartAgainGivesTheSameAnswer) {
  add({});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  const StartedTask first = puller.start(claim).value();
  ASSERT_EQ(puller.begin_step(claim, "s").value().kind, StepStart::Kind::run);
  pass(5s);
  const StartedTask again = puller.start(claim).value();
  EXPECT_EQ(again.token, first.token);
  EXPECT_EQ(again.attempt, first.attempt);
  EXPECT_THAT(again.steps, SizeIs(1));
  EXPECT_THAT(view().attempts, SizeIs(1));
}

TEST_P(ConsumerContract, NothingIsRecordedBeforeTheStart) {
  add({});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  EXPECT_EQ(settle(puller, claim, Outcome::completed()).error().reason, Reason::claim_not_started);
  EXPECT_EQ(settle(puller, claim, Outcome::dead("no")).error().reason, Reason::claim_not_started);
  EXPECT_EQ(puller.begin_step(claim, "s").error().reason, Reason::claim_not_started);
  EXPECT_EQ(puller.end_step(claim, "s", {}).error().reason, Reason::claim_not_started);
  EXPECT_THAT(view().attempts, IsEmpty());
}

TEST_P(ConsumerContract, ACancelOfAnOfferTakesEffectAtOnce) {
  add({});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  EXPECT_TRUE(zone.tasks().cancel("a", "q", by));
  EXPECT_EQ(state(), State::cancelled);
  EXPECT_EQ(puller.start(claim).error().code, Code::fenced);
}

TEST_P(ConsumerContract, ACancelOfAStartedTaskIsToldByARenewal) {
  add({});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  puller.start(claim).value();
  EXPECT_TRUE(zone.tasks().cancel("a", "q", by));
  EXPECT_EQ(renewed(puller, claim).kind, RenewResult::Kind::asked_to_stop);
  EXPECT_EQ(settle(puller, claim, Outcome::failed("stopped")).value(), State::cancelled);
}

TEST_P(ConsumerContract, ARenewalProlongsAnOfferAndAStartedTask) {
  add({.in_doubt = InDoubt::hold});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  for (int i = 0; i < 4; ++i) {
    pass(7s);
    EXPECT_EQ(renewed(puller, claim).kind, RenewResult::Kind::renewed);
    EXPECT_THAT(offers(puller), IsEmpty());
  }
  puller.start(claim).value();
  for (int i = 0; i < 4; ++i) {
    pass(20s);
    EXPECT_EQ(renewed(puller, claim).lease, kLease);
    EXPECT_THAT(offers(puller), IsEmpty());
  }
  pass(kLease);
  EXPECT_THAT(offers(puller), IsEmpty());
  EXPECT_EQ(state(), State::in_doubt) << "it had started, so a person decides";
}

TEST_P(ConsumerContract, TheTimeoutOfTheQueueEndsTheRenewals) {
  add({.timeout = 60s});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  puller.start(claim).value();
  pass(25s);
  EXPECT_EQ(renewed(puller, claim).lease, kLease);
  pass(25s);
  EXPECT_EQ(renewed(puller, claim).lease, 10s) << "what is left of the timeout";
  pass(10s);
  EXPECT_EQ(renewed(puller, claim).kind, RenewResult::Kind::overdue);
}

TEST_P(ConsumerContract, AnyProcessMayUseTheHandle) {
  if (!GetParam().persists) GTEST_SKIP() << "one process only";
  add({.in_doubt = InDoubt::hold});
  publish("a");
  std::string claim;
  {
    Consumer puller = consumer();
    claim = offered(puller);
  }
  auto state_of_other = std::make_shared<detail::ZoneState>(GetParam().open(folder.path(), clock));
  Zone other = detail::Access::make<Zone>(state_of_other);
  Consumer puller = other.consumer("q", {.name = "another"}).value();
  EXPECT_THAT(offers(puller), IsEmpty()) << "the claim outlives the consumer that made it";
  EXPECT_EQ(puller.start(claim).value().task.id, "a");
  EXPECT_EQ(settle(puller, claim, Outcome::completed()).value(), State::completed);
}

TEST_P(ConsumerContract, ForeignAndForgedHandlesAreRefused) {
  add({});
  publish("a");
  zone.queues().add({.name = "other", .topic = "t"}).value();
  Consumer puller = consumer();
  Consumer other = zone.consumer("other", {.name = "o"}).value();
  const std::string claim = offered(puller);
  EXPECT_EQ(other.start(claim).error().code, Code::queue_mismatch);
  EXPECT_EQ(settle(other, claim, Outcome::completed()).error().code, Code::queue_mismatch);
  for (const std::string& forged : {std::string(), std::string("x"), claim + "A"})
    EXPECT_EQ(puller.start(forged).error().code, Code::invalid_input);
  EXPECT_TRUE(puller.start(claim));
}

TEST_P(ConsumerContract, ARepeatedSettlementIsRecordedOnce) {
  add({.attempts = 3, .backoff = {1s}});
  publish("a");
  Consumer puller = consumer();
  const std::string first = offered(puller);
  puller.start(first).value();
  EXPECT_EQ(settle(puller, first, Outcome::failed("no")).value(), State::retrying);
  EXPECT_EQ(settle(puller, first, Outcome::failed("no")).value(), State::retrying);
  EXPECT_THAT(view().attempts, SizeIs(1));
  pass(2s);
  const std::string second = offered(puller);
  puller.start(second).value();
  EXPECT_TRUE(settle(puller, first, Outcome::failed("no"))) << "a late repeat of the first";
  EXPECT_EQ(settle(puller, first, Outcome::completed()).error().code, Code::fenced);
  EXPECT_EQ(settle(puller, second, Outcome::completed()).value(), State::completed);
  EXPECT_EQ(settle(puller, second, Outcome::completed()).value(), State::completed);
  EXPECT_THAT(view().attempts, SizeIs(2));
}

TEST_P(ConsumerContract, ASettlementOffersTheNextTasks) {
  add({});
  for (const char* id : {"a", "b", "c", "d"}) publish(id);
  Consumer puller = consumer();
  std::vector<std::string> ran;
  std::vector<Offer> next = offers(puller, 1);
  while (!next.empty()) {
    std::vector<Settlement> settlements;
    for (const Offer& offer : next) {
      ran.push_back(puller.start(offer.claim).value().task.id);
      settlements.push_back({.claim = offer.claim});
    }
    Settled settled = puller.settle(std::move(settlements), 2);
    for (const auto& each : settled.states) EXPECT_EQ(each.value(), State::completed);
    next = std::move(settled.next);
  }
  EXPECT_THAT(ran, ::testing::UnorderedElementsAre("a", "b", "c", "d"));
}

TEST_P(ConsumerContract, StepsAreRememberedAndACallIdTellsARepeatFromAnother) {
  add({.attempts = 2, .backoff = {1s}});
  publish("a");
  Consumer puller = consumer();
  const std::string first = offered(puller);
  puller.start(first).value();
  EXPECT_EQ(puller.begin_step(first, "mail", {.call = "1"}).value().kind, StepStart::Kind::run);
  EXPECT_EQ(puller.begin_step(first, "mail", {.call = "1"}).value().kind, StepStart::Kind::run);
  EXPECT_EQ(puller.begin_step(first, "mail", {.call = "2"}).error().reason, Reason::step_under_way);
  EXPECT_EQ(puller.end_step(first, "mail", {}, "2").error().reason, Reason::step_under_way);
  EXPECT_EQ(puller.hold_step(first, "mail", {}, "2").error().reason, Reason::step_under_way);
  EXPECT_TRUE(puller.end_step(first, "mail", Body::json("17").value(), "1"));
  EXPECT_TRUE(puller.end_step(first, "mail", Body::json("17").value(), "1"));
  EXPECT_EQ(puller.begin_step(first, "pay").value().kind, StepStart::Kind::run);
  EXPECT_TRUE(puller.fail_step(first, "pay", "declined"));
  EXPECT_EQ(settle(puller, first, Outcome::failed("declined")).value(), State::retrying);
  pass(2s);
  const std::string second = offered(puller);
  const StartedTask task = puller.start(second).value();
  ASSERT_THAT(task.steps, SizeIs(2));
  EXPECT_EQ(task.steps[0].state, StepView::State::done);
  EXPECT_EQ(task.steps[0].result->text(), "17");
  const StepStart mail = puller.begin_step(second, "mail", {.call = "3"}).value();
  EXPECT_EQ(mail.kind, StepStart::Kind::remembered);
  EXPECT_EQ(mail.result.text(), "17");
  EXPECT_EQ(puller.begin_step(second, "pay").value().kind, StepStart::Kind::run);
  EXPECT_TRUE(puller.end_step(second, "pay", {}));
  EXPECT_EQ(settle(puller, second, Outcome::completed()).value(), State::completed);
}

TEST_P(ConsumerContract, ALateRepeatDoesNotChangeAnotherCallOfTheStep) {
  add({});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  puller.start(claim).value();
  const StepOptions first{.call = "1", .policy = InDoubt::hold};
  const StepOptions second{.call = "2", .policy = InDoubt::hold};
  EXPECT_TRUE(puller.begin_step(claim, "pay", first));
  EXPECT_TRUE(puller.fail_step(claim, "pay", "declined", "1"));
  EXPECT_EQ(puller.begin_step(claim, "pay", first).error().code, Code::wrong_state)
      << "the begin of the failed try arrives late";
  EXPECT_EQ(puller.begin_step(claim, "pay", second).value().kind, StepStart::Kind::run);
  EXPECT_TRUE(puller.fail_step(claim, "pay", "declined", "1")) << "so does its fail";
  EXPECT_EQ(step("pay").state, StepView::State::running);
  pass(kLease);
  EXPECT_THAT(offers(puller), IsEmpty());
  EXPECT_EQ(state(), State::in_doubt) << "the second try was cut off, and is to be held";
}

TEST_P(ConsumerContract, TheErrorOfAFailedStepIsBounded) {
  add({});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  puller.start(claim).value();
  EXPECT_TRUE(puller.begin_step(claim, "pay"));
  EXPECT_TRUE(puller.fail_step(claim, "pay", std::string(500'000, 'x')));
  EXPECT_EQ(step("pay").error.size(), 256U);
}

TEST_P(ConsumerContract, ACancelledTaskBeginsNoStepAndCanBeSettled) {
  add({});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = offered(puller);
  puller.start(claim).value();
  EXPECT_TRUE(zone.tasks().cancel("a", "q", by));
  EXPECT_THAT(puller.begin_step(claim, "pay").error().message, HasSubstr("settle this claim"));
  EXPECT_EQ(settle(puller, claim, Outcome::failed("stopped")).value(), State::cancelled);
}

TEST_P(ConsumerContract, AnOfferCanBeForAnotherWorker) {
  add({.in_doubt = InDoubt::probe});
  publish("a");
  Consumer puller = consumer();
  const std::string claim = puller.offer(1, {}, {}, OfferFor{.worker = "py-1"}).value().at(0).claim;
  EXPECT_EQ(view().next.by, "py-1");
  puller.start(claim).value();
  EXPECT_EQ(view().attempts.at(0).worker, "py-1");
}

TEST_P(ConsumerContract, AStepThatWasCutOffIsAskedAboutOrHeld) {
  add({.attempts = 3});
  publish("a");
  Consumer puller = consumer();
  const std::string first = offered(puller);
  puller.start(first).value();
  EXPECT_TRUE(puller.begin_step(first, "pay", {.policy = InDoubt::probe}));
  pass(kLease);
  const std::string second = offered(puller);
  EXPECT_EQ(step("pay").state, StepView::State::in_doubt) << "it is only offered";
  EXPECT_TRUE(puller.start(second).value().in_doubt);
  EXPECT_EQ(puller.begin_step(second, "pay", {.policy = InDoubt::probe}).value().kind,
            StepStart::Kind::ask);
  EXPECT_TRUE(puller.hold_step(second, "pay", "nobody knows"));
  EXPECT_EQ(state(), State::in_doubt);
  EXPECT_EQ(settle(puller, second, Outcome::completed()).error().code, Code::fenced);
}

TEST_P(ConsumerContract, AProbeIsAskedBeforeTheTaskRunsAgain) {
  add({.attempts = 3, .in_doubt = InDoubt::probe});
  publish("a");
  Consumer puller = consumer({.can_probe = true});
  puller.start(offered(puller)).value();
  pass(kLease);
  const std::string claim = offered(puller);
  EXPECT_TRUE(puller.start(claim).value().probing);
  EXPECT_EQ(puller.settle({{.claim = claim, .probe = Settlement::Probe::did_not_happen}})
                .states.at(0)
                .value(),
            State::running)
      << "the claim goes on";
  EXPECT_FALSE(puller.start(claim).value().probing);
  EXPECT_EQ(settle(puller, claim, Outcome::completed()).value(), State::completed);
  EXPECT_THAT(story(), ElementsAre("did_not_happen"));
}

TEST_P(ConsumerContract, AProbeThatKnowsCompletesOrHolds) {
  add({.attempts = 3, .in_doubt = InDoubt::probe});
  for (const char* id : {"a", "b"}) publish(id);
  Consumer puller = consumer({.can_probe = true});
  for (const Offer& offer : offers(puller)) puller.start(offer.claim).value();
  pass(kLease);
  std::vector<Offer> got = offers(puller);
  ASSERT_THAT(got, SizeIs(2));
  if (got[0].id == "b") std::swap(got[0], got[1]);
  for (const Offer& offer : got) EXPECT_TRUE(puller.start(offer.claim).value().probing);
  const Settled settled =
      puller.settle({{.claim = got[0].claim, .probe = Settlement::Probe::happened},
                     {.claim = got[1].claim, .probe = Settlement::Probe::unknown}});
  EXPECT_EQ(settled.states[0].value(), State::completed);
  EXPECT_EQ(settled.states[1].value(), State::in_doubt);
}

TEST_P(ConsumerContract, AnOrderToRunATaskAgainSurvivesALapsedOffer) {
  add({.attempts = 1});
  publish("a");
  run([](Context&) { return Outcome::dead("no"); });
  ASSERT_EQ(state(), State::dead);
  EXPECT_TRUE(zone.tasks().retry("a", "q", by));
  Consumer puller = consumer();
  static_cast<void>(offered(puller));
  pass(kOffer);
  const std::string claim = offered(puller);
  EXPECT_EQ(puller.start(claim).value().attempt, 2);
  EXPECT_EQ(settle(puller, claim, Outcome::completed()).value(), State::completed);
  EXPECT_THAT(story(), ElementsAre("retried"));
}

TEST_P(ConsumerContract, TwentyLapsesInARowMakeTheTaskWaitAndTheDoctorTells) {
  add({.attempts = 1, .backoff = {60s}});
  publish("a");
  Consumer puller = consumer();
  for (int i = 0; i < 20; ++i, pass(kOffer)) ASSERT_THAT(offers(puller), SizeIs(1)) << i;
  EXPECT_THAT(offers(puller), IsEmpty());
  EXPECT_EQ(state(), State::retrying);
  std::vector<std::string> found;
  for (const Finding& finding : zone.doctor().value().findings) found.push_back(finding.code);
  EXPECT_THAT(found, ::testing::Contains("never_started"));
  pass(75s);
  const std::string claim = offered(puller);
  EXPECT_EQ(puller.start(claim).value().attempt, 1);
  EXPECT_EQ(settle(puller, claim, Outcome::completed()).value(), State::completed);
}

TEST_P(ConsumerContract, ADuplicateOfAKeyIsSetAsideAndNotOffered) {
  add({.key = "{k}"});
  publish("a", R"({"k":1})");
  publish("b", R"({"k":1})");
  Consumer puller = consumer();
  ASSERT_THAT(offers(puller), SizeIs(1));
  static_cast<void>(offers(puller));
  EXPECT_EQ(state("b"), State::duplicate);
}

TEST_P(ConsumerContract, AnOfferWaitsForATaskAndEndsWithItsStop) {
  add({});
  Consumer puller = consumer();
  std::stop_source stop;
  std::optional<Result<std::vector<Offer>>> got;
  std::thread waiting([&] { got = puller.offer(4, 60s, stop.get_token()); });
  publish("a");
  waiting.join();
  ASSERT_THAT(got->value(), SizeIs(1));
  std::thread stopped([&] { got = puller.offer(4, 60s, stop.get_token()); });
  stop.request_stop();
  stopped.join();
  EXPECT_THAT(got->value(), IsEmpty());
}

TEST_P(ConsumerContract, ManyCallersNeverShareATask) {
  add({.in_doubt = InDoubt::hold});
  std::set<std::string> all;
  for (int i = 0; i < 60; ++i) {
    publish("t" + std::to_string(i));
    all.insert("t" + std::to_string(i));
  }
  std::mutex mutex;
  std::multiset<std::string> ran;
  at_once(4, [&](int caller) {
    Consumer puller = zone.consumer("q", {.name = "p" + std::to_string(caller)}).value();
    for (int idle = 0; idle < 3;) {
      const std::vector<Offer> got = puller.offer(5).value();
      idle = got.empty() ? idle + 1 : 0;
      for (const Offer& offer : got) {
        const StartedTask task = puller.start(offer.claim).value();
        {
          const std::lock_guard lock(mutex);
          ran.insert(task.task.id);
        }
        EXPECT_EQ(settle(puller, offer.claim, Outcome::completed()).value(), State::completed);
      }
    }
  });
  EXPECT_EQ(ran, std::multiset<std::string>(all.begin(), all.end()));
  EXPECT_EQ(count(State::completed), 60U);
}

TEST_P(ConsumerContract, SomeQueuesHaveNoOffers) {
  zone.queues().add({.name = "ledger", .ledger = true}).value();
  EXPECT_EQ(zone.consumer("ledger").error().reason, Reason::queue_is_ledger_only);
  EXPECT_EQ(zone.consumer("nowhere").error().reason, Reason::no_queue);
}

TEST_P(ConsumerContract, TheNumberOfOffersIsBounded) {
  add({});
  Consumer puller = consumer();
  EXPECT_EQ(puller.offer(0).error().code, Code::invalid_input);
  EXPECT_EQ(puller.offer(1001).error().code, Code::invalid_input);
}

}  // namespace
}  // namespace once::contract
