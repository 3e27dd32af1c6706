// What an audit finds on a server where somebody deleted messages, and that a retirement which was cut
// off counts nothing twice.
#include "inspect/auditor.h"
#include "unit/nats/zone_world.h"

namespace once::store::nats {
namespace {

using ::testing::ElementsAre;
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
      bare().jet().page("KV_once_test_ledger", "$KV.once_test_ledger.q.*.k.*", 1, 10, records));
  ASSERT_EQ(records.size(), 3U);
  ASSERT_TRUE(store().retire({}, 100));
  EXPECT_EQ(published(), 3U);
  for (const StreamMessage& kept : records) {
    Headers headers;
    for (const auto& [name, value] : kept.headers)
      if (!name.starts_with("Nats-")) headers.emplace_back(name, value);
    bare().publish(kept.subject, kept.data, headers);
  }
  EXPECT_EQ(published(), 3U);
}

}  // namespace
}  // namespace once::store::nats
