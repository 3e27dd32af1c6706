// A commit that fails on its way to the disk: the caller is told what is known, and the same call
// again is safe. The disk fails by SQLite's own seam for system calls.
#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::atomic<int> writes_until_failure{-1};  // below zero: none fails
std::atomic<int> failure{EIO};

ssize_t failing_pwrite(int fd, const void* data, size_t size, off_t at) {
  if (writes_until_failure >= 0 && writes_until_failure-- == 0) {
    writes_until_failure = 0;  // and every one after it
    errno = failure;
    return -1;
  }
  return pwrite(fd, data, size, at);
}

class FailingDisk {
 public:
  FailingDisk() {
    for (const char* call : {"pwrite", "pwrite64"}) set(call, failing_pwrite);
  }
  ~FailingDisk() {
    mend();
    for (const char* call : {"pwrite", "pwrite64"}) set(call, nullptr);
  }
  void fail_after(int writes, int error) {
    failure = error;
    writes_until_failure = writes;
  }
  void mend() { writes_until_failure = -1; }

 private:
  static void set(const char* call, ssize_t (*to)(int, const void*, size_t, off_t)) {
    sqlite3_vfs* system = sqlite3_vfs_find(nullptr);
    system->xSetSystemCall(system, call, reinterpret_cast<sqlite3_syscall_ptr>(to));
  }
};

class SqliteCommit : public ::testing::Test {
 protected:
  testing::TempFolder folder_;
  FailingDisk disk_;
  std::unique_ptr<Store> store_ = open_zone(folder_ / "zone.db");
};

TEST_F(SqliteCommit, ThatFailedIsInDoubtAndTheSameAppendAgainIsSafe) {
  store_->add_queue(queue_of("work")).value();
  int failed = 0;
  for (int writes = 0; writes < 12; ++writes) {
    const Append item = task("task-" + std::to_string(writes));
    disk_.fail_after(writes, EIO);
    const auto answer = append(*store_, item);
    disk_.mend();
    if (!answer) {
      ++failed;
      EXPECT_EQ(answer.error().code, Code::outcome_unknown) << answer.error().message;
      EXPECT_TRUE(answer.error().in_doubt);
      EXPECT_TRUE(answer.error().retryable);
    }
    const auto again = append(*store_, item);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->verdict, core::AppendVerdict::accepted);
  }
  EXPECT_GT(failed, 3);
  EXPECT_THAT(store_->read({}, 100, {}).value(), SizeIs(12));
  EXPECT_EQ(store_->counts("work").value().tasks.at(State::waiting), 12U);
  store_ = open_zone(folder_ / "zone.db");
  EXPECT_THAT(store_->read({}, 100, {}).value(), SizeIs(12));
}

TEST_F(SqliteCommit, ThatFoundNoRoomWroteNothing) {
  for (int writes = 0; writes < 8; ++writes) {
    const Append item = task("task-" + std::to_string(writes));
    disk_.fail_after(writes, ENOSPC);
    const auto answer = append(*store_, item);
    disk_.mend();
    if (answer) continue;
    EXPECT_EQ(answer.error().code, Code::store_unusable);
    EXPECT_FALSE(answer.error().in_doubt);
    EXPECT_THAT(answer.error().message, HasSubstr("the disk is full"));
    EXPECT_FALSE(store_->find(item.id).value());
    store_ = open_zone(folder_ / "zone.db");
    EXPECT_FALSE(store_->find(item.id).value()) << "nor after what was left is read again";
  }
}

}  // namespace
}  // namespace once::sqlite_test
