// Zones of an older version, which kept workflows as records of the ledger. An old process may be at work
// while they are moved: whatever it writes is refused, or is found.
#include <fstream>

#include "codec/large_values.h"
#include "json/base64.h"
#include "once/once.h"
#include "store/nats/subjects.h"
#include "support/flows_as_records.h"
#include "unit/nats/bare_stream.h"
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using encoding::Json;

class FlowMoveTest : public NatsWorld {
 protected:
  void SetUp() override {
    if (testing::NatsServer::program().empty())
      GTEST_SKIP() << "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server "
                      "fetches one";
    server_of_its_own_ = std::make_unique<testing::NatsServer>(std::string());
    bare_.emplace(server_of_its_own_->url());
    replay();
  }
  void TearDown() override { bare_.reset(); }

  std::string address() const { return server_of_its_own_->url() + "/main"; }
  const JetStreamClient& client() const { return bare_->client(); }
  std::unique_ptr<Store> open_store() {
    return open_nats({.servers = {server_of_its_own_->url()}, .zone = "main"}).value();
  }

  // Every message gets the sequence that it had: what is missing is published and removed.
  void replay() {
    std::ifstream file(testing::fixture("zone.jsonl"));
    std::string stream, filler;
    std::uint64_t last = 0, next = 1;
    const auto fill = [&](std::uint64_t up_to) {
      for (; next < up_to; ++next) {
        bare_->publish(filler, "", counts(stream) ? Headers{{"Nats-Incr", "+1"}} : Headers{});
        client().remove(stream, next).value();
      }
    };
    for (std::string line; std::getline(file, line);) {
      const Json json = encoding::parse_json(line).value();
      if (const Json* name = json.member("stream")) {
        if (!stream.empty()) fill(last + 1);
        stream = name->string();
        last = number_of(json, "last").value();
        next = 1;
        const std::string subjects = json.member("config")->member("subjects")->items()[0].string();
        filler = subjects.substr(0, subjects.size() - 1) + "filler.filler.filler";
        std::string config = encoding::canonical(*json.member("config"));
        if (replicas_ != "1")
          config.replace(config.find(kOneReplica), kOneReplica.size(),
                         "\"num_replicas\":" + replicas_);
        config.insert(1, "\"name\":" + encoding::json_string(stream) + ",");
        bare_->api("STREAM.CREATE." + stream, config);
        continue;
      }
      fill(number_of(json, "sequence").value());
      Headers headers;
      for (const Json& header : json.member("headers")->items())
        headers.emplace_back(header.items()[0].string(), header.items()[1].string());
      std::string data = encoding::from_base64(json.member("data")->string()).value();
      if (counts(stream)) {
        headers = {{"Nats-Incr", "+1"}};
        data.clear();
      }
      const auto acked = bare_->publish(json.member("subject")->string(), data, std::move(headers));
      ASSERT_EQ(acked.sequence, next) << json.member("subject")->string();
      ++next;
    }
    fill(last + 1);
  }
  // Only a write moves them.
  void move(Zone& zone) { ASSERT_TRUE(testing::start_order(zone, 1).value().duplicate); }
  static bool counts(const std::string& stream) { return stream.ends_with("_COUNT"); }

  // What an old process writes: a record that is not there yet, or over the one that it has read.
  static constexpr const char* kOldKeys = "$KV.once_main_ledger.once-keys.o14hm20lnikf.k.";
  static constexpr const char* kOldRuns = "$KV.once_main_ledger.once-runs.s3elrh35natq.k.";
  PublishResult write_as_old(const std::string& key, const std::string& data,
                             std::uint64_t expected) {
    return client().publish(
        {.subject = kOldKeys + key, .data = data, .headers = expecting(expected)});
  }
  StreamMessage old_record(const std::string& key) {
    return client().last("KV_once_main_ledger", kOldKeys + key).value().value();
  }
  // The same when it was sealed: what was in it.
  std::string record_of_before(const std::string& key) { return old_record(key).data.substr(1); }
  // The record of another key, as an old process would write it.
  std::string record_like(const std::string& key) { return old_record(key).data; }

  static constexpr std::string_view kOneReplica = "\"num_replicas\":1";
  std::string replicas_ = "1";
  std::unique_ptr<testing::NatsServer> server_of_its_own_;
  std::optional<Bare> bare_;
};

TEST_F(FlowMoveTest, ItsRunsGoOn) {
  Zone zone = Zone::open(address()).value();
  testing::finish_the_runs(zone);
  Zone again = Zone::open(address()).value();
  EXPECT_EQ(again.flows().runs({}).value().size(), 5U);
}

TEST_F(FlowMoveTest, ADeepLookTakesNoSealedRecordForDamage) {
  Zone zone = Zone::open(address()).value();
  move(zone);
  testing::finish_the_runs(zone);
  for (const Discrepancy& each : zone.audit({.deep = true}).value().discrepancies)
    ADD_FAILURE() << each.queue << ": " << each.what;
}

TEST_F(FlowMoveTest, WhatAnOldProcessHasReadItCannotWriteOver) {
  const std::uint64_t read = old_record("pay=3A2").sequence;
  const std::string data = old_record("pay=3A2").data;
  Zone zone = Zone::open(address()).value();
  ASSERT_TRUE(testing::start_order(zone, 2).value().duplicate);
  EXPECT_EQ(write_as_old("pay=3A2", data, read).kind, PublishResult::Kind::refused);
  const StreamMessage sealed = old_record("pay=3A2");
  EXPECT_EQ(sealed.data, '\xff' + data);
  std::vector<encoding::MovedValue> moved;
  EXPECT_FALSE(encoding::unpack(sealed.data, {}, moved)) << "an old process cannot read it";
}

TEST_F(FlowMoveTest, AnOldProcessDoesNotFindItsQueues) {
  Zone zone = Zone::open(address()).value();
  move(zone);
  for (const char* name : {"once-flows", "once-runs", "once-keys", "once-values"}) {
    const auto message =
        client().last("KV_once_main_meta", std::string("$KV.once_main_meta.queue.") + name).value();
    ASSERT_TRUE(message) << name;
    EXPECT_EQ(message->data.find("\"ledger\":true"), std::string::npos)
        << "it takes this for a queue of somebody else, and refuses to use it";
  }
}

// It was sent before the move and arrives after it.
TEST_F(FlowMoveTest, AStartKeyThatArrivesLateHasItsRun) {
  const std::string late = record_like("pay=3A3");
  Zone zone = Zone::open(address()).value();
  move(zone);
  ASSERT_EQ(write_as_old("pay=3A7", late, 0).kind, PublishResult::Kind::stored);
  const std::string run = testing::start_order(zone, 3).value().run;
  const auto started = testing::start_order(zone, 7);
  ASSERT_FALSE(started) << "its input is that of order 3, and its run the one of the old process";
  EXPECT_EQ(started.error().code, Code::conflicting_duplicate);
  EXPECT_EQ(started.error().conflict->id, run);
}

// The process that sealed it died before it copied it.
TEST_F(FlowMoveTest, AStartKeyThatArrivesLateAndIsOnlySealedHasItsRun) {
  const std::string late = record_like("pay=3A3");
  Zone zone = Zone::open(address()).value();
  const std::string run = testing::start_order(zone, 3).value().run;
  const auto written = write_as_old("pay=3A7", late, 0);
  ASSERT_EQ(written.kind, PublishResult::Kind::stored);
  nats::Headers headers = expecting(written.sequence);
  const auto now =
      std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch());
  headers.emplace_back("Once-Sealed", std::to_string(now.count()));
  ASSERT_EQ(client()
                .publish({.subject = kOldKeys + std::string("pay=3A7"),
                          .data = '\xff' + late,
                          .headers = std::move(headers)})
                .kind,
            PublishResult::Kind::stored);
  const auto started = testing::start_order(zone, 7);
  ASSERT_FALSE(started) << "a second run would begin for the key of the old process";
  EXPECT_EQ(started.error().conflict->id, run);
}

// It would take a run without a record for one that is forgotten, and its events for handled.
TEST_F(FlowMoveTest, AnOldRunnerCannotReadARunOfThisVersion) {
  Zone zone = Zone::open(address()).value();
  const std::string run = testing::start_order(zone, 9).value().run;
  const auto there = client().last("KV_once_main_ledger", kOldRuns + token(run));
  ASSERT_TRUE(there.value());
  EXPECT_EQ((*there)->data, "\xff");
}

TEST_F(FlowMoveTest, AnOldProcessCannotTakeAKeyThatHasARunHere) {
  const std::string late = record_like("pay=3A3");
  Zone zone = Zone::open(address()).value();
  EXPECT_FALSE(testing::start_order(zone, 8).value().duplicate);
  EXPECT_EQ(write_as_old("pay=3A8", late, 0).kind, PublishResult::Kind::refused);
}

// An old runner wrote the run after the move, because it had read its definition before.
TEST_F(FlowMoveTest, ARunThatAnOldRunnerWritesAfterTheMoveGoesOn) {
  std::string run;
  {
    Zone before = Zone::open(address()).value();
    for (const RunInfo& each : before.flows().runs({}).value())
      if (each.state == RunPhase::waiting && each.version == 1) run = each.run;
  }
  ASSERT_FALSE(run.empty());
  const StreamMessage message =
      client().last("KV_once_main_ledger", kOldRuns + token(run)).value().value();
  client().purge("KV_once_main_ledger", message.subject).value();
  Zone zone = Zone::open(address()).value();
  move(zone);
  EXPECT_EQ(zone.flows().runs({}).value().size(), 3U);
  const auto late =
      client().publish({.subject = message.subject, .data = message.data, .headers = expecting(0)});
  ASSERT_EQ(late.kind, PublishResult::Kind::stored);
  EXPECT_EQ(zone.flows().runs({}).value().size(), 4U);
  testing::finish_the_runs(zone);
  const auto there = client().last("KV_once_main_ledger", message.subject).value();
  ASSERT_TRUE(there);
  EXPECT_EQ(there->data, "\xff") << "the old runner leaves it alone";
}

TEST_F(FlowMoveTest, AValueThatAnOldProcessWroteIsReplacedAfterItWasCopied) {
  auto store = open_store();
  KeyValue& values = store->key_values();
  const auto get = [&](const Key& key) {
    return std::move(values.get(std::span(&key, 1)).front()).value();
  };
  const auto write = [&](const KeyWrite& item) {
    return std::move(values.write(std::span(&item, 1)).front()).value();
  };
  ASSERT_TRUE(write({.key = {"note", "runs.other"}, .bytes = "{}"}).written) << "this moves them";
  ASSERT_EQ(write_as_old("pay=3A7", record_of_before("pay=3A3"), 0).kind,
            PublishResult::Kind::stored);
  const Key key{"key", "pay", "7"};
  const auto read = get(key);
  ASSERT_TRUE(read);
  const auto refused =
      write({.key = key, .expected = read->revision, .bytes = "{\"replaced\":true}"});
  EXPECT_FALSE(refused.written) << "it was read where an old process can write, too";
  ASSERT_TRUE(refused.current);
  EXPECT_EQ(refused.current->bytes, read->bytes);
  EXPECT_TRUE(write({.key = key, .expected = refused.current->revision, .bytes = "{}"}).written);
  EXPECT_EQ(get(key)->bytes, "{}");
  EXPECT_EQ(old_record("pay=3A7").data, "\xff");
}

// Nothing is written for it: whoever reads may have no other permission.
TEST_F(FlowMoveTest, ReadingMovesNothing) {
  const auto written = [&] {
    std::map<std::string, std::uint64_t> last;
    for (const std::string stream : {"KV_once_main_meta", "KV_once_main_ledger", "ONCE_main_LOG"})
      last[stream] =
          number_of(*bare_->api("STREAM.INFO." + stream).member("state"), "last_seq").value();
    return last;
  };
  Zone zone = Zone::open(address()).value();
  const auto before = written();  // opening it may have moved the zone's marks
  Flows flows = zone.flows();
  EXPECT_EQ(flows.list().value().size(), 2U);
  const auto runs = flows.runs({}).value();
  ASSERT_EQ(runs.size(), 4U);
  for (const RunInfo& each : runs) EXPECT_TRUE(flows.show(each.run)) << each.run;
  EXPECT_THAT(zone.audit().value().discrepancies, ::testing::IsEmpty());
  EXPECT_TRUE(zone.doctor());
  EXPECT_EQ(written(), before);
  EXPECT_FALSE(client().stream_info("ONCE_main_KV").value());
  testing::finish_the_runs(zone);
}

// The process that moves them dies before anything is copied; the next one does all of it again.
TEST_F(FlowMoveTest, AMoveThatWasCutOffIsFinished) {
  {
    Zone first = Zone::open(address()).value();
    move(first);
  }
  client().purge("ONCE_main_KV", "once-kv.main.v.>").value();
  client().purge("KV_once_main_meta", "$KV.once_main_meta.values").value();
  Zone zone = Zone::open(address()).value();
  testing::finish_the_runs(zone);
}

TEST_F(FlowMoveTest, ManyWhoOpenItAtOnceMoveItOnce) {
  std::vector<std::jthread> all;
  for (int i = 0; i < 4; ++i)
    all.emplace_back([this] {
      Zone zone = Zone::open(address()).value();
      EXPECT_TRUE(testing::start_order(zone, 1).value().duplicate);
      EXPECT_EQ(zone.flows().runs({}).value().size(), 4U);
    });
  all.clear();
  Zone zone = Zone::open(address()).value();
  testing::finish_the_runs(zone);
}

TEST_F(FlowMoveTest, AStreamOfValuesThatWasEmptiedIsNoticed) {
  Zone zone = Zone::open(address()).value();
  ASSERT_TRUE(testing::start_order(zone, 1).value().duplicate);
  client().purge("ONCE_main_KV", ">").value();
  const auto started = testing::start_order(zone, 1);
  ASSERT_FALSE(started) << "at work";
  EXPECT_EQ(started.error().code, Code::store_unusable);
  Zone other = Zone::open(address()).value();
  EXPECT_EQ(testing::start_order(other, 1).error().code, Code::store_unusable) << "opened anew";
  bare_->api("STREAM.DELETE.ONCE_main_KV");
  Zone third = Zone::open(address()).value();
  EXPECT_EQ(testing::start_order(third, 1).error().code, Code::store_unusable) << "deleted";
}

// The leader of the ledger is new, and replicas answer reads.
class FlowMoveOnThreeNodes : public FlowMoveTest {
 protected:
  void SetUp() override {
    if (testing::NatsServer::program().empty())
      GTEST_SKIP() << "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server "
                      "fetches one";
    cluster_.emplace();
    replicas_ = "3";
    bare_.emplace(cluster_->node(0).url());
    replay();
  }
  std::optional<testing::NatsCluster> cluster_;
};

TEST_F(FlowMoveOnThreeNodes, EveryRecordIsMoved) {
  Zone zone = Zone::open(cluster_->url() + "/main").value();
  cluster_->step_down("KV_once_main_ledger");
  ASSERT_TRUE(testing::start_order(zone, 1).value().duplicate);
  std::size_t sealed = 0;
  for (const StreamMessage& message :
       client().all("KV_once_main_ledger", kOldRuns + std::string(">")).value())
    if (message.data.size() > 1) {
      EXPECT_TRUE(message.header("Once-Sealed")) << message.subject;
      ++sealed;
    }
  EXPECT_EQ(sealed, 4U);
  testing::finish_the_runs(zone);
}

// A zone without workflows, which an old process may have open.
class FlowBarTest : public NatsWorld {};

TEST_F(FlowBarTest, AnOldProcessAddsNoWorkflowAfterThisVersionDid) {
  const KeyWrite item{.key = {"key", "pay", "1"}, .bytes = "{}"};
  ASSERT_TRUE(store().key_values().write(std::span(&item, 1)).front().value().written);
  const Bare bare(server().url());
  for (const char* name : {"once-flows", "once-runs", "once-keys", "once-values"}) {
    const std::string subject = std::string("$KV.once_test_meta.queue.") + name;
    const Outgoing theirs{.subject = subject, .data = "{}", .headers = expecting(0)};
    EXPECT_EQ(bare.client().publish(theirs).kind, PublishResult::Kind::refused) << name;
    const auto message = bare.client().last("KV_once_test_meta", subject).value();
    ASSERT_TRUE(message) << name;
    EXPECT_EQ(message->data.find("\"ledger\":true"), std::string::npos)
        << "it takes this for a queue of somebody else, and refuses to use it";
  }
  EXPECT_THAT(store().queues().value(), ::testing::IsEmpty());
  EXPECT_EQ(bare.messages("KV_once_test_ledger"), 1U) << "the seal of the ledger; no key is sealed";
}

// It began to add a workflow before this version did: its queues are replaced, and what it wrote counts.
TEST_F(FlowBarTest, AnOldProcessThatIsAddingAWorkflowIsStopped) {
  const Bare bare(server().url());
  const Outgoing theirs{.subject = "$KV.once_test_meta.queue.once-keys",
                        .data = R"({"name":"once-keys","ledger":true})",
                        .headers = {{"Once-Generation", "abcdefghijkl"}}};
  ASSERT_EQ(bare.client().publish(theirs).kind, PublishResult::Kind::stored);
  const KeyWrite item{.key = {"key", "pay", "1"}, .bytes = "{}"};
  ASSERT_TRUE(store().key_values().write(std::span(&item, 1)).front().value().written);
  EXPECT_TRUE(
      bare.get("KV_once_test_ledger", "$KV.once_test_ledger.once-keys.abcdefghijkl.k.pay=3A1"))
      << "the old process knows the queue of start keys: it cannot take the key";
  EXPECT_TRUE(bare.get("KV_once_test_meta", "$KV.once_test_meta.queue.once-runs"));
}

}  // namespace
}  // namespace once::store::nats
