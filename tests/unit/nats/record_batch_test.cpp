// Many records at once go as atomic batches; whatever refuses or loses a batch, each record is answered
// as if it had been written alone.
#include <barrier>
#include <thread>

#include "store/nats/batch_choice.h"
#include "support/tcp_proxy.h"
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

constexpr std::size_t kMany = 300;

std::vector<Append> tasks() {
  std::vector<Append> items;
  for (std::size_t i = 0; i < kMany; ++i) {
    Append item{.id = "task-" + std::to_string(i), .topic = "orders.new"};
    std::memcpy(item.nonce.bytes.data(), &i, sizeof i);
    items.push_back(std::move(item));
  }
  return items;
}

// Claims of all of them, by one who is known by a number.
std::vector<Swap> claims(Store& store, std::uint8_t who) {
  std::vector<Swap> swaps;
  for (const AppendResult& task : [&] {
         std::vector<AppendResult> all;
         for (auto& each : store.append(tasks())) all.push_back(each.value());
         return all;
       }()) {
    Swap swap{.at = {.queue = "work",
                     .key = "task-" + std::to_string(swaps.size()),
                     .sequence = task.sequence},
              .record = {.sequence = task.sequence, .state = State::running, .lease = 1h}};
    swap.record.nonce.bytes[0] = who;
    swaps.push_back(std::move(swap));
  }
  return swaps;
}

std::vector<Result<std::optional<Stored>>> records(Store& store, const std::vector<Swap>& swaps) {
  std::vector<Address> places;
  for (const Swap& swap : swaps) places.push_back(swap.at);
  return store.get(places);
}

Queue work() {
  Queue queue;
  queue.name = "work";
  queue.topic = ">";
  return queue;
}

// All of them claim the same tasks at the same time.
void race(const std::vector<std::string>& servers) {
  constexpr std::uint8_t kWorkers = 4;
  std::vector<std::unique_ptr<Store>> stores;
  for (int i = 0; i < kWorkers; ++i)
    stores.push_back(open_nats({.servers = servers, .zone = "test", .patience = 30s}).value());
  stores[0]->add_queue(work()).value();
  const std::vector<Swap> wanted = claims(*stores[0], 0);
  std::barrier start(kWorkers);
  std::array<std::vector<std::size_t>, kWorkers> won;
  std::vector<std::jthread> workers;
  for (std::uint8_t who = 0; who < kWorkers; ++who)
    workers.emplace_back([&, who] {
      std::vector<Swap> mine = wanted;
      for (Swap& swap : mine) swap.record.nonce.bytes[0] = who;
      start.arrive_and_wait();
      const auto answers = stores[who]->swap(mine);
      for (std::size_t i = 0; i < answers.size(); ++i)
        if (answers[i].value().written) won[who].push_back(i);
    });
  workers.clear();
  const auto there = records(*stores[0], wanted);
  std::vector<int> winners(kMany);
  for (std::uint8_t who = 0; who < kWorkers; ++who)
    for (const std::size_t i : won[who]) {
      ++winners[i];
      EXPECT_EQ(there[i].value()->record.nonce.bytes[0], who);
    }
  EXPECT_THAT(winners, ::testing::Each(1));
}

class NatsRecordBatch : public NatsWorld {
 protected:
  void SetUp() override {
    NatsWorld::SetUp();
    if (!IsSkipped()) store().add_queue(work()).value();
  }
};

TEST_F(NatsRecordBatch, EveryAnswerNamesTheRevisionOfItsOwnRecord) {
  const auto swaps = claims(store(), 1);
  const auto answers = store().swap(swaps);
  const auto there = records(store(), swaps);
  for (std::size_t i = 0; i < swaps.size(); ++i) {
    ASSERT_TRUE(answers[i].value().written);
    EXPECT_EQ(there[i].value()->revision, answers[i]->current->revision);
    EXPECT_EQ(there[i].value()->record.sequence, swaps[i].record.sequence);
  }
}

TEST_F(NatsRecordBatch, OneConflictIsAnsweredByItselfAndTheRestIsWritten) {
  auto swaps = claims(store(), 1);
  Swap other = swaps[7];
  other.record.nonce.bytes[0] = 2;
  ASSERT_TRUE(swap(other).value().written);
  reopen(5s);                  // knows nothing yet: it tries a batch first
  swaps.push_back(swaps[11]);  // twice in one call
  swaps.back().record.nonce.bytes[0] = 3;
  const auto answers = store().swap(swaps);
  for (std::size_t i = 0; i < swaps.size(); ++i) {
    const bool refused = i == 7 || i + 1 == swaps.size();
    EXPECT_EQ(answers[i].value().written, !refused) << i;
  }
  EXPECT_EQ(answers[7]->current->record.nonce.bytes[0], 2);
  EXPECT_EQ(answers.back()->current->record.nonce.bytes[0], 1);
}

TEST_F(NatsRecordBatch, ARecordThatIsThereTwiceInOneCallIsWrittenOnce) {
  auto swaps = claims(store(), 1);
  swaps.push_back(swaps[11]);
  swaps.back().record.nonce.bytes[0] = 3;
  const auto answers = store().swap(swaps);
  for (std::size_t i = 0; i < swaps.size(); ++i)
    EXPECT_EQ(answers[i].value().written, i + 1 < swaps.size()) << i;
  EXPECT_EQ(answers.back()->current->record.nonce.bytes[0], 1);
}

TEST_F(NatsRecordBatch, OfWorkersThatClaimTheSameTasksAtOnceOneWinsEach) { race({server().url()}); }

TEST(NatsClusterRecordBatch, OfWorkersThatClaimTheSameTasksAtOnceOneWinsEach) {
  if (testing::NatsServer::program().empty())
    GTEST_SKIP() << "THE STORE ON NATS IS NOT TESTED: there is no nats-server; tools/nats-server "
                    "fetches one";
  const testing::NatsCluster cluster;
  race(cluster.urls());
}

TEST_F(NatsRecordBatch, AServerThatTakesNoBatchesGetsThemOneByOne) {
  const auto swaps = claims(store(), 1);
  auto info = raw("STREAM.INFO.KV_once_test_ledger", "");
  std::string config = encoding::canonical(*info.member("config"));
  const std::string on = R"("allow_atomic":true)";
  config.replace(config.find(on), on.size(), R"("allow_atomic":false)");
  ASSERT_FALSE(raw("STREAM.UPDATE.KV_once_test_ledger", config).member("error"));
  for (const auto& answer : store().swap(swaps)) EXPECT_TRUE(answer.value().written);
}

class NatsLostRecordBatch : public NatsRecordBatch {
 protected:
  // Sends a batch while something does not come through, and then cuts the line.
  std::vector<Swap> send(void (testing::TcpProxy::*hold)(bool)) {
    const std::string url = server().url();
    testing::TcpProxy proxy(std::stoi(url.substr(url.rfind(':') + 1)));
    NatsOptions options{.servers = {proxy.url()}, .patience = 500ms};
    auto swaps = claims(store(), 1);
    reopen(options);
    EXPECT_TRUE(store().get(std::span(&swaps[0].at, 1)).front());  // it knows the queue
    (proxy.*hold)(true);
    for (const auto& lost : store().swap(swaps)) {
      EXPECT_FALSE(lost);
      EXPECT_TRUE(!lost && lost.error().in_doubt);
    }
    proxy.cut();
    reopen(5s);
    return swaps;
  }
};

TEST_F(NatsLostRecordBatch, WhoseAnswerIsLostIsFoundByReadingBack) {
  const auto swaps = send(&testing::TcpProxy::hold_answers);
  for (const auto& there : records(store(), swaps))
    EXPECT_EQ(there.value()->record.nonce.bytes[0], 1);
}

TEST_F(NatsLostRecordBatch, WhichNeverArrivedIsNotThereInPart) {
  const auto swaps = send(&testing::TcpProxy::hold_questions);
  for (const auto& there : records(store(), swaps)) EXPECT_FALSE(there.value());
  for (const auto& answer : store().swap(swaps)) EXPECT_TRUE(answer.value().written);
}

// --- Which way --------------------------------------------------------------------------------

class BatchChoiceTest : public ::testing::Test {
 protected:
  // Some calls of 256 writes each; how many writes of the last of them went one by one.
  std::size_t after(int calls, std::chrono::nanoseconds single, std::chrono::nanoseconds batched) {
    std::size_t singly = 0;
    for (int i = 0; i < calls; ++i) {
      singly = choice_.singly(256);
      if (singly < 256) choice_.took(true, 256 - singly, batched * (256 - singly));
      if (singly > 0) choice_.took(false, singly, single * singly);
    }
    return singly;
  }
  BatchChoice choice_;
};

TEST_F(BatchChoiceTest, AServerThatSyncsEachWriteGetsBatches) {
  EXPECT_EQ(after(20, 500us, 30us), 0U);
  EXPECT_EQ(choice_.singly(8), 0U) << "and small ones, too";
  EXPECT_EQ(choice_.singly(1), 1U);
}

TEST_F(BatchChoiceTest, AServerThatDoesNotGetsThemOneByOne) {
  EXPECT_EQ(after(20, 15us, 30us), 256U);
  EXPECT_EQ(choice_.singly(8), 8U);
}

TEST_F(BatchChoiceTest, OneSlowSampleDecidesNothing) {
  after(2, 500us, 30us);
  EXPECT_EQ(after(20, 15us, 30us), 256U);
}

TEST_F(BatchChoiceTest, WhatWasSlowerIsTriedAgain) {
  EXPECT_EQ(after(20, 500us, 30us), 0U);
  EXPECT_EQ(after(200, 15us, 30us), 256U);
}

}  // namespace
}  // namespace once::store::nats
