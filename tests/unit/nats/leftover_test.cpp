// What a crash or a stranger leaves in the streams: nothing is counted wrongly for it, nothing stands
// still.
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using ::testing::SizeIs;

class NatsLeftovers : public NatsWorld {
 protected:
  void write(Outgoing message) {
    const auto mux = RequestMux::open({.servers = {server().url()}}).value();
    ASSERT_EQ(JetStreamClient(*mux).publish(message).kind, PublishResult::Kind::stored);
  }
  void complete(const std::string& queue) {
    for (const Delivery& delivery : fetch(queue, 30s))
      ASSERT_TRUE(swap(record_of(queue, delivery, State::completed, 30s))->written);
  }
};

TEST_F(NatsLeftovers, ARetirementThatWasCutOffIsCountedAndFinished) {
  add("work", 30s);
  publish("retired");
  complete("work");
  const Sequence waiting = publish("waiting");
  // The task as it was before, beside what says that it is retired.
  const auto mux = RequestMux::open({.servers = {server().url()}}).value();
  const JetStreamClient client(*mux);
  const auto task = client.last("ONCE_test_LOG", "once.test.log.retired.>").value().value();
  Outgoing old{.subject = "once.test.old.retired.1", .headers = expecting(task.sequence)};
  old.headers.emplace_back("Nats-Expected-Last-Subject-Sequence-Subject", "once.test.*.retired.>");
  for (const char* name : {"Once-Digest", "Once-Nonce"})
    old.headers.emplace_back(name, *task.header(name));
  for (const auto& [name, value] : {std::pair{"Once-Topic", "orders.new"},
                                    {"Once-Stage", "1"},
                                    {"Once-Appended", "1"},
                                    {"Once-Published", "1"}})
    old.headers.emplace_back(name, value);
  ASSERT_EQ(client.publish(old).kind, PublishResult::Kind::stored);
  write({.subject = "once-old.test.0.1", .data = "once.test.old.retired.1"});

  for (int look = 0; look < 3; ++look) {
    const auto counts = store().counts("work").value();
    EXPECT_EQ(counts.tasks.at(State::waiting), 1U);
    EXPECT_EQ(counts.tasks.at(State::completed), 1U);
  }
  EXPECT_THAT(fetch("work", 30s), SizeIs(1));
  EXPECT_TRUE(store().retire({}, 100));
  EXPECT_FALSE(client.last("ONCE_test_LOG", "once.test.log.retired.>").value());
  EXPECT_TRUE(client.get("ONCE_test_LOG", waiting.value).value());
  EXPECT_EQ(store().counts("work").value().tasks.at(State::completed), 1U);
}

TEST_F(NatsLeftovers, WhatNoOnceWroteStopsNobody) {
  add("work", 30s);
  write({.subject = "once.test.log.stranger.orders.new", .data = "hello"});
  publish("a");
  publish("b");
  complete("work");
  for (int look = 0; look < 2; ++look) {
    EXPECT_EQ(store().counts("work").value().tasks.at(State::completed), 1U);
    EXPECT_EQ(store().counts("work").value().tasks.at(State::waiting), 1U);
  }
  EXPECT_THAT(store().read({}, 10, {}).value(), SizeIs(2));
  EXPECT_THAT(store().rows({.queue = "work"}, nullptr, 10).value().rows, SizeIs(2));
  EXPECT_TRUE(store().overlooked("work", {}, 10));
  EXPECT_TRUE(store().retire({}, 100));
  EXPECT_EQ(store().unrouted().value(), 0U);
}

}  // namespace
}  // namespace once::store::nats
