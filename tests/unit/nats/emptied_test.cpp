// Streams that somebody empties, deletes, replaces or puts back in time. Every open notices it, a store
// that is open notices it, and no task runs again because its record is missing.
#include "json/base64.h"
#include "store/nats/subjects.h"
#include "support/eventually.h"
#include "unit/nats/zone_world.h"

namespace once::store::nats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kLedger = "KV_once_test_ledger";
constexpr const char* kLog = "ONCE_test_LOG";
constexpr const char* kMeta = "KV_once_test_meta";

class Emptied : public ZoneWorld {
 protected:
  void purge(const std::string& stream, const std::string& how = "") {
    const auto answer = raw("STREAM.PURGE." + stream, how);
    ASSERT_FALSE(answer.member("error")) << encoding::canonical(answer);
  }
  void put(const std::string& subject, const std::string& data = "") { bare().put(subject, data); }
  // Deletes a stream and makes it again with the same settings.
  void make_anew(const std::string& stream) {
    const std::string config =
        encoding::canonical(*raw("STREAM.INFO." + stream, "").member("config"));
    raw("STREAM.DELETE." + stream, "");
    ASSERT_FALSE(raw("STREAM.CREATE." + stream, config).member("error"));
  }
  std::string seal_of_ledger(const std::string& uuid) {
    return "$KV.once_test_ledger.seal." + uuid;
  }
  void run_three() {
    add_queue({.lease = 2s});
    publish_tasks(3);
    ASSERT_THAT(run_all(), SizeIs(3));
  }
  Result<std::uint64_t> try_sweep() {
    Sequence floor{};
    return engine::Housekeeper::sweep(store(), "q", floor, [] { return false; });
  }
  // What the next command is told.
  std::string refusal() {
    const auto opened = open();
    if (opened) return "it was opened";
    EXPECT_EQ(opened.error().code, Code::store_unusable);
    return opened.error().message;
  }
  std::uint64_t marked(const std::string& stream) {
    const auto answer =
        raw("STREAM.MSG.GET.KV_once_test_meta", R"({"last_by_subj":"$KV.once_test_meta.marks"})");
    const auto data = encoding::from_base64(text_of(*answer.member("message"), "data")).value();
    return number_of(*encoding::parse_json(data)->member(stream), "last").value_or(0);
  }
};

// --- Under a running worker -------------------------------------------------------------------

TEST_F(Emptied, APurgedLedgerStopsTheSweepAndNothingRunsAgain) {
  run_three();
  purge(kLedger);
  const auto swept = try_sweep();
  ASSERT_FALSE(swept) << "the next look of the watch is half a minute away";
  EXPECT_THAT(swept.error().message, AllOf(HasSubstr(kLedger), HasSubstr("run again")));
  EXPECT_FALSE(append(task("later"))) << "new work is refused from then on";
  EXPECT_FALSE(open());
}

TEST_F(Emptied, AWakeThatWaitsDoesNotRunATaskOfAPurgedLedger) {
  run_three();
  const Wake wake{.sequence = {1}};
  store().wake("q", std::span(&wake, 1)).value();
  purge(kLedger);
  std::vector<std::string> ran;
  const auto ended = worker([&](Context& context) {
                       ran.push_back(context.task().id);
                       return Outcome::completed();
                     }).run_until_empty();
  EXPECT_FALSE(ended);
  EXPECT_THAT(ran, IsEmpty());
}

TEST_F(Emptied, ARedeliveryDoesNotRunATaskOfAPurgedLedger) {
  const Queue queue{.lease = 300ms};
  add_queue(queue);
  publish_task("a").value();
  claimed_by_one_that_dies(queue);
  purge(kLedger);
  int runs = 0;
  const auto ended = worker([&](Context&) {
                       ++runs;
                       return Outcome::completed();
                     }).run_until_empty();
  EXPECT_FALSE(ended);
  EXPECT_EQ(runs, 0);
}

TEST_F(Emptied, ADeletedConsumerDoesNotRunTasksOfAPurgedLedger) {
  run_three();
  purge(kLedger);
  remove_consumer(kLog);
  EXPECT_FALSE(store().fetch({.queue = "q", .limit = 10, .wait = 5s}));
}

TEST_F(Emptied, AKeyWhoseRecordWasPurgedIsNotTakenForANewOne) {
  add_queue({.topic = "t", .key = "{order}", .lease = 2s});
  publish_task("a", R"({"order":7})").value();
  ASSERT_THAT(run_all(), ElementsAre("a"));
  purge(kLedger);
  publish_task("b", R"({"order":7})").value();
  int runs = 0;
  static_cast<void>(worker([&](Context&) {
                      ++runs;
                      return Outcome::completed();
                    }).run_until_empty());
  EXPECT_EQ(runs, 0);
}

// A handler that runs meanwhile has done its work. Its record and its large result must stay.
TEST_F(Emptied, ATaskThatEndsAfterTheMetaBucketWasPurgedIsRecordedWithItsResult) {
  add_queue({.lease = 2s});
  publish_task("a").value();
  const auto values = [&] {
    return number_of(*raw("STREAM.INFO.ONCE_test_BLOB", "").member("state"), "messages").value();
  };
  const std::uint64_t before = values();
  const auto ended = worker([&](Context&) {
                       purge(kMeta);
                       return Outcome::completed(Body::bytes(std::string(12 << 20, 'x')));
                     }).run_one();
  EXPECT_TRUE(ended) << ended.error().message;
  EXPECT_GT(values(), before) << "the parts of the result were removed";
}

TEST_F(Emptied, AQueueIsNotAddedToAZoneThatLostItsUuid) {
  run_three();
  purge(kMeta);
  const auto added = store().add_queue({.name = "q", .topic = ">"});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::store_unusable);
  EXPECT_THAT(added.error().message, HasSubstr("its UUID was"));
}

TEST_F(Emptied, AStoreThatIsOpenNoticesEachStream) {
  const std::map<std::string, std::string> harms{
      {kLog, "accepted anew"},       {kLedger, "run again"},
      {"ONCE_test_WAKE", "Retries"}, {"ONCE_test_COUNT", "counted anew"},
      {"ONCE_test_OLD", "retired"},  {"ONCE_test_BLOB", "Large results"},
      {kMeta, "its UUID was"},
  };
  for (const auto& [stream, harm] : harms) {
    SCOPED_TRACE(stream);
    for (const std::string& each : Subjects{.zone = "test"}.streams())
      raw("STREAM.DELETE." + each, "");
    reopen({.look_every = 50ms});
    publish("a");
    purge(stream);
    Error error;
    EXPECT_TRUE(testing::eventually(
        [&] {
          const auto answer = append(task("probe"));
          if (!answer) error = answer.error();
          return !answer;
        },
        60s));
    EXPECT_THAT(error.message, AllOf(HasSubstr("test"), HasSubstr(harm)));
    EXPECT_EQ(error.code, Code::store_unusable);
  }
}

// --- Between two commands ---------------------------------------------------------------------

TEST_F(Emptied, TheNextCommandNoticesEachStreamAndEachWayOfPurgingIt) {
  const std::pair<std::string, std::string> purges[] = {
      {kMeta, ""},
      {kLog, ""},
      {kLog, R"({"seq":2})"},
      {kLog, R"({"filter":"once.test.log.>"})"},
      {kLedger, ""},
      {kLedger, R"({"seq":2})"},
      {"ONCE_test_WAKE", ""},
      {"ONCE_test_COUNT", ""},
      {"ONCE_test_OLD", ""},
      {"ONCE_test_BLOB", ""},
  };
  for (const auto& [stream, how] : purges) {
    SCOPED_TRACE(stream + " " + how);
    for (const std::string& each : Subjects{.zone = "test"}.streams())
      raw("STREAM.DELETE." + each, "");
    reopen(5s);
    publish("a");
    publish("b");
    close();
    purge(stream, how);
    EXPECT_THAT(refusal(), HasSubstr(stream));
  }
}

TEST_F(Emptied, ALogThatKeepsItsLastTasksOnlyIsNoticed) {
  publish_tasks(5);
  purge(kLog, R"({"keep":2})");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(kLog), HasSubstr("#3")));
}

TEST_F(Emptied, AnUuidThatWasDeletedIsNotReplaced) {
  publish_tasks(1);
  purge(kMeta, R"({"filter":"$KV.once_test_meta.zone"})");
  const auto gone = HasSubstr("KV_once_test_meta does not hold the zone's UUID");
  EXPECT_THAT(refusal(), gone);
  EXPECT_THAT(refusal(), gone) << "the first command did not write another UUID";
}

TEST_F(Emptied, AStreamThatWasDeletedOrMadeAnewIsNoticedInAZoneWithoutTasks) {
  close();
  make_anew(kLedger);
  EXPECT_THAT(refusal(), HasSubstr(kLedger));
  raw("STREAM.DELETE.ONCE_test_LOG", "");
  EXPECT_THAT(refusal(), HasSubstr(kLog));
}

TEST_F(Emptied, AStreamOfAnotherZoneIsNoticed) {
  make_anew(kLedger);
  put(seal_of_ledger("0a0b"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(kLedger), HasSubstr("another zone"), HasSubstr("0a0b")));
}

TEST_F(Emptied, AStreamThatWentBackIsNoticed) {
  run_three();
  reopen({.look_every = 50ms});
  const std::string uuid = store().uuid();
  const auto member = store().join("q", "worker").value();
  EXPECT_TRUE(testing::eventually([&] { return marked(kLedger) > 3; }, 60s)) << "a worker marks it";
  close();
  make_anew(kLedger);  // as a backup of the first minute would be
  put(seal_of_ledger(uuid));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(kLedger), HasSubstr("ends at #1"), HasSubstr("backup")));
}

TEST_F(Emptied, RetentionIsNotTakenForAPurge) {
  run_three();
  zone().set_retention({.bodies = 0ms, .records = 0ms, .ids = 0ms}).value();
  EXPECT_TRUE(testing::eventually([&] { return zone().retire().value().ids > 0; }, 60s));
  ASSERT_EQ(number_of(*raw(std::string("STREAM.INFO.") + kLog, "").member("state"), "messages"),
            0U);
  EXPECT_TRUE(open());
  zone().queues().remove("q", {.force = true}).value();
  EXPECT_TRUE(open());
}

// --- Going on ---------------------------------------------------------------------------------

TEST_F(Emptied, AZoneWithoutMarksGetsThemAndGoesOn) {
  run_three();
  // As an older once left it.
  for (const std::string stream :
       {kLedger, "ONCE_test_WAKE", "ONCE_test_COUNT", "ONCE_test_OLD", "ONCE_test_BLOB"}) {
    const encoding::Json info = raw("STREAM.INFO." + stream, R"({"subjects_filter":">"})");
    for (const auto& [subject, count] : info.member("state")->member("subjects")->members())
      if (subject.find(".seal.") != std::string::npos)
        purge(stream, R"({"filter":")" + subject + R"("})");
  }
  purge(kMeta, R"({"filter":"$KV.once_test_meta.marks"})");
  reopen(5s);
  publish_task("new").value();
  EXPECT_THAT(run_all(), ElementsAre("new"));
  purge(kLedger);
  EXPECT_THAT(refusal(), HasSubstr(kLedger)) << "it was sealed by the one that opened it";
}

TEST_F(Emptied, WhoAcceptsTheLossFindsTheTasksInDoubt) {
  run_three();
  purge(kLedger);
  EXPECT_THAT(refusal(), HasSubstr("accept the loss"));
  put("$KV.once_test_meta.marks");  // as nats kv del does
  reopen(5s);
  EXPECT_EQ(try_sweep().value(), 0U);
  EXPECT_THAT(run_all(), IsEmpty());
  for (const char* id : {"0", "1", "2"}) EXPECT_EQ(view(id).state, State::in_doubt) << id;
  zone().tasks().retry("1", "q", {.who = "ann"}).value();
  EXPECT_THAT(run_all(), ElementsAre("1"));
  EXPECT_EQ(view("1").state, State::completed);
}

}  // namespace
}  // namespace once::store::nats
