// The files under a running store: a second name, and files that are deleted, moved or replaced. No
// receipt may be given for a commit that the next process does not find.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <fstream>

#include "store/sqlite/file_system.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SqliteFiles : public ::testing::Test {
 protected:
  fs::path path() const { return folder_ / "zone.db"; }
  fs::path side(const char* suffix) const { return path().string() + suffix; }
  // The tests of what one process sees of another use a wait that they need not sit out.
  static Result<std::unique_ptr<Store>> open(const fs::path& path) {
    store::SqliteOptions options;
    options.path = path;
    options.lock_wait = 100ms;
    return store::open_sqlite(options);
  }
  static void expect_refused(const Result<store::AppendResult>& answer, const std::string& file) {
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::store_unusable) << answer.error().message;
    EXPECT_FALSE(answer.error().in_doubt);
    EXPECT_THAT(answer.error().message, AllOf(HasSubstr(file), HasSubstr("nothing was recorded")));
  }
  // Publishes until it is refused, ends the store, and looks for everything that had a receipt.
  void expect_all_receipts_stand(std::unique_ptr<Store> store, const fs::path& at) {
    int refused = 0;
    for (int i = 0; i < 20; ++i) {
      const std::string id = "later" + std::to_string(i);
      if (append(*store, task(id)))
        receipts_.push_back(id);
      else
        ++refused;
    }
    EXPECT_EQ(refused, 20);
    EXPECT_FALSE(store->find("a")) << "a reader does not answer from such a file";
    store.reset();
    auto next = open_zone(at);
    for (const auto& id : receipts_) EXPECT_TRUE(next->find(id).value()) << id;
    EXPECT_TRUE(append(*next, task("new")));
    EXPECT_EQ(next->read({}, 100, {}).value().size(), receipts_.size() + 1);
  }
  std::unique_ptr<Store> with_receipts() {
    auto store = open_zone(path());
    for (const char* id : {"a", "b", "c"}) {
      EXPECT_TRUE(append(*store, task(id)));
      receipts_.emplace_back(id);
    }
    return store;
  }

  testing::TempFolder folder_;
  std::vector<std::string> receipts_;
};

TEST_F(SqliteFiles, AHardLinkIsRefusedByBothNames) {
  open_zone(path());
  fs::create_hard_link(path(), folder_ / "link.db");
  for (const auto& name : {path(), folder_ / "link.db"}) {
    const auto opened = open(name);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::store_unusable);
    EXPECT_THAT(opened.error().message, AllOf(HasSubstr(name), HasSubstr("hard link")));
  }
  EXPECT_FALSE(fs::exists(folder_ / "link.db-lock"));
  fs::remove(folder_ / "link.db");
  EXPECT_TRUE(open(path()));
}

TEST_F(SqliteFiles, AHardLinkThatIsMadeLaterStopsWritesUntilItIsGone) {
  auto store = with_receipts();
  fs::create_hard_link(path(), folder_ / "link.db");
  expect_refused(append(*store, task("d")), "hard link");
  EXPECT_TRUE(store->find("a").value());
  fs::remove(folder_ / "link.db");
  EXPECT_TRUE(append(*store, task("d")));
}

// The first name goes, and with it everything that tells of two names. The first process is still there.
TEST_F(SqliteFiles, AMovedDatabaseIsRefusedWhileAProcessUsesItByItsOldName) {
  Signal ready, go;
  Child first([&] {
    auto store = open_zone(path());
    if (!append(*store, task("a"))) _exit(2);
    ready.give();
    if (!go.take() || append(*store, task("b"))) _exit(3);
  });
  ASSERT_TRUE(ready.take());
  fs::rename(path(), folder_ / "moved.db");
  const auto refused = open(folder_ / "moved.db");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("by another name"));
  go.give();
  EXPECT_EQ(first.join(), 0) << "a commit to the old name has no receipt";
  auto moved = open_zone(folder_ / "moved.db");
  EXPECT_TRUE(moved->find("a").value()) << "the receipt of the first process stands";
  EXPECT_TRUE(append(*moved, task("b")));
}

TEST_F(SqliteFiles, ADatabaseThatMovesWithAllItsFilesGoesOnUnderTheNewName) {
  auto store = with_receipts();
  fs::create_directory(folder_ / "new");
  for (const char* suffix : {"", "-wal", "-shm", "-lock"})
    fs::rename(side(suffix), folder_ / "new" / ("zone.db" + std::string(suffix)));
  expect_refused(append(*store, task("d")), path());
  EXPECT_FALSE(fs::exists(side("-lock"))) << "nothing is made beside nothing";
  expect_all_receipts_stand(std::move(store), folder_ / "new" / "zone.db");
}

TEST_F(SqliteFiles, ADeletedIndexEndsTheReceipts) {
  auto store = with_receipts();
  fs::remove(side("-shm"));
  expect_refused(append(*store, task("d")), "zone.db-shm");
  expect_all_receipts_stand(std::move(store), path());
}

TEST_F(SqliteFiles, ADeletedLogEndsTheReceiptsAndIsSaved) {
  auto store = with_receipts();
  fs::remove(side("-wal"));
  expect_refused(append(*store, task("d")), "zone.db-wal");
  EXPECT_THAT(append(*store, task("d")).error().message, HasSubstr("is in the database"));
  expect_all_receipts_stand(std::move(store), path());
}

TEST_F(SqliteFiles, ADeletedLogAndIndexEndTheReceiptsAndTheLogIsSaved) {
  auto store = with_receipts();
  fs::remove(side("-wal"));
  fs::remove(side("-shm"));
  expect_refused(append(*store, task("d")), "zone.db-wal");
  expect_all_receipts_stand(std::move(store), path());
}

TEST_F(SqliteFiles, AReaderSavesADeletedLogToo) {
  auto store = with_receipts();
  for (const char* suffix : {"-wal", "-shm", "-lock"}) fs::remove(side(suffix));
  EXPECT_FALSE(store->find("a"));
  expect_all_receipts_stand(std::move(store), path());
}

TEST_F(SqliteFiles, NobodyWritesToANewLogWhileTheDeletedOneIsInUse) {
  Signal ready, go;
  Child first([&] {
    auto store = open_zone(path());
    if (!append(*store, task("a"))) _exit(2);
    ready.give();
    if (!go.take() || store->find("a")) _exit(3);
  });
  ASSERT_TRUE(ready.take());
  for (const char* suffix : {"-wal", "-shm", "-lock"}) fs::remove(side(suffix));
  const auto refused = open(path());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("-wal file that was deleted"));
  EXPECT_TRUE(refused.error().retryable);
  go.give();
  EXPECT_EQ(first.join(), 0);
  auto next = open_zone(path());
  EXPECT_TRUE(next->find("a").value());
}

// More than SQLite holds back in memory, so that it could write to the log before the commit. By the
// deleted index, the log ends before what the second process wrote.
TEST_F(SqliteFiles, ALargeWriteThatIsRefusedDoesNotOverwriteWhatOthersWrote) {
  Signal ready, go;
  Child first([&] {
    auto store = open_zone(path());
    if (!append(*store, task("a"))) _exit(2);
    ready.give();
    std::vector<Append> large;
    for (int i = 0; i < 64; ++i)
      large.push_back(task("large" + std::to_string(i), std::string(1 << 20, 'x')));
    if (!go.take()) _exit(3);
    for (const auto& answer : store->append(large))
      if (answer) _exit(4);
  });
  ASSERT_TRUE(ready.take());
  fs::remove(side("-shm"));
  ASSERT_TRUE(append(*open_zone(path()), task("b")));
  go.give();
  EXPECT_EQ(first.join(), 0);
  auto next = open_zone(path());
  for (const char* id : {"a", "b"}) EXPECT_TRUE(next->find(id).value()) << id;
}

TEST_F(SqliteFiles, ADeletedDatabaseIsNotAnsweredFrom) {
  auto store = with_receipts();
  for (const char* suffix : {"", "-wal", "-shm", "-lock"}) fs::remove(side(suffix));
  const auto found = store->find("a");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::store_unusable);
  EXPECT_FALSE(found.error().retryable);
  EXPECT_THAT(found.error().message, HasSubstr("zone.db was deleted"));
  expect_refused(append(*store, task("d")), "zone.db was deleted");
  store.reset();
  EXPECT_TRUE(fs::is_empty(folder_.path())) << "nothing is made in its place";
}

TEST_F(SqliteFiles, AReplacedDatabaseIsNotWrittenTo) {
  auto store = with_receipts();
  fs::copy(path(), folder_ / "copy.db");
  fs::rename(folder_ / "copy.db", path());
  expect_refused(append(*store, task("d")), "replaced");
  EXPECT_FALSE(store->find("a"));
}

TEST_F(SqliteFiles, AStoreThatIsLostStaysLost) {
  auto store = with_receipts();
  fs::rename(side("-shm"), folder_ / "kept");
  expect_refused(append(*store, task("d")), "zone.db-shm");
  fs::rename(folder_ / "kept", side("-shm"));
  expect_refused(append(*store, task("d")), "zone.db-shm");
}

TEST_F(SqliteFiles, OtherStoresMayCloseAndOpenInBetween) {
  auto store = with_receipts();
  for (int i = 0; i < 3; ++i) {
    auto other = open_zone(path());
    EXPECT_TRUE(append(*other, task("other" + std::to_string(i))));
    EXPECT_TRUE(append(*store, task("own" + std::to_string(i))));
  }
  store.reset();
  EXPECT_FALSE(fs::exists(side("-wal"))) << "the last one puts everything into the one file";
}

TEST(SqliteFileSystem, AFileThatIsMountedAloneIsKnown) {
  if (geteuid() != 0) GTEST_SKIP() << "NOT TESTED: only root may mount";
  const testing::TempFolder folder;
  const std::string inside = folder / "a blank.db";
  const std::string outside = folder / "host.db";
  open_zone(outside);
  std::ofstream(inside).close();
  EXPECT_FALSE(store::sqlite::mounted_alone(inside));
  EXPECT_FALSE(store::sqlite::mounted_alone(folder / "missing"));
  Child apart([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount(outside.c_str(), inside.c_str(), nullptr, MS_BIND, nullptr) != 0)
      _exit(77);
    if (!store::sqlite::mounted_alone(inside) || store::sqlite::mounted_alone(outside)) _exit(2);
    const auto opened = store::open_sqlite({.path = inside});
    if (opened || opened.error().message.find("single file") == std::string::npos) _exit(3);
  });
  const int status = apart.join();
  if (status == 77) GTEST_SKIP() << "NOT TESTED: this machine lets nobody mount";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace once::sqlite_test
