// Many at once: whatever the threads do, one wins, and each task is claimed once.
#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "contract/contract.h"

namespace once::contract {
namespace {

using ::testing::SizeIs;

class RaceContract : public Contract {
 protected:
  Queue queue_ = add("work");
};
ONCE_FOR_EVERY_STORE(RaceContract);

TEST_P(RaceContract, OfRacingAppendsWithOtherContentOneWins) {
  for (int round = 0; round < 25; ++round) {
    const std::string id = "id-" + std::to_string(round);
    std::vector<std::optional<AppendResult>> answers(4);
    at_once(4, [&](int i) {
      answers[static_cast<std::size_t>(i)] = append(task(id, "orders.new", std::to_string(i)));
    });
    int accepted = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_TRUE(answers[i]);
      EXPECT_EQ(answers[i]->sequence, answers[0]->sequence);
      EXPECT_EQ(answers[i]->digest, answers[0]->digest);
      if (answers[i]->verdict == AppendVerdict::accepted) {
        ++accepted;
        EXPECT_EQ(entry(id).body->text(), std::to_string(i));
      } else {
        EXPECT_EQ(answers[i]->verdict, AppendVerdict::conflict);
      }
    }
    EXPECT_EQ(accepted, 1);
  }
  EXPECT_THAT(ids_in_log(), SizeIs(25));
}

TEST_P(RaceContract, OfRacingAppendsWithTheSameContentOneIsAcceptedAndTheRestAreCounted) {
  for (int round = 0; round < 25; ++round) {
    const std::string id = "id-" + std::to_string(round);
    std::atomic<int> accepted{0};
    std::atomic<int> duplicates{0};
    at_once(4, [&](int) {
      const auto verdict = append(task(id)).verdict;
      if (verdict == AppendVerdict::accepted) ++accepted;
      if (verdict == AppendVerdict::duplicate) ++duplicates;
    });
    EXPECT_EQ(accepted, 1);
    EXPECT_EQ(duplicates, 3);
    EXPECT_EQ(entry(id).duplicates, 3U);
  }
}

TEST_P(RaceContract, RacingBatchesThatOverlapAddEachIdOnce) {
  std::mutex mutex;
  std::map<std::string, int> accepted;
  at_once(4, [&](int thread) {
    std::vector<Append> batch;
    for (int i = 0; i < 200; ++i) batch.push_back(task("id-" + std::to_string(thread * 50 + i)));
    const auto answers = store().append(batch);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < batch.size(); ++i)
      if (answers[i].value().verdict == AppendVerdict::accepted) ++accepted[batch[i].id];
  });
  EXPECT_THAT(accepted, SizeIs(350));
  for (const auto& [id, times] : accepted) EXPECT_EQ(times, 1) << id;
  EXPECT_THAT(ids_in_log(), SizeIs(350));
}

TEST_P(RaceContract, OfRacingSwapsOnOneRevisionOneWins) {
  const Entry a = publish("a");
  Revision revision;
  for (int round = 0; round < 50; ++round) {
    std::vector<std::optional<SwapResult>> answers(2);
    at_once(2, [&](int i) {
      Record mine = record_of(a, State::running);
      mine.error = std::to_string(i);
      answers[static_cast<std::size_t>(i)] = swap(task_at("work", a), revision, mine);
    });
    ASSERT_NE(answers[0]->written, answers[1]->written);
    const std::size_t winner = answers[0]->written ? 0 : 1;
    EXPECT_EQ(answers[0]->current, answers[1]->current);
    EXPECT_EQ(answers[winner]->current->record.error, std::to_string(winner));
    revision = answers[winner]->current->revision;
  }
}

TEST_P(RaceContract, OfRacingQueuesOneIsAdded) {
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> added{0};
    at_once(3, [&](int i) {
      Queue mine = queue_of("queue-" + std::to_string(round));
      mine.attempts = i + 1;
      if (store().add_queue(mine).value().added) ++added;
    });
    EXPECT_EQ(added, 1);
  }
}

TEST_P(RaceContract, EachOfThousandsOfTasksIsClaimedOnceByManyThreads) {
  constexpr std::size_t kTasks = 2000;
  std::mutex mutex;
  std::map<std::string, int> claims;
  std::set<Revision> tokens;
  std::atomic<std::size_t> completed{0};
  std::jthread publisher([&] {
    for (std::size_t batch = 0; batch < 20; ++batch)
      publish_many(kTasks / 20, "batch-" + std::to_string(batch));
  });
  at_once(4, [&](int) {
    while (completed < kTasks) {
      const auto held = claim_one(queue_);
      if (!held) {
        std::this_thread::yield();
        continue;
      }
      complete(*held);
      ++completed;
      const std::lock_guard lock(mutex);
      ++claims[held->entry.id];
      tokens.insert(held->stored.revision);
    }
  });
  EXPECT_THAT(claims, SizeIs(kTasks));
  for (const auto& [id, times] : claims) EXPECT_EQ(times, 1) << id;
  EXPECT_THAT(tokens, SizeIs(kTasks)) << "each claim has a token of its own";
  EXPECT_EQ(count("work", State::completed), kTasks);
  EXPECT_EQ(count("work", State::waiting) + count("work", State::running), 0U);
}

TEST_P(RaceContract, OfTwoOrdersAtOnceOneIsCarriedOut) {
  publish("a");
  settle_as(claim_one(queue_).value(), State::dead);
  const Sequence sequence = entry("a").sequence;
  for (std::uint32_t round = 1; round <= 20; ++round) {
    at_once(2, [&](int i) { wake("work", sequence, order_of(std::to_string(i), round)); });
    const Held held = claim_one(queue_).value();
    EXPECT_EQ(held.stored.record.actions, round);
    settle_as(held, State::dead);
    EXPECT_FALSE(claim_one(queue_)) << "the other is gone with it";
    EXPECT_FALSE(rows({}).at(0).order);
  }
}

TEST_P(RaceContract, AnOrderThatMeetsManyFetchesIsCarriedOutOnce) {
  publish("a");
  settle_as(claim_one(queue_).value(), State::dead);
  const Sequence sequence = entry("a").sequence;
  for (std::uint32_t round = 1; round <= 20; ++round) {
    std::mutex mutex;
    std::optional<Held> held;
    std::atomic<int> claimed{0};
    std::atomic<bool> woken{false};
    at_once(4, [&](int i) {
      if (i == 0) {
        wake("work", sequence, order_of("ann", round));
        woken = true;
        return;
      }
      // Until somebody has it, or it was answered and nobody has.
      while (claimed == 0 && !(woken && !rows({}).at(0).order)) {
        if (auto mine = claim_one(queue_)) {
          const std::lock_guard lock(mutex);
          held = std::move(mine);
          ++claimed;
        }
      }
    });
    EXPECT_EQ(claimed, 1);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->stored.record.actions, round);
    EXPECT_EQ(held->stored.record.claims, round + 1);
    settle_as(*held, State::dead);
    EXPECT_FALSE(claim_one(queue_));
  }
}

TEST_P(RaceContract, AnOrderThatMeetsASettlementIsNotLost) {
  publish("a");
  settle_as(claim_one(queue_).value(), State::dead);
  const Sequence sequence = entry("a").sequence;
  for (std::uint32_t round = 1; round <= 20; ++round) {
    wake("work", sequence);
    const Delivery before = fetch("work").at(0);
    at_once(2, [&](int i) {
      if (i == 0)
        wake("work", sequence, order_of("ann", round));
      else
        settle(before, "work");
    });
    const auto held = claim_one(queue_);
    ASSERT_TRUE(held);
    EXPECT_EQ(held->stored.record.actions, round);
    settle_as(*held, State::dead);
  }
}

TEST_P(RaceContract, OfManyThatCreateOneRecordOfALedgerOnlyQueueOneWins) {
  add(ledger_of("ledger"));
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> won{0};
    at_once(4, [&](int i) {
      Record mine{.state = State::running, .lease = 30s};
      mine.error = std::to_string(i);
      if (swap(ledger_only_at("ledger", "key-" + std::to_string(round)), {}, mine).written) ++won;
    });
    EXPECT_EQ(won, 1);
  }
  EXPECT_EQ(count("ledger", State::running), 20U);
}

TEST_P(RaceContract, ALostTaskIsReclaimedByOneOfMany) {
  for (int round = 0; round < 20; ++round) {
    publish("id-" + std::to_string(round));
    const Held lost = claim_one(queue_).value();
    pass(queue_.lease);
    std::atomic<int> reclaimed{0};
    std::atomic<int> won{0};
    std::atomic<int> late{0};
    at_once(4, [&](int i) {
      if (i == 0) {
        if (swap(lost.at, lost.stored.revision, record_of(lost.entry, State::completed),
                 lost.handle)
                .written)
          ++late;
      } else if (const auto held = claim_one(queue_)) {
        ++reclaimed;
        if (swap(held->at, held->stored.revision, record_of(held->entry, State::completed),
                 held->handle)
                .written)
          ++won;
      }
    });
    EXPECT_LE(reclaimed, 1);
    EXPECT_EQ(won + late, 1) << "one completion, by the late worker or by its successor";
    EXPECT_EQ(count("work", State::completed), static_cast<std::uint64_t>(round) + 1);
  }
}

}  // namespace
}  // namespace once::contract
