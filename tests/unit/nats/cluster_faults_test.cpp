// Three nodes, of which some die, stop or come back empty: the zone goes on, nothing is lost and
// nothing is completed twice.
#include <gmock/gmock.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "once/zone.h"
#include "store/nats/nats_store.h"
#include "support/eventually.h"
#include "support/nats_server.h"

namespace once::store::nats {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

// What a dying node left undelivered is found by the sweeper, which comes once a minute.
constexpr auto kSoon = 180s;
constexpr const char* kLog = "ONCE_test_LOG";
constexpr const char* kLedger = "KV_once_test_ledger";

class NatsClusterFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::NatsServer::program().empty())
      GTEST_SKIP() << "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server "
                      "fetches one";
  }
  static Result<std::unique_ptr<Store>> open(const testing::NatsCluster& cluster) {
    return open_nats({.servers = cluster.urls(), .zone = "test"});
  }
  // A cluster that misses a node may be busy with itself for a while, and tells nobody when it is not
  // any more: it is asked again.
  template <class Call>
  static auto until_answered(Call call) {
    const auto deadline = steady_clock::now() + kSoon;
    while (true) {
      auto answer = call();
      if (answer || steady_clock::now() > deadline) return std::move(answer).value();
      std::this_thread::sleep_for(50ms);
    }
  }
  static std::uint64_t replicas_of(const encoding::Json& info) {
    const encoding::Json* cluster = info.member("cluster");
    const encoding::Json* others = cluster ? cluster->member("replicas") : nullptr;
    return others ? 1 + others->items().size() : 1;
  }
};

TEST_F(NatsClusterFaults, StreamsHaveThreeReplicasAndConsumersInheritThem) {
  testing::NatsCluster cluster;
  const auto store = open(cluster).value();
  store->add_queue({.name = "work", .topic = ">"}).value();
  for (const char* stream :
       {kLog, kLedger, "ONCE_test_WAKE", "ONCE_test_COUNT", "KV_once_test_meta"})
    EXPECT_EQ(replicas_of(cluster.ask(std::string("STREAM.INFO.") + stream)), 3U) << stream;
  for (const char* stream : {kLog, "ONCE_test_WAKE"}) {
    const auto names = cluster.ask(std::string("CONSUMER.NAMES.") + stream);
    const std::string name = names.member("consumers")->items().at(0).string();
    EXPECT_EQ(replicas_of(cluster.ask(std::string("CONSUMER.INFO.") + stream + "." + name)), 3U);
  }
}

TEST_F(NatsClusterFaults, AClusterThatIsNotCompleteGetsNoZoneWithFewerReplicas) {
  testing::NatsCluster cluster(2);
  const auto early = open(cluster);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::store_unavailable);
  EXPECT_TRUE(early.error().retryable);
  cluster.start(2);
  const auto store = until_answered([&] { return open(cluster); });
  EXPECT_EQ(replicas_of(cluster.ask(std::string("STREAM.INFO.") + kLog)), 3U);
}

// A zone with a publisher and a worker that are at it while the test does something to the nodes.
class NatsClusterAtWork : public NatsClusterFaults {
 protected:
  static constexpr std::size_t kTasks = 200;

  void SetUp() override {
    NatsClusterFaults::SetUp();
    if (IsSkipped()) return;
    cluster_ = std::make_unique<testing::NatsCluster>();
    zone_.emplace(open_zone());
    zone_->queues().add({.name = "work", .topic = ">", .lease = 3s}).value();
    worker_.emplace(zone_
                        ->worker("work",
                                 [this](Context& context) {
                                   const std::lock_guard lock(mutex_);
                                   ++runs_[context.task().id];
                                   return Outcome::completed();
                                 },
                                 {.concurrency = 4})
                        .value());
    working_ = std::jthread([this](const std::stop_token& stop) {
      if (auto ended = worker_->run(stop); !ended) ADD_FAILURE() << ended.error().message;
    });
    publishing_ = std::jthread([this] { publish_all(); });
  }
  void TearDown() override {
    publishing_ = {};
    working_ = {};
    worker_.reset();
    zone_.reset();
  }

  Zone open_zone() {
    return until_answered([&] { return Zone::open(cluster_->url() + "/test"); });
  }
  testing::NatsCluster& cluster() { return *cluster_; }
  void wait_for_published(std::size_t count) {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(more_published_.wait_for(lock, kSoon, [&] { return published_ >= count; }))
        << published_;
  }

  // Every task is completed, once, and every run is an attempt that is written down.
  void expect_each_once() {
    wait_for_published(kTasks);
    const Zone zone = open_zone();
    const auto completed = [&] {
      return until_answered([&] { return zone.status(); }).queues.at(0).tasks.at(State::completed);
    };
    EXPECT_TRUE(testing::eventually([&] { return completed() >= kTasks; }, kSoon));
    EXPECT_EQ(completed(), kTasks);
    std::set<std::string> ids;
    for (std::uint64_t after = 0; true;) {
      const auto page = until_answered([&] { return zone.tasks().log(after, 500); });
      if (page.empty()) break;
      for (const LogEntry& entry : page) EXPECT_TRUE(ids.insert(entry.id).second) << entry.id;
      after = page.back().sequence;
    }
    EXPECT_EQ(ids.size(), kTasks);
    const std::lock_guard lock(mutex_);
    for (const auto& [id, runs] : runs_) {
      const auto view = until_answered([&] { return zone.tasks().inspect(id); });
      std::size_t completions = 0;
      for (const auto& attempt : view.queues.at(0).attempts)
        completions += attempt.outcome == AttemptOutcome::completed ? 1 : 0;
      EXPECT_EQ(completions, 1U) << id;
      EXPECT_GE(view.queues.at(0).attempts.size(), runs) << id << ": a run that nobody wrote down";
    }
    EXPECT_EQ(runs_.size(), kTasks);
  }

 private:
  void publish_all() {
    for (std::size_t i = 0; i < kTasks; ++i) {
      const auto deadline = steady_clock::now() + kSoon;
      while (steady_clock::now() < deadline) {
        const auto receipt = zone_->publish({.topic = "a", .id = "task" + std::to_string(i)});
        if (receipt) break;
        if (!receipt.error().retryable && !receipt.error().in_doubt) {
          ADD_FAILURE() << receipt.error().message;
          return;
        }
      }
      const std::lock_guard lock(mutex_);
      ++published_;
      more_published_.notify_all();
    }
  }

  std::unique_ptr<testing::NatsCluster> cluster_;
  std::optional<Zone> zone_;
  std::optional<Worker> worker_;
  std::mutex mutex_;
  std::condition_variable more_published_;
  std::map<std::string, std::size_t> runs_;  // guarded by mutex_
  std::size_t published_ = 0;                // guarded by mutex_
  std::jthread working_;
  std::jthread publishing_;
};

TEST_F(NatsClusterAtWork, LeadersThatAreKilledInTheMiddleLoseAndDoubleNothing) {
  std::size_t next = 20;
  for (const char* stream : {kLog, kLedger}) {
    wait_for_published(next);
    const std::size_t leader = cluster().leader_of(stream);
    cluster().node(leader).kill();
    wait_for_published(next + 30);
    cluster().start(leader);
    cluster().wait_until_whole(stream);
    next += 60;
  }
  cluster().step_down(kLedger);
  expect_each_once();
}

TEST_F(NatsClusterAtWork, ANodeThatStopsPastTheLeaseAndComesBackChangesNothing) {
  wait_for_published(50);
  const std::size_t leader = cluster().leader_of(kLedger);
  cluster().node(leader).pause();
  const auto lease_over = steady_clock::now() + 4s;
  wait_for_published(120);
  std::this_thread::sleep_until(lease_over);  // no condition: the lease's time must have passed
  cluster().node(leader).resume();
  expect_each_once();
}

TEST_F(NatsClusterAtWork, ANodeThatComesBackEmptyCatchesUp) {
  wait_for_published(50);
  cluster().node(0).kill();
  cluster().node(0).wipe();
  cluster().start(0);
  cluster().wait_until_whole(kLog);
  cluster().wait_until_whole(kLedger);
  expect_each_once();
}

}  // namespace
}  // namespace once::store::nats
