// Opening: each way in which a path can be unusable has its own words, and nothing is changed.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "store/sqlite/failure.h"
#include "store/sqlite/file_system.h"
#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SqliteOpen : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "zone.db"; }
  Result<std::unique_ptr<Store>> open(std::filesystem::path path, bool create = true) {
    store::SqliteOptions options;
    options.path = std::move(path);
    options.create = create;
    return store::open_sqlite(options);
  }
  void expect_unusable(const std::filesystem::path& path, const std::string& words) {
    const auto opened = open(path);
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, Code::store_unusable);
    EXPECT_FALSE(opened.error().in_doubt);
    EXPECT_THAT(opened.error().message, HasSubstr(words));
  }
  mode_t mode_of(const std::string& file) const {
    struct stat status {};
    return stat(file.c_str(), &status) == 0 ? status.st_mode & 0777 : 0;
  }

  testing::TempFolder folder_;
};

// While it lives, the process has the rights of nobody in particular. Only root can do that; root's
// own rights would hide what is tested.
class AsNobody {
 public:
  AsNobody() : changed_(geteuid() == 0 && seteuid(65534) == 0) {}
  ~AsNobody() {
    if (changed_ && seteuid(0) != 0) abort();
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  bool changed_;
};

TEST_F(SqliteOpen, MakesAZoneAndFindsItAgain) {
  const std::string uuid = open(path()).value()->uuid();
  EXPECT_EQ(open(path(), false).value()->uuid(), uuid);
}

TEST_F(SqliteOpen, AMissingDatabaseIsNotFoundUnlessItMayBeMade) {
  const auto opened = open(path(), false);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Code::not_found);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "nothing is left behind";
  EXPECT_EQ(open(folder_ / "no/such/zone.db", false).error().code, Code::not_found);
}

TEST_F(SqliteOpen, AnEmptyFileIsNoDatabaseUntilItMayBeMadeOne) {
  std::ofstream(path()).close();
  EXPECT_EQ(open(path(), false).error().code, Code::not_found);
  EXPECT_TRUE(open(path()));
}

TEST_F(SqliteOpen, AMissingFolder) {
  expect_unusable(folder_ / "no/zone.db", "does not exist");
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SqliteOpen, AFolderIsNoDatabase) { expect_unusable(folder_.path(), "is not a file"); }

TEST_F(SqliteOpen, AFileThatIsNoDatabase) {
  std::ofstream(path()) << "Dear diary, today I was told that I am no database.\n"
                        << std::string(4096, '.');
  expect_unusable(path(), "is not a database");
}

TEST_F(SqliteOpen, ADatabaseOfAnotherProgram) {
  behind_its_back(path(), "CREATE TABLE bookmarks (url TEXT)");
  expect_unusable(path(), "another program");
  behind_its_back(path(), "INSERT INTO bookmarks VALUES ('still here')");
}

TEST_F(SqliteOpen, ADatabaseOfANewerVersion) {
  open(path()).value();
  behind_its_back(path(), "PRAGMA user_version = 99");
  expect_unusable(path(), "newer version of Once");
}

TEST_F(SqliteOpen, ADamagedDatabase) {
  auto store = open(path()).value();
  store->add_queue(queue_of("work")).value();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(append(*store, task(std::to_string(i))));
  store.reset();
  {
    std::fstream file(path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(0, std::ios::end);
    const auto size = file.tellg();
    for (std::streamoff at = 4096; at < size; at += 4096) {
      file.seekp(at);
      file << std::string(64, '\x7f');
    }
  }
  expect_unusable(path(), "is damaged");
}

TEST_F(SqliteOpen, AReadOnlyFile) {
  open(path()).value();
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  std::filesystem::permissions(path(), std::filesystem::perms{0444});
  const AsNobody nobody;
  expect_unusable(path(), "read-only");
}

TEST_F(SqliteOpen, AReadOnlyFolder) {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms{0555});
  {
    const AsNobody nobody;
    expect_unusable(path(), "folder");
  }
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(SqliteOpen, SideFilesHaveTheDatabasesMode) {
  open(path()).value();
  EXPECT_EQ(mode_of(path().string() + "-lock"), mode_of(path()));
  std::filesystem::remove(path().string() + "-lock");
  std::filesystem::permissions(path(), std::filesystem::perms{0660});
  auto store = open(path()).value();
  store->add_queue(queue_of("work")).value();
  const auto worker = store->join("work", "worker").value();
  EXPECT_EQ(mode_of(path()), 0660U);
  for (const char* side : {"-lock", "-members", "-wal", "-shm"})
    EXPECT_EQ(mode_of(path().string() + side), 0660U) << side;
}

TEST_F(SqliteOpen, SideFilesHaveTheDatabasesGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another group";
  open(path()).value();
  std::filesystem::remove(path().string() + "-lock");
  ASSERT_EQ(chown(path().c_str(), 65534, 65534), 0);
  auto store = open(path()).value();
  store->add_queue(queue_of("work")).value();
  struct stat status {};
  ASSERT_EQ(stat((path().string() + "-lock").c_str(), &status), 0);
  EXPECT_EQ(status.st_gid, 65534U);
}

TEST_F(SqliteOpen, TwoNamesOfOneDatabaseShareItsSideFiles) {
  const auto link = folder_ / "link.db";
  auto store = open(path()).value();
  std::filesystem::create_symlink(path(), link);
  auto other = open(link).value();
  EXPECT_EQ(other->uuid(), store->uuid());
  EXPECT_TRUE(append(*other, task("a")));
  EXPECT_FALSE(std::filesystem::exists(link.string() + "-lock"));
}

TEST_F(SqliteOpen, TheLastToCloseLeavesOneFileWithEverythingInIt) {
  auto first = open(path()).value();
  auto second = open(path()).value();
  ASSERT_TRUE(append(*first, task("a")));
  ASSERT_TRUE(append(*second, task("b")));
  first.reset();
  second.reset();
  EXPECT_FALSE(std::filesystem::exists(path().string() + "-wal"));
  std::filesystem::rename(path(), folder_ / "moved.db");
  auto moved = open(folder_ / "moved.db", false).value();
  EXPECT_TRUE(moved->find("a").value());
  EXPECT_TRUE(moved->find("b").value());
}

TEST_F(SqliteOpen, ManyProcessesMayMakeTheZoneAtOnce) {
  Signal go;
  std::vector<std::unique_ptr<Child>> children;
  for (int i = 0; i < 6; ++i)
    children.push_back(std::make_unique<Child>([&, i] {
      if (!go.take() || !append(*open_zone(path()), task(std::to_string(i)))) _exit(2);
    }));
  for (int i = 0; i < 6; ++i) go.give();
  for (auto& child : children) EXPECT_EQ(child->join(), 0);
  EXPECT_EQ(open(path(), false).value()->read({}, 100, {}).value().size(), 6U);
}

TEST(SqliteFileSystem, NetworkFileSystemsAreKnown) {
  using store::sqlite::network_file_system;
  for (const long network : {0x6969L, 0x517bL, 0xff534d42L, 0xfe534d42L, 0x5346414fL, 0x73757245L,
                             0x00c36400L, 0x0bd00bd0L, 0x01021997L, 0x01161970L, 0x7461636fL,
                             0x65735546L, static_cast<long>(static_cast<int>(0xff534d42))})
    EXPECT_TRUE(network_file_system(network)) << std::hex << network;
  for (const long local :
       {0xef53L, 0x58465342L, 0x9123683eL, 0x01021994L, 0x794c7630L, 0x2fc12fc1L})
    EXPECT_FALSE(network_file_system(local)) << std::hex << local;
}

TEST(SqliteFailure, ACommitThatMayHaveHappenedIsInDoubt) {
  using store::sqlite::commit_error;
  for (const int code : {SQLITE_IOERR_FSYNC, SQLITE_IOERR_WRITE, SQLITE_IOERR, SQLITE_CORRUPT}) {
    const Error error = commit_error(nullptr, code, "zone.db");
    EXPECT_EQ(error.code, Code::outcome_unknown) << code;
    EXPECT_TRUE(error.in_doubt && error.retryable) << code;
  }
}

TEST(SqliteFailure, ACommitThatFoundNoRoomDidNotHappen) {
  const Error error = store::sqlite::commit_error(nullptr, SQLITE_FULL, "zone.db");
  EXPECT_EQ(error.code, Code::store_unusable);
  EXPECT_FALSE(error.in_doubt);
  EXPECT_THAT(error.message, AllOf(HasSubstr("full"), HasSubstr("nothing was written")));
}

}  // namespace
}  // namespace once::sqlite_test
