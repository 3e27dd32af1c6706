// Records above what the server takes in one message: their large values lie beside them in chunks,
// written first. Only the record decides.
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "core/retention.h"
#include "support/tcp_proxy.h"
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kMebibyte = 1 << 20;
constexpr std::size_t kSmall = 64 << 10;  // max_payload

// No two chunks of it are the same.
Body large(std::size_t size, int seed = 0) {
  std::string text;
  text.reserve(size + 32);
  for (std::size_t i = 0; text.size() < size; ++i)
    text += std::to_string(i) + (seed ? " of " + std::to_string(seed) + ' ' : " ");
  text.resize(size);
  return Body::bytes(std::move(text));
}

class NatsBulk : public NatsWorld {
 protected:
  void SetUp() override {
    NatsWorld::SetUp();
    if (!IsSkipped()) add("work", 2s);
  }
  std::string configuration() const override { return "max_payload: 64KB"; }

  Address at(const std::string& id) { return {.queue = "work", .key = id}; }
  Result<std::optional<Stored>> get(const std::string& id) {
    const Address where = at(id);
    return std::move(store().get(std::span(&where, 1)).front());
  }
  // Publishes and fetches one, and what completes it with that result.
  Swap completion(const std::string& id, Body result) {
    publish(id);
    const auto delivery = fetch("work", 30s).at(0);
    EXPECT_EQ(delivery.entry.id, id);
    Swap item = record_of("work", delivery, State::completed, 2s);
    item.record.result = std::move(result);
    return item;
  }
  std::uint64_t messages(const std::string& stream) {
    const auto info = raw("STREAM.INFO." + stream, "");
    return number_of(*info.member("state"), "messages").value();
  }
  std::uint64_t chunks() { return messages("ONCE_test_BLOB") - 1; }  // without the seal
  void purge_chunk(const std::string& filter) {
    raw("STREAM.PURGE.ONCE_test_BLOB", "{\"filter\":" + nats::json_string(filter) + "}");
  }
  Retired retire_all() { return store().retire({}, 100).value().retired; }
};

TEST_F(NatsBulk, AValueGoesIntoChunksAndComesBackWhole) {
  const Swap item = completion("a", large(kMebibyte));
  EXPECT_TRUE(swap(item).value().written);
  EXPECT_EQ(chunks(), kMebibyte / (kSmall / 2));
  EXPECT_TRUE(get("a").value()->record == item.record);
  reopen(5s);
  EXPECT_TRUE(get("a").value()->record == item.record);
}

TEST_F(NatsBulk, WhatIsSmallStaysInTheRecord) {
  EXPECT_TRUE(swap(completion("a", large(kSmall / 4))).value().written);
  EXPECT_EQ(chunks(), 0U);
}

TEST_F(NatsBulk, ARenewalDoesNotSendTheValuesAgain) {
  const auto mux = RequestMux::open({.servers = {server().url()}}).value();
  std::atomic<int> sent{0};
  const auto listener = mux->listen("once-blob.>", [&] { ++sent; }).value();
  JetStreamClient(*mux).call("INFO", "").value();  // the subscription is there
  Swap item = completion("a", {});
  item.record.state = State::running;
  item.record.steps = {
      {.name = "one", .state = core::Step::State::done, .result = large(kMebibyte)}};
  item.handle.clear();
  Stored held = swap(item).value().current.value();
  const auto renew = [&] {
    item.expected = held.revision;
    held = swap(item).value().current.value();
    JetStreamClient(*mux).call("INFO", "").value();
  };
  renew();
  const int first = sent;
  EXPECT_EQ(first, static_cast<int>(chunks()));
  renew();
  EXPECT_EQ(sent, first);
  reopen(5s);
  ASSERT_TRUE(get("a").value()) << "who has read the record knows them, too";
  renew();
  EXPECT_EQ(sent, first);
  EXPECT_TRUE(get("a").value()->record == item.record);
}

TEST_F(NatsBulk, AMissingChunkIsAnErrorAndRunsNothingAgain) {
  class NeverClaims final : public Claimer {
   public:
    std::optional<Address> address(const Entry& entry) override {
      return Address{.queue = "work", .key = entry.id, .sequence = entry.sequence};
    }
    std::optional<core::Record> claim(const Entry& entry, const core::Stored* stored,
                                      const core::Order*, core::Now) override {
      if (stored) return std::nullopt;
      return core::Record{.sequence = entry.sequence, .state = State::running, .lease = 1h};
    }
  };
  Swap item = completion("damaged", large(kMebibyte));
  item.handle.clear();  // as if the acknowledgement was lost: it is delivered again
  ASSERT_TRUE(swap(item).value().written);
  purge_chunk("once-blob.test.work.*.k.damaged.*.*.7");
  item.record.result.reset();  // a store does not read what this process still holds
  const auto broken = get("damaged");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, Code::store_unusable);
  EXPECT_THAT(broken.error().message, HasSubstr("part 8 of 32"));
  EXPECT_THAT(broken.error().message, HasSubstr("ONCE_test_BLOB"));

  const Swap again{.at = item.at, .record = {.sequence = item.record.sequence}};
  EXPECT_EQ(swap(again).error().code, Code::store_unusable) << "what is there decides";

  NeverClaims claimer;
  EXPECT_THAT(store().fetch({.queue = "work", .limit = 10, .claimer = &claimer}).value(), IsEmpty())
      << "it waits";
  publish("well");
  const auto others =
      store().fetch({.queue = "work", .limit = 10, .claimer = &claimer, .wait = 30s}).value();
  ASSERT_THAT(others, SizeIs(1));
  EXPECT_EQ(others[0].entry.id, "well");
  EXPECT_TRUE(others[0].claimed);

  const auto rows = store().rows({.queue = "work"}, nullptr, 10).value().rows;
  ASSERT_THAT(rows, SizeIs(2)) << "what is damaged is listed with the others";
  EXPECT_EQ(rows[0].stored->record.state, State::completed);
  EXPECT_THAT(rows[0].stored->record.result->text(), HasSubstr("part 8 of 32"));
  EXPECT_TRUE(rows[0].stored->record.result_cut);
}

TEST_F(NatsBulk, AChangedChunkIsNoticed) {
  ASSERT_TRUE(swap(completion("a", large(kMebibyte))).value().written);
  const auto mux = RequestMux::open({.servers = {server().url()}}).value();
  const JetStreamClient client(*mux);
  std::vector<StreamMessage> stored;
  client.page("ONCE_test_BLOB", "once-blob.test.*.*.>", 1, 1, stored).value();
  ASSERT_EQ(client.publish({.subject = stored.at(0).subject, .data = "another"}).kind,
            PublishResult::Kind::stored);
  EXPECT_THAT(get("a").error().message, HasSubstr("is not what was written"));
}

TEST_F(NatsBulk, WhatCannotBeStoredIsNotRecorded) {
  Swap item = completion("a", large(kMebibyte));
  auto config = raw("STREAM.INFO.ONCE_test_BLOB", "");
  std::string text = encoding::canonical(*config.member("config"));
  text.replace(text.find("\"max_bytes\":-1"), 14, "\"max_bytes\":200000");
  raw("STREAM.UPDATE.ONCE_test_BLOB", text);
  const auto full = swap(item);
  ASSERT_FALSE(full);
  EXPECT_FALSE(full.error().in_doubt);
  EXPECT_THAT(full.error().message, HasSubstr("nothing was recorded"));
  EXPECT_FALSE(get("a").value());
  text.replace(text.find("\"max_bytes\":200000"), 18, "\"max_bytes\":-1");
  raw("STREAM.UPDATE.ONCE_test_BLOB", text);
  EXPECT_TRUE(swap(item).value().written);
  EXPECT_TRUE(get("a").value()->record == item.record);
}

TEST_F(NatsBulk, WhatIsTooLargeEvenWithoutItsResultsIsRefusedBeforeAnythingIsWritten) {
  Swap item = completion("a", large(kMebibyte));
  for (std::uint32_t i = 0; i < 300; ++i)
    item.record.story.push_back({.by = "somebody", .why = std::string(300, 'w')});
  const auto refused = swap(item);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_THAT(refused.error().message, HasSubstr("max_payload"));
  EXPECT_EQ(chunks(), 0U);
  EXPECT_FALSE(get("a").value());
}

TEST_F(NatsBulk, ValuesGoWithTheirRecordAndWithThemWhatALostRaceLeft) {
  const Swap winner = completion("a", large(kMebibyte, 1));
  Swap loser = winner;
  loser.record.result = large(kMebibyte, 2);
  ASSERT_TRUE(swap(winner).value().written);
  const auto lost = swap(loser).value();
  EXPECT_FALSE(lost.written);
  EXPECT_TRUE(lost.current->record == winner.record) << "with its values";
  EXPECT_EQ(chunks(), 64U);
  ASSERT_TRUE(swap(completion("b", large(kMebibyte, 3))).value().written);
  store().set_retention({.bodies = 0ms, .records = 1h, .ids = 1h}).value();
  EXPECT_EQ(retire_all().bodies, 2U);
  EXPECT_TRUE(get("a").value()->record == winner.record) << "records outlive bodies";
  store().set_retention({.bodies = 0ms, .records = 0ms, .ids = 1h}).value();
  EXPECT_EQ(retire_all().records, 2U);
  EXPECT_EQ(chunks(), 0U);
  EXPECT_FALSE(get("a").value());
}

TEST_F(NatsBulk, ValuesGoWithTheirQueue) {
  ASSERT_TRUE(swap(completion("a", large(kMebibyte))).value().written);
  add("other", 30s);
  Swap other = record_of("other", fetch("other", 30s).at(0), State::completed, 30s);
  other.record.result = large(kMebibyte);
  ASSERT_TRUE(swap(other).value().written);
  EXPECT_EQ(chunks(), 64U);
  store().remove_queue("work").value();
  EXPECT_EQ(chunks(), 32U);
}

TEST_F(NatsBulk, AnOrderThatIsTooLargeIsRefusedWithTheReason) {
  const Wake wake{
      .sequence = publish("a"),
      .order = core::Order{
          .kind = core::Order::Kind::complete_step, .step = "one", .result = large(kMebibyte)}};
  const auto refused = store().wake("work", std::span(&wake, 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::too_large);
  EXPECT_FALSE(refused.error().retryable);
  EXPECT_THAT(refused.error().message, HasSubstr("max_payload"));
}

class NatsBulkByDefault : public NatsBulk {
 protected:
  std::string configuration() const override { return "max_payload: 1MB"; }
};

TEST_F(NatsBulkByDefault, AMebibyteIsKeptOnAServerThatTakesAMebibyteWithItsHeaders) {
  Swap item = completion("a", large(kMebibyte));
  for (int i = 0; i < 4; ++i)
    item.record.steps.push_back({.name = std::to_string(i),
                                 .state = core::Step::State::done,
                                 .result = large(300'000, i + 1)});
  EXPECT_TRUE(swap(item).value().written);
  EXPECT_GT(chunks(), 0U);
  EXPECT_TRUE(get("a").value()->record == item.record);
}

// A process of its own that completes a task with many large step results, and is killed while it
// does so.
constexpr const char* kServerOfChild = "ONCE_BULK_TEST_SERVER";
constexpr const char* kTaskOfChild = "ONCE_BULK_TEST_TASK";

Record with_many_steps(Sequence sequence) {
  Record record{.sequence = sequence, .state = State::completed, .lease = 1h};
  for (int i = 0; i < 24; ++i)
    record.steps.push_back({.name = std::to_string(i),
                            .state = core::Step::State::done,
                            .result = large(kMebibyte, i + 1)});
  return record;
}

TEST(NatsBulkChild, DISABLED_CompletesATaskWithManyLargeSteps) {
  const auto store = open_nats({.servers = {getenv(kServerOfChild)}, .zone = "test"}).value();
  const Entry entry = store->find(getenv(kTaskOfChild)).value().value();
  const Swap item{.at = {.queue = "work", .key = entry.id, .sequence = entry.sequence},
                  .record = with_many_steps(entry.sequence)};
  store->swap(std::span(&item, 1)).front().value();
}

TEST_F(NatsBulk, ACrashBetweenChunksAndRecordLeavesTheTaskAsItWas) {
  const std::string id = "task";
  const Sequence sequence = publish(id);
  const std::string url = server().url();
  testing::TcpProxy proxy(std::stoi(url.substr(url.rfind(':') + 1)));
  proxy.hold_questions_after(4 * kMebibyte);  // in the midst of its chunks, long before its record
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // It is no shard of this run, and writes no report over this one's.
    for (const char* name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_OUTPUT"})
      unsetenv(name);
    setenv(kServerOfChild, proxy.url().c_str(), 1);
    setenv(kTaskOfChild, id.c_str(), 1);
    execl("/proc/self/exe", "child", "--gtest_filter=NatsBulkChild.*",
          "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr);
    _exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (chunks() == 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_GT(chunks(), 0U);
  ASSERT_FALSE(get(id).value());
  EXPECT_LT(chunks(), 24U * 32U);
  EXPECT_EQ(store().counts("work").value().tasks.at(State::waiting), 1U);

  const Swap item{.at = {.queue = "work", .key = id, .sequence = sequence},
                  .record = with_many_steps(sequence)};
  EXPECT_TRUE(swap(item).value().written) << "with what is there already";
  EXPECT_TRUE(get(id).value()->record == item.record);
  EXPECT_EQ(chunks(), 24U * 32U);
}

}  // namespace
}  // namespace once::store::nats
