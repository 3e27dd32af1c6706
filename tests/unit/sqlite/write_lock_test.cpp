// Whose turn it is to write: nobody waits for ever, nobody is overtaken for ever, and who has to
// wait is told for whom.
#include "store/sqlite/write_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using std::chrono::steady_clock;
using store::sqlite::WriteLock;
using ::testing::HasSubstr;

class SqliteWriteLock : public ::testing::Test {
 protected:
  std::string path() const { return folder_ / "zone.db"; }
  std::string file() const { return folder_ / "zone.db-lock"; }

  testing::TempFolder folder_;
};

TEST_F(SqliteWriteLock, IsHeldByOneAtATime) {
  WriteLock first(file(), path());
  WriteLock second(file(), path());
  auto held = first.acquire(30s);
  ASSERT_TRUE(held);
  EXPECT_FALSE(second.acquire(1ms));
  EXPECT_FALSE(first.acquire(1ms)) << "threads of one process exclude each other too";
  held->release(false);
  EXPECT_TRUE(second.acquire(30s));
}

TEST_F(SqliteWriteLock, AWaitThatRanOutIsRetryableAndNamesTheHolder) {
  WriteLock first(file(), path());
  WriteLock second(file(), path());
  auto held = first.acquire(30s);
  const auto start = steady_clock::now();
  const auto refused = second.acquire(80ms);
  EXPECT_GE(steady_clock::now() - start, 80ms);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::store_unavailable);
  EXPECT_TRUE(refused.error().retryable);
  EXPECT_FALSE(refused.error().in_doubt);
  EXPECT_THAT(refused.error().message, HasSubstr("process " + std::to_string(getpid())));
}

TEST_F(SqliteWriteLock, AHolderThatIsStoppedIsNamedAsSuch) {
  open_zone(path());
  Child holder([&] {
    WriteLock lock(file(), path());
    auto held = lock.acquire(30s);
    raise(SIGSTOP);
  });
  holder.wait_until_stopped();
  auto store = open_zone(path(), {}, 80ms);
  const auto refused = append(*store, task("a"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::store_unavailable);
  EXPECT_TRUE(refused.error().retryable);
  EXPECT_FALSE(refused.error().in_doubt);
  EXPECT_THAT(refused.error().message, HasSubstr("process " + std::to_string(holder.pid())));
  EXPECT_THAT(refused.error().message, HasSubstr("which is stopped"));
  EXPECT_THAT(refused.error().message, HasSubstr("nothing was written"));
  EXPECT_FALSE(store->find("a").value()) << "reading needs no lock";
  holder.end();
  EXPECT_TRUE(append(*store, task("a")));
}

TEST_F(SqliteWriteLock, AWriterThatIsStoppedInTheTurnstileIsWalkedAround) {
  auto store = open_zone(path());
  ASSERT_TRUE(append(*store, task("first")));
  store.reset();
  Child stuck([&] {
    const int fd = open(file().c_str(), O_RDWR | O_CLOEXEC);
    struct flock byte {};
    byte.l_type = F_WRLCK;
    byte.l_len = 1;
    if (fcntl(fd, F_OFD_SETLK, &byte) == 0) raise(SIGSTOP);
  });
  stuck.wait_until_stopped();
  store = open_zone(path());
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(append(*store, task(std::to_string(i))));
}

TEST_F(SqliteWriteLock, ADeletedFileDoesNotMakeTwoHolders) {
  WriteLock first(file(), path());
  WriteLock second(file(), path());
  WriteLock third(file(), path());
  auto held = first.acquire(30s);
  std::atomic<bool> got_it = false;
  Signal let_go;
  std::jthread waiter([&] {
    auto mine = second.acquire(30s);
    EXPECT_TRUE(mine);
    got_it = true;
    got_it.notify_all();
    EXPECT_TRUE(let_go.take());
  });
  std::filesystem::remove(file());
  held->release(false);
  got_it.wait(false);
  EXPECT_FALSE(third.acquire(50ms)) << "the waiter holds the file that has the name now";
  let_go.give();
  waiter.join();
  EXPECT_TRUE(third.acquire(30s));
}

TEST_F(SqliteWriteLock, StoresGoOnWhenTheFileIsDeleted) {
  auto first = open_zone(path());
  auto second = open_zone(path());
  ASSERT_TRUE(append(*first, task("a")));
  ASSERT_TRUE(append(*second, task("b")));
  std::filesystem::remove(file());
  EXPECT_TRUE(append(*first, task("c")));
  EXPECT_TRUE(append(*second, task("d")));
  EXPECT_TRUE(std::filesystem::exists(file()));
}

TEST_F(SqliteWriteLock, ThreadsOfOneProcessTakeTurns) {
  WriteLock lock(file(), path());
  constexpr int kThreads = 4;
  constexpr int kTurns = 50;
  std::vector<int> turns;  // guarded by the lock
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        for (int turn = 0; turn < kTurns; ++turn) {
          auto held = lock.acquire(kLongEnough);
          ASSERT_TRUE(held);
          turns.push_back(i);
        }
      });
  }
  EXPECT_EQ(turns.size(), static_cast<std::size_t>(kThreads * kTurns));
}

TEST_F(SqliteWriteLock, EightProcessesThatWriteAllTheTimeGetTheirShare) {
  open_zone(path());
  constexpr std::size_t kProcesses = 8;
  using Counts = std::array<std::atomic<std::int64_t>, kProcesses>;
  auto* commits = static_cast<Counts*>(
      mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(commits, MAP_FAILED);
  std::atomic_ref<std::int64_t> total(*reinterpret_cast<std::int64_t*>(mmap(
      nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)));
  std::atomic_ref<std::int64_t> ready(*reinterpret_cast<std::int64_t*>(mmap(
      nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)));
  constexpr std::int64_t kTotal = 1600;
  {
    std::vector<std::unique_ptr<Child>> children;
    for (std::size_t i = 0; i < kProcesses; ++i)
      children.push_back(std::make_unique<Child>([&, i] {
        auto store = open_zone(path());
        ++ready;
        while (ready < static_cast<std::int64_t>(kProcesses)) std::this_thread::yield();
        while (total.fetch_add(1) < kTotal) {
          const std::int64_t mine = ++(*commits)[i];
          if (!append(*store, task(std::to_string(i) + "-" + std::to_string(mine)))) _exit(2);
        }
      }));
    for (auto& child : children) EXPECT_EQ(child->join(), 0);
  }
  std::vector<std::int64_t> shares;
  for (const auto& count : *commits) shares.push_back(count);
  const auto [fewest, most] = std::minmax_element(shares.begin(), shares.end());
  EXPECT_GT(*fewest, 0);
  // Without turns it is a hundred to one; who is not scheduled misses some of his.
  EXPECT_LE(*most, *fewest * 5) << ::testing::PrintToString(shares);
  munmap(commits, sizeof(Counts));
}

}  // namespace
}  // namespace once::sqlite_test
