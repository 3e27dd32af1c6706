// The queues in which workflows live: no person's command adds, removes or drains them, and what they
// hold is not shown among tasks.
#include <gmock/gmock.h>

#include "once/once.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class OwnQueues : public ::testing::Test {
 protected:
  OwnQueues() {
    zone_.add({.name = "work", .topic = ">"}).value();
    EXPECT_TRUE(store_->add_queue({.name = "once-flow", .topic = "$once.flow.>"})->added);
    for (const char* name : kLedgers)
      EXPECT_TRUE(store_->add_queue({.name = name, .ledger = true})->added);
  }
  void keep(const std::string& ledger, const std::string& key, State state = State::waiting) {
    const store::Swap item{.at = {.queue = ledger, .key = key}, .record = {.state = state}};
    EXPECT_TRUE(store_->swap(std::span(&item, 1)).front()->written);
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
      auto items = zone_.list(filter, last ? &*last : nullptr).value();
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
  refused(zone_.add({.name = "once-flow", .topic = ">"}), "added");
  refused(zone_.remove_queue("once-flow", true), "removed");
  refused(zone_.worker("once-flow", [](Context&) { return Outcome::completed(); }), "started");
  for (const char* name : kLedgers) {
    refused(zone_.add({.name = name, .ledger = true}), "added");
    refused(zone_.remove_queue(name, false), "removed");
    refused(zone_.guard(name), "claimed");
  }
  EXPECT_EQ(zone_.queues()->size(), 6U);
}

TEST_F(OwnQueues, ARunIsNotChangedAsIfItWereATask) {
  keep("once-runs", "payment-1");
  refused(zone_.cancel("payment-1", "once-runs", {}), "changed");
  refused(zone_.drop("payment-1", "once-runs", {}), "changed");
  refused(zone_.retry("payment-1", "once-runs", {}), "changed");
  append(*store_, task("payment-1.timer.1", "{}", "$once.flow.payment.timer")).value();
  EXPECT_EQ(zone_.cancel("payment-1.timer.1", "once-flow", {}).value(), State::cancelled)
      << "an event is one";
}

TEST_F(OwnQueues, ArePausedAndSetByHand) {
  EXPECT_TRUE(zone_.change("once-flow", [](Queue& queue) { queue.paused = true; })->paused);
  EXPECT_FALSE(zone_.change("once-flow", [](Queue& queue) { queue.paused = false; })->paused);
}

TEST_F(OwnQueues, NoOtherQueueTakesTheirTopics) {
  const auto answer = zone_.add({.name = "mine", .topic = "$once.flow.>"});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::invalid_input);
  EXPECT_THAT(answer.error().message, HasSubstr("belong to Once itself"));
  EXPECT_FALSE(zone_.publish({.topic = "$once.flow.payment.started", .id = "run.started"}));
}

TEST_F(OwnQueues, WhatTheirLedgersHoldIsNotShownAmongTasks) {
  for (const char* ledger : kLedgers) keep(ledger, "payment-1");
  append(*store_, task("payment-1.started", "{}", "$once.flow.payment.started")).value();
  for (const char* id : {"a", "b", "c"}) zone_.publish({.topic = "t", .id = id}).value();
  EXPECT_THAT(shown(), ElementsAre("once-flow", "work"));
  EXPECT_EQ(zone_.status()->unrouted, 0U);
  for (const std::size_t page : {1U, 2U, 100U})
    EXPECT_THAT(listed({.limit = page}),
                ElementsAre("once-flow/payment-1.started", "work/a", "work/b", "work/c"));
  EXPECT_THAT(listed({.queue = "once-runs"}), ElementsAre("once-runs/payment-1"));
  EXPECT_THAT(listed({.state = State::dead}), IsEmpty());

  const TaskView run = zone_.inspect("payment-1").value();
  ASSERT_EQ(run.queues.size(), 1U) << "of a run its record, and not that of its key";
  EXPECT_EQ(run.queues[0].queue, "once-runs");
}

TEST_F(OwnQueues, AnAuditCountsRunsAndTheirEventsAndNoBookkeeping) {
  for (const char* ledger : kLedgers) keep(ledger, "payment-1");
  append(*store_, task("payment-1.started", "{}", "$once.flow.payment.started")).value();
  zone_.publish({.topic = "t", .id = "a"}).value();
  const Audit audit = zone_.audit({.by = AuditOptions::Period::all}).value();
  std::vector<std::string> counted;
  for (const AuditLine& line : audit.lines)
    counted.push_back(line.queue + " " + std::to_string(line.totals.published));
  EXPECT_THAT(counted, ElementsAre("once-flow 1", "once-runs 1", "work 1"));
  EXPECT_THAT(audit.discrepancies, IsEmpty());
}

TEST_F(OwnQueues, WhoDrivesRunsIsNoOrdinaryWorker) {
  for (const char* ledger : kLedgers) keep(ledger, "payment-1", State::dead);
  append(*store_, task("payment-1.started", "{}", "$once.flow.payment.started")).value();
  const Diagnosis diagnosis = zone_.doctor().value();
  std::vector<std::string> found;
  for (const Finding& finding : diagnosis.findings)
    if (finding.code == "nobody_works" || finding.code == "failed_runs" ||
        finding.code == "dead_letters")
      found.push_back(finding.about + ": " + finding.fix);
  EXPECT_THAT(found, UnorderedElementsAre(
                         "queue once-flow: start 'once flow work'",
                         "runs of workflows: once flow runs --state failed, then once flow retry "
                         "or cancel"));
  for (const std::string& line : diagnosis.checked)
    EXPECT_THAT(line, Not(HasSubstr("once-keys"))) << "what it holds is nobody's task";
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
TEST_F(OwnQueues, ArePagedByWhatTheirRecordsHold) {
  constexpr std::size_t kRecords = 40;
  for (std::size_t i = 0; i < kRecords; ++i) {
    store::Swap item{.at = {.queue = "once-values", .key = std::to_string(100 + i)}};
    item.record.result = Body::bytes(std::string(1 << 20, 'x'));
    ASSERT_TRUE(store_->swap(std::span(&item, 1)).front()->written);
  }
  std::vector<std::string> keys;
  std::optional<store::Row> last;
  for (bool more = true; more;) {
    auto page = store_->rows({.queue = "once-values"}, last ? &*last : nullptr, 20'000).value();
    EXPECT_LE(page.rows.size(), 16U);
    for (const store::Row& row : page.rows) keys.push_back(row.key);
    more = page.more;
    last = std::move(page.rows.back());
  }
  EXPECT_THAT(keys, SizeIs(kRecords));
  EXPECT_EQ(keys.back(), std::to_string(100 + kRecords - 1));
}

}  // namespace
}  // namespace once::sqlite_test
