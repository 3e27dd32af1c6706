// Servers that are away, too old, or were edited under us: a clear error each, and nothing lost.
#include <filesystem>
#include <fstream>
#include <thread>

#include "support/eventually.h"
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using NatsServerTest = NatsWorld;

TEST_F(NatsServerTest, OneThatIsNotThereIsUnavailable) {
  const auto opened = open_nats({.servers = {"nats://127.0.0.1:1"}});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::store_unavailable);
  EXPECT_TRUE(opened.error().retryable);
}

TEST_F(NatsServerTest, AZoneThatIsNotThereIsNotFoundAndNotMade) {
  const auto opened =
      open_nats({.servers = {server().url()}, .zone = "elsewhere", .create = false});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::not_found);
  EXPECT_TRUE(raw("STREAM.INFO.ONCE_elsewhere_LOG", "").member("error"));
}

// After its last stream is deleted, a server removes the directory that the next one is made in, in
// its own time. A file in that place does what such a moment does: the server cannot make its own,
// and clears the place.
TEST_F(NatsServerTest, AZoneIsMadeAsSoonAsTheServerCanMakeItsFiles) {
  close();
  const encoding::Json names = raw("STREAM.NAMES", "");
  for (const auto& name : names.member("streams")->items())
    raw("STREAM.DELETE." + name.string(), "");
  const std::filesystem::path files = server().data() / "jetstream" / "$G";
  ASSERT_TRUE(testing::eventually([&] {
    std::error_code still_clearing;
    std::filesystem::remove_all(files, still_clearing);
    std::ofstream(files) << "in the way";
    return std::filesystem::is_regular_file(files);
  }));
  const auto opened = open();
  ASSERT_TRUE(opened) << opened.error().message;
}

TEST_F(NatsServerTest, AZonesNameIsChecked) {
  for (const char* name : {"", "a.b", "*", "a b"}) {
    const auto opened = open_nats({.servers = {server().url()}, .zone = name});
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code, Code::invalid_input);
  }
}

TEST_F(NatsServerTest, AStreamThatWasEditedToLoseTasksIsRefusedByName) {
  close();
  const auto edit = [&](const std::string& config) {
    EXPECT_FALSE(raw("STREAM.UPDATE.ONCE_test_LOG",
                     R"({"name":"ONCE_test_LOG","subjects":["once.test.>"],"storage":"file",)"
                     R"("retention":"limits","max_msgs_per_subject":-1,"allow_direct":true,)"
                     R"("allow_atomic":true,)" +
                         config + "}")
                     .member("error"));
  };
  for (const auto& [config, field] :
       {std::pair{R"("discard":"new","max_age":3600000000000)", "max_age"},
        std::pair{R"("discard":"new","subject_transform":{"src":">","dest":"x.>"})",
                  "subject_transform"},
        std::pair{R"("discard":"old")", "discard"}}) {
    edit(config);
    const auto opened = open();
    ASSERT_FALSE(opened) << field;
    EXPECT_EQ(opened.error().code, Code::store_unusable);
    EXPECT_THAT(opened.error().message, HasSubstr(field));
    EXPECT_THAT(opened.error().message, HasSubstr("ONCE_test_LOG"));
  }
  edit(R"("discard":"new")");
  EXPECT_TRUE(open());
  edit(R"("discard":"new","max_bytes":1000000)");
  EXPECT_TRUE(open()) << "a limit that refuses what is new loses nothing";
}

TEST_F(NatsServerTest, ARealOldServerIsRefusedWithTheReason) {
  if (testing::NatsServer::old_program().empty())
    GTEST_SKIP() << "OLD SERVERS ARE NOT TESTED: there is no nats-server older than 2.12; "
                    "tools/nats-server --old fetches one";
  const testing::NatsServer old({}, testing::NatsServer::old_program());
  const auto opened = open_nats({.servers = {old.url()}});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::store_unusable);
  EXPECT_THAT(opened.error().message, HasSubstr("older than 2.12"));
  EXPECT_FALSE(opened.error().retryable);
  EXPECT_THAT(encoding::canonical(old.ask("STREAM.NAMES")), HasSubstr(R"("total":0)"))
      << "nothing was made on it";
}

// Answers as JetStream would, on a server that has none of its own.
class FakeJetStream {
 public:
  using Answer = std::string (*)(std::string_view api);
  explicit FakeJetStream(Answer answer) : answer_(answer) {
    natsConnection* raw_connection = nullptr;
    EXPECT_EQ(natsConnection_ConnectTo(&raw_connection, server_.url().c_str()), NATS_OK);
    connection_.reset(raw_connection);
    natsSubscription* raw_subscription = nullptr;
    EXPECT_EQ(
        natsConnection_Subscribe(&raw_subscription, raw_connection, "$JS.API.>", on_message, this),
        NATS_OK);
    subscription_.reset(raw_subscription);
    EXPECT_EQ(natsConnection_Flush(raw_connection), NATS_OK);
  }
  std::string url() const { return server_.url(); }

 private:
  static void on_message(natsConnection* connection, natsSubscription*, natsMsg* raw, void* self) {
    const Message message{MessageHandle(raw)};
    const std::string answer =
        static_cast<FakeJetStream*>(self)->answer_(message.subject().substr(8));
    static_cast<void>(natsConnection_PublishString(connection, std::string(message.reply()).c_str(),
                                                   answer.c_str()));
  }

  const testing::NatsServer server_{"jetstream: disabled"};
  const Answer answer_;
  ConnectionHandle connection_;
  SubscriptionHandle subscription_;
};

TEST_F(NatsServerTest, AServerWithoutTheApiOf212IsRefusedWithTheReason) {
  const FakeJetStream old([](std::string_view) -> std::string {
    return R"({"memory":0,"api":{"total":1,"errors":0}})";
  });
  const auto opened = open_nats({.servers = {old.url()}});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::store_unusable);
  EXPECT_THAT(opened.error().message, HasSubstr("older than 2.12"));
}

TEST_F(NatsServerTest, AClusterWithTooFewNodesUpGetsNoZoneWithFewerReplicas) {
  const FakeJetStream cluster([](std::string_view api) -> std::string {
    if (api == "INFO") return R"({"api":{"level":2}})";
    if (api.starts_with("STREAM.INFO"))
      return R"({"error":{"code":404,"err_code":10059,"description":"stream not found"}})";
    return R"({"error":{"code":400,"err_code":10005,"description":"no suitable peers"}})";
  });
  const auto opened = open_nats({.servers = {cluster.url()}});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::store_unavailable);
  EXPECT_TRUE(opened.error().retryable);
  EXPECT_THAT(opened.error().message, HasSubstr("three nodes for its three replicas"));
}

TEST_F(NatsServerTest, WhatWasAnsweredSurvivesKillMinusNine) {
  add("work", 30s);
  const Sequence first = publish("a");
  const auto delivery = fetch("work").at(0);
  const auto claimed = swap(record_of("work", delivery, State::running, 30s)).value();
  server().kill();
  server().start();
  EXPECT_EQ(store().find("a").value()->sequence, first);
  const auto done =
      swap(record_of("work", delivery, State::completed, 30s, claimed.current->revision));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_TRUE(done->written);
  EXPECT_GT(publish("b"), first);
  EXPECT_EQ(store().counts("work").value().tasks.at(State::completed), 1U);
}

TEST_F(NatsServerTest, NothingIsKeptForAServerThatIsAway) {
  add("work", 30s);
  publish("before");
  server().kill();
  const Append item = task("while away");
  const auto answer = append(item);
  ASSERT_FALSE(answer);
  EXPECT_TRUE(answer.error().retryable);
  const auto fetched = store().fetch({.queue = "work"});
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, Code::store_unavailable);
  server().start();
  EXPECT_EQ(publish("after"), Sequence{2}) << "what was refused did not arrive late";
  EXPECT_FALSE(store().find("while away").value());
  EXPECT_EQ(append(item).value().verdict, core::AppendVerdict::accepted);
}

TEST_F(NatsServerTest, AFetchThatWaitsGoesOnAfterARestart) {
  add("work", 30s);
  std::vector<Delivery> deliveries;
  std::jthread worker([&] {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (deliveries.empty() && std::chrono::steady_clock::now() < deadline) {
      auto fetched = store().fetch({.queue = "work", .wait = 30s});
      if (fetched) deliveries = std::move(*fetched);
    }
  });
  server().kill();
  server().start();
  while (!append(task("a"))) std::this_thread::yield();
  worker.join();
  EXPECT_THAT(deliveries, SizeIs(1));
}

TEST_F(NatsServerTest, AConsumerThatSomebodyDeletedIsMadeAgainAndTheLedgerDecides) {
  add("work", 30s);
  publish("done");
  publish("open");
  const auto first = fetch("work").at(0);
  ASSERT_TRUE(swap(record_of("work", first, State::completed, 30s))->written);
  const encoding::Json names = raw("CONSUMER.NAMES.ONCE_test_LOG", "");
  ASSERT_TRUE(names.member("consumers"));
  raw("CONSUMER.DELETE.ONCE_test_LOG." + names.member("consumers")->items().at(0).string(), "");
  std::vector<std::string> again;
  while (again.size() < 2) {
    const auto some = fetch("work", 30s, 10);
    ASSERT_FALSE(some.empty());
    for (const Delivery& each : some) again.push_back(each.entry.id);
  }
  EXPECT_THAT(again, ElementsAre("done", "open"))
      << "delivered anew; claiming would show the record";
  EXPECT_EQ(store().counts("work").value().tasks.at(State::completed), 1U);
}

TEST_F(NatsServerTest, ATaskAboveTheServersLimitIsRefusedWithTheLimit) {
  const auto refused = append(task("large", '"' + std::string(9 << 20, 'x') + '"'));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_THAT(refused.error().message, HasSubstr("8388608"));
  EXPECT_FALSE(store().find("large").value());
}

}  // namespace
}  // namespace once::store::nats
