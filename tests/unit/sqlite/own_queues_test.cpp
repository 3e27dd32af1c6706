// The queue of the events of workflows: no person's command adds, removes or drains it. Nobody may add a
// queue under a name that an older version used for workflows.
#include <gmock/gmock.h>

#include "flow/definition/state.h"
#include "once/once.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class OwnQueues : public ::testing::Test {
 protected:
  OwnQueues() {
    zone_.queues().add({.name = "work", .topic = ">"}).value();
    EXPECT_TRUE(store_->add_queue({.name = "once-flow", .topic = "$once.flow.>"})->added);
  }
  template <class T>
  static void refused(const Result<T>& answer, const std::string& what) {
    ASSERT_FALSE(answer) << what;
    EXPECT_EQ(answer.error().code, Code::invalid_input);
    EXPECT_THAT(answer.error().message, HasSubstr("belongs to workflows; nothing was " + what));
  }
  std::vector<std::string> shown() {
    std::vector<std::string> names;
    for (const QueueStatus& each : zone_.status().value().queues) names.push_back(each.queue.name);
    return names;
  }
  std::vector<std::string> listed(const ListFilter& filter) {
    std::vector<std::string> found;
    std::optional<ListItem> last;
    while (true) {
      auto items = zone_.tasks().list(filter, last ? &*last : nullptr).value();
      if (items.empty()) return found;
      for (const ListItem& item : items) found.push_back(item.queue + "/" + item.id);
      last = items.back();
    }
  }

  static constexpr const char* kLedgers[] = {"once-flows", "once-runs", "once-keys", "once-values"};
  testing::TempFolder folder_;
  Zone zone_ = Zone::open((folder_ / "zone.db").string()).value();
  std::unique_ptr<Store> store_ = open_zone(folder_ / "zone.db");
};

TEST_F(OwnQueues, AreNotAddedRemovedOrDrainedByHand) {
  refused(zone_.queues().add({.name = "once-flow", .topic = ">"}), "added");
  refused(zone_.queues().remove("once-flow", {.force = true}), "removed");
  refused(zone_.worker("once-flow", [](Context&) { return Outcome::completed(); }), "started");
  for (const char* name : kLedgers) {
    refused(zone_.queues().add({.name = name, .ledger = true}), "added");
    refused(zone_.queues().remove(name), "removed");
    refused(zone_.ledger(name), "claimed");
    EXPECT_FALSE(store_->add_queue({.name = name, .ledger = true})) << "as an older version would";
  }
  EXPECT_EQ(zone_.queues().list()->size(), 2U);
}

TEST_F(OwnQueues, AnEventIsChangedAsATask) {
  append(*store_, task("payment-1.timer.1", "{}", "$once.flow.payment.timer")).value();
  EXPECT_EQ(zone_.tasks().cancel("payment-1.timer.1", "once-flow", {}).value(), State::cancelled);
}

TEST_F(OwnQueues, ArePausedAndSetByHand) {
  EXPECT_TRUE(zone_.queues().pause("once-flow")->paused);
  EXPECT_FALSE(zone_.queues().resume("once-flow")->paused);
}

TEST_F(OwnQueues, NoOtherQueueTakesTheirTopics) {
  const auto answer = zone_.queues().add({.name = "mine", .topic = "$once.flow.>"});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::invalid_input);
  EXPECT_THAT(answer.error().message, HasSubstr("belong to Once itself"));
  EXPECT_FALSE(zone_.publish({.topic = "$once.flow.payment.started", .id = "run.started"}));
}

TEST_F(OwnQueues, EventsAreShownAmongTasks) {
  append(*store_, task("payment-1.started", "{}", "$once.flow.payment.started")).value();
  for (const char* id : {"a", "b", "c"}) zone_.publish({.topic = "t", .id = id}).value();
  EXPECT_THAT(shown(), ElementsAre("once-flow", "work"));
  EXPECT_EQ(zone_.status()->unrouted, 0U);
  for (const std::size_t page : {1U, 2U, 100U})
    EXPECT_THAT(listed({.limit = page}),
                ElementsAre("once-flow/payment-1.started", "work/a", "work/b", "work/c"));
  EXPECT_THAT(listed({.state = State::dead}), IsEmpty());
}

// A run counts like a task; each of its rounds that ended counts like an attempt.
TEST_F(OwnQueues, AnAuditCountsRunsAndTheirEvents) {
  Flows flows = zone_.flows();
  flows
      .add(R"({"name":"w","on_missing_key":"run_unprotected","steps":[{"id":"go","signal":"go"}]})")
      .value();
  const std::string run = flows.start("w", Body::json("{}").value()).value().run;
  flows.start("w", Body::json("{}").value(), {.unique = true}).value();
  flows.cancel(run, {}).value();
  WorkflowRunner runner = flows.runner().value();
  while (runner.run_one().value()) continue;
  zone_.publish({.topic = "t", .id = "a"}).value();
  const Audit audit = zone_.audit({.by = AuditOptions::Period::all}).value();
  std::vector<std::string> counted;
  for (const AuditLine& line : audit.lines)
    counted.push_back(line.queue + " " + std::to_string(line.totals.published));
  EXPECT_THAT(counted, ElementsAre("once-flow 3", "once-runs 2", "work 1"));
  EXPECT_THAT(audit.discrepancies, IsEmpty());
  const Audit runs = zone_.audit({.by = AuditOptions::Period::all, .queue = "once-runs"}).value();
  ASSERT_THAT(runs.lines, SizeIs(1));
  EXPECT_EQ(runs.lines[0].totals.in(State::cancelled), 1U);
  EXPECT_EQ(runs.lines[0].totals.in(State::waiting), 1U);
  EXPECT_EQ(runs.lines[0].totals.attempts, 1U);
}

TEST_F(OwnQueues, WhoDrivesRunsIsNoOrdinaryWorker) {
  const auto failed = encoding::encode_state(
      {.run = "payment-1",
       .workflow = "payment",
       .version = 1,
       .rounds = {{1, {.ended = core::EndFact{.outcome = core::RunOutcome::failed}}}}});
  const store::KeyWrite item{.key = {"run", "payment-1"}, .bytes = failed};
  ASSERT_TRUE(store_->key_values().write(std::span(&item, 1)).front()->written);
  append(*store_, task("payment-1.started", "{}", "$once.flow.payment.started")).value();
  const Diagnosis diagnosis = zone_.doctor().value();
  std::vector<std::string> found;
  for (const Finding& finding : diagnosis.findings)
    if (finding.code == "nobody_works" || finding.code == "failed_runs" ||
        finding.code == "dead_letters")
      found.push_back(finding.about + ": " + finding.fix);
  EXPECT_THAT(found, UnorderedElementsAre("queue once-flow: start a runner of workflows",
                                          "runs of workflows: retry or cancel each of them"));
}

TEST_F(OwnQueues, WhatTheySpareCostsNobodyAnything) {
  append(*store_, task("run.started", "{}", "$once.flow.payment.started")).value();
  Append again = task("run.started", "{}", "$once.flow.payment.started");
  again.nonce.bytes[15] = 1;
  EXPECT_EQ(append(*store_, again)->verdict, core::AppendVerdict::duplicate);
  zone_.publish({.topic = "t", .id = "a"}).value();
  const Audit audit = zone_.audit({.by = AuditOptions::Period::all}).value();
  EXPECT_THAT(audit.discrepancies, IsEmpty());
  for (const AuditLine& line : audit.lines) EXPECT_EQ(line.own, line.queue != "work") << line.queue;
}

// As many inputs and outputs as there are runs would not fit into memory.
TEST_F(OwnQueues, ValuesArePagedByTheirSize) {
  constexpr std::size_t kValues = 40;
  for (std::size_t i = 0; i < kValues; ++i) {
    const store::KeyWrite item{.key = {"value", std::to_string(100 + i)},
                               .bytes = std::string(1 << 20, 'x')};
    ASSERT_TRUE(store_->key_values().write(std::span(&item, 1)).front()->written);
  }
  std::set<std::string> keys;
  store::KeyList query{.prefix = {"value"}};
  do {
    const auto page = store_->key_values().list(query).value();
    EXPECT_LE(page.values.size(), 18U);
    for (const auto& [key, value] : page.values) keys.insert(key[1]);
    query.after = page.next;
  } while (!query.after.empty());
  EXPECT_THAT(keys, SizeIs(kValues));
}

}  // namespace
}  // namespace once::sqlite_test
