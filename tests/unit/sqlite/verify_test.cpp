// One damage at a time to a real file, as another program would do it: the audit and the doctor name
// it, and a counter that was set back gives nothing out a second time.
#include <gmock/gmock.h>

#include "once/once.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Harm {
  const char* name;
  const char* sql;
  const char* told;  // part of what the audit says
  bool deep = true;  // only --deep sees it
};
std::ostream& operator<<(std::ostream& out, const Harm& harm) { return out << harm.name; }

class Verify : public ::testing::TestWithParam<Harm> {
 protected:
  // #1 to #4 completed, #5 dead with an order, #6 scheduled, #7 and #8 under a key, #9 unrouted; `kept`
  // is a ledger-only queue.
  Verify() {
    zone_.queues().add({.name = "work", .topic = "t"}).value();
    zone_.queues().add({.name = "keyed", .topic = "k", .key = "{order}"}).value();
    zone_.queues().add({.name = "kept", .ledger = true}).value();
    for (const char* id : {"1", "2", "3", "4"}) publish(id, "t");
    run("work", Outcome::completed());
    publish("dead", "t");
    run("work", Outcome::dead("no"));
    zone_.tasks().retry("dead", "work", {.who = "me", .why = "again"}).value();
    zone_.publish({.topic = "t", .id = "later", .not_before = clock_->now() + 1h}).value();
    publish("k1", "k", R"({"order":"o-1"})");
    publish("k2", "k", R"({"order":"o-2"})");
    run("keyed", Outcome::completed());
    publish("nobody", "other");
    LedgerClient ledger = zone_.ledger("kept").value();
    ledger.complete("mine", ledger.claim("mine").value().token).value();
  }

  void publish(const char* id, const char* topic, std::string_view body = "{}") {
    zone_.publish({.topic = topic, .id = id, .body = Body::json(body).value()}).value();
  }
  void run(const char* queue, const Outcome& outcome) {
    zone_.worker(queue, [&](Context&) { return outcome; }).value().run_until_empty().value();
  }
  void damage(const char* sql) { behind_its_back(folder_ / "zone.db", sql); }
  std::vector<std::string> found(bool deep) {
    std::vector<std::string> all;
    for (const Discrepancy& each : zone_.audit({.deep = deep}).value().discrepancies)
      all.push_back(std::string(to_string(each.kind)) + " " + each.queue + " " + each.task + ": " +
                    each.what + " (" + each.harm + ")");
    return all;
  }
  std::vector<std::string> doctor(bool deep) {
    std::vector<std::string> all;
    for (const Finding& each : zone_.doctor({.deep = deep}).value().findings)
      if (each.code == "contradiction") all.push_back(each.what);
    return all;
  }

  testing::TempFolder folder_;
  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  Zone zone_ = Zone::open((folder_ / "zone.db").string(), {.clock = clock_}).value();
};

using AnUndamagedFile = Verify;
INSTANTIATE_TEST_SUITE_P(Sqlite, AnUndamagedFile, ::testing::Values(Harm{"none", "", ""}));

TEST_P(AnUndamagedFile, HasNothingToFind) {
  EXPECT_THAT(found(false), IsEmpty());
  EXPECT_THAT(found(true), IsEmpty());
  EXPECT_THAT(doctor(false), IsEmpty());
  EXPECT_THAT(doctor(true), IsEmpty());
}

// Places: queue number times 2^43, plus twice the sequence.
#define ONCE_PLACE(sequence) "(1 << 43) + 2 * " #sequence

constexpr Harm kHarms[] = {
    {"IdDeleted", "DELETE FROM ids WHERE id = '2'", "the index of ids does not have it"},
    {"IdMisdirected", "UPDATE ids SET sequence = 3 WHERE id = '2'", "leads to #3 instead"},
    {"IdWithoutATask", "INSERT INTO ids VALUES ('ghost', 77)", "#77, which is not in the log"},
    {"Body", "UPDATE log SET body = CAST('{\"a\":1}' AS BLOB) WHERE sequence = 2",
     "do not match its digest"},
    {"BodyNoJson", "UPDATE log SET body = CAST('{' AS BLOB) WHERE sequence = 2",
     "is no JSON any more"},
    {"Topic", "UPDATE log SET topic = 't2' WHERE sequence = 9", "do not match its digest"},
    {"Digest", "UPDATE log SET digest = zeroblob(32) WHERE sequence = 2", "do not match"},
    {"StageTooEarly", "UPDATE log SET stage = 0, body = NULL WHERE sequence = 2",
     "its body is gone, though nothing took it"},
    {"StageTooLate", "UPDATE log SET stage = 1 WHERE sequence = 2", "its body is there, though"},
    {"StageWithRecords", "UPDATE log SET stage = 2, body = NULL WHERE sequence = 2",
     "its records are there, though"},
    {"StageUnknown", "UPDATE log SET stage = 7 WHERE sequence = 2", "its stage is 7"},
    {"State", "UPDATE ledger SET state = 6 WHERE place = " ONCE_PLACE(2),
     "its record says that it is completed", false},
    {"Member", "UPDATE ledger SET member = 0 WHERE place = " ONCE_PLACE(2), "worker number"},
    {"Revision", "UPDATE ledger SET revision = 0 WHERE place = " ONCE_PLACE(2),
     "which is after the record's revision"},
    {"RecordOfAnother",
     "UPDATE ledger SET record = (SELECT record FROM ledger WHERE place = " ONCE_PLACE(
         3) ") WHERE place = " ONCE_PLACE(2),
     "is about #3 and is filed under #2"},
    {"RecordUnreadable", "UPDATE ledger SET record = x'ff00' WHERE place = " ONCE_PLACE(2),
     "its record cannot be read", false},
    {"RecordOfNoQueue", "UPDATE ledger SET qid = 9 WHERE place = " ONCE_PLACE(2),
     "filed under queue number 9"},
    {"DueAgain", "UPDATE ledger SET due = 5 WHERE place = " ONCE_PLACE(2),
     "though its record is done with"},
    {"OwesAReply", "UPDATE ledger SET owes = 1 WHERE place = " ONCE_PLACE(2),
     "its row says that it owes a reply, and its record does not"},
    {"RecordTooOld", "UPDATE ledger SET stamp = -1 WHERE place = " ONCE_PLACE(2),
     "its time is before its publication"},
    {"RecordOfTheFuture",
     "UPDATE ledger SET stamp = stamp + 100000000 WHERE place = " ONCE_PLACE(2),
     "its time is ahead of the zone's"},
    {"EntryTooOld", "UPDATE log SET stage_at = -1 WHERE sequence = 2",
     "its time is before its publication"},
    {"EntryOfTheFuture", "UPDATE log SET stage_at = stage_at + 100000000 WHERE sequence = 2",
     "its time is ahead of the zone's"},
    {"Headers", "UPDATE log SET headers = x'00' WHERE sequence = 2", "its headers cannot be read"},
    {"Unwatched", "UPDATE ledger SET due = 5, watched = 0 WHERE place = " ONCE_PLACE(2),
     "nobody watches"},
    {"LastSequence", "UPDATE zone SET last_sequence = 4", "last_sequence is 4, though 9", false},
    {"LastRevision", "UPDATE zone SET last_revision = 1", "last_revision is 1, though", false},
    {"LastMember", "UPDATE zone SET last_member = 0", "last_member is 0, though", false},
    {"LastQueue", "UPDATE zone SET last_queue = 0", "last_queue is 0, though", false},
    {"LastLone", "UPDATE zone SET last_lone = 0", "last_lone is 0, though", false},
    {"Cursor", "UPDATE queue SET cursor = 50 WHERE name = 'work'", "its cursor is at #50", false},
    {"Swept", "UPDATE queue SET swept = 50 WHERE name = 'work'", "its swept is at #50", false},
    {"Tail", "UPDATE queue SET tail = 1 WHERE name = 'work'", "its tail is at #1"},
    {"CountsAsRemoved", "INSERT INTO removed VALUES (1)", "it counts as removed", false},
    {"KeyDeleted", "DELETE FROM keys WHERE key = 'o-1'",
     "does not lead to the record of key 'o-1'"},
    {"KeyMisdirected",
     "UPDATE keys SET place = (SELECT place FROM keys WHERE key = 'o-2') WHERE key = 'o-1'",
     "'o-1', which leads to the record of another key"},
    {"KeyToNothing", "UPDATE keys SET place = -99 WHERE key = 'mine'",
     "'mine', which leads to no record"},
    {"KeyOfNoQueue", "INSERT INTO keys VALUES (9, 0, 'x', 1)", "'x', which belongs to no queue"},
    {"NoKey", "UPDATE ledger SET key = NULL WHERE key = 'o-1'", "its record has no key"},
    {"PendingOfNoTask", "INSERT INTO pending (qid, sequence, due, first) VALUES (1, 77, 0, 0)",
     "the log does not have that task"},
    {"PendingOfNoQueue", "INSERT INTO pending (qid, sequence, due, first) VALUES (9, 2, 0, 0)",
     "and belongs to no queue"},
    {"PendingElsewhere", "INSERT INTO pending (qid, sequence, due, first) VALUES (1, 9, 0, 0)",
     "is not one of the queue's"},
    {"PendingTooEarly", "UPDATE pending SET due = 1 WHERE first = 1",
     "not at the task's not-before"},
    {"PendingOrder", "UPDATE pending SET wake = x'ff00' WHERE wake IS NOT NULL",
     "its order cannot be read"},
    {"Unscheduled", "DELETE FROM pending WHERE first = 1; UPDATE queue SET cursor = 4, swept = 0",
     "has a not-before, and is not scheduled"},
    {"TotalOfAState", "UPDATE queue SET completed = 40 WHERE name = 'work'",
     "tasks that are completed is 40, and the ledger has 4"},
    {"TotalAlone", "UPDATE queue SET completed = 40 WHERE name = 'kept'",
     "tasks that are completed is 40, and the ledger has 1"},
    {"TotalOfAll", "UPDATE queue SET matched = 40 WHERE name = 'work'",
     "its total of tasks is 40, and the log has 6"},
    {"TotalUnrouted", "UPDATE zone SET unrouted = 40", "is 40, and the log has 1"},
    {"IndexGone", "DROP INDEX pending_due", "own index pending_due is gone", false},
    {"TriggerGone", "DROP TRIGGER value_goes", "own trigger value_goes is gone", false},
    {"TriggerOfAnother", "CREATE TRIGGER x AFTER INSERT ON log BEGIN SELECT 1; END",
     "a trigger x, which Once did not make", false},
    {"ValueOfNoRecord", "INSERT INTO value VALUES (99, zeroblob(32), x'00')",
     "a large result at place 99 belongs to no record"},
    {"GoneAndThere", "INSERT INTO gone VALUES (2, 3)", "#2 is in the log, and counts as forgotten"},
};

using ADamage = Verify;
INSTANTIATE_TEST_SUITE_P(Sqlite, ADamage, ::testing::ValuesIn(kHarms),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(ADamage, IsNamedByTheAuditAndTheDoctor) {
  damage(GetParam().sql);
  EXPECT_THAT(found(true), Contains(HasSubstr(GetParam().told)));
  if (!GetParam().deep) {
    EXPECT_THAT(found(false), Contains(HasSubstr(GetParam().told)));
  }
  EXPECT_THAT(doctor(true), Contains(HasSubstr(GetParam().told)));
}

using ATaskThatIsTriedAgain = Verify;
INSTANTIATE_TEST_SUITE_P(Sqlite, ATaskThatIsTriedAgain, ::testing::Values(Harm{"late", "", ""}));

TEST_P(ATaskThatIsTriedAgain, IsNamedWhenTheFeedLooksAtItMuchLater) {
  zone_.queues().add({.name = "failing", .topic = "f", .backoff = {2h}}).value();
  publish("again", "f");
  const auto fail = [](Context&) { return Outcome::failed("no"); };
  ASSERT_TRUE(zone_.worker("failing", fail).value().run_one().value());
  EXPECT_THAT(found(true), IsEmpty());
  damage("UPDATE ledger SET due = due + 100000000 WHERE state = 3 AND due IS NOT NULL");
  EXPECT_THAT(found(true), Contains(HasSubstr("later than its record says")));
  EXPECT_THAT(doctor(true), Contains(HasSubstr("later than its record says")));
}

// --- Counters that were set back ---------------------------------------------------------------

using ACounterSetBack = Verify;
INSTANTIATE_TEST_SUITE_P(Sqlite, ACounterSetBack,
                         ::testing::Values(Harm{"sequence", "last_sequence", "same sequence"},
                                           Harm{"revision", "last_revision", "same token"},
                                           Harm{"member", "last_member", "same number"}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(ACounterSetBack, IsRefusedAtTheNextWriteOfTheProcessThatRuns) {
  damage(("UPDATE zone SET " + std::string(GetParam().sql) + " = 0").c_str());
  const auto published = zone_.publish({.topic = "t", .id = "new"});
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().code, Code::store_unusable);
  EXPECT_THAT(published.error().message,
              AllOf(HasSubstr(GetParam().told), HasSubstr("Nothing was written")));
}

TEST_P(ACounterSetBack, IsRefusedByAProcessThatOpensTheFileLater) {
  { const Zone closed = std::move(zone_); }
  damage(("UPDATE zone SET " + std::string(GetParam().sql) + " = 0").c_str());
  zone_ = Zone::open((folder_ / "zone.db").string(), {.clock = clock_}).value();
  const auto published = zone_.publish({.topic = "t", .id = "new"});
  ASSERT_FALSE(published);
  EXPECT_THAT(published.error().message, HasSubstr(GetParam().told));
  damage(("UPDATE zone SET " + std::string(GetParam().sql) + " = 1000").c_str());
  zone_ = Zone::open((folder_ / "zone.db").string(), {.clock = clock_}).value();
  EXPECT_TRUE(zone_.publish({.topic = "t", .id = "new"})) << "as the message says";
}

}  // namespace
}  // namespace once::sqlite_test
