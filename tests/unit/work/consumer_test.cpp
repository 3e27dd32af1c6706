// Consumers where the contract cannot see them: answers that the store loses, and values in memory.
#include "work/consumer.h"

#include <gmock/gmock.h>

#include "codec/large_values.h"
#include "codec/stored_body.h"
#include "publish/publisher.h"
#include "store/memory/memory_store.h"
#include "store/sqlite/sqlite_store.h"
#include "support/faulty_store.h"
#include "support/temp_folder.h"

namespace once::engine {
namespace {

using once::testing::Fault;
using once::testing::FaultPlan;
using once::testing::FaultyStore;
using once::testing::Seam;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::unique_ptr<Consumer> consumer_of(store::Store& store, Scheduler& scheduler, Queue queue) {
  store.add_queue(queue).value();
  return Consumer::make(store, scheduler,
                        {.queue = std::move(queue), .name = "puller", .keeps_house = false})
      .value();
}

void publish(store::Store& store, Scheduler& scheduler, int count) {
  std::vector<Task> tasks;
  for (int i = 0; i < count; ++i) tasks.push_back({.topic = "t", .id = std::to_string(i)});
  for (const auto& receipt : Publisher(store, scheduler).publish(std::move(tasks)))
    ASSERT_TRUE(receipt);
}

TEST(ConsumerFaults, ACallerGetsNoMoreOffersThanItAskedForAfterALostAnswer) {
  for (const int max_running : {0, 10}) {
    const auto scheduler = thread_scheduler();
    FaultyStore store(store::open_memory(nullptr));
    const auto consumer =
        consumer_of(store, *scheduler, {.name = "q", .topic = "t", .max_running = max_running});
    publish(store, *scheduler, 6);
    FaultPlan plan;
    plan.on(Seam::fetch, store.calls(Seam::fetch) + 1, Fault::answer_lost);
    plan.randomly(Seam::read, 1, Fault::fails, 1);
    store.set_plan(plan);
    ASSERT_FALSE(consumer->offer(4, {}, {})) << "four were offered, and the answer is lost";
    store.set_plan({});
    std::set<std::string> ids;
    for (const std::size_t most : {1U, 2U, 3U}) {
      const auto offers = consumer->offer(most, {}, {}).value();
      EXPECT_THAT(offers, SizeIs(::testing::Le(most)));
      for (const Offer& offer : offers) {
        EXPECT_TRUE(ids.insert(offer.id).second) << offer.id;
        EXPECT_TRUE(consumer->start(std::span(&offer.claim, 1)).at(0)) << offer.id;
      }
    }
    EXPECT_THAT(ids, SizeIs(::testing::Ge(4U))) << "the lost offers are not lost for ever";
  }
}

// The store reads a value that is in use from memory.
TEST(Consumers, TheResultsOfStepsAreReadOnceAsLongAsTheirTaskRuns) {
  const once::testing::TempFolder folder;
  const auto scheduler = thread_scheduler();
  const auto store = store::open_sqlite({.path = folder.path() / "zone.db"}).value();
  const auto consumer = consumer_of(*store, *scheduler, {.name = "q", .topic = "t"});
  publish(*store, *scheduler, 1);
  const std::string claim = consumer->offer(1, {}, {}).value().at(0).claim;
  ASSERT_TRUE(consumer->start(std::span(&claim, 1)).at(0));
  encoding::MovedValue value{.step = 0, .json = true};
  {
    const Body large = Body::json('"' + std::string(1 << 20, 'x') + '"').value();
    value.digest = StoredBody::digest(large);
    ASSERT_TRUE(consumer->begin_step(claim, "s", {}));
    ASSERT_TRUE(consumer->end_step(claim, "s", large, {}));
  }
  EXPECT_TRUE(encoding::in_use(value)) << "the next call needs it";
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(consumer->renew(std::span(&claim, 1)).at(0));
    EXPECT_TRUE(encoding::in_use(value));
  }
  EXPECT_EQ(consumer->start(std::span(&claim, 1)).at(0)->steps.at(0).result->text().size(),
            (1U << 20) + 2);
  ASSERT_TRUE(consumer->settle({{.claim = claim}}, 0).states.at(0));
  EXPECT_FALSE(encoding::in_use(value)) << "the task is settled";
}

}  // namespace
}  // namespace once::engine
