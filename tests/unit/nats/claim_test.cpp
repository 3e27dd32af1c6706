// Claims that fetch() makes: one that goes wrong keeps nothing else back.
#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

// Claims everything, for a second.
class Greedy final : public Claimer {
 public:
  std::optional<Address> address(const Entry& entry) override {
    return Address{.queue = "work", .key = entry.id, .sequence = entry.sequence};
  }
  std::optional<Record> claim(const Entry& entry, const Stored*, const core::Order*,
                              core::Now) override {
    return Record{.sequence = entry.sequence, .state = State::running, .lease = 1s};
  }
};

class NatsClaims : public NatsWorld {
 protected:
  std::vector<Delivery> claim() {
    return store().fetch({.queue = "work", .limit = 10, .claimer = &greedy_, .wait = 30s}).value();
  }
  // Writes over the record of a task's key as no once would.
  void damage(const std::string& key) {
    const auto mux = RequestMux::open({.servers = {server().url()}}).value();
    const JetStreamClient client(*mux);
    const auto message = client.last("KV_once_test_ledger", "$KV.once_test_ledger.work.*.k." + key);
    ASSERT_EQ(
        client.publish({.subject = message.value().value().subject, .data = "no record"}).kind,
        PublishResult::Kind::stored);
  }

  Greedy greedy_;
};

TEST_F(NatsClaims, ADamagedRecordKeepsNothingElseBack) {
  add("work", 1s);
  publish("damaged");
  publish("sound");
  std::size_t claimed = 0;
  while (claimed < 2) claimed += claim().size();
  damage("damaged");
  for (int round = 0; round < 3; ++round) {
    const auto again = claim();
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again.front().entry.id, "sound");
    EXPECT_TRUE(again.front().claimed);
  }
}

}  // namespace
}  // namespace once::store::nats
