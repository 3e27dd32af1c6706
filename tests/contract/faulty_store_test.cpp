// The decorator that breaks things does so as it says. That it is otherwise the store it wraps, the
// contract shows.
#include "support/faulty_store.h"

#include <gmock/gmock.h>

#include "contract/contract.h"
#include "store/memory/memory_store.h"

namespace once::contract {
namespace {

using testing::Fault;
using testing::FaultPlan;
using testing::FaultyStore;
using testing::Seam;

std::unique_ptr<FaultyStore> faulty(FaultPlan plan) {
  return std::make_unique<FaultyStore>(
      store::open_memory(std::make_shared<testing::VirtualClock>()), std::move(plan));
}

std::vector<Append> four_tasks() { return {task("a"), task("b"), task("c"), task("d")}; }

std::size_t log_size(FaultyStore& store) { return store.inner().read({}, 100, {}).value().size(); }

TEST(FaultyStore, AFailedCallDoesNothingAndMayBeRepeated) {
  const auto store = faulty(FaultPlan{}.on(Seam::append, 1, Fault::fails));
  const auto failed = store->append(four_tasks());
  ASSERT_EQ(failed.size(), 4U);
  for (const auto& answer : failed) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::store_unavailable);
    EXPECT_TRUE(answer.error().retryable);
    EXPECT_FALSE(answer.error().in_doubt);
  }
  EXPECT_EQ(log_size(*store), 0U);
  EXPECT_TRUE(store->append(four_tasks()).at(0));
}

TEST(FaultyStore, ALostAnswerHidesAWriteThatHappened) {
  const auto store = faulty(FaultPlan{}.on(Seam::append, 1, Fault::answer_lost));
  const auto batch = four_tasks();
  const auto lost = store->append(batch);
  ASSERT_EQ(lost.size(), 4U);
  ASSERT_FALSE(lost[0]);
  EXPECT_EQ(lost[0].error().code, Code::outcome_unknown);
  EXPECT_TRUE(lost[0].error().in_doubt);
  EXPECT_EQ(log_size(*store), 4U);
  EXPECT_EQ(store->append(batch).at(3)->verdict, AppendVerdict::accepted) << "found by its nonce";
}

TEST(FaultyStore, HalfABatchCanHappen) {
  const auto store = faulty(FaultPlan{}.on(Seam::append, 1, Fault::half_done));
  const auto answers = store->append(four_tasks());
  ASSERT_EQ(answers.size(), 4U);
  for (const auto& answer : answers) EXPECT_TRUE(!answer && answer.error().in_doubt);
  EXPECT_EQ(log_size(*store), 2U);
}

TEST(FaultyStore, AFaultMeetsItsMethodAndItsCallOnly) {
  const auto store = faulty(FaultPlan{}.on(Seam::counts, 2, Fault::fails));
  store->add_queue(queue_of("work")).value();
  EXPECT_TRUE(store->counts("work"));
  EXPECT_TRUE(store->unrouted());
  EXPECT_FALSE(store->counts("work"));
  EXPECT_TRUE(store->counts("work"));
  EXPECT_EQ(store->calls(Seam::counts), 3U);
  EXPECT_EQ(store->faults(), 1U);
}

TEST(FaultyStore, ASeedGivesTheSameFaultsEachTime) {
  const auto run = [](std::uint64_t seed) {
    const auto store = faulty(FaultPlan{}.randomly(Seam::unrouted, 0.5, Fault::fails, seed));
    std::string met;
    for (int i = 0; i < 64; ++i) met += store->unrouted() ? '.' : 'x';
    return met;
  };
  EXPECT_EQ(run(42), run(42));
  EXPECT_NE(run(42), run(43));
  EXPECT_THAT(run(42), ::testing::AllOf(::testing::HasSubstr("."), ::testing::HasSubstr("x")));
}

TEST(FaultyStore, APlanCanBeReadFromText) {
  EXPECT_TRUE(FaultPlan::parse(""));
  for (const char* bad : {"fails", "fails:append", "fails:append:x", "fails:append:",
                          "burns:append:1", "fails:appendix:1", "fails:append:1;fails:swap:1"})
    EXPECT_FALSE(FaultPlan::parse(bad)) << bad;
  const auto store = faulty(FaultPlan::parse("fails:append:1,answer_lost:set_retention:2").value());
  EXPECT_EQ(store->append(four_tasks()).at(0).error().code, Code::store_unavailable);
  EXPECT_TRUE(store->set_retention({}));
  EXPECT_EQ(store->set_retention({}).error().code, Code::outcome_unknown);
}

TEST(FaultyStoreDeathTest, TheProcessIsKilledBeforeOrAfterTheCall) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const Fault fault : {Fault::kill_before, Fault::kill_after})
    EXPECT_EXIT(
        {
          const auto store = faulty(FaultPlan{}.on(Seam::append, 2, fault));
          static_cast<void>(store->append(four_tasks()));
          static_cast<void>(store->append(four_tasks()));
        },
        ::testing::KilledBySignal(SIGKILL), "");
}

}  // namespace
}  // namespace once::contract
