// Long polls for the tasks of a queue: who gets a task, and what becomes of an offer that nobody
// receives.
#include "server/offer_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "once/zone.h"
#include "support/temp_folder.h"

namespace once::server {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The ids of the offers, one per line.
Response ids_of(const std::vector<Offer>& offers) {
  Response response;
  for (const Offer& offer : offers) response.body += offer.id + '\n';
  return response;
}

// What one poll was answered.
class Answered {
 public:
  AnswerWith with() {
    return [this](Response response) {
      const std::lock_guard lock(mutex_);
      responses_.push_back(std::move(response));
      changed_.notify_all();
    };
  }
  Response get() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, 30s, [&] { return !responses_.empty(); }));
    return responses_.empty() ? Response{} : responses_.front();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return responses_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Response> responses_;
};

class OfferLineTest : public ::testing::Test {
 protected:
  OfferLineTest() { zone.queues().add({.name = "q", .topic = "t"}).value(); }

  std::shared_ptr<OfferLine> line() {
    return std::make_shared<OfferLine>(
        std::make_shared<Consumer>(zone.consumer("q", {.name = "server"}).value()), ids_of);
  }
  void publish(const std::vector<std::string>& ids) {
    std::vector<Task> tasks;
    for (const std::string& id : ids) tasks.push_back({.topic = "t", .id = id});
    for (const auto& receipt : zone.publish_batch(std::move(tasks))) ASSERT_TRUE(receipt);
  }
  std::string next_of(const std::string& id) {
    return zone.tasks().inspect(id).value().queues.at(0).next.by;
  }

  const once::testing::TempFolder folder;
  Zone zone = Zone::open("sqlite:" + (folder.path() / "once.db").string()).value();
};

TEST_F(OfferLineTest, EveryPollGetsOneTaskBeforeAnyGetsASecond) {
  publish({"a", "b", "c"});
  const auto all = line();
  Answered ana, ben;
  // Both are in the line before its thread sees a task, because the queue is paused.
  zone.queues().pause("q").value();
  const auto first = all->join({.worker = "ana"}, 10, ana.with());
  const auto second = all->join({.worker = "ben"}, 10, ben.with());
  zone.queues().resume("q").value();
  const std::string got = ana.get().body + ben.get().body;
  EXPECT_EQ(std::count(got.begin(), got.end(), '\n'), 3);
  EXPECT_FALSE(ana.get().body.empty());
  EXPECT_FALSE(ben.get().body.empty());
}

TEST_F(OfferLineTest, APollThatEndsIsAnsweredOnceAndWithoutOffers) {
  const auto all = line();
  Answered answered;
  auto poll = all->join({.worker = "ana"}, 1, answered.with());
  poll->finish();
  poll->finish();
  EXPECT_EQ(answered.get().body, "");
  publish({"a"});
  poll.reset();
  EXPECT_EQ(answered.count(), 1U);
  EXPECT_TRUE(all->empty());
}

TEST_F(OfferLineTest, APollWhoseClientIsGoneGetsNothing) {
  const auto all = line();
  Answered gone, stays;
  all->join({.worker = "gone"}, 1, gone.with()).reset();
  const auto poll = all->join({.worker = "stays"}, 1, stays.with());
  publish({"a"});
  EXPECT_EQ(stays.get().body, "a\n");
  EXPECT_EQ(gone.count(), 0U);
}

TEST_F(OfferLineTest, AnOfferWhoseAnswerIsLostIsOfferedToTheNextPollAtOnce) {
  const auto all = line();
  Answered lost, next;
  const auto first = all->join({.worker = "ana"}, 1, lost.with());
  publish({"a"});
  const Response response = lost.get();
  EXPECT_EQ(response.body, "a\n");
  const auto second = all->join({.worker = "ben"}, 1, next.with());
  response.lost();
  EXPECT_EQ(next.get().body, "a\n");
  EXPECT_EQ(next_of("a"), "ben");
}

TEST_F(OfferLineTest, APollOfTheSameWorkerGetsTheOfferOfOneThatLeft) {
  publish({"a", "b"});
  zone.queues().pause("q").value();
  const auto all = line();
  Answered one, two;
  auto first = all->join({.worker = "ana"}, 1, one.with());
  auto second = all->join({.worker = "ana"}, 1, two.with());
  zone.queues().resume("q").value();
  EXPECT_NE(one.get().body, two.get().body);
}

TEST_F(OfferLineTest, EveryPollHearsThatTheQueueIsGone) {
  const auto all = line();
  Answered one, two;
  const auto first = all->join({.worker = "ana"}, 1, one.with());
  const auto second = all->join({.worker = "ben"}, 1, two.with());
  zone.queues().remove("q", {.force = true}).value();
  EXPECT_EQ(one.get().status, 404);
  EXPECT_EQ(two.get().status, 404);
  EXPECT_TRUE(all->over());
}

}  // namespace
}  // namespace once::server
