// A full disk: a clear error, nothing half written, everything receipted before still there.
#include <gmock/gmock.h>
#include <sys/mount.h>

#include <cerrno>
#include <fstream>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using ::testing::HasSubstr;

// A disk of a few mebibytes.
class SmallDisk {
 public:
  SmallDisk() {
    mounted_ = mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, "size=12m") == 0;
    if (!mounted_) why_ = errno;
  }
  ~SmallDisk() {
    if (mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }
  int why() const { return why_; }
  std::filesystem::path operator/(std::string_view name) const { return folder_ / name; }

 private:
  testing::TempFolder folder_;
  bool mounted_ = false;
  int why_ = 0;
};

TEST(SqliteDiskFull, NothingReceiptedIsLostAndNothingElseIsKept) {
  const SmallDisk disk;
  if (!disk.mounted())
    GTEST_SKIP() << "NOT TESTED: a full disk, because this user may not mount a tmpfs (error "
                 << disk.why() << ")";
  const auto path = disk / "zone.db";
  const auto ballast = disk / "ballast";
  std::ofstream(ballast) << std::string(8U << 20U, 'b');

  auto store = open_zone(path);
  const Queue work = queue_of("work");
  store->add_queue(work).value();
  std::vector<std::string> receipted;
  std::optional<Error> error;
  for (int i = 0; i < 10'000 && !error; ++i) {
    const std::string id = "task-" + std::to_string(i);
    const auto answer = append(*store, task(id, std::string(20'000, 'x')));
    if (answer)
      receipted.push_back(id);
    else
      error = answer.error();
  }
  ASSERT_TRUE(error) << "the disk should have been full";
  EXPECT_EQ(error->code, Code::store_unusable);
  EXPECT_FALSE(error->in_doubt);
  EXPECT_THAT(error->message, HasSubstr("the disk is full"));
  ASSERT_FALSE(receipted.empty());

  const auto expect_all_there = [&] {
    std::vector<std::string> found;
    Sequence after;
    while (true) {
      const auto page = store->read(after, 100, {}).value();
      if (page.empty()) break;
      for (const Entry& entry : page) found.push_back(entry.id);
      after = page.back().sequence;
    }
    EXPECT_EQ(found, receipted);
    EXPECT_EQ(store->counts("work").value().tasks.at(State::waiting), receipted.size());
  };
  expect_all_there();
  // Still full: the next write fails as clearly, and reading goes on.
  for (int i = 0; i < 3; ++i) {
    const auto again = append(*store, task("again", std::string(200'000, 'x')));
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Code::store_unusable);
  }
  expect_all_there();

  std::filesystem::remove(ballast);
  ASSERT_TRUE(append(*store, task("after", "small")));
  receipted.push_back("after");
  expect_all_there();
  store.reset();
  store = open_zone(path);
  expect_all_there();
  EXPECT_EQ(claim(*store, work).at(0).entry.id, receipted.front());
}

// A writer empties the log after a write that failed. By a deleted index, the log ends before what the
// second process wrote.
TEST(SqliteDiskFull, AProcessWhoseIndexWasDeletedDoesNotEmptyTheLog) {
  const SmallDisk disk;
  if (!disk.mounted())
    GTEST_SKIP() << "NOT TESTED: a full disk, because this user may not mount a tmpfs (error "
                 << disk.why() << ")";
  const auto path = disk / "zone.db";
  const auto ballast = disk / "ballast";
  std::ofstream(ballast) << std::string(8U << 20U, 'b');
  Signal ready, go;
  Child first([&] {
    auto store = open_zone(path);
    if (!append(*store, task("a"))) _exit(2);
    for (int i = 0; append(*store, task(std::to_string(i), std::string(100'000, 'x'))); ++i)
      if (i == 1'000) _exit(3);
    ready.give();
    if (!go.take() || append(*store, task("c"))) _exit(4);
  });
  ASSERT_TRUE(ready.take());
  std::filesystem::remove(ballast);
  std::filesystem::remove(path.string() + "-shm");
  ASSERT_TRUE(append(*open_zone(path), task("b")));
  go.give();
  EXPECT_EQ(first.join(), 0);
  auto next = open_zone(path);
  for (const char* id : {"a", "b"}) EXPECT_TRUE(next->find(id).value()) << id;
}

}  // namespace
}  // namespace once::sqlite_test
