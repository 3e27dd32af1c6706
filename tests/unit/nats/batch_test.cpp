// Many appends at once go as atomic batches; whatever refuses or loses a batch, each id is answered as
// if it had come alone.
#include <barrier>
#include <thread>

#include "unit/nats/nats_world.h"

namespace once::store::nats {
namespace {

using core::AppendVerdict;

class NatsBatch : public NatsWorld {
 protected:
  static std::vector<Append> tasks(int first, int last) {
    std::vector<Append> items;
    for (int i = first; i < last; ++i) items.push_back(task("task-" + std::to_string(i)));
    return items;
  }
  std::uint64_t messages() {
    const auto info = raw("STREAM.INFO.ONCE_test_LOG", "");
    return number_of(*info.member("state"), "messages").value();
  }
};

TEST_F(NatsBatch, EveryReceiptNamesTheEntryOfItsOwnTask) {
  const auto items = tasks(0, 1'200);
  const auto answers = store().append(items);
  for (std::size_t i = 0; i < items.size(); ++i) {
    ASSERT_EQ(answers[i]->verdict, AppendVerdict::accepted);
    if (i % 100 == 0) {
      EXPECT_EQ(store().find(items[i].id).value()->sequence, answers[i]->sequence);
    }
  }
  EXPECT_EQ(messages(), items.size());
}

TEST_F(NatsBatch, DuplicatesAndConflictsAmongManyAreAnsweredEach) {
  const auto first = tasks(0, 100);
  const auto known = store().append(first);
  auto items = tasks(50, 700);
  items.push_back(task("task-600"));             // twice in one call
  items.push_back(task("task-7", "{\"a\":1}"));  // other content
  for (int round = 0; round < 2; ++round) {  // the second time everything is there, by its nonce
    const auto answers = store().append(items);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const AppendVerdict wanted = i + 1 == items.size()             ? AppendVerdict::conflict
                                   : i < 50 || i + 2 == items.size() ? AppendVerdict::duplicate
                                                                     : AppendVerdict::accepted;
      EXPECT_EQ(answers[i]->verdict, wanted) << items[i].id;
      if (i < 50) {
        EXPECT_EQ(answers[i]->sequence, known[i + 50]->sequence);
      }
    }
    EXPECT_EQ(messages(), 700U);
  }
}

TEST_F(NatsBatch, RacingCallsAppendEachIdOnce) {
  const auto other = open().value();
  constexpr int kCallers = 4;
  std::barrier start(kCallers);
  std::atomic<int> accepted{0};
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < kCallers; ++caller)
    callers.emplace_back([&, caller] {
      const auto items = tasks(0, 600);
      start.arrive_and_wait();
      for (const auto& answer : (caller % 2 ? *other : store()).append(items))
        accepted += answer.value().verdict == AppendVerdict::accepted ? 1 : 0;
    });
  callers.clear();
  EXPECT_EQ(accepted, 600);
  EXPECT_EQ(messages(), 600U);
}

TEST_F(NatsBatch, ABatchWithoutAnAnswerIsFoundAgainByItsNonces) {
  reopen(500ms);
  publish("before");
  const auto items = tasks(0, 300);
  server().pause();
  for (const auto& lost : store().append(items)) {
    ASSERT_FALSE(lost);
    EXPECT_TRUE(lost.error().in_doubt);
  }
  server().resume();
  reopen(30s);
  for (const auto& again : store().append(items))
    EXPECT_EQ(again.value().verdict, AppendVerdict::accepted);
  EXPECT_EQ(messages(), 301U);
}

}  // namespace
}  // namespace once::store::nats
