// Threads that write at the same time share one commit, and none of them fails for another.
#include <gmock/gmock.h>
#include <sys/file.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "support/eventually.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SqliteGroupCommit : public ::testing::Test {
 protected:
  // Holds the write lock, as another process would, until all calls wait. Then lets them go.
  void at_once(const std::vector<std::function<void()>>& calls) {
    const int lock = ::open((path().string() + "-lock").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(lock, 0);
    ASSERT_EQ(::flock(lock, LOCK_EX), 0);
    std::vector<std::atomic<pid_t>> ids(calls.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < calls.size(); ++i)
      threads.emplace_back([&, i] {
        ids[i] = ::gettid();
        calls[i]();
      });
    for (const auto& id : ids)
      EXPECT_TRUE(testing::eventually([&] { return id != 0 && is_asleep(id); }));
    ::close(lock);
  }
  // A thread that waits for the write lock, or for another thread, sleeps.
  static bool is_asleep(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string number;
    std::string name;
    std::string state;
    file >> number >> name >> state;
    return state == "S";
  }
  // The frames of the write-ahead log that end a transaction.
  int commits() const {
    std::ifstream log(path().string() + "-wal", std::ios::binary);
    log.seekg(32);
    int found = 0;
    std::array<unsigned char, 24 + 4096> frame{};
    while (log.read(reinterpret_cast<char*>(frame.data()), frame.size()))
      if ((frame[4] | frame[5] | frame[6] | frame[7]) != 0) ++found;
    return found;
  }
  void script(const char* sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path().c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  Result<store::KeyWriteResult> write(const std::string& key) {
    const store::KeyWrite item{.key = {"test", key}, .bytes = key};
    return std::move(store_->key_values().write(std::span(&item, 1)).front());
  }
  bool is_there(const std::string& key) {
    const store::Key at{"test", key};
    return store_->key_values().get(std::span(&at, 1)).front().value().has_value();
  }
  std::filesystem::path path() const { return folder_ / "zone.db"; }

  testing::TempFolder folder_;
  std::unique_ptr<Store> store_ = open_zone(path());
};

TEST_F(SqliteGroupCommit, CallsThatWaitTogetherAreOneCommit) {
  store_->add_queue({.name = "work", .topic = "orders.*"}).value();
  const int before = commits();
  std::vector<std::function<void()>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.emplace_back([this, i] { EXPECT_TRUE(append(*store_, task(std::to_string(i)))); });
    calls.emplace_back([this, i] { EXPECT_TRUE(write(std::to_string(i)).value().written); });
  }
  at_once(calls);
  EXPECT_EQ(commits() - before, 1);
  EXPECT_EQ(store_->read({}, 10, {}).value().size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(is_there(std::to_string(i)));
  store_ = open_zone(path());
  EXPECT_EQ(store_->counts("work").value().tasks.at(State::waiting), 4U);
}

TEST_F(SqliteGroupCommit, ACallThatFailsDoesNotFailTheOthers) {
  script(
      "CREATE TRIGGER refuses BEFORE INSERT ON kv WHEN new.value = CAST('bad' AS BLOB)"
      " BEGIN SELECT RAISE(ABORT, 'refused by the test'); END");
  std::vector<std::function<void()>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.emplace_back([this, i] { EXPECT_TRUE(write(std::to_string(i)).value().written); });
    calls.emplace_back([this, i] { EXPECT_TRUE(append(*store_, task(std::to_string(i)))); });
  }
  calls.emplace_back([this] {
    const auto refused = write("bad");
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("refused by the test"));
  });
  at_once(calls);
  EXPECT_EQ(store_->read({}, 10, {}).value().size(), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_there(std::to_string(i)));
  EXPECT_FALSE(is_there("bad"));
}

TEST_F(SqliteGroupCommit, WithoutTheLockEveryCallFailsInTime) {
  store_ = open_zone(path(), {}, 200ms);
  const int lock = ::open((path().string() + "-lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&, i] {
        const auto answer = append(*store_, task(std::to_string(i)));
        if (!answer && answer.error().retryable && !answer.error().in_doubt) ++refused;
      });
  }
  ::close(lock);
  EXPECT_EQ(refused, 8);
  EXPECT_THAT(store_->read({}, 10, {}).value(), IsEmpty());
}

// A commit that claims takes the appends along that wait, and may claim what they have appended.
TEST_F(SqliteGroupCommit, AWorkerThatClaimsAndPublishersLoseNothing) {
  const Queue queue{.name = "work", .topic = "orders.*", .lease = 30s};
  store_->add_queue(queue).value();
  constexpr int kEach = 50;
  std::atomic<int> claimed{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i)
        EXPECT_TRUE(append(*store_, task(std::to_string(t) + "." + std::to_string(i))));
    });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (claimed < 4 * kEach) claimed += static_cast<int>(claim(*store_, queue).size());
    });
  threads.clear();
  EXPECT_EQ(claimed, 4 * kEach);
  EXPECT_EQ(store_->counts("work").value().tasks.at(State::running), 4U * kEach);
}

}  // namespace
}  // namespace once::sqlite_test
