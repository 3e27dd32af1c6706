// A server that is silent: what was sent to it may happen, and that is what is said. Asking again
// finds out.
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using ::testing::SizeIs;

class NatsInDoubt : public NatsWorld {
 protected:
  void SetUp() override {
    NatsWorld::SetUp();
    if (!IsSkipped()) reopen(500ms);
  }
  // Runs the call while the server is stopped; what was sent waits for it in its socket.
  template <class Call>
  auto while_stopped(Call call) {
    server().pause();
    auto answer = call();
    server().resume();
    return answer;
  }
  // Until the server answers again.
  template <class Call>
  auto until_answered(Call call) {
    while (true) {
      auto answer = call();
      if (answer || !answer.error().retryable) return answer;
    }
  }
};

TEST_F(NatsInDoubt, AnAppendIsFoundAgainByItsNonce) {
  publish("before");
  const Append item = task("a");
  const auto lost = while_stopped([&] { return append(item); });
  ASSERT_FALSE(lost);
  EXPECT_TRUE(lost.error().in_doubt);
  const auto again = until_answered([&] { return append(item); });
  EXPECT_EQ(again->verdict, core::AppendVerdict::accepted) << "its own nonce: no duplicate";
  EXPECT_EQ(store().find("a").value()->duplicates, 0U);
  const auto entries = until_answered([&] { return store().read({}, 10, {}); });
  EXPECT_THAT(*entries, SizeIs(2));
}

TEST_F(NatsInDoubt, ASwapThatWasNotAnsweredIsReadBack) {
  add("work", 30s);
  publish("a");
  const auto delivery = fetch("work").at(0);
  const Swap item = record_of("work", delivery, State::completed, 30s);
  const auto lost = while_stopped([&] { return swap(item); });
  ASSERT_FALSE(lost);
  EXPECT_TRUE(lost.error().in_doubt);
  const auto again = until_answered([&] { return swap(item); });
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->written) << "the first one arrived";
  EXPECT_EQ(again->current->record.state, State::completed);
}

// By the RequestMux itself: an answer that does not come is unknown, never "not done".
TEST_F(NatsInDoubt, APublishWithoutAnAnswerIsUnknownAndMayHaveHappened) {
  const auto mux = RequestMux::open({.servers = {server().url()}}).value();
  const JetStreamClient client(*mux, 300ms);
  const Outgoing message{.subject = "$KV.once_test_ledger.q.g.k.a", .headers = expecting(0)};
  const PublishResult lost = while_stopped([&] { return client.publish(message); });
  EXPECT_EQ(lost.kind, PublishResult::Kind::unknown);
  EXPECT_TRUE(failure_of(lost).in_doubt);
  // It was in the server's socket. A read that is sent later may still be answered earlier: only a
  // compare-and-swap finds out for certain.
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  const auto there = [&] {
    return until_answered(
               [&] { return client.last("KV_once_test_ledger", "$KV.once_test_ledger.q.g.k.a"); })
        ->has_value();
  };
  while (!there()) ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "it never came";
  EXPECT_EQ(client.publish(message).kind, PublishResult::Kind::refused);
}

}  // namespace
}  // namespace once::store::nats
