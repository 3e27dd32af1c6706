// kill -9 of a real process between the end of a task that somebody waits for and the reply: any
// worker that comes gives it, and the log has it once.
#include <gtest/gtest.h>

#include "api/open_store.h"
#include "codec/digest.h"
#include "codec/step_headers.h"
#include "crash/child.h"
#include "store/store.h"
#include "support/temp_folder.h"

namespace once::crash {
namespace {

using namespace std::chrono_literals;

constexpr int kKilled = 128 + 9;
constexpr const char* kTopic = "$once.flow.payment.step";

class LifeOfAReply : public ::testing::Test {
 protected:
  explicit LifeOfAReply(InDoubt in_doubt = InDoubt::retry) {
    role.database = (folder / "once.db").string();
    role.effects = (folder / "effects").string();
    role.task = "r.charge";
    const auto zone = store();
    zone->add_queue({.name = "q", .topic = "t", .backoff = {1ms}, .in_doubt = in_doubt}).value();
    store::Append item{.id = role.task, .topic = "t"};
    item.digest = encoding::content_digest(item.topic, item.body).value();
    item.headers = encoding::step_headers({.run = "r", .step = "charge", .reply = kTopic});
    zone->append(std::span(&item, 1)).at(0).value();
  }

  std::unique_ptr<store::Store> store() { return api::open_store(role.database, {}).value(); }
  int run(std::string name, std::string faults = {}, std::string dies = {}) {
    Role asked = role;
    asked.name = std::move(name);
    asked.faults = std::move(faults);
    asked.dies = std::move(dies);
    return Child(asked).wait();
  }
  core::Record record() {
    const store::Address at{.queue = "q", .key = role.task};
    return store()->get(std::span(&at, 1)).at(0).value().value().record;
  }
  std::vector<store::Entry> events() { return store()->read({}, 100, kTopic).value(); }
  // The next worker ends only when nothing is owed any more.
  void expect_told_once(int effects, const std::string& id) {
    EXPECT_EQ(run("worker"), 0);
    EXPECT_EQ(record().state, State::completed);
    EXPECT_FALSE(record().reply_due);
    EXPECT_EQ(effects_in(role.effects)[role.task], effects);
    ASSERT_EQ(events().size(), 1U);
    EXPECT_EQ(events()[0].id, id);
  }

  once::testing::TempFolder folder;
  Role role{.name = "worker"};
};

TEST_F(LifeOfAReply, WorkerDiesWhenTheEndIsRecorded) {
  EXPECT_EQ(run("worker", "kill_after:swap:1"), kKilled);
  EXPECT_EQ(events().size(), 0U);
  EXPECT_TRUE(record().reply_due);
  expect_told_once(1, "r.charge.ended.1");
}

TEST_F(LifeOfAReply, WorkerDiesBeforeTheReply) {
  EXPECT_EQ(run("worker", "kill_before:append:1"), kKilled);
  EXPECT_EQ(events().size(), 0U);
  EXPECT_TRUE(record().reply_due);
  expect_told_once(1, "r.charge.ended.1");
}

TEST_F(LifeOfAReply, WorkerDiesWhenTheReplyIsInTheLog) {
  EXPECT_EQ(run("worker", "kill_after:append:1"), kKilled);
  EXPECT_EQ(events().size(), 1U);
  EXPECT_TRUE(record().reply_due);
  expect_told_once(1, "r.charge.ended.1");
}

TEST_F(LifeOfAReply, WorkerDiesWhenTheRecordSaysSo) {
  EXPECT_EQ(run("worker", "kill_after:swap:2"), kKilled);
  EXPECT_EQ(events().size(), 1U);
  EXPECT_FALSE(record().reply_due);
  expect_told_once(1, "r.charge.ended.1");
}

class LifeOfAHeldReply : public LifeOfAReply {
 protected:
  LifeOfAHeldReply() : LifeOfAReply(InDoubt::hold) {}
};

// No delivery is there that would come again: what finds it is what the sweeper does.
TEST_F(LifeOfAHeldReply, APersonsProcessDiesBeforeTheReply) {
  EXPECT_EQ(run("worker", "", "after_effect"), kKilled);
  EXPECT_EQ(run("worker"), 0);
  ASSERT_EQ(record().state, State::in_doubt);
  EXPECT_EQ(events().size(), 0U) << "nobody has decided";
  EXPECT_EQ(run("person", "kill_before:append:1"), kKilled);
  EXPECT_EQ(record().state, State::completed);
  EXPECT_TRUE(record().reply_due);
  const store::Wake wake{.sequence = record().sequence};
  store()->wake("q", std::span(&wake, 1)).value();
  expect_told_once(1, "r.charge.ended.1");
}

}  // namespace
}  // namespace once::crash
