// What cannot be made to happen with one server and one clock, and a zone that is opened as it is.
#include "store/nats/doctor/settings_check.h"
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

encoding::Json json(const std::string& text) { return encoding::parse_json(text).value(); }

std::vector<std::string> codes(const Findings& findings) {
  std::vector<std::string> all;
  for (const once::Finding& each : findings)
    all.push_back(std::string(to_string(each.severity)) + " " + each.code);
  return all;
}

TEST(NatsSettingsCheck, ClocksApart) {
  EXPECT_THAT(check_clock(0ms), IsEmpty());
  EXPECT_THAT(check_clock(-1900ms), IsEmpty());
  EXPECT_THAT(codes(check_clock(90s)), ElementsAre("warning clock_offset"));
  EXPECT_THAT(check_clock(90s).front().what, HasSubstr("90 s ahead of"));
  EXPECT_THAT(check_clock(-90s).front().what, HasSubstr("90 s behind"));
}

TEST(NatsSettingsCheck, AnAccountNearItsEnd) {
  const auto account = [](int used) {
    return json(R"({"storage":)" + std::to_string(used) +
                R"(,"streams":3,"consumers":2,"limits":{"max_storage":100,"max_streams":-1,)"
                R"("max_consumers":0}})");
  };
  EXPECT_THAT(check_account(account(79)), IsEmpty());
  EXPECT_THAT(codes(check_account(account(80))), ElementsAre("warning nearly_full"));
  EXPECT_THAT(codes(check_account(account(96))), ElementsAre("hazard nearly_full"));
  EXPECT_THAT(
      codes(check_account(json(R"({"tiers":{"R3":{"streams":9,"limits":{"max_streams":10}}}})"))),
      ElementsAre("warning nearly_full"));
}

TEST(NatsSettingsCheck, Servers) {
  const auto server = [](const std::string& version, const std::string& config) {
    std::vector<std::string> checked;
    return codes(check_server("http://h:1",
                              json(R"({"server_name":"n","version":")" + version +
                                   R"(","jetstream":{"config":{)" + config + "}}}"),
                              checked));
  };
  EXPECT_THAT(server("2.12.0", R"("sync_always":true)"), IsEmpty());
  EXPECT_THAT(server("2.9.10", R"("sync_always":true)"), ElementsAre("hazard server_old"));
  EXPECT_THAT(server("3.0.1", R"("sync_always":true)"), IsEmpty());
  EXPECT_THAT(server("2.15.1", R"("sync_interval":120000000000)"),
              ElementsAre("warning sync_interval"));
}

TEST(NatsSettingsCheck, HowLongAllAttemptsMayTake) {
  EXPECT_EQ(retry_schedule({.lease = 10s, .attempts = 1}), 10s);
  EXPECT_EQ(retry_schedule({.lease = 10s, .timeout = 60s, .attempts = 2, .backoff = {100s}}),
            2 * 60s + 120s);  // with a fifth more of backoff
}

using NatsDoctor = NatsWorld;

TEST_F(NatsDoctor, AZoneThatIsOpenedAsItIsBeginsNothing) {
  raw("STREAM.UPDATE.ONCE_test_WAKE",
      R"({"name":"ONCE_test_WAKE","subjects":["once-wake.test.>"],"retention":"workqueue",)"
      R"("max_msgs_per_subject":1,"discard":"old","storage":"file","allow_direct":true})");
  close();
  EXPECT_FALSE(open());
  const auto zone =
      open_nats({.servers = {server().url()}, .zone = "test", .allow_unsafe = true}).value();
  const Append item = task("a");
  const auto answer = std::move(zone->append(std::span(&item, 1)).front());
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("discard"));
  EXPECT_THAT(codes(zone->examine({}).value().findings),
              ::testing::Contains("hazard stream_setting"));
}

}  // namespace
}  // namespace once::store::nats
