// What people see of runs, also of those that outlive what the log remembers.
#include <thread>

#include "contract/flows.h"

namespace once::contract {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FlowViewContract : public FlowZone {};
ONCE_FOR_EVERY_STORE(FlowViewContract);

TEST_P(FlowViewContract, EventsAreTheStoryInOrder) {
  add_flow(kTwo);
  const std::string run = start(R"({"n":1})");
  settle();
  EXPECT_THAT(events(run), ElementsAre("started", "task a", "step a completed", "task b",
                                       "step b completed", "ended completed"));
  const auto all = flows.events(run).value();
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_LT(all[i - 1].sequence, all[i].sequence);
  EXPECT_EQ(all[0].value.value().text(), R"({"n":1})");
  EXPECT_EQ(all[2].value.value().text(), R"({"did":"a"})");
  EXPECT_EQ(all[2].id, run + ".a.ended.1");
  EXPECT_EQ(all[2].n, 1U);
}

TEST_P(FlowViewContract, ARunIsShownAsItStoodAtASequence) {
  add_flow(kTwo);
  const std::string run = start();
  settle();
  const auto all = flows.events(run).value();
  ASSERT_THAT(all, SizeIs(6));
  const RunView begun = flows.show(run, all[0].sequence).value();
  EXPECT_EQ(begun.info.state, RunPhase::running);
  EXPECT_EQ(step_in(begun, "a").status, StepStatus::active);
  EXPECT_EQ(step_in(begun, "b").status, StepStatus::pending);
  EXPECT_EQ(begun.info.steps_done, 0U);
  const RunView half = flows.show(run, all[2].sequence).value();
  EXPECT_EQ(half.sequence, all[2].sequence);
  EXPECT_EQ(step_in(half, "a").status, StepStatus::completed);
  EXPECT_EQ(step_in(half, "b").status, StepStatus::active);
  EXPECT_EQ(half.info.state, RunPhase::running);
  EXPECT_FALSE(half.info.ended_at);
  EXPECT_EQ(flows.show(run, all[5].sequence).value().info.state, RunPhase::completed);
}

// Damaged, or written by a newer version. The others are shown, and this one is named.
TEST_P(FlowViewContract, ARunThatCannotBeReadDoesNotHideTheOthers) {
  add_flow(kGoThenA);
  const std::string good = start();
  settle();
  const std::string bad = "w-" + std::string(26, 'z');
  const store::KeyWrite broken{.key = {"run", bad}, .bytes = R"({"v":1000})"};
  const auto written =
      std::move(impl->store->key_values().write(std::span(&broken, 1)).front()).value();

  const auto found = flows.runs({.workflow = "w"}).value();
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].run, bad);
  EXPECT_EQ(found[0].workflow, "w");
  EXPECT_EQ(found[0].state, RunPhase::unreadable);
  EXPECT_THAT(found[0].error, HasSubstr("newer version"));
  EXPECT_EQ(found[1].run, good);
  EXPECT_THAT(flows.runs({.state = RunPhase::unreadable}).value(), SizeIs(1));
  EXPECT_THAT(flows.runs({.state = RunPhase::waiting}).value(), SizeIs(1));
  EXPECT_THAT(flows.runs({.workflow = "v"}).value(), IsEmpty());

  const Audit audit = zone.audit().value();
  ASSERT_THAT(audit.discrepancies, SizeIs(1));
  EXPECT_EQ(audit.discrepancies[0].kind, Discrepancy::Kind::damaged);
  EXPECT_EQ(audit.discrepancies[0].task, bad);
  for (const bool deep : {false, true}) {
    std::vector<std::string> said;
    for (const Finding& finding : zone.doctor({.deep = deep}).value().findings)
      if (finding.code == "unreadable_run") said.push_back(finding.what);
    EXPECT_THAT(said, ElementsAre(HasSubstr(bad)));
  }
  EXPECT_FALSE(flows.show(bad));
  flows.signal(good, "go", json("{}"), "1").value();
  settle();
  EXPECT_EQ(phase(good), RunPhase::completed);
  EXPECT_TRUE(impl->store->key_values().remove(broken.key, written.revision).value());
}

// A start key is to a run what an id is to a task: without it, the run begins twice.
TEST_P(FlowViewContract, ADeepAuditNamesARunWhoseKeyDefinitionOrOutputIsLost) {
  store::KeyValue& values = impl->store->key_values();
  // The condition reads the output, so the doctor meets the loss in several places.
  add_flow(
      R"({"id":"a","task":"do.a"},{"id":"go","signal":"go","depends_on":["a"]},)"
      R"({"id":"b","task":"do.b","depends_on":["go"],"skip_if":{"path":"steps.a","equals":1}})",
      R"("idempotency_key":"order")");
  does["a"] = [](Context&) {
    return Outcome::completed(Body::json('"' + std::string(8 << 10, 'x') + '"').value());
  };
  const std::string run = start(R"({"order":7})");
  settle();
  const auto lost = [&](const store::Key& key) {
    auto value = std::move(values.get(std::span(&key, 1)).front()).value().value();
    EXPECT_TRUE(values.remove(key, value.revision).value());
    EXPECT_THAT(zone.audit().value().discrepancies, IsEmpty());
    std::vector<std::string> said;
    for (const Discrepancy& each : zone.audit({.deep = true}).value().discrepancies)
      said.push_back(each.task + each.what + each.harm);
    for (const Finding& each : zone.doctor({.deep = true}).value().findings)
      if (each.code == "contradiction") said.push_back(each.about + each.what + each.harm);
    const store::KeyWrite back{.key = key, .bytes = value.bytes, .lives = value.lives};
    EXPECT_TRUE(std::move(values.write(std::span(&back, 1)).front()).value().written);
    return said;
  };
  const auto is_told = [&](const std::string& what, const std::string& harm) {
    const auto each = AllOf(HasSubstr(run), HasSubstr(what), HasSubstr(harm));
    return ElementsAre(each, each);
  };
  EXPECT_THAT(lost({"key", "w", "7"}), is_told("its key '7' is missing", "second run"));
  EXPECT_THAT(lost({"flow", "w", "0000000001"}), is_told("no workflow 'w'", "no runner"));
  EXPECT_THAT(lost({"value", run + ".a.1"}), is_told("the output", "cannot start"));
  EXPECT_THAT(zone.audit({.deep = true}).value().discrepancies, IsEmpty());
}

TEST_P(FlowViewContract, RunsAreListedTheLastStartedFirstAndByFilter) {
  add_flow(kGoThenA);
  flows.add(R"({"name":"v","steps":[{"id":"b","task":"do.b"}]})").value();
  std::vector<std::string> all;
  const auto begin = [&](std::string_view name, int n) {
    all.insert(all.begin(), flows.start(name, json(std::to_string(n))).value().run);
    pass(1s);
  };
  for (int i = 0; i < 3; ++i) begin("w", i);
  const Time later = clock->now();
  begin("v", 1);
  begin("w", 3);
  const auto listed = [&](const RunFilter& filter, const RunInfo* after = nullptr) {
    std::vector<std::string> found;
    for (const RunInfo& info : flows.runs(filter, after).value()) found.push_back(info.run);
    return found;
  };
  EXPECT_EQ(listed({}), all) << "before any runner came";
  settle();
  EXPECT_EQ(listed({}), all);
  EXPECT_THAT(listed({.workflow = "v"}), ElementsAre(all[1]));
  EXPECT_THAT(listed({.state = RunPhase::completed}), ElementsAre(all[1]));
  EXPECT_THAT(listed({.state = RunPhase::waiting}), ElementsAre(all[0], all[2], all[3], all[4]));
  EXPECT_THAT(listed({.workflow = "v", .state = RunPhase::waiting}), IsEmpty());
  EXPECT_THAT(listed({.since = later}), ElementsAre(all[0], all[1]));
  EXPECT_THAT(listed({.limit = 2}), ElementsAre(all[0], all[1]));
  const RunInfo second = flows.runs({.limit = 2}).value().back();
  EXPECT_THAT(listed({.limit = 2}, &second), ElementsAre(all[2], all[3]));

  const RunInfo waits = flows.runs({}).value().front();
  EXPECT_EQ(waits.workflow, "w");
  EXPECT_EQ(waits.steps, 2U);
  EXPECT_EQ(waits.steps_done, 0U);
  EXPECT_THAT(waits.waits_for, HasSubstr("go"));
  EXPECT_FALSE(waits.ended_at);
  EXPECT_TRUE(second.ended_at);
}

TEST_P(FlowViewContract, ARunIsFoundByItsKey) {
  const std::string steps = R"("idempotency_key":"id","steps":[{"id":"a","task":"do.a"}]})";
  flows.add(R"({"name":"w",)" + steps).value();
  flows.add(R"({"name":"w","version":2,)" + steps).value();
  flows.add(R"({"name":"v",)" + steps).value();
  const auto begin = [&](std::string_view name, std::string_view input, std::uint32_t version = 0) {
    const auto started = flows.start(name, json(input), {.version = version}).value();
    pass(1s);
    settle();
    return started.run;
  };
  const auto listed = [&](const RunFilter& filter, const RunInfo* after = nullptr) {
    std::vector<std::string> found;
    for (const RunInfo& info : flows.runs(filter, after).value()) found.push_back(info.run);
    return found;
  };
  const std::string older = begin("w", R"({"id":"x"})", 1);
  pass(25h);  // another run may have the key by now
  const std::string last = begin("w", R"({"id":"x","n":2})");
  const std::string other = begin("v", R"({"id":"x"})");
  const std::string another = begin("w", R"({"id":"y"})");

  EXPECT_EQ(flows.runs({.workflow = "w", .key = "x"}).value().at(0).key, "x");
  EXPECT_THAT(listed({.workflow = "w", .key = "x"}), ElementsAre(last));
  EXPECT_THAT(listed({.key = "x"}), ElementsAre(other, last, older));
  EXPECT_THAT(listed({.key = "x", .limit = 1}), ElementsAre(other));
  EXPECT_THAT(listed({.workflow = "w", .key = "z"}), IsEmpty());
  EXPECT_THAT(listed({.key = "z"}), IsEmpty());
  EXPECT_THAT(listed({.workflow = "w", .key = "x", .state = RunPhase::failed}), IsEmpty());
  const RunInfo found = flows.runs({.workflow = "w", .key = "x"}).value().at(0);
  EXPECT_THAT(listed({.workflow = "w", .key = "x"}, &found), IsEmpty());

  EXPECT_THAT(listed({.workflow = "w", .version = 1}), ElementsAre(older));
  EXPECT_THAT(listed({.workflow = "w", .version = 2}), ElementsAre(another, last));
  EXPECT_THAT(listed({.workflow = "w", .version = 1, .key = "x"}), IsEmpty());
}

TEST_P(FlowViewContract, WhoHadARunRetriedIsSeenAndClosingItIsNoRetry) {
  add_flow(R"({"id":"a","task":"do.a"})");
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  const std::string run = start();
  settle();
  flows.retry(run, {.who = "ann", .why = "the card is unlocked"}).value();
  settle();
  RunEvent retried;
  for (const RunEvent& event : flows.events(run).value()) {
    if (event.kind == RunEvent::Kind::retried)
      retried = event;
    else
      EXPECT_EQ(event.by.who, "") << event.id;
  }
  EXPECT_EQ(retried.by.who, "ann");
  EXPECT_EQ(retried.by.why, "the card is unlocked");

  const RunView failed = show(run);
  EXPECT_EQ(failed.round, 2U);
  EXPECT_FALSE(failed.closed);
  flows.cancel(run, by).value();
  settle();
  const RunView closed = show(run);
  EXPECT_EQ(closed.info.state, RunPhase::cancelled);
  EXPECT_EQ(closed.round, 2U);
  EXPECT_TRUE(closed.closed);
  EXPECT_FALSE(flows.show(run, failed.sequence).value().closed);
}

TEST_P(FlowViewContract, AWaitEndsWithTheRun) {
  add_flow(kGoThenA);
  const std::string run = start();
  settle();
  EXPECT_EQ(flows.wait(run, 5ms).error().code, Code::timed_out);
  std::jthread waiting(
      [&] { EXPECT_EQ(flows.wait(run, 60s).value().info.state, RunPhase::completed); });
  flows.signal(run, "go", {}, "1").value();
  settle();
}

// --- Retention ------------------------------------------------------------------------------

class FlowRetentionContract : public FlowZone {
 protected:
  // So long that everything which may be forgotten is.
  void forget() {
    const Retention ages = zone.retention().value();
    for (const Duration age : {ages.bodies, ages.records, ages.ids, Duration{1h}}) {
      pass(age + 1h);
      zone.retire().value();
    }
  }
  // Values of that kind.
  std::size_t kept(const std::string& kind) {
    return impl->store->key_values().list({.prefix = {kind}})->values.size();
  }
  std::uint64_t kept_events() {
    std::uint64_t all = 0;
    for (const auto& [state, count] : impl->store->counts("once-flow").value().tasks) all += count;
    return all;
  }
};
ONCE_FOR_EVERY_STORE(FlowRetentionContract);

// The log still has how it began.
TEST_P(FlowRetentionContract, AForgottenRunIsNotTakenForOneThatHasJustBegun) {
  zone.set_retention({.bodies = 240h, .records = 24h, .ids = 240h}).value();
  add_flow(kGoThenA);
  const std::string run = start();
  EXPECT_EQ(phase(run), RunPhase::waiting) << "no runner has come yet";
  flows.signal(run, "go", {}, "1").value();
  settle();
  pass(25h);
  zone.retire().value();
  ASSERT_TRUE(impl->store->find(run + ".started").value()->body);
  EXPECT_EQ(flows.show(run).error().code, Code::not_found);
  EXPECT_THAT(flows.show(run).error().message, HasSubstr("forgotten"));
  EXPECT_EQ(flows.wait(run, 1min).error().code, Code::not_found);
  EXPECT_EQ(flows.signal(run, "go", {}, "2").error().code, Code::not_found);
  EXPECT_EQ(flows.cancel(run, by).error().code, Code::not_found);
}

TEST_P(FlowRetentionContract, ARunThatWaitsLongerThanTheLogRemembersGoesOn) {
  add_flow(R"({"id":"a","task":"do.a"},{"id":"go","signal":"go","depends_on":["a"]},)"
           R"({"id":"b","task":"do.b","depends_on":["go","big"],
          "input":{"a":"steps.a","big":"steps.big"}},{"id":"big","task":"do.big"})");
  const std::string large = '"' + std::string(100'000, 'x') + '"';
  does["big"] = [&](Context&) { return Outcome::completed(json(large)); };
  const std::string run = start(R"({"n":1})");
  settle();
  const std::uint64_t before = show(run).sequence;
  const std::vector<std::string> story = events(run);
  forget();
  EXPECT_EQ(zone.tasks().inspect(run + ".a").error().code, Code::not_found);
  EXPECT_EQ(zone.tasks().inspect(run + ".started").error().code, Code::not_found);

  EXPECT_EQ(phase(run), RunPhase::waiting);
  EXPECT_TRUE(flows.start("w", json(R"({"n":1})")).value().duplicate);
  flows.signal(run, "go", {}, "1").value();
  settle();
  EXPECT_EQ(phase(run), RunPhase::completed);
  EXPECT_TRUE(given["b"] == R"({"a":{"did":"a"},"big":)" + large + "}");
  const RunView then = flows.show(run, before).value();
  EXPECT_EQ(then.info.state, RunPhase::waiting);
  EXPECT_EQ(step_in(then, "go").status, StepStatus::active);
  EXPECT_EQ(step_in(then, "a").output.value().text(), R"({"did":"a"})");
  for (const std::string event : {"started", "step a completed", "signal", "step go completed",
                                  "step b completed", "ended completed"})
    EXPECT_THAT(events(run), Contains(HasSubstr(event)));
}

// The facts outlive the log: who asks later hears what was said first.
TEST_P(FlowRetentionContract, WhatWasSaidToARunIsKnownWhenTheLogHasForgottenIt) {
  add_flow(
      R"({"id":"ok","approval":"Is it?"},{"id":"go","signal":"go"},{"id":"more","signal":"more"})");
  const std::string run = start();
  settle();
  flows.approve(run, "ok", false, by).value();
  const Receipt sent = flows.signal(run, "go", json("1"), "s").value().receipt;
  settle();
  forget();
  EXPECT_EQ(flows.approve(run, "ok", true, {.who = "bob"}).error().code,
            Code::conflicting_duplicate);
  const Approved again = flows.approve(run, "ok", false, {.who = "bob"}).value();
  EXPECT_TRUE(again.duplicate);
  EXPECT_EQ(again.by, "ann");
  const Receipt resent = flows.signal(run, "go", json("1"), "s").value().receipt;
  EXPECT_TRUE(resent.duplicate);
  EXPECT_EQ(resent.sequence, sent.sequence);
  EXPECT_EQ(flows.signal(run, "go", json("2"), "s").error().code, Code::conflicting_duplicate);
}

TEST_P(FlowRetentionContract, AnEndedRunIsForgottenAndAFailedOneKept) {
  add_flow(R"({"id":"a","task":"do.a"})");
  const std::string done = start("1");
  settle();
  does["a"] = [](Context&) { return Outcome::dead("no"); };
  const std::string failed = start("2");
  settle();
  forget();
  EXPECT_EQ(flows.show(done).error().code, Code::not_found);
  EXPECT_EQ(phase(failed), RunPhase::failed);
  EXPECT_NE(start("1"), done) << "its key is forgotten, too";
  flows.cancel(failed, by).value();
  settle();
  EXPECT_EQ(phase(failed), RunPhase::cancelled);
  forget();
  EXPECT_EQ(flows.show(failed).error().code, Code::not_found);
}

// Also what is large and lies elsewhere: outputs of steps, of the run, and of who came too late.
TEST_P(FlowRetentionContract, WhatWasKeptForARunGoesWithIt) {
  add_flow(R"({"id":"a","task":"do.a"})", R"("output":"steps.a")");
  std::string late;
  does["a"] = [&](Context&) {
    if (!late.empty()) {
      flows.cancel(late, by).value();
      while (drive()) continue;
    }
    return Outcome::completed(json('"' + std::string(100'000, 'x') + '"'));
  };
  start("1");
  settle();
  late = start("2");
  settle();
  EXPECT_EQ(phase(late), RunPhase::cancelled);
  EXPECT_GT(kept("value"), 0U);
  forget();
  EXPECT_EQ(kept("run"), 0U);
  EXPECT_EQ(kept("key"), 0U);
  EXPECT_EQ(kept("value"), 0U);
  EXPECT_EQ(kept_events(), 0U);
}

}  // namespace
}  // namespace once::contract
