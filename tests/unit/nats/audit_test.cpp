// What an audit finds on a server where somebody deleted messages, and that a retirement which was cut
// off counts nothing twice.
#include "inspect/auditor.h"
#include "unit/nats/zone_world.h"

namespace once::store::nats {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NatsAudit : public ZoneWorld {
 protected:
  Audit audit() {
    return engine::Auditor(store(), {.by = AuditOptions::Period::all}).run().value();
  }
  std::vector<std::string> found() {
    std::vector<std::string> all;
    for (const Discrepancy& each : audit().discrepancies)
      all.push_back(std::string(to_string(each.kind)) + " #" + std::to_string(each.sequence));
    return all;
  }
  std::uint64_t published() {
    std::uint64_t sum = 0;
    for (const AuditLine& line : audit().lines) sum += line.totals.published;
    return sum;
  }
  void remove(const std::string& stream, std::uint64_t sequence) {
    bare().api("STREAM.MSG.DELETE." + stream, "{\"seq\":" + std::to_string(sequence) + "}");
  }
};

TEST_F(NatsAudit, ATaskThatWasDeletedIsMissingAndItsRecordAStray) {
  add_queue({});
  publish_tasks(4);
  run_all();
  EXPECT_THAT(found(), IsEmpty());
  remove("ONCE_test_LOG", 1);
  remove("ONCE_test_LOG", 3);
  EXPECT_THAT(found(), ElementsAre("missing #1", "missing #3", "stray #1", "stray #3"));
}

TEST_F(NatsAudit, ARecordThatIsGoneIsOverlookedALeaseLater) {
  add_queue({.lease = 100ms});
  publish_tasks(2);
  run_all();
  const auto subjects = *bare()
                             .api("STREAM.INFO.KV_once_test_ledger",
                                  R"({"subjects_filter":"$KV.once_test_ledger.q.*.k.1"})")
                             .member("state")
                             ->member("subjects");
  bare().api("STREAM.PURGE.KV_once_test_ledger",
             R"({"filter":")" + subjects.members().begin()->first + R"("})");
  while (found().empty()) {  // until the lease has gone by
  }
  EXPECT_THAT(found(), ElementsAre("overlooked #2"));
}

// One damage at a time on a real server. Somebody with all rights changes a message, and the audit names it.
class NatsDeepAudit : public NatsAudit {
 protected:
  static constexpr const char* kLog = "ONCE_test_LOG";
  static constexpr const char* kLedger = "KV_once_test_ledger";

  // #1 to #3 are completed, with the ids "0" to "2".
  void three_completed() {
    add_queue({});
    publish_tasks(3);
    run_all();
    EXPECT_THAT(told(true), IsEmpty());
    EXPECT_THAT(doctor(), IsEmpty());
  }
  std::vector<std::string> told(bool deep) {
    const AuditOptions options{.by = AuditOptions::Period::all, .deep = deep};
    const Audit whole = engine::Auditor(store(), options).run().value();
    std::vector<std::string> all;
    for (const Discrepancy& each : whole.discrepancies)
      all.push_back(std::string(to_string(each.kind)) + " " + each.queue + " " + each.task + ": " +
                    each.what + " (" + each.harm + ")");
    return all;
  }
  std::vector<std::string> doctor() {
    std::vector<std::string> all;
    for (const Finding& each : zone().doctor({.deep = true}).value().findings)
      if (each.code == "contradiction") all.push_back(each.what);
    return all;
  }
  void expect_damage(const std::string& what) {
    EXPECT_THAT(told(true), Contains(AllOf(HasSubstr("damaged "), HasSubstr(what))));
    EXPECT_THAT(doctor(), Contains(HasSubstr(what)));
  }

  StreamMessage message(const std::string& stream, const std::string& filter) {
    std::vector<StreamMessage> found;
    EXPECT_TRUE(bare().client().page(stream, filter, 1, 1, found));
    EXPECT_FALSE(found.empty()) << filter;
    return found.empty() ? StreamMessage{} : found.front();
  }
  StreamMessage log_message(const std::string& id) {
    return message(kLog, "once.test.log." + id + ".>");
  }
  StreamMessage record_message(const std::string& key) {
    return message(kLedger, "$KV.once_test_ledger.q.*.k." + key);
  }
  // The message's own headers, under another subject or with other data.
  void put(const StreamMessage& stream_message, const std::string& subject,
           const std::string& data) {
    Headers headers;
    for (const auto& [name, value] : stream_message.headers)
      if (!name.starts_with("Nats-")) headers.emplace_back(name, value);
    bare().publish(subject, data, headers);
  }
  template <class Change>
  void change_record(const std::string& key, std::uint64_t sequence, Change change) {
    const Address at{.queue = "q", .key = key, .sequence = {sequence}};
    const Stored stored = store().get(std::span(&at, 1)).front().value().value();
    Swap item{.at = at, .expected = stored.revision, .record = stored.record};
    change(item.record);
    ASSERT_TRUE(swap(item).value().written);
  }
};

TEST_F(NatsDeepAudit, ABodyThatDoesNotMatchItsDigest) {
  three_completed();
  const StreamMessage stream_message = log_message("1");
  remove(kLog, stream_message.sequence);
  put(stream_message, stream_message.subject, R"({"changed":true})");
  expect_damage("its topic and body do not match its digest");
  EXPECT_THAT(found(), Contains("missing #2")) << "the place of the first one is empty";
}

TEST_F(NatsDeepAudit, ATaskUnderAnotherTopic) {
  three_completed();
  const StreamMessage stream_message = log_message("1");
  remove(kLog, stream_message.sequence);
  put(stream_message, "once.test.log.1.other", stream_message.data);
  expect_damage("its topic and body do not match its digest");
}

TEST_F(NatsDeepAudit, ATaskUnderTheSubjectOfAnotherId) {
  add_queue({});
  const std::string id(1000, 'x');  // too long for a subject: a header holds it
  publish_task(id).value();
  run_all();
  EXPECT_THAT(told(true), IsEmpty());
  const StreamMessage stream_message = message(kLog, "once.test.log.>");
  remove(kLog, stream_message.sequence);
  put(stream_message, "once.test.log.misdirected.t", stream_message.data);
  expect_damage("which is not the one of its id and topic");
}

TEST_F(NatsDeepAudit, TwoTasksOfOneId) {
  three_completed();
  const StreamMessage stream_message = log_message("1");
  put(stream_message, "once.test.log.1.other", stream_message.data);
  expect_damage("#2 and #4 have the same id");
}

TEST_F(NatsDeepAudit, TwoTasksOfOneIdAndTopic) {
  three_completed();
  const StreamMessage stream_message = log_message("1");
  put(stream_message, stream_message.subject, stream_message.data);
  expect_damage("#2 and #4 have the same id");
}

TEST_F(NatsDeepAudit, AnIdThatWasDeletedAfterRetentionTookItsBody) {
  three_completed();
  store().set_retention({.bodies = 0ms, .records = 1h, .ids = 1h}).value();
  ASSERT_TRUE(store().retire({}, 100));
  EXPECT_THAT(told(true), IsEmpty());
  const std::uint64_t place = message(kLog, "once.test.old.1.>").sequence;
  remove(kLog, place);
  EXPECT_THAT(found(), ElementsAre("missing #" + std::to_string(place), "stray #2"));
}

TEST_F(NatsDeepAudit, ARecordThatCannotBeRead) {
  three_completed();
  const StreamMessage stream_message = record_message("1");
  put(stream_message, stream_message.subject, "no record");
  expect_damage("a record of the ledger cannot be read");
}

TEST_F(NatsDeepAudit, ARecordOfAnotherTask) {
  three_completed();
  put(record_message("2"), record_message("1").subject, record_message("2").data);
  expect_damage("the record of '1' is about #3, which has the id '2'");
}

TEST_F(NatsDeepAudit, ARecordOfOtherContent) {
  three_completed();
  change_record("1", 2, [](core::Record& record) { record.digest.bytes[0] ^= 1U; });
  expect_damage("its record was made for other content than the log has");
}

TEST_F(NatsDeepAudit, ATokenThatWasNeverGivenOut) {
  three_completed();
  change_record("1", 2, [](core::Record& record) { record.attempts.at(0).token = {1'000'000}; });
  expect_damage("has token 1000000, which is after the record's revision");
}

// The ledger has no column beside the record. The record's attempts tell what its state may be.
TEST_F(NatsDeepAudit, AStateThatTheAttemptsContradict) {
  three_completed();
  for (const State state : {State::dead, State::retrying, State::cancelled, State::in_doubt}) {
    change_record("1", 2, [&](core::Record& record) { record.state = state; });
    EXPECT_THAT(told(false), Contains(AllOf(HasSubstr("inconsistent q"),
                                            HasSubstr("though its last attempt completed"))))
        << to_string(state);
  }
}

TEST_F(NatsDeepAudit, ALargeResultOfOtherBytes) {
  add_queue({});
  publish_task("large").value();
  worker([](Context&) { return Outcome::completed(Body::bytes(std::string(12 << 20, 'x'))); })
      .run_until_empty()
      .value();
  EXPECT_THAT(told(true), IsEmpty());
  const StreamMessage chunk = message("ONCE_test_BLOB", "once-blob.test.q.>");
  remove("ONCE_test_BLOB", chunk.sequence);
  expect_damage("of a large result is missing");
  put(chunk, chunk.subject, std::string(chunk.data.size(), 'y'));
  expect_damage("is not what was written");
}

TEST_F(NatsAudit, WhatRetentionTookIsNotMissingAndStillCounted) {
  add_queue({});
  publish_tasks(5);
  run_all();
  store().set_retention({.bodies = 0ms, .records = 0ms, .ids = 0ms}).value();
  for (int stage = 0; stage < 4; ++stage) {
    ASSERT_TRUE(store().retire({}, 100));
    EXPECT_THAT(found(), IsEmpty()) << stage;
    EXPECT_EQ(published(), 5U) << stage;
  }
  EXPECT_THAT(store().read({}, 10, {}).value(), IsEmpty());
}

TEST_F(NatsAudit, ARetirementThatWasCutOffCountsNothingTwice) {
  add_queue({});
  publish_tasks(3);
  run_all();
  store().set_retention({.bodies = 0ms, .records = 0ms, .ids = 1h}).value();
  ASSERT_TRUE(store().retire({}, 100));
  // The records are counted and not yet deleted: as if the process had died between the two.
  const auto ledger = bare().api("STREAM.INFO.KV_once_test_ledger", R"({"subjects_filter":">"})");
  std::vector<StreamMessage> records;
  ASSERT_TRUE(
      bare().client().page("KV_once_test_ledger", "$KV.once_test_ledger.q.*.k.*", 1, 10, records));
  ASSERT_EQ(records.size(), 3U);
  ASSERT_TRUE(store().retire({}, 100));
  EXPECT_EQ(published(), 3U);
  for (const StreamMessage& stream_message : records) {
    Headers headers;
    for (const auto& [name, value] : stream_message.headers)
      if (!name.starts_with("Nats-")) headers.emplace_back(name, value);
    bare().publish(stream_message.subject, stream_message.data, headers);
  }
  EXPECT_EQ(published(), 3U);
}

}  // namespace
}  // namespace once::store::nats
