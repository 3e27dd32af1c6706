// Waking those who wait, and what is left of it where the kernel has nothing to watch with.
#include "store/sqlite/notifier.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "unit/sqlite/sqlite_world.h"

namespace once::sqlite_test {
namespace {

using std::chrono::steady_clock;
using store::sqlite::Notifier;

class SqliteNotifier : public ::testing::Test {
 protected:
  SqliteNotifier() { std::ofstream(file()).close(); }
  std::string file() const { return folder_ / "lock"; }
  // How long a wait of a minute takes.
  static steady_clock::duration waited(Notifier& notifier, std::uint64_t heard,
                                       const std::stop_token& stop = {}) {
    const auto start = steady_clock::now();
    notifier.wait(heard, start + kLongEnough, stop);
    return steady_clock::now() - start;
  }

  testing::TempFolder folder_;
};

TEST_F(SqliteNotifier, WhatComesBetweenLookingAndWaitingIsNotMissed) {
  Notifier notifier(file());
  const auto heard = notifier.listen();
  notifier.notify();
  EXPECT_LT(waited(notifier, heard), kLongEnough / 2);
}

TEST_F(SqliteNotifier, ANotificationEndsTheWait) {
  Notifier notifier(file());
  const auto heard = notifier.listen();
  std::jthread other([&] { notifier.notify(); });
  EXPECT_LT(waited(notifier, heard), kLongEnough / 2);
}

TEST_F(SqliteNotifier, ATouchOfTheFileEndsTheWaitAlsoWhenItCameBefore) {
  Notifier notifier(file());
  const auto heard = notifier.listen();
  ASSERT_EQ(utimensat(AT_FDCWD, file().c_str(), nullptr, 0), 0);
  EXPECT_LT(waited(notifier, heard), kLongEnough / 2);
  EXPECT_NE(notifier.listen(), heard);
}

TEST_F(SqliteNotifier, AStopEndsTheWait) {
  Notifier notifier(file());
  std::stop_source stop;
  const auto heard = notifier.listen();
  std::jthread other([&] { stop.request_stop(); });
  EXPECT_LT(waited(notifier, heard, stop.get_token()), kLongEnough / 2);
}

TEST_F(SqliteNotifier, TheWaitEndsWhenItShould) {
  Notifier notifier(file());
  const auto heard = notifier.listen();
  const auto start = steady_clock::now();
  notifier.wait(heard, start + 30ms, {});
  EXPECT_GE(steady_clock::now() - start, 30ms);
}

TEST_F(SqliteNotifier, WithoutAFileToWatchTheWaitIsShort) {
  Notifier notifier(folder_ / "no-such-file");
  EXPECT_LT(waited(notifier, notifier.listen()), kLongEnough / 2);
}

}  // namespace
}  // namespace once::sqlite_test
