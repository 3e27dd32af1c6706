// Rows that are damaged or lost: the others go on, and what can be healed is.
#include <gmock/gmock.h>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Damage : public ::testing::Test {
 protected:
  Damage() { EXPECT_TRUE(store_->add_queue(queue_).value().added); }

  std::string publish(const std::string& id, Duration delay = {}) {
    Append item = task(id);
    item.delay = delay;
    append(*store_, item).value();
    return id;
  }
  // Published, claimed and given back, so that it is due by its record.
  void release(const std::string& id) {
    publish(id);
    const store::Delivery delivery = claim(*store_, queue_).at(0);
    store::Swap swap{.at = address_of(queue_, delivery.entry),
                     .expected = delivery.stored->revision,
                     .record = delivery.stored->record,
                     .handle = delivery.handle};
    swap.record.state = State::retrying;
    swap.record.delay = 1min;
    ASSERT_TRUE(store_->swap(std::span(&swap, 1)).front().value().written);
  }
  std::vector<std::string> fetched(std::size_t limit = 10) {
    RuleClaimer claimer(queue_);
    std::vector<std::string> found;
    for (const auto& each :
         store_->fetch({.queue = "work", .limit = limit, .claimer = &claimer}).value())
      found.push_back(each.entry.id);
    return found;
  }
  Entry entry(const std::string& id) { return store_->find(id).value().value(); }
  void damage(const std::string& sql) { behind_its_back(folder_ / "zone.db", sql); }
  void damage_record(const std::string& id) {
    damage("UPDATE ledger SET record = x'ff00' WHERE (place & 0x7ffffffffff) / 2 = " +
           std::to_string(entry(id).sequence.value));
  }

  testing::TempFolder folder_;
  std::shared_ptr<testing::VirtualClock> clock_ = std::make_shared<testing::VirtualClock>();
  std::unique_ptr<Store> store_ = open_zone(folder_ / "zone.db", clock_);
  const Queue queue_ = queue_of("work");
};

TEST_F(Damage, ARecordThatCannotBeReadKeepsNobodyFromTheOthers) {
  for (const char* id : {"a", "b", "c"}) release(id);
  damage_record("b");
  clock_->advance(1min);
  publish("fresh");
  EXPECT_THAT(fetched(), ElementsAre("a", "c", "fresh"));
  EXPECT_THAT(fetched(), IsEmpty());
}

TEST_F(Damage, ALimitOfOneIsNotUsedUpByIt) {
  release("a");
  damage_record("a");
  clock_->advance(1min);
  publish("fresh");
  EXPECT_THAT(fetched(1), ElementsAre("fresh"));
}

TEST_F(Damage, WhoAsksForTheRecordHearsTheError) {
  release("a");
  damage_record("a");
  clock_->advance(1min);
  EXPECT_THAT(fetched(), IsEmpty());
  const Address at = address_of(queue_, entry("a"));
  const auto answer = std::move(store_->get(std::span(&at, 1)).front());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::store_unusable);
}

TEST_F(Damage, ARecordThatCannotBeReadIsShownAsThat) {
  release("a");
  release("b");
  damage_record("a");
  const auto rows = store_->rows({.queue = "work"}, nullptr, 10).value().rows;
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_TRUE(rows[0].damaged);
  EXPECT_EQ(state_of(rows[0], store_->now()), State::retrying);
  EXPECT_FALSE(rows[1].damaged);
}

TEST_F(Damage, ARecordThatIsMendedIsHandedOverALeaseLater) {
  release("a");
  damage("CREATE TABLE kept AS SELECT place, record FROM ledger");
  damage_record("a");
  clock_->advance(1min);
  EXPECT_THAT(fetched(), IsEmpty());
  damage(
      "UPDATE ledger SET record = (SELECT record FROM kept WHERE kept.place = ledger.place);"
      " DROP TABLE kept");
  EXPECT_THAT(fetched(), IsEmpty());
  clock_->advance(queue_.lease);
  EXPECT_THAT(fetched(), ElementsAre("a"));
}

TEST_F(Damage, AnOrderThatCannotBeReadKeepsNobodyFromTheOthers) {
  publish("a");
  const store::Wake wake{.sequence = entry("a").sequence, .order = core::Order{.by = "ann"}};
  store_->wake("work", std::span(&wake, 1)).value();
  damage("UPDATE pending SET wake = x'ff00'");
  publish("b");
  EXPECT_THAT(fetched(), ElementsAre("b"));
  clock_->advance(queue_.lease);
  publish("c");
  EXPECT_THAT(fetched(1), SizeIs(1));
}

TEST_F(Damage, AnEntryThatCannotBeReadKeepsNobodyFromTheOthers) {
  for (const char* id : {"a", "b", "c"}) publish(id);
  damage("UPDATE log SET digest = x'00' WHERE id = 'b'");
  EXPECT_THAT(fetched(), ElementsAre("a", "c"));
}

TEST_F(Damage, AScheduleThatIsLostIsFoundByTheSweeperAndKeepsItsTime) {
  publish("a", 1h);
  publish("b");
  EXPECT_THAT(fetched(), ElementsAre("b"));
  damage("DELETE FROM pending");
  clock_->advance(1min);
  const auto missed = store_->overlooked("work", {}, 10).value().sequences;
  ASSERT_THAT(missed, ElementsAre(entry("a").sequence));
  const store::Wake wake{.sequence = missed.at(0)};
  store_->wake("work", std::span(&wake, 1)).value();
  EXPECT_EQ(store_->counts("work").value().tasks.at(State::scheduled), 1U);
  EXPECT_THAT(store_->overlooked("work", {}, 10).value().sequences, IsEmpty());
  EXPECT_THAT(fetched(), ElementsAre("b")) << "its lease ended, and 'a' still waits";
  clock_->advance(59min);
  EXPECT_THAT(fetched(), ElementsAre("b", "a"));
}

}  // namespace
}  // namespace once::sqlite_test
