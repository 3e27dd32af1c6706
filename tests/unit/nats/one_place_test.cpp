// An entry stands under its key or by itself. On JetStream these are two subjects.
#include <barrier>
#include <thread>

#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using ::testing::SizeIs;

class NatsOnePlace : public NatsWorld {
 protected:
  void SetUp() override {
    NatsWorld::SetUp();
    if (!IsSkipped()) store().add_queue(queue()).value();
  }
  static Queue queue() {
    Queue queue;
    queue.name = "keyed";
    queue.topic = ">";
    queue.key = "{doc}";
    queue.lease = 1h;
    return queue;
  }
  Sequence publish_document(const std::string& id, const std::string& number) {
    return append(task(id, R"({"doc":)" + number + "}")).value().sequence;
  }
  static Address of_key(Sequence sequence, const std::string& number) {
    return {.queue = "keyed", .key = number, .sequence = sequence};
  }
  static Address of_entry(Sequence sequence) {
    return {.kind = Address::Kind::entry, .queue = "keyed", .sequence = sequence};
  }
  static Swap create(const Address& at, State state) {
    return {.at = at, .record = {.sequence = at.sequence, .state = state, .lease = 1h}};
  }
};

TEST_F(NatsOnePlace, WhenAClaimMeetsACancelAtMostOneStandsAndOnlyItsWriterIsToldSo) {
  const auto other = open().value();
  for (int round = 0; round < 50; ++round) {
    const std::string number = std::to_string(round);
    const Sequence sequence = publish_document("task " + number, number);
    const Swap claim = create(of_key(sequence, number), State::running);
    const Swap cancel = create(of_entry(sequence), State::cancelled);
    std::barrier start(2);
    bool claimed = false;
    bool cancelled = false;
    const auto try_it = [&](Store& by, const Swap& item, bool& written) {
      start.arrive_and_wait();
      const auto answer = std::move(by.swap(std::span(&item, 1)).front());
      written = answer && answer->written;
      if (!answer) {
        EXPECT_EQ(answer.error().code, Code::wrong_state) << answer.error().message;
      }
    };
    std::jthread worker([&] { try_it(store(), claim, claimed); });
    std::jthread person([&] { try_it(*other, cancel, cancelled); });
    worker.join();
    person.join();
    EXPECT_FALSE(claimed && cancelled);
    const std::vector<Address> both{claim.at, cancel.at};
    const auto stored = store().get(both);
    EXPECT_EQ(stored[0].value().has_value(), claimed);
    EXPECT_EQ(stored[1].value().has_value(), cancelled);
  }
}

class PlainClaimer final : public Claimer {
 public:
  std::optional<Address> address(const Entry& entry) override {
    return Address{.queue = "keyed", .key = "1", .sequence = entry.sequence};
  }
  std::optional<core::Record> claim(const Entry& entry, const core::Stored* stored,
                                    const core::Order*, core::Now) override {
    if (stored) return std::nullopt;
    return core::Record{.sequence = entry.sequence, .state = State::running, .lease = 1h};
  }
};

TEST_F(NatsOnePlace, WhatIsCancelledByItselfLeavesTheKeyToTheNextOneOfTheSameFetch) {
  const Sequence first = publish_document("first", "1");
  const Sequence second = publish_document("second", "1");
  ASSERT_TRUE(swap(create(of_entry(first), State::cancelled))->written);
  PlainClaimer claimer;
  const auto deliveries =
      store().fetch({.queue = "keyed", .limit = 2, .claimer = &claimer, .wait = 30s}).value();
  ASSERT_THAT(deliveries, SizeIs(2));
  EXPECT_FALSE(deliveries[0].claimed);
  EXPECT_EQ(deliveries[0].stored.value().record.state, State::cancelled);
  EXPECT_TRUE(deliveries[1].claimed);
  EXPECT_EQ(deliveries[1].stored.value().record.sequence, second);
}

}  // namespace
}  // namespace once::store::nats
