// The audit: log, ledger and deliveries add up, in every state and after retention took its share, and
// what is not there is not made up.
#include <gmock/gmock.h>

#include "base/scheduler.h"
#include "contract/contract.h"
#include "inspect/auditor.h"
#include "work/worker.h"

namespace once::contract {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Retention kAges{.bodies = 1h, .records = 1h, .ids = 1h};

class AuditContract : public Contract {
 protected:
  AuditContract() { store().set_retention(kAges).value(); }

  Audit audit(AuditOptions options = {.by = AuditOptions::Period::all}) {
    return engine::Auditor(store(), options).run().value();
  }
  // Of one queue, over all periods.
  Totals totals(const std::string& queue = "work") {
    Audit all = audit();
    EXPECT_THAT(kinds(all), IsEmpty());
    Totals sum;
    for (const AuditLine& line : all.lines)
      if (line.queue == queue) sum.add(line.totals);
    std::uint64_t states = 0;
    for (const std::uint64_t number : sum.states) states += number;
    EXPECT_EQ(states, sum.published) << "a task is in exactly one state";
    return sum;
  }
  static std::vector<std::string> kinds(const Audit& audit) {
    std::vector<std::string> all;
    for (const Discrepancy& found : audit.discrepancies)
      all.push_back(std::string(to_string(found.kind)) + " #" + std::to_string(found.sequence) +
                    ": " + found.what);
    return all;
  }
  // Runs what there is to run, by the engine.
  void work(std::function<Outcome(const Task&)> handler, const std::string& queue = "work") {
    const auto scheduler = engine::thread_scheduler();
    auto worker =
        engine::Worker::make(store(), *scheduler,
                             {.queue = definition(queue),
                              .handler =
                                  [&](const engine::TaskAttempt& task_attempt) {
                                    return engine::Report{.outcome = handler(task_attempt.task)};
                                  },
                              .name = "worker"})
            .value();
    while (worker->run_one().value()) {
    }
  }
  void complete_all(const std::string& queue = "work") {
    work([](const Task&) { return Outcome::completed(); }, queue);
  }
  Queue definition(const std::string& name) {
    for (const Queue& queue : store().queues().value())
      if (queue.name == name) return queue;
    return {};
  }
  void forget(int stages) {
    for (int stage = 0; stage < stages; ++stage) {
      pass(2h);
      retire();
    }
  }
  core::Hours past(const std::string& queue = "work") { return store().past(queue).value().hours; }
};
ONCE_FOR_EVERY_STORE(AuditContract);

TEST_P(AuditContract, AnEmptyZoneHasNoLines) {
  EXPECT_THAT(audit().lines, IsEmpty());
  add("work");
  EXPECT_THAT(audit().lines, IsEmpty());
  EXPECT_THAT(kinds(audit()), IsEmpty());
}

TEST_P(AuditContract, EveryTaskIsCountedInItsState) {
  add("work");
  for (const char* id : {"completed", "dead", "retrying", "doubtful"}) publish(id);
  work([](const Task& task) {
    if (task.id == "dead") return Outcome::dead("no");
    if (task.id == "retrying") return Outcome::failed("later", 24h);
    if (task.id == "doubtful") return Outcome::unknown("perhaps");
    return Outcome::completed();
  });
  publish("waiting");
  publish_delayed("scheduled", 48h);
  const Totals all = totals();
  EXPECT_EQ(all.published, 6U);
  EXPECT_EQ(all.in(State::completed), 1U);
  EXPECT_EQ(all.in(State::dead), 1U);
  EXPECT_EQ(all.in(State::waiting), 1U);
  EXPECT_EQ(all.in(State::scheduled), 1U);
  EXPECT_EQ(all.in(State::retrying) + all.in(State::in_doubt), 2U);
  EXPECT_GE(all.attempts, 4U);
  EXPECT_EQ(all.completed_twice, 0U);
  EXPECT_EQ(all.to_start.count(), 4U);
  EXPECT_EQ(all.to_record.count(), 1U);
}

TEST_P(AuditContract, DuplicatesAreCountedWhereTheyWereStopped) {
  add(Queue{.name = "work", .topic = ">", .key = "{k}"});
  publish("a", "orders.new", R"({"k":1})");
  for (int i = 0; i < 3; ++i) append(task("a", "orders.new", R"({"k":1})"));
  publish("same key", "orders.new", R"({"k":1})");
  publish("other content", "orders.new", R"({"k":1,"amount":2})");
  complete_all();
  const Totals all = totals();
  EXPECT_EQ(all.published, 3U);
  EXPECT_EQ(all.duplicates_at_append, 3U);
  EXPECT_EQ(all.duplicates_by_ledger, 2U);
  EXPECT_EQ(all.in(State::completed), 1U);
  EXPECT_EQ(all.in(State::duplicate), 1U);
  EXPECT_EQ(all.in(State::dead), 1U);
}

TEST_P(AuditContract, ARerunHasAReason) {
  add(Queue{.name = "work", .topic = ">", .backoff = {1ms}});
  publish("a");
  bool failed = false;
  const auto once = [&](const Task&) {
    return std::exchange(failed, true) ? Outcome::completed() : Outcome::failed("not yet");
  };
  work(once);
  pass(1s);
  work(once);
  const Totals all = totals();
  EXPECT_EQ(all.attempts, 2U);
  EXPECT_EQ(all.rerun(Rerun::failed), 1U);
  EXPECT_EQ(all.all_reruns(), 1U);
}

TEST_P(AuditContract, QueuesAndWhatIsUnroutedHaveLinesOfTheirOwn) {
  add("mail", "mail.>");
  add("all-mail", "mail.>");
  publish("a", "mail.new");
  publish("b", "nobody.wants");
  complete_all("mail");
  EXPECT_EQ(totals("mail").in(State::completed), 1U);
  EXPECT_EQ(totals("all-mail").in(State::waiting), 1U);
  EXPECT_EQ(totals("").published, 1U);
  AuditOptions one{.by = AuditOptions::Period::all, .queue = "mail"};
  ASSERT_EQ(audit(one).lines.size(), 1U);
  EXPECT_EQ(audit(one).lines.front().queue, "mail");
  one.queue = "none";
  EXPECT_EQ(engine::Auditor(store(), one).run().error().code, Code::not_found);
}

TEST_P(AuditContract, PeriodsAreOfThePublication) {
  add("work");
  publish("a");
  pass(26h);
  publish("b");
  publish("c");
  complete_all();
  const auto lines = audit({.by = AuditOptions::Period::hour}).lines;
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].totals.published, 1U);
  EXPECT_EQ(lines[1].totals.published, 2U);
  EXPECT_EQ(lines[1].period - lines[0].period, 26h);
  const auto late =
      audit({.by = AuditOptions::Period::hour, .since = entry("b").published_at}).lines;
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].totals.published, 2U);
}

TEST_P(AuditContract, TotalsOutliveWhatRetentionTakes) {
  add("work");
  add("other", "orders.old");
  publish("a");
  publish("b");
  append(task("a"));
  complete_all();
  const Totals before = totals();
  EXPECT_EQ(before.duplicates_at_append, 1U);
  for (int stage = 1; stage <= 4; ++stage) {
    forget(1);
    EXPECT_EQ(totals(), before) << "after stage " << stage;
    EXPECT_EQ(past().empty(), stage < 2);
  }
  EXPECT_THAT(ids_in_log(), IsEmpty());
  EXPECT_TRUE(past("other").empty());
  publish("c");
  EXPECT_EQ(totals().published, 3U);
}

TEST_P(AuditContract, ADuplicateAfterItsRecordsAreGoneCounts) {
  add("work");
  publish("a");
  complete_all();
  forget(2);
  EXPECT_EQ(append(task("a")).verdict, AppendVerdict::duplicate);
  EXPECT_EQ(totals().duplicates_at_append, 1U);
  forget(1);
  EXPECT_THAT(ids_in_log(), IsEmpty());
  EXPECT_EQ(totals().duplicates_at_append, 1U);
  EXPECT_EQ(totals().published, 1U);
}

TEST_P(AuditContract, ALedgerOnlyQueueIsCountedAndOutlivesRetention) {
  const Queue queue = add(ledger_of("alone"));
  const Address at = ledger_only_at("alone", "key");
  Record done{.state = State::completed, .claims = 1, .since = store().wall()};
  done.attempts.push_back({.number = 1,
                           .started_at = store().wall(),
                           .ended_at = store().wall(),
                           .ending = core::Ending::completed});
  write(at, {}, done);
  const Totals before = totals("alone");
  EXPECT_EQ(before.published, 1U);
  EXPECT_EQ(before.in(State::completed), 1U);
  forget(1);
  EXPECT_FALSE(get(at));
  EXPECT_EQ(totals("alone"), before);
}

TEST_P(AuditContract, AQueueThatIsMadeAnewHasNoPast) {
  add("work");
  publish("a");
  complete_all();
  forget(4);
  EXPECT_FALSE(past().empty());
  store().remove_queue("work").value();
  add("work");
  EXPECT_TRUE(past().empty());
  EXPECT_THAT(audit().lines, IsEmpty());
}

TEST_P(AuditContract, TheInventoryIsInOrderAndInPages) {
  add("work");
  publish_many(25);
  append(task("task-3"));
  std::vector<std::string> seen;
  Sequence after{};
  std::uint64_t duplicates = 0;
  for (int page = 0; page < 100; ++page) {
    const auto part = store().inventory(after, 10).value();
    EXPECT_LE(part.entries.size(), 10U);
    EXPECT_TRUE(part.missing.empty());
    for (const Entry& each : part.entries) {
      EXPECT_GT(each.sequence, after);
      EXPECT_TRUE(each.body);
      after = each.sequence;
      duplicates += each.duplicates;
      seen.push_back(each.id);
    }
    if (!part.next) break;
    EXPECT_EQ(part.next, after);
  }
  EXPECT_EQ(seen, ids_in_log());
  EXPECT_EQ(duplicates, 1U);
}

TEST_P(AuditContract, ARetiredEntryIsInTheInventoryWithoutABody) {
  add("work");
  publish("a");
  complete_all();
  publish("b");
  forget(1);
  const auto page = store().inventory({}, 10).value();
  ASSERT_EQ(page.entries.size(), 2U);
  EXPECT_FALSE(page.entries[0].body);
  EXPECT_TRUE(page.entries[1].body);
}

TEST_P(AuditContract, ARunningTaskAndOneWhoseWorkerDiedAreNoDiscrepancy) {
  const Queue queue = add("work");
  publish("a");
  ASSERT_TRUE(claim_one(queue));
  EXPECT_EQ(totals().in(State::running), 1U);
  pass(queue.lease * 3);
  EXPECT_EQ(totals().in(State::running), 1U);
}

TEST_P(AuditContract, RowsUpToAnEntryAreNoMore) {
  add("work");
  const std::vector<Entry> all = publish_many(5);
  const auto page = store().rows({.queue = "work", .up_to = all[2].sequence}, nullptr, 10).value();
  EXPECT_THAT(ids(page.rows), ElementsAre(all[0].id, all[1].id, all[2].id));
  EXPECT_FALSE(page.more);
  const auto part = store().rows({.queue = "work", .up_to = all[2].sequence}, nullptr, 2).value();
  EXPECT_THAT(ids(part.rows), ElementsAre(all[0].id, all[1].id));
  EXPECT_TRUE(part.more);
}

TEST_P(AuditContract, ABodyThatDoesNotMatchItsDigestIsDamaged) {
  add("work");
  publish("a");
  Append wrong = task("b");
  wrong.digest.bytes[0] ^= 1U;
  append(wrong);
  EXPECT_THAT(damages(Store::Depth::quick), IsEmpty());
  const auto found = damages();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].task, "b");
  EXPECT_EQ(found[0].sequence, entry("b").sequence);
  EXPECT_THAT(found[0].what, ::testing::HasSubstr("do not match its digest"));
  EXPECT_FALSE(found[0].harm.empty());
  EXPECT_THAT(kinds(audit()), IsEmpty()) << "who wants every digest says so";
  EXPECT_THAT(kinds(audit({.by = AuditOptions::Period::all, .deep = true})),
              ElementsAre(::testing::StartsWith("damaged #")));
  EXPECT_THAT(kinds(audit({.by = AuditOptions::Period::all, .queue = "work", .deep = true})),
              IsEmpty())
      << "the log is no queue's";
}

TEST_P(AuditContract, ARecordThatIsAboutOtherContentIsDamaged) {
  const Queue queue = add("work");
  const Held held = completed_task(queue, "a");
  Record record = held.stored.record;
  record.state = State::completed;
  record.digest.bytes[0] ^= 1U;
  write(held.at, get(held.at)->revision, record);
  const auto found = damages();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].queue, "work");
  EXPECT_THAT(found[0].what, ::testing::HasSubstr("other content"));
}

TEST_P(AuditContract, ADeepAuditOfManyTasksGoesOnFromPageToPageAndTellsHowFarItIs) {
  add("work");
  publish_many(450);
  complete_all();
  double last = 0;
  const Audit deep =
      audit({.by = AuditOptions::Period::all, .deep = true, .progress = [&](double at) {
               EXPECT_GE(at, last);
               EXPECT_LE(at, 1);
               last = at;
             }});
  EXPECT_THAT(kinds(deep), IsEmpty());
  EXPECT_GT(last, 0);
}

TEST_P(AuditContract, DiscrepanciesBeyondTheLimitAreCounted) {
  const Queue queue = add("work");
  for (const char* id : {"a", "b", "c"}) completed_task(queue, id);  // attempts without an end
  const Audit found = audit({.by = AuditOptions::Period::all, .discrepancies = 2});
  EXPECT_THAT(kinds(found), ElementsAre(::testing::StartsWith("inconsistent"),
                                        ::testing::StartsWith("inconsistent")));
  EXPECT_EQ(found.unlisted, 1U);
}

TEST_P(AuditContract, NoStrayIsFoundWhereNoneIs) {
  const Queue queue = add("work");
  publish("a");
  complete_all();
  ASSERT_TRUE(store().join("work", "worker"));
  EXPECT_THAT(store().strays("work", {}).value().records, IsEmpty());
  forget(1);
  EXPECT_THAT(store().strays("work", {}).value().records, IsEmpty());
}

}  // namespace
}  // namespace once::contract
