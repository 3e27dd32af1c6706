// Topics of Once's own, under `$once.`: in the one log with all others, and handed only to queues that
// name them.
#include <gmock/gmock.h>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kOwn = "$once.flow.payment.started";

class OwnTopicsContract : public Contract {
 protected:
  std::vector<std::string> read(std::size_t page, std::string_view filter = {}) {
    std::vector<std::string> found;
    Sequence after;
    while (true) {
      const auto entries = store().read(after, page, filter).value();
      if (entries.empty()) return found;
      EXPECT_LE(entries.size(), page);
      for (const Entry& entry : entries) found.push_back(entry.id);
      after = entries.back().sequence;
    }
  }
  std::vector<std::string> inventory(std::size_t page) {
    std::vector<std::string> found;
    Sequence after;
    do {
      const auto part = store().inventory(after, page).value();
      EXPECT_TRUE(part.missing.ranges().empty());
      for (const Entry& entry : part.entries) found.push_back(entry.id);
      after = part.next;
    } while (after);
    return found;
  }
  std::uint64_t found_by(const Queue& queue) { return store().add_queue(queue).value().found; }
};
ONCE_FOR_EVERY_STORE(OwnTopicsContract);

TEST_P(OwnTopicsContract, AreHandedOnlyToQueuesThatNameThem) {
  for (const auto& [name, topic] :
       {std::pair{"all", ">"}, {"parts", "*.>"}, {"flow", "*.flow.>"}, {"orders", "orders.*"}})
    add(name, topic);
  add("once-flow", "$once.flow.>");
  add("started", "$once.flow.*.started");
  publish("run.started", kOwn);
  publish("order", "orders.new");
  publish("flow", "my.flow.payment.started");
  EXPECT_THAT(handed_over("all"), ElementsAre("order", "flow"));
  EXPECT_THAT(handed_over("parts"), ElementsAre("order", "flow"));
  EXPECT_THAT(handed_over("flow"), ElementsAre("flow"));
  EXPECT_THAT(handed_over("orders"), ElementsAre("order"));
  EXPECT_THAT(handed_over("once-flow"), ElementsAre("run.started"));
  EXPECT_THAT(handed_over("started"), ElementsAre("run.started"));
}

TEST_P(OwnTopicsContract, AQueueThatComesLaterFindsNoneThatItDoesNotName) {
  publish("run.started", kOwn);
  publish("order", "orders.new");
  EXPECT_EQ(found_by(queue_of("all")), 1U);
  EXPECT_EQ(found_by(queue_of("once-flow", "$once.flow.>")), 1U);
  EXPECT_THAT(handed_over("all"), ElementsAre("order"));
  EXPECT_THAT(handed_over("once-flow"), ElementsAre("run.started"));
}

TEST_P(OwnTopicsContract, AreCountedAndListedWhereTheyAreHandedOver) {
  add("all");
  const Queue flow = add("once-flow", "$once.flow.>");
  publish("run.started", kOwn);
  publish("order", "orders.new");
  EXPECT_EQ(count("all", State::waiting), 1U);
  EXPECT_EQ(count("once-flow", State::waiting), 1U);
  EXPECT_THAT(ids(rows({.queue = "all"})), ElementsAre("order"));
  EXPECT_THAT(ids(rows({.queue = "once-flow"})), ElementsAre("run.started"));
  EXPECT_THAT(ids(rows({.topic = ">"})), ElementsAre("order"));
  EXPECT_FALSE(store().all_settled("once-flow").value());
  const Held held = claim_one(flow).value();
  EXPECT_EQ(held.entry.topic, kOwn);
  complete(held);
  EXPECT_EQ(count("once-flow", State::completed), 1U);
  EXPECT_THAT(ids(rows({.queue = "once-flow", .state = State::completed})),
              ElementsAre("run.started"));
  EXPECT_TRUE(store().all_settled("once-flow").value());
  EXPECT_THAT(overlooked("once-flow"), IsEmpty());
}

TEST_P(OwnTopicsContract, AWholeLogHasThemInTheirPlaces) {
  std::vector<std::string> all;
  for (int i = 1; i <= 7; ++i) {
    all.push_back("run-" + std::to_string(i));
    publish(all.back(), kOwn);
    all.push_back("order-" + std::to_string(i));
    publish(all.back(), "orders.new");
  }
  for (const std::size_t page : {1, 3, 100}) {
    EXPECT_EQ(read(page), all) << page;
    EXPECT_EQ(inventory(page), all) << page;
    EXPECT_THAT(read(page, ">"), SizeIs(7)) << page;
    EXPECT_THAT(read(page, "*.flow.>"), IsEmpty()) << page;
    EXPECT_THAT(read(page, "$once.>"), SizeIs(7)) << page;
    EXPECT_THAT(read(page, "$once.flow.*.ended"), IsEmpty()) << page;
  }
  const auto own = store().read({}, 100, kOwn).value();
  EXPECT_THAT(own, Each(Field(&Entry::topic, kOwn)));
}

TEST_P(OwnTopicsContract, ThoseThatNoQueueTakesAreNotMissed) {
  publish("run.started", kOwn);
  EXPECT_EQ(unrouted(), 0U);
  publish("order", "orders.new");
  EXPECT_EQ(unrouted(), 1U);
  add("all");
  EXPECT_EQ(unrouted(), 0U);
  add("once-flow", "$once.flow.>");
  EXPECT_EQ(unrouted(), 0U);
  publish("run.ended", kOwn);
  store().remove_queue("once-flow").value();
  EXPECT_EQ(unrouted(), 0U);
  store().remove_queue("all").value();
  EXPECT_EQ(unrouted(), 1U);
}

TEST_P(OwnTopicsContract, AnIdIsOneEntryWhoeverPublishedIt) {
  const Append own = task("run.started", kOwn);
  const Sequence first = append(own).sequence;
  EXPECT_EQ(append(own).verdict, AppendVerdict::accepted) << "the same append, sent again";
  EXPECT_EQ(append(task("run.started", kOwn)).verdict, AppendVerdict::duplicate);
  const AppendResult stolen = append(task("run.started", "orders.new"));
  EXPECT_EQ(stolen.verdict, AppendVerdict::conflict);
  EXPECT_EQ(stolen.sequence, first);
  EXPECT_EQ(entry("run.started").topic, kOwn);

  const Sequence other = append(task("order", "orders.new")).sequence;
  const AppendResult taken = append(task("order", kOwn));
  EXPECT_EQ(taken.verdict, AppendVerdict::conflict);
  EXPECT_EQ(taken.sequence, other);
  EXPECT_EQ(entry("order").topic, "orders.new");
  EXPECT_THAT(ids_in_log(), ElementsAre("run.started", "order"));
}

TEST_P(OwnTopicsContract, AnIdIsOneEntryInABatchOfBoth) {
  std::vector<Append> items;
  for (int i = 0; i < 20; ++i) {
    items.push_back(task("id-" + std::to_string(i), i % 2 == 0 ? kOwn : "orders.new"));
    items.push_back(task("id-" + std::to_string(i), i % 2 == 0 ? "orders.new" : kOwn));
  }
  const auto answers = store().append(items);
  for (std::size_t i = 0; i < items.size(); ++i)
    EXPECT_EQ(answers[i]->verdict, i % 2 == 0 ? AppendVerdict::accepted : AppendVerdict::conflict)
        << i;
  EXPECT_THAT(ids_in_log(), SizeIs(20));
  EXPECT_THAT(ids_in_log("$once.>"), SizeIs(10));
}

TEST_P(OwnTopicsContract, OneThatIsToWaitIsATimer) {
  add("once-flow", "$once.flow.>");
  Append timer = task("run.timer.1", "$once.flow.payment.timer");
  timer.delay = 10min;
  append(timer);
  EXPECT_THAT(handed_over("once-flow"), IsEmpty());
  EXPECT_EQ(count("once-flow", State::scheduled), 1U);
  pass(10min);
  EXPECT_THAT(handed_over("once-flow"), ElementsAre("run.timer.1"));
}

// The ids of retired tasks stay in the log, among those that are whole.
TEST_P(OwnTopicsContract, AWholeLogHasThemInTheirPlacesWhenTheyAreRetired) {
  store().set_retention({.bodies = 1h, .records = 1h, .ids = 1h}).value();
  const Queue flow = add("once-flow", "$once.flow.>");
  const Queue work = add("work");
  std::vector<std::string> all;
  for (int i = 1; i <= 5; ++i) {
    all.push_back("run-" + std::to_string(i));
    completed_task(flow, all.back(), kOwn);
    all.push_back("order-" + std::to_string(i));
    completed_task(work, all.back());
  }
  all.push_back("run-late");
  publish(all.back(), kOwn);
  pass(1h);
  EXPECT_EQ(retire().bodies, 10U);
  all.push_back("order-late");
  publish(all.back());
  for (const std::size_t page : {1, 3, 100}) {
    EXPECT_EQ(read(page), all) << page;
    EXPECT_EQ(inventory(page), all) << page;
    EXPECT_THAT(read(page, "$once.>"), SizeIs(6)) << page;
    EXPECT_THAT(read(page, ">"), SizeIs(6)) << page;
  }
  EXPECT_EQ(append(task("run-1", kOwn)).verdict, AppendVerdict::duplicate);
  EXPECT_EQ(append(task("run-1", "orders.new")).verdict, AppendVerdict::conflict);
  EXPECT_EQ(count("once-flow", State::completed), 5U);
  EXPECT_EQ(count("work", State::completed), 5U);

  for (int stage = 0; stage < 2; ++stage) {
    pass(1h);
    retire();
  }
  EXPECT_THAT(read(1), ElementsAre("run-late", "order-late"));
  EXPECT_THAT(inventory(3), ElementsAre("run-late", "order-late"));
  EXPECT_EQ(append(task("run-1", kOwn)).verdict, AppendVerdict::accepted);
}

}  // namespace
}  // namespace once::contract
