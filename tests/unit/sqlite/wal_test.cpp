// SQLite's log beside the database: it is put into the database as it grows, under short readers
// and after a long one.
#include <atomic>
#include <thread>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

constexpr std::uintmax_t kMebibyte = 1U << 20U;

class SqliteWal : public ::testing::Test {
 protected:
  std::filesystem::path path() const { return folder_ / "zone.db"; }
  std::uintmax_t wal_size() const {
    std::error_code none;
    const auto size = std::filesystem::file_size(path().string() + "-wal", none);
    return none ? 0 : size;
  }
  // Appends that much, and answers how large the log was at most.
  std::uintmax_t append_mebibytes(Store& store, int count) {
    std::uintmax_t most = 0;
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(append(
          store, task("task-" + std::to_string(++last_), std::string(kMebibyte - 1000, 'x'))));
      most = std::max(most, wal_size());
    }
    return most;
  }

  testing::TempFolder folder_;
  int last_ = 0;
};

TEST_F(SqliteWal, StaysBoundedWhileOthersRead) {
  auto store = open_zone(path());
  store->add_queue(queue_of("work")).value();
  std::atomic<std::size_t> pages = 0;
  std::jthread reader([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      EXPECT_TRUE(store->rows({}, nullptr, 100));
      EXPECT_TRUE(store->read({}, 3, {}));
      ++pages;
      pages.notify_all();
    }
  });
  pages.wait(0);
  EXPECT_LT(append_mebibytes(*store, 150), 100 * kMebibyte);
}

TEST_F(SqliteWal, ShrinksAgainAfterALongReader) {
  auto store = open_zone(path());
  store->add_queue(queue_of("work")).value();
  sqlite3* reader = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &reader), SQLITE_OK);
  sqlite3_db_config(reader, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  ASSERT_EQ(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM log", nullptr, nullptr, nullptr),
            SQLITE_OK);
  EXPECT_GT(append_mebibytes(*store, 70), 64 * kMebibyte) << "what it reads has to be kept";
  sqlite3_close(reader);
  append_mebibytes(*store, 20);
  EXPECT_LT(wal_size(), 40 * kMebibyte);
}

}  // namespace
}  // namespace once::sqlite_test
